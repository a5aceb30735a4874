"""Recognises remarks outside of the story (`(OOC: …)`, `((…))`, `【场外：…】`) and drops exchanges that consist of them.

The time of each function is linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TypeVar

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.schema.session import Message, Role, WindowMessage

_LATIN = r"(?:ooc|o\.o\.c\.?|out of character|out-of-character)(?![a-z])"
_CHINESE = r"(?:场外|戏外|出戏|下戏|题外话)"
_BRACKETS = (("(", ")"), ("[", "]"), ("（", "）"), ("【", "】"), ("〔", "〕"))
_BRACKETED = lazy_pattern(
    r"\(\([^()]*\)\)|（（[^（）]*））|"
    + "|".join(
        rf"{re.escape(left)}\s*(?:{_LATIN}|{_CHINESE})[^{re.escape(left + right)}]+{re.escape(right)}"
        for left, right in _BRACKETS
    ),
    re.IGNORECASE,
)
# [OOC] or 【场外】 in front of a line, and "OOC:", "// ooc" or "out of character, …" at its beginning, mean the whole line.
_LINE = lazy_pattern(
    rf"^[ \t]*(?:/{{1,2}}[ \t]*)?"
    rf"(?:{_LATIN}|[\[(【（〔][ \t]*(?:{_LATIN}|{_CHINESE}话?)[ \t]*[\])】）〕]|{_CHINESE}话?[ \t]*[:：])[^\n]*",
    re.IGNORECASE | re.MULTILINE,
)
_WHOLE = lazy_pattern(rf"(?:\(\(|（（|[\[(【（〔]\s*(?:{_LATIN}|{_CHINESE}))[^\n]*[\])】）〕]", re.IGNORECASE)
"""A whole line in a bracket, with other brackets inside it."""
_FIRST_SIGNS = frozenset("([（【〔/场戏出下题")
_FIRST_LETTERS = frozenset({"ooc", "o.o", "out"})
_SAYS_SOMETHING = re.compile(r"[^\W_]")
_AGREES = lazy_pattern(
    r"(?:of course|sure|ok|okay|understood|got it|noted|certainly|absolutely|no problem|will do|all ?right|sounds good|yes|yep"
    r"|no worries|thanks|thank you|sorry|my apologies|apologies|happy to|gladly|fair enough|good point)(?![a-z])"
    r"|好|当然|明白|没问题|收到|了解|可以|行[，。！]|抱歉|对不起|知道了|嗯|谢谢|没关系|遵命",
    re.IGNORECASE,
)
_SPOKEN = re.compile(r"[“”「」『』«»\"]")
_AGREED_CHARS = 200
_AnyMessage = TypeVar("_AnyMessage", Message, WindowMessage)


def remove_asides(text: str) -> str:
    """Return `text` without the remarks that are marked as being outside of the story."""
    return _BRACKETED.sub(" ", _LINE.sub(" ", text))


def is_aside(text: str) -> bool:
    """Return whether all of `text` is marked as being outside of the story."""
    text = text.strip()
    if text[:1] not in _FIRST_SIGNS and text[:3].casefold() not in _FIRST_LETTERS:
        return False
    left = remove_asides(text)
    return bool(_WHOLE.fullmatch(text)) or (left != text and _SAYS_SOMETHING.search(left) is None)


def drop_asides(messages: Sequence[_AnyMessage]) -> tuple[_AnyMessage, ...]:
    """Return `messages`, which belong to whole turns, without exchanges that are outside of the story.

    If every message of the user in a turn is a remark outside of the story, all messages of the user in this turn are dropped.
    The reply of this turn is dropped too if it also is a remark outside of the story, or if it only agrees in a few words.
    """
    told: list[_AnyMessage] = []
    for _, group in groupby(messages, key=_turn_of):
        turn = list(group)
        told += _drop_of_turn(turn) if _is_about_asides(map(_message_of, turn)) else turn
    return tuple(told)


def _is_about_asides(turn: Iterable[Message]) -> bool:
    roles, asked = set(), []
    for message in turn:
        roles.add(message.role)
        asked += [is_aside(message.content)] if message.role is Role.USER else []
    return Role.TOOL not in roles and bool(asked) and all(asked)


def _drop_of_turn(turn: Sequence[_AnyMessage]) -> list[_AnyMessage]:
    return [
        each
        for each in turn
        if (message := _message_of(each)).role is Role.SYSTEM
        or (message.role is Role.ASSISTANT and not _is_outside(message.content))
    ]


def _is_outside(reply: str) -> bool:
    """Return whether a reply to a remark outside of the story is itself outside of it."""
    if is_aside(reply):
        return True
    short = len(reply) <= _AGREED_CHARS and _SPOKEN.search(reply) is None
    return short and _AGREES.match(reply.strip()) is not None


def _message_of(each: Message | WindowMessage) -> Message:
    return each if isinstance(each, Message) else each.message


def _turn_of(each: Message | WindowMessage) -> str:
    return each.turn_id if isinstance(each, WindowMessage) else ""
