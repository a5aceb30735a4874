"""Decides which viewers may know a message or a memory. Text that was made from restricted texts is restricted too.

A model may repeat what its prompt showed. So if a prompt showed texts that only certain viewers may know, only these viewers
may know the turn, and all memories and summaries of the turn. The viewers are stored in a field of the message, the summary
and the memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mnemosyne.chains.asides import drop_asides
from mnemosyne.schema.memory import NOBODY as NOBODY
from mnemosyne.schema.memory import VIEWERS as VIEWERS
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.memory import read_audience as read_audience
from mnemosyne.schema.session import Message

Audience = tuple[str, ...]
"""Viewers who may know a text, in alphabetical order. An empty tuple means everyone."""


def audience_of_entry(entry: MemoryEntry) -> Audience:
    """Return the viewers who may know `entry`. Both its author and the turns from which it was made must allow them."""
    if VIEWERS not in entry.metadata and not entry.viewers:
        return ()
    return join_audiences((entry.viewers, read_audience(entry.metadata)))


def audience_of_messages(messages: Iterable[Message]) -> Audience:
    """Return the viewers who may know all of `messages`."""
    return join_audiences([read_audience(message.extra) for message in messages if VIEWERS in message.extra])


def told_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of a turn from which memories may be made.

    Messages that nobody may know and remarks outside of the story are left out.
    """
    return drop_asides([message for message in messages if read_audience(message.extra) != NOBODY])


def join_audiences(audiences: Iterable[Audience]) -> Audience:
    """Return the viewers who are in all of `audiences`. Return NOBODY if no viewer is in all of them."""
    joined: set[str] | None = None
    for audience in audiences:
        if audience:
            joined = set(audience) if joined is None else joined & set(audience)
    if joined is None:
        return ()
    return tuple(sorted(joined)) or NOBODY


def may_read(audience: Audience, viewer: str | None) -> bool:
    """Return whether `viewer` is in `audience`."""
    return not audience or viewer in audience


def audience_field(audience: Audience) -> dict[str, Any]:
    """Return the field that stores `audience`, or an empty dict if everyone may know the text."""
    return {VIEWERS: list(audience)} if audience else {}
