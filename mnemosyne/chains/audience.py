"""Who may know what was said and remembered: what is made from guarded texts is guarded as they are. Pure.

A turn whose prompt showed texts for some viewers alone is known to those viewers alone, and so is every memory and summary that
is made of it: a model may repeat what it was shown. The viewers are kept in a field of the message, the summary and the memory.
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
"""The viewers who may know something, in alphabetical order; empty means everyone."""


def audience_of_entry(entry: MemoryEntry) -> Audience:
    """Return the viewers who may know an entry: those that its author names, and those of the turns that it is made of."""
    if VIEWERS not in entry.metadata and not entry.viewers:
        return ()
    return join_audiences((entry.viewers, read_audience(entry.metadata)))


def audience_of_messages(messages: Iterable[Message]) -> Audience:
    """Return the viewers who may know all of these messages."""
    return join_audiences(read_audience(message.extra) for message in messages)


def told_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of a turn that some viewer may know and that are not talk outside of the story; what is derived from a
    conversation is derived from these.
    """
    return drop_asides([message for message in messages if read_audience(message.extra) != NOBODY])


def join_audiences(audiences: Iterable[Audience]) -> Audience:
    """Return the viewers who may know all of several things."""
    joined: set[str] | None = None
    for audience in audiences:
        if audience:
            joined = set(audience) if joined is None else joined & set(audience)
    if joined is None:
        return ()
    return tuple(sorted(joined)) or NOBODY


def may_read(audience: Audience, viewer: str | None) -> bool:
    """Return whether a viewer may know what has this audience."""
    return not audience or viewer in audience


def audience_field(audience: Audience) -> dict[str, Any]:
    """Return the field that keeps an audience; nothing for everyone."""
    return {VIEWERS: list(audience)} if audience else {}
