"""Usage records of calls of small models: purpose, cost and turn. Pure.

The tokens of plans, selections, summaries and consolidation are those the provider reported, else our own count of prompt and
answer. This module must not import a model or a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from jacquard.core.calibration import COUNTED, ESTIMATED, REPORTED
from mnemosyne.schema.document import ModelUsage, ModelUsageStage, ModelUsageStatus

UNKNOWN = "unknown"
"""Mark of a call without an answer: its cost is unknown."""

UNDER_WAY = "under_way"
"""Mark in `extra` of a call still running when its turn was written; its record is written again when it ends."""

LATE = "late"
"""Mark in `extra` of a call that ended after its turn was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a small model."""

    model: str
    prompt: str = ""
    """Text that was sent."""
    answer: str | None = None
    """Text that was received (None: nothing)."""
    prompt_tokens: int | None = None
    """Reported by the provider, like `completion_tokens`."""
    completion_tokens: int | None = None
    latency_ms: float = 0.0


def usage_of(
    usage_id: str,
    call: Call,
    count: Callable[[str], int],
    *,
    stage: ModelUsageStage,
    purpose: str,
    turn_id: str | None = None,
    error: str = "",
) -> ModelUsage:
    """Return the usage record of a call; `extra` states its turn and how it was counted (`reported`, `estimated`, `unknown`).

    `error` marks a failed call: nothing was received, or the answer could not be used.
    """
    sent, came, counted = 0, 0, UNKNOWN
    if call.answer is not None:
        is_reported = call.prompt_tokens is not None and call.completion_tokens is not None
        counted = REPORTED if is_reported else ESTIMATED
        sent = count(call.prompt) if call.prompt_tokens is None else call.prompt_tokens
        came = count(call.answer) if call.completion_tokens is None else call.completion_tokens
    return ModelUsage(
        model_usage_id=usage_id,
        provider=call.model.partition("/")[0] if "/" in call.model else "",
        model=call.model,
        stage=stage,
        params={"purpose": purpose},
        prompt_tokens=sent,
        completion_tokens=came,
        total_tokens=sent + came,
        latency_ms=int(call.latency_ms),
        status=ModelUsageStatus.ERROR if error else ModelUsageStatus.SUCCESS,
        error=error,
        extra={COUNTED: counted, **({} if turn_id is None else {"turn_id": turn_id})},
    )


@dataclass(slots=True)
class _Entry:
    call: Call
    ended: bool = False
    error: str = ""
    asked_for: bool = False


class CallBook:
    """Model calls of one turn's selection, recorded when they begin and when they end.

    A turn does not wait for all of them. Its record contains running calls with unknown cost; `take_late_usages` returns how
    they ended.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def begin(self, call: Call) -> int:
        """Record that a call begins; return its place for `end`."""
        self._entries.append(_Entry(call=call))
        return len(self._entries) - 1

    def end(self, place: int, call: Call, error: str = "") -> None:
        """Record how a call ended; only the first end counts. `error`: the call failed, or its answer could not be used."""
        entry = self._entries[place]
        if not entry.ended:
            entry.call, entry.ended, entry.error = call, True, error

    def usages(self, turn_id: str, count: Callable[[str], int]) -> tuple[ModelUsage, ...]:
        """Return the records of all calls so far, in their order (`TURN.select`, `TURN.select.2` …)."""
        made = []
        for place, entry in enumerate(self._entries):
            entry.asked_for = entry.ended
            usage = _select_usage(place, entry, turn_id, count)
            made.append(usage if entry.ended else replace(usage, extra={**usage.extra, UNDER_WAY: True}))
        return tuple(made)

    def take_late_usages(self, turn_id: str, count: Callable[[str], int]) -> tuple[ModelUsage, ...]:
        """Return the records of calls that ended since this method was last called, under their earlier ids."""
        made = []
        for place, entry in enumerate(self._entries):
            if entry.ended and not entry.asked_for:
                entry.asked_for = True
                usage = _select_usage(place, entry, turn_id, count)
                made.append(replace(usage, extra={**usage.extra, LATE: True}))
        return tuple(made)


def _select_usage(place: int, entry: _Entry, turn_id: str, count: Callable[[str], int]) -> ModelUsage:
    usage_id = f"{turn_id}.select" if not place else f"{turn_id}.select.{place + 1}"
    error = entry.error if entry.ended else "timeout: it had not answered when the turn went on"
    stage = ModelUsageStage.OTHER
    return usage_of(usage_id, entry.call, count, stage=stage, purpose="select", turn_id=turn_id, error=error)
