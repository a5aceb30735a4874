"""Measures the error of our token estimates from the counts that providers report.

The record of a model call contains the provider's token count and our estimate for the same prompt. The ratio of the
two counts lowers or raises the token limit of the next turns. The token counter itself does not change, so the budget
and the final check of a prompt use the same counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from mnemosyne.schema.document import ModelUsage, ModelUsageStage, ModelUsageStatus

ESTIMATED_PROMPT = "estimated_prompt_tokens"
COUNTED = "counted"
REPORTED, ESTIMATED = "reported", "estimated"
LEAST, MOST, STEP = 0.7, 2.0, 0.05


def correction_of(usages: Iterable[ModelUsage], model_hint: str | None = None) -> float:
    """Return the correction of our token estimates: the provider's count divided by our estimate.

    The correction is the median of (reported prompt tokens / estimated prompt tokens) over the successful answers in
    `usages`. It is 1.0 if there are no such answers. If `model_hint` is given, only the answers of this model count.
    The correction is rounded to steps of 0.05 and limited to 0.7 to 2.0. So it seldom changes; each change alters the
    beginning of the prompts.
    """
    ratios = [ratio for usage in usages if (ratio := _ratio(usage, model_hint)) is not None]
    if not ratios:
        return 1.0
    from statistics import median

    return round(min(MOST, max(LEAST, round(median(ratios) / STEP) * STEP)), 2)


def _ratio(usage: ModelUsage, model_hint: str | None) -> float | None:
    estimated = usage.extra.get(ESTIMATED_PROMPT)
    fits = (
        usage.stage is ModelUsageStage.ANSWER
        and usage.status is ModelUsageStatus.SUCCESS
        and usage.extra.get(COUNTED) == REPORTED
        and (model_hint is None or usage.model == model_hint)
        and usage.prompt_tokens > 0
        and isinstance(estimated, int)
        and estimated > 0
    )
    return usage.prompt_tokens / estimated if fits and isinstance(estimated, int) else None


def add_token_counts(
    usage: ModelUsage, prompt_tokens: int | None, reply_tokens: int | None, **links: Any
) -> ModelUsage:
    """Return `usage` with our estimate of the prompt's tokens in `extra`. If the provider reported no tokens, our
    estimates become the token counts of the record.

    Args:
        usage: the record of the call.
        prompt_tokens: our estimate for the prompt (None: unknown).
        reply_tokens: our estimate for the reply (None: unknown).
        links: further values for `extra`, such as the id of the turn. A value that is None is left out.
    """
    reported = usage.prompt_tokens > 0 or usage.total_tokens > 0
    extra = {**usage.extra, **{key: value for key, value in links.items() if value is not None}}
    if prompt_tokens is not None:
        extra[ESTIMATED_PROMPT] = prompt_tokens
    extra.setdefault(COUNTED, REPORTED if reported else ESTIMATED)
    if not reported:
        asked = usage.prompt_tokens or prompt_tokens or 0
        answered = usage.completion_tokens or reply_tokens or 0
        usage = replace(usage, prompt_tokens=asked, completion_tokens=answered, total_tokens=asked + answered)
    elif not usage.total_tokens:
        usage = replace(usage, total_tokens=usage.prompt_tokens + usage.completion_tokens)
    return replace(usage, extra=extra)
