"""What accompanies one turn while it is prepared: the request, and everything that changes on the way.

All other values of a turn are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.model_calls import CallBook
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.templating.profiles import STORY, Profile
from mnemosyne.schema.document import ModelUsage
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry, UserFact
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


@dataclass(kw_only=True, slots=True)
class TurnContext:
    """One attempt to prepare a turn.

    `requested_turn_id` and `branch_id` are what the host asked for, if it did. `turn_id` and `fingerprint`, on which a stored
    answer depends, are known once the session is loaded. `degradations` are codes of what was done without so far, `usages`
    the model calls of planning.
    `user_id` is the user of the turn and `facts` what is remembered about them, once the session is loaded.
    `evidences`, `blocks`, `gated` and `written` are what else the session held when it was loaded (`TurnInputs`; `evidences` is
    None where the configuration shows none).
    `trigger`: why a reply is made, in the words of world info (`normal`, `swipe`).
    `damage_mark`: where the store's notes on damaged records that this turn met begin. `calls` holds the model calls of
    Stream B, those of an attempt that met a conflict too. `profile` is known once the world is loaded. `finish` as of
    `prepare_turn`.
    """

    session_id: str
    user_message: Message
    config: RuntimeConfig
    emitter: EventEmitter
    requested_turn_id: str | None = None
    branch_id: str | None = None
    calls: CallBook = field(default_factory=CallBook)
    degradations: list[str] = field(default_factory=list)
    usages: list[ModelUsage] = field(default_factory=list)
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    damage_mark: int = 0
    turn_id: str = ""
    fingerprint: str = ""
    profile: Profile = STORY
    user_id: str = ""
    facts: tuple[UserFact, ...] = ()
    evidences: tuple[tuple[Evidence, ...], ...] | None = None
    blocks: tuple[ContextBlock, ...] = ()
    gated: tuple[MemoryEntry, ...] = ()
    written: Mapping[tuple[str, Chain], int] | None = None
    trigger: str = "normal"
    finish: FinishTurn | None = None
