"""Groups the messages of a chat into turns. A turn is a message of the user with the replies to it.

The ids of the turns stay the same if a longer version of the chat is imported later. This module does no I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace

from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Message, Role, count_inputs
from mnemosyne.values import dataclass

MOST_REPLIES = 50
"""Maximum number of non-user messages per turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SaidMessage:
    """A chat message and its alternatives (swipes). Each alternative has one or more messages."""

    message: Message
    others: tuple[tuple[Message, ...], ...] = ()


def chat_key(*parts: object) -> str:
    """Return the text with which all ids of a chat begin. It is a hash of `parts`, which must be data of the chat that never
    change.
    """
    text = "\x00".join("" if part is None else str(part) for part in parts)
    return "chat-" + hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]


def group_turns(key: str, said: Iterable[SaidMessage]) -> Iterator[ImportedTurn]:
    """Yield the turns of the chat whose messages are `said`. Each message of the user begins a turn. All ids begin with `key`.

    Messages before the user's first message are a turn of their own, unless all of them are system messages. A turn also
    ends after MOST_REPLIES replies. Ids count messages from 0: `KEY-3` is the turn that begins with the fourth message,
    `KEY.3` is that message, and `KEY.3.s1` is its second alternative.
    """
    group: list[SaidMessage] = []
    start = 0
    for number, each in enumerate(said):
        if group and _begins_turn(each.message, group):
            yield _turn_of(f"{key}-{start}", group)
            group, start = [], number
        group.append(_with_ids(f"{key}.{number}", each))
    if group:
        yield _turn_of(f"{key}-{start}", group)


def _begins_turn(message: Message, group: list[SaidMessage]) -> bool:
    if len(group) > MOST_REPLIES:
        return True
    return message.role is Role.USER and any(each.message.role is not Role.SYSTEM for each in group)


def _with_ids(message_id: str, said: SaidMessage) -> SaidMessage:
    others = tuple(
        tuple(
            replace(each, message_id=f"{message_id}.s{number}" + (f".{place}" if place else ""))
            for place, each in enumerate(other)
        )
        for number, other in enumerate(said.others)
    )
    return SaidMessage(message=replace(said.message, message_id=message_id), others=others)


def _turn_of(turn_id: str, group: list[SaidMessage]) -> ImportedTurn:
    messages = tuple(each.message for each in group)
    first = count_inputs(messages)
    return ImportedTurn(
        turn_id=turn_id,
        messages=messages,
        alternatives=tuple(
            (*messages[first:place], *other)
            for place, each in enumerate(group)
            if place >= first
            for other in each.others
        ),
    )
