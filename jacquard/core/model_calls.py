"""Makes usage records of calls to small models: purpose, tokens and turn of each call. Pure.

Small models make plans, selections, summaries and consolidations. A record contains the tokens that the provider
reported. If the provider reported none, it contains our own count of the prompt and the answer. This module must not
import a model or a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jacquard.core.calibration import COUNTED, ESTIMATED, REPORTED
from mnemosyne.schema.document import ModelUsage, ModelUsageStage, ModelUsageStatus
from mnemosyne.values import dataclass

UNKNOWN = "unknown"
"""Mark of a call without an answer: its cost is unknown."""

UNDER_WAY = "under_way"
"""Key in `extra` of a call that was still running when its turn was written. The record of the call is written again
when the call ends.
"""

LATE = "late"
"""Key in `extra` of a call that ended after its turn was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call of a small model."""

    model: str
    prompt: str = ""
    """Text that was sent."""
    answer: str | None = None
    """Text that was received (None: nothing)."""
    prompt_tokens: int | None = None
    """Tokens of the prompt as the provider reported them (None: not reported). `completion_tokens` are those of the
    answer.
    """
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
    """Return the usage record of `call`.

    `usage_id` is the id of the record, and `stage` and `purpose` state what the call was made for. `extra` of the
    record contains `turn_id`. It also contains the source of the token counts as `counted`: `reported` by the provider,
    `estimated` with `count`, or `unknown` if the call has no answer. A text in `error` marks the call as failed: no
    answer was received, or the answer could not be used.
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
    """Records the model calls of one turn's selection, when each begins and when each ends.

    A turn may be written before all calls have ended. In this case `usages` reports the running calls with unknown
    cost, and `take_late_usages` later reports the end of these calls.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def begin(self, call: Call) -> int:
        """Record that a call begins. Return the place of the call in the book, which is the argument `place` of `end`."""
        self._entries.append(_Entry(call=call))
        return len(self._entries) - 1

    def end(self, place: int, call: Call, error: str = "") -> None:
        """Record that the call at `place` ended as `call`. A second end of the same call is ignored.

        `call` has the answer and its cost. A text in `error` states that the call failed, or that its answer could not
        be used.
        """
        entry = self._entries[place]
        if not entry.ended:
            entry.call, entry.ended, entry.error = call, True, error

    def usages(self, turn_id: str, count: Callable[[str], int]) -> tuple[ModelUsage, ...]:
        """Return the usage records of all calls so far, in the order in which they began.

        The ids of the records are `TURN.select`, `TURN.select.2` and so on, with `turn_id` for TURN. `count` returns
        the tokens of a text.
        """
        made = []
        for place, entry in enumerate(self._entries):
            entry.asked_for = entry.ended
            usage = _select_usage(place, entry, turn_id, count)
            made.append(usage if entry.ended else replace(usage, extra={**usage.extra, UNDER_WAY: True}))
        return tuple(made)

    def take_late_usages(self, turn_id: str, count: Callable[[str], int]) -> tuple[ModelUsage, ...]:
        """Return the records of the calls that have ended and whose end was not reported before.

        Each record has the same id as in `usages`, so that it replaces the record of the running call. `count` returns
        the tokens of a text.
        """
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
