"""Decides who may know messages and memories: text made from guarded texts has their guard. Pure.

If a prompt showed texts for certain viewers, only those viewers may know its turn, and every memory and summary made of
it: a model may repeat what it was shown. The viewers are kept in a field of the message, the summary and the memory.
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
"""Viewers who may know a text, in alphabetical order; empty means everyone."""


def audience_of_entry(entry: MemoryEntry) -> Audience:
    """Return the viewers who may know an entry: those named by its author, and those of the turns that it is made
    of.
    """
    if VIEWERS not in entry.metadata and not entry.viewers:
        return ()
    return join_audiences((entry.viewers, read_audience(entry.metadata)))


def audience_of_messages(messages: Iterable[Message]) -> Audience:
    """Return the viewers who may know all of these messages."""
    return join_audiences(read_audience(message.extra) for message in messages)


def told_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of a turn from which memories may be derived: some viewer may know them, and they are not
    talk outside of the story.
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
    """Return whether a viewer is in an audience."""
    return not audience or viewer in audience


def audience_field(audience: Audience) -> dict[str, Any]:
    """Return the field that keeps an audience; nothing for everyone."""
    return {VIEWERS: list(audience)} if audience else {}
