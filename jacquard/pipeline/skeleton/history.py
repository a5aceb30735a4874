"""The history window with hysteresis (spec A5): its start stays the same for many turns, so that the prompt's prefix
does too.

Pure. A window grows at its end until it passes a limit. Then its start jumps forward until both limits are met with a
reserve (`low_water`), and stays there again. A turn is never split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from jacquard.config.sections import RuntimeConfig
from jacquard.core.blocks import MESSAGE_OVERHEAD_TOKENS
from jacquard.pipeline.skeleton.messages import count_attached
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Role, WindowMessage

Turn = tuple[WindowMessage, ...]
_SPARE_MESSAGES = 16
"""Loaded beyond the window's limit, so that its old start is still seen when it overflows."""

_LEAST_TOKENS = 20
"""The mean of a short conversation: no more messages are loaded than would fill the prompt with such messages."""

_MOST_MESSAGES = 400
_SPARE_SHARE = 0.05
"""The share of the prompt that the window leaves free, for what the rest takes more than in the turn before."""

_MEMORY_SHARE = 8
"""The window leaves the memories of a turn an eighth of the prompt, or what they may take."""

_OVERVIEW_SHARE = 0.75
"""An overview may take so much of what the history leaves."""

OVERVIEW_FACTOR = 4
"""An overview may have so many times the memories, and the tokens, that those of another turn may have."""

_FALL = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLimits:
    """The limits of a history window: it grows to either, is then cut to `low_water` of both, and grows again."""

    max_messages: int
    max_tokens: int
    low_water: float


def count_loaded_messages(config: RuntimeConfig) -> int:
    """Return how many of the newest messages of a session a turn loads."""
    return _limit_messages(config) + _SPARE_MESSAGES


