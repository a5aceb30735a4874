"""Request of a turn, and the log that changes while it is prepared. All other values of a turn are frozen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.model_calls import CallBook
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.session import Message

FinishTurn = Callable[[PreparedTurn], PreparedTurn]
"""Completes the receipt of a turn, in a worker thread, before it is written: what is sent may be more than our own prompt."""


class Stopwatch:
    """Times the steps of a turn for its receipt. Laps follow one another; marks count from the last lap and may overlap."""

    def __init__(self) -> None:
        self._start = self._last = perf_counter()
        self._steps: dict[str, float] = {}

    def lap(self, name: str) -> None:
        """Book the time since the last lap under `name`."""
        now = perf_counter()
        self._steps[name] = self._steps.get(name, 0.0) + (now - self._last) * 1000
        self._last = now

    def mark(self, name: str) -> None:
        """Book the time since the last lap under `name` without ending the lap."""
        self._steps[name] = (perf_counter() - self._last) * 1000

    def note(self, steps_ms: Mapping[str, float]) -> None:
        """Take over times that were measured elsewhere."""
        self._steps.update(steps_ms)

    def timings_ms(self) -> dict[str, float]:
        """Return milliseconds by step, with `total`."""
        total = (perf_counter() - self._start) * 1000
        return {name: round(value, 3) for name, value in {**self._steps, "total": total}.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnRequest:
    """What a host asked for: the message to answer, and how."""

    session_id: str
    message: Message
    config: RuntimeConfig
    turn_id: str | None = None
    branch_id: str | None = None
    trigger: str = "normal"
    """Why a reply is made, in the words of world info (`normal`, `swipe`)."""


@dataclass(kw_only=True, slots=True)
class TurnLog:
    """What one attempt to prepare a turn takes down on its way: times, model calls, degradations."""

    emitter: EventEmitter
    calls: CallBook = field(default_factory=CallBook)
    """The model calls of Stream B, those of an attempt that met a conflict too."""
    usages: list[ModelUsage] = field(default_factory=list)
    """The model calls of planning."""
    degradations: list[str] = field(default_factory=list)
    """Codes of everything that was done without so far."""
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    damage_mark: int = 0
    """Where the store's notes on damaged records that this turn met begin."""
