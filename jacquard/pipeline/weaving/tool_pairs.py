"""Checks the tail of a tool loop: the tool calls and results that a host sends after the prompt of a turn. Pure.

Every tool call needs its result, and every result needs its call. Messages may have the form of OpenAI (`tool_calls`,
and `tool_call_id` of a `tool` message) or of Anthropic (`tool_use` and `tool_result` among the parts of a content). A
result without an id answers the oldest open call. The messages are not changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jacquard.core.errors import BudgetExceededError, ToolPairError
from jacquard.core.receipt import BudgetReport
from mnemosyne.core.exact_tokens.messages import MessageTokenEstimator
from mnemosyne.protocols import MessageEstimator, TokenEstimator


def check_pairs(tail: Sequence[Mapping[str, Any]]) -> None:
    """Raise ToolPairError if a result in `tail` has no call before it, or a call has no result after it."""
    open_calls: list[tuple[str, int]] = []
    seen: set[str] = set()
    for place, message in enumerate(tail):
        for call_id in _results(message):
            if call_id not in seen and (call_id or not open_calls):
                raise ToolPairError(place, call_id, "is the result of a call that is not before it")
            answered = next((each for each in open_calls if call_id in ("", each[0])), None)
            if answered is not None:
                open_calls.remove(answered)
        for call_id in _calls(message):
            if call_id:
                seen.add(call_id)
            open_calls.append((call_id, place))
    for call_id, place in open_calls:
        raise ToolPairError(place, call_id, "is a call without its result")


def check_tail_fits(
    tail: Sequence[Mapping[str, Any]],
    budget: BudgetReport,
    estimator: TokenEstimator,
    model_hint: str | None = None,
) -> None:
    """Raise BudgetExceededError if a prompt and its tail together exceed the limit of the model.

    `budget` is the budget in the receipt of the prompt. The tokens of messages are counted exactly if `estimator` can
    do this for the model `model_hint`; the file of a tokenizer may be read for this.
    """
    limit_tokens = budget.limit_tokens + budget.tail_tokens
    tokens = _count_tail(tail, budget, estimator, model_hint)
    if tail and budget.used_tokens + tokens > limit_tokens:
        blocks = (("tail", tokens), ("prompt", budget.used_tokens))
        raise BudgetExceededError(limit_tokens, budget.used_tokens + tokens, blocks)


def tail_tokens(tail: Sequence[Mapping[str, Any]], count: Callable[[str], int], overhead_tokens: int) -> int:
    """Return the tokens of a tail: texts, all other values as JSON, and `overhead_tokens` for each message. `count`
    returns the tokens of a text.
    """
    return sum(overhead_tokens + sum(count(text) for text in _texts(message)) for message in tail)


def _count_tail(
    tail: Sequence[Mapping[str, Any]], budget: BudgetReport, estimator: TokenEstimator, model_hint: str | None
) -> int:
    """Return the tokens of a tail in the unit of a budget, which the provider's counts have corrected."""
    own = getattr(estimator, "estimate_message", None) is not None
    counter: MessageEstimator = estimator if own else MessageTokenEstimator(estimator)  # type: ignore[assignment]
    tokens = 0
    for message in tail:
        content = message.get("content")
        text = content if isinstance(content, str) else ""
        rest = {key: value for key, value in message.items() if key != "content" or value is not text}
        tokens += counter.estimate_message(str(message.get("role", "")), text, model_hint)
        tokens += sum(counter.estimate_text(each, model_hint) for each in _texts(rest))
    is_exact = isinstance(counter, MessageTokenEstimator) and counter.counts_exactly(model_hint)
    return int(tokens / budget.correction) if is_exact else tokens


def _texts(message: Mapping[str, Any]) -> Iterator[str]:
    for key, value in message.items():
        if key == "role" or value is None:
            continue
        yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _calls(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of a message's tool calls; '' for a call without an id."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list | tuple) else ():
        if isinstance(call, Mapping):
            yield _id_of(call, "id")
    yield from _parts(message, "tool_use", "id")


def _results(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the ids of the calls whose results a message contains; '' for a result without an id."""
    if message.get("role") == "tool" or isinstance(message.get("tool_call_id"), str):
        yield _id_of(message, "tool_call_id")
    yield from _parts(message, "tool_result", "tool_use_id")


def _parts(message: Mapping[str, Any], kind: str, key: str) -> Iterator[str]:
    content = message.get("content")
    for part in content if isinstance(content, list | tuple) else ():
        if isinstance(part, Mapping) and part.get("type") == kind:
            yield _id_of(part, key)


def _id_of(item: Mapping[str, Any], key: str) -> str:
    found = item.get(key)
    return found if isinstance(found, str) else ""
