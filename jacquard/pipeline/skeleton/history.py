"""Chooses the history window (the newest messages of a conversation that a prompt shows), and its token limits. Pure.

The start of the window stays the same for many turns, so that the beginning of the prompts stays the same too and can be cached.
The window grows at its end until it passes a limit on messages or tokens. Then its start jumps forward until the window is below
the share `low_water` of both limits. A turn is never split.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from jacquard.config.sections import RuntimeConfig
from jacquard.core.blocks import MESSAGE_OVERHEAD_TOKENS
from jacquard.pipeline.skeleton.messages import count_attached
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Role, WindowMessage
from mnemosyne.values import dataclass

Turn = tuple[WindowMessage, ...]
_SPARE_MESSAGES = 16
"""Number of messages that are loaded beyond the limit of the window, so that the old start of the window is still
loaded when the window overflows.
"""

_LEAST_TOKENS = 20
"""Assumed minimum of the mean tokens of a message. No more messages are loaded than would fill the prompt if each had
this size.
"""

_MOST_MESSAGES = 400
_SPARE_SHARE = 0.05
"""Share of the prompt that the window leaves free, because the other blocks may grow from turn to turn."""

_MEMORY_SHARE = 8
"""The window leaves the memories 1/8 of the prompt, or their own limit if that is less."""

_OVERVIEW_SHARE = 0.75
"""Share of the tokens left by the history that an overview may take."""

OVERVIEW_FACTOR = 4
"""Factor for the number of memories, and for their tokens, in a turn that asks for an overview."""

_FALL = 0.9
_WIDEST_LOW_WATER = 0.8
"""Least share of the widest limits that remains when the window is cut, because no summary covers what the cut removes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowLimits:
    """Limits of a history window. When the window passes one limit, the window is cut to the share `low_water` (0..1)
    of both limits.
    """

    max_messages: int
    max_tokens: int
    low_water: float

    @property
    def loaded_messages(self) -> int:
        """Number of the newest messages of a session from which the window is chosen."""
        return self.max_messages + _SPARE_MESSAGES


def count_loaded_messages(config: RuntimeConfig) -> int:
    """Return how many of the newest messages of a session a turn loads."""
    return _limit_messages(config) + _SPARE_MESSAGES


def _limit_messages(config: RuntimeConfig) -> int:
    limit = config.history.max_messages
    return _count_fitting_messages(config) if limit is None else limit


def _count_fitting_messages(config: RuntimeConfig) -> int:
    return min(_MOST_MESSAGES, max(_SPARE_MESSAGES, config.budget.prompt_tokens() // _LEAST_TOKENS))


def history_limits(config: RuntimeConfig, other_tokens: int | None = None) -> WindowLimits:
    """Return the limits of the history window.

    `other_tokens` is the number of tokens that the prompt has besides conversation and memories (None: unknown). The
    window may take the tokens that this part and the memories leave, and always at least an eighth of the prompt. If
    `other_tokens` is unknown, the window may take half of the prompt. The limit is set in advance, because messages in
    the window are not recalled and so must not be dropped later.
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


def widest_limits(config: RuntimeConfig, other_tokens: int | None = None) -> WindowLimits:
    """Return the limits of the history window for a turn whose older messages no summary covers.

    The window may then take all tokens that the other blocks leave, memories included, whatever the settings of the
    history say. `other_tokens` is described at `history_limits`.
    """
    usual, whole = history_limits(config, other_tokens), config.budget.prompt_tokens()
    room = whole // 2 if other_tokens is None else _find_room(config, other_tokens)
    return WindowLimits(
        max_messages=max(usual.max_messages, _count_fitting_messages(config)),
        max_tokens=max(usual.max_tokens, room),
        low_water=max(usual.low_water, _WIDEST_LOW_WATER),
    )


def limit_memories(
    config: RuntimeConfig,
    window: SessionWindow,
    shown: Sequence[WindowMessage],
    count: Callable[[str], int],
    *,
    is_overview: bool = False,
) -> int:
    """Return the maximum tokens of the memories in a turn's prompt.

    The memories may take the tokens that the rest of the prompt and the history `shown` leave, up to the configured
    limit. They may always take an eighth of the prompt, or the configured limit if that is less. For an overview
    (`is_overview`) the limit is higher, and a part of the tokens stays free. `count` returns the tokens of a text.
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
    """Return the tokens that the previous prompt had besides conversation and memories. Return None if there is no
    previous prompt, or if this number was not recorded.
    """
    prompt = window.previous.prompt if window.previous is not None else None
    tokens = prompt.get("other_tokens") if prompt is not None else None
    return tokens if isinstance(tokens, int) else None


def smooth_other_tokens(tokens: int, window: SessionWindow) -> int:
    """Return the number of other tokens to record with a prompt, from which the limits of the next turn are computed.

    `tokens` is the number of tokens that the prompt has besides conversation and memories. The result is at least 0.9
    times the number of the previous turn. So the recorded number falls slowly, because the tokens of evidence vary from
    turn to turn.
    """
    before = find_other_tokens(window)
    return tokens if before is None else max(tokens, int(before * _FALL))


def trim_history(
    messages: Sequence[WindowMessage],
    previous_start: str | None,
    limits: WindowLimits,
    count: Callable[[str], int],
) -> tuple[WindowMessage, ...]:
    """Return the messages of the history window, oldest first: complete turns up to the newest turn.

    If all turns from `previous_start` on fit both limits, these turns are the window. Otherwise the window is cut to as
    many of the newest turns as fit the share `low_water` of both limits. A cut window begins with a user message if
    less than half of its turns are lost by this. The newest turn is kept even if it passes a limit by itself, because
    the latest messages must never be missing; the budget of the prompt still applies. If a limit is below 1, there is
    no history.

    Args:
        messages: the newest messages of the session, oldest first.
        previous_start: id of the first message of the previous window (None: there is no previous window).
        limits: limits of the window.
        count: returns the tokens of a message's content.
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
    """Return the id of the first message in the history window of the previous turn. Return None if the record of that
    turn states none, or if there is no previous turn.
    """
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
    """Return whether the oldest turn is certainly complete, not cut by the limit on loaded messages."""
    return not turns or turns[0][0].depth <= 1 or turns[0][0].message.role is Role.USER


def _start_at_user(turns: Sequence[Turn]) -> Sequence[Turn]:
    for place, turn in enumerate(turns):
        if turn[0].message.role is Role.USER:
            return turns[place:] if 2 * place < len(turns) else turns
    return turns


def _fits(sizes: Sequence[tuple[int, int]], messages: float, tokens: float) -> bool:
    return sum(size for size, _ in sizes) <= messages and sum(cost for _, cost in sizes) <= tokens


def _count_newest(sizes: Sequence[tuple[int, int]], messages: float, tokens: float) -> int:
    """Return how many of the newest turns fit; at least one if there is any."""
    kept = 0
    for size, cost in reversed(sizes):
        messages, tokens = messages - size, tokens - cost
        if kept and (messages < 0 or tokens < 0):
            break
        kept += 1
    return kept