def _limit_messages(config: RuntimeConfig) -> int:
    if config.history.max_messages is not None:
        return config.history.max_messages
    return min(_MOST_MESSAGES, max(_SPARE_MESSAGES, config.budget.prompt_tokens() // _LEAST_TOKENS))


def history_limits(config: RuntimeConfig, other_tokens: int | None = None) -> WindowLimits:
    """Return the limits of the window. `other_tokens`: what the rest of the prompt takes without memories, as far as that is known.

    The window takes what the skeleton, the summary and the memories leave, and half of the prompt while that is not known: what it
    holds is not recalled, so it must not be dropped afterwards. It may always take an eighth.
    """
    whole = config.budget.prompt_tokens()
    room = whole // 2
    if other_tokens is not None:
        memories = min(config.curation.flesh_tokens, whole // _MEMORY_SHARE) if config.curation.enabled else 0
        room = max(_find_room(config, other_tokens) - memories, whole // 8)
    limit = config.history.max_tokens
    return WindowLimits(
        max_messages=_limit_messages(config),
        max_tokens=room if limit is None else min(limit, room),
        low_water=config.history.low_water,
    )


def limit_memories(
    config: RuntimeConfig,
    window: SessionWindow,
    shown: Sequence[WindowMessage],
    count: Callable[[str], int],
    *,
    is_overview: bool = False,
) -> int:
    """Return the most tokens of the memories of a turn: what the history that is shown leaves, and at least their share.

    An overview may take more of that than the memories of another turn, but leaves a part of it free.
    """
    limit, other_tokens = config.curation.flesh_tokens, find_other_tokens(window)
    if is_overview:
        limit *= OVERVIEW_FACTOR
    if other_tokens is None:
        return min(limit, config.budget.prompt_tokens() // 4) if is_overview else limit
    room = _find_room(config, other_tokens) - sum(_count_message(each, count) for each in shown)
    if is_overview:
        room = int(room * _OVERVIEW_SHARE)
    return min(limit, max(room, config.budget.prompt_tokens() // _MEMORY_SHARE))


def _find_room(config: RuntimeConfig, other_tokens: int) -> int:
    whole = config.budget.prompt_tokens()
    return whole - other_tokens - int(whole * _SPARE_SHARE)


def find_other_tokens(window: SessionWindow) -> int | None:
    """Return what the rest of the prompt took in the turn before, without conversation and memories; None where that was not
    recorded.
    """
    prompt = window.previous.prompt if window.previous is not None else None
    tokens = prompt.get("other_tokens") if prompt is not None else None
    return tokens if isinstance(tokens, int) else None


def smooth_other_tokens(tokens: int, window: SessionWindow) -> int:
    """Return the tokens of the rest of a prompt as the next turn reckons with them: they fall slowly, since evidence comes and goes
    from turn to turn.
    """
    before = find_other_tokens(window)
    return tokens if before is None else max(tokens, int(before * _FALL))


def trim_history(
    messages: Sequence[WindowMessage],
    previous_start: str | None,
    limits: WindowLimits,
    count: Callable[[str], int],
) -> tuple[WindowMessage, ...]:
    """Return the messages of the window, oldest first: whole turns up to the newest.

    `messages` are the newest of the session, oldest first; `previous_start` is the id of the first message of the
    window before, or None; `count` gives the tokens of a message's content. While everything from `previous_start` on
    fits `max_messages` and `max_tokens`, that is the window. When it does not, or `previous_start` is too old to be
    among the messages, the window is the longest run of newest turns that fits `low_water` of both. A cut window begins
    with a message of the user where that costs less than half of it. The newest turn is kept even if it alone passes a
    limit, because the latest messages must never be missing (the prompt's budget still applies); a limit below 1 means
    no history.
    """
    if limits.max_messages < 1 or limits.max_tokens < 1:
        return ()
    turns = [tuple(group) for _, group in groupby(messages, key=lambda each: each.turn_id)]
    start = next((place for place, turn in enumerate(turns) if previous_start in _ids(turn)), None)
    sizes = [(len(turn), sum(_count_message(each, count) for each in turn)) for turn in turns]
    if start is not None and _fits(sizes[start:], limits.max_messages, limits.max_tokens):
        return _flat(turns[start:])
    if previous_start is None and _fits(sizes, limits.max_messages, limits.max_tokens) and _is_whole(turns):
        return _flat(turns)
    kept = _count_newest(sizes, limits.max_messages * limits.low_water, limits.max_tokens * limits.low_water)
    return _flat(_start_at_user(turns[max(start or 0, len(turns) - kept) :]))


def find_history_start(window: SessionWindow) -> str | None:
    """Return where the window of the previous turn began, from its record (`prompt.history_start`), or None."""
    prompt = window.previous.prompt if window.previous is not None else None
    start = prompt.get("history_start") if prompt is not None else None
    return start if isinstance(start, str) else None


def _count_message(each: WindowMessage, count: Callable[[str], int]) -> int:
    return count(each.message.content) + count_attached(each.message, count) + MESSAGE_OVERHEAD_TOKENS


def _ids(turn: Turn) -> set[str]:
    return {each.message.message_id for each in turn}


def _flat(turns: Sequence[Turn]) -> tuple[WindowMessage, ...]:
    return tuple(message for turn in turns for message in turn)


def _is_whole(turns: Sequence[Turn]) -> bool:
    """Return whether the oldest turn surely lost no message at the edge of what was loaded."""
    return not turns or turns[0][0].depth <= 1 or turns[0][0].message.role is Role.USER


def _start_at_user(turns: Sequence[Turn]) -> Sequence[Turn]:
    for place, turn in enumerate(turns):
        if turn[0].message.role is Role.USER:
            return turns[place:] if 2 * place < len(turns) else turns
    return turns


def _fits(sizes: Sequence[tuple[int, int]], messages: float, tokens: float) -> bool:
    return sum(size for size, _ in sizes) <= messages and sum(cost for _, cost in sizes) <= tokens


def _count_newest(sizes: Sequence[tuple[int, int]], messages: float, tokens: float) -> int:
    """Return how many of the newest turns fit, at least one where there is any."""
    kept = 0
    for size, cost in reversed(sizes):
        messages, tokens = messages - size, tokens - cost
        if kept and (messages < 0 or tokens < 0):
            break
        kept += 1
    return kept
