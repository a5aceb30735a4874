"""Defines the request of a turn, and the log that grows while the turn is prepared.

All other values of a turn are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from time import perf_counter

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.model_calls import CallBook
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.session import Message
from mnemosyne.values import dataclass

FinishTurn = Callable[[PreparedTurn], PreparedTurn]
"""Function that completes the receipt of a turn before the turn is written, because the model call may contain more
than our prompt.

The function is called in a worker thread.
"""


class Stopwatch:
    """Times the steps of a turn for its receipt.

    A lap ends when the next one begins. A mark is the time from the end of the last lap; marks may overlap.
    """

    def __init__(self) -> None:
        self._start = self._last = perf_counter()
        self._steps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """End a lap: record under `name` the time since the last lap ended."""
        now = perf_counter()
        self._steps[name] = self._steps.get(name, 0.0) + (now - self._last) * 1000
        self._last = now

    def mark(self, name: str) -> None:
        """Record under `name` the time since the last lap ended, without ending a lap."""
        self._steps[name] = (perf_counter() - self._last) * 1000

    def note(self, steps_ms: Mapping[str, float]) -> None:
        """Add times that were measured elsewhere, by step, in milliseconds."""
        self._steps.update(steps_ms)

    def timings_ms(self) -> dict[str, float]:
        """Return the milliseconds of each step, and of the whole as `total`."""
        total = (perf_counter() - self._start) * 1000
        return {name: round(value, 3) for name, value in {**self._steps, "total": total}.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """Request of a host: the message to answer, and its options."""

    session_id: str
    message: Message
    config: RuntimeConfig
    turn_id: str | None = None
    branch_id: str | None = None
    trigger: str = "normal"
    """Reason for making a reply, as the rules of world info name it (`normal`, `swipe`)."""


@dataclass(kw_only=True, slots=True)
class TurnLog:
    """Log of one attempt to prepare a turn: times, model calls and degradations."""

    emitter: EventEmitter
    calls: CallBook = field(default_factory=CallBook)
    """Model calls of Stream B. If a write conflict forced a second attempt, the calls of both attempts are here."""
    usages: list[ModelUsage] = field(default_factory=list)
    """Model calls of planning."""
    degradations: list[str] = field(default_factory=list)
    """Codes of the degradations so far: what failed or was missing, so that the turn continued without it."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    damage_mark: int = 0
    """Position in the store's damage log at which this turn began. Notes after this position name damaged records that
    the turn met.
    """
