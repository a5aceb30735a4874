"""Calls of small models as records (seed 002 section 5.1.2): what each was for, what it cost, what it belongs to. Pure.

The room exists so that plans, summaries and memory are counted alike: by the provider's figures where it reported them, else by
our own count of what was sent and what came. It must not import a model or a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jacquard.calibration import COUNTED, ESTIMATED, REPORTED
from mnemosyne.schema.document import ModelUsage, ModelUsageStage, ModelUsageStatus

UNKNOWN = "unknown"
"""How a call was counted that never answered: nobody knows what it cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """One call: the texts that went and came (`answer` None: nothing came), and the tokens that the provider reported."""

    model: str
    prompt: str = ""
    answer: str | None = None
    prompt_tokens: int | None = None
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
    """Return the record of a call; `extra` says how it was counted (`reported`, `estimated`, `unknown`) and for which turn.

    `error` marks a call that failed, be it that nothing came or that its answer could not be used.
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
