"""Defines the values of the memory verbs: a memory, an edit of memory, a search result, and their sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import Trust, copied_from
from mnemosyne.values import dataclass


class MemoryAction(StrEnum):
    """Kind of an edit of memory."""

    REMEMBER = "remember"
    EDIT = "edit"
    SUPERSEDE = "supersede"
    PIN = "pin"
    UNPIN = "unpin"
    CONTINUE = "continue"
    PROPOSE = "propose"
    ACCEPT = "accept"
    REJECT = "reject"


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySource:
    """Source of a memory in another session. `depth` is the number of the turn."""

    session_id: str
    memory_id: str
    turn_id: str | None = None
    depth: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory of a session: a text remembered by hand, a document, or any entry that recall may find."""

    memory_id: str
    """Id by which all memory verbs name the memory."""
    kind: str
    """`remembered`, `document`, or the kind of the entry (`turn_summary`, `message`, a category of lore …)."""
    text: str
    title: str = ""
    entry_ids: tuple[str, ...] = ()
    """Ids of the entries that recall finds for this memory."""
    viewers: tuple[str, ...] = ()
    """Viewers who may know the memory (empty: everyone)."""
    trust: Trust = Trust.USER
    sensitivity: str = ""
    sources: tuple[MemorySource, ...] = ()
    """Memories of other sessions from which this memory was copied, the original first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEdit:
    """One edit in the log of a session. Its times have a time zone."""

    edit_id: str
    """Id of the edit; '' if nothing was stored (`dry_run`).

    An EDIT, or a SUPERSEDE with a text, makes a new memory that has this id too.
    """
    action: MemoryAction
    """Kind of the edit. A PROPOSE changes nothing until it is accepted."""
    memory_id: str
    """Id of the edited memory.

    REMEMBER: the same as `edit_id`. CONTINUE: the session that copied memories. ACCEPT and REJECT: the proposal.
    """
    author: str
    at: datetime | None
    before: str = ""
    """Text before the edit, '' if there was none."""
    after: str = ""
    """Text after the edit, '' if there is none."""
    title: str = ""
    undone_at: str = ""
    undone_by: str = ""
    redacted: tuple[str, ...] = ()
    """Rules by which secrets in the text were masked."""
    turn_id: str = ""
    """Turn that a proposal is about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMemory:
    """Memory that a search found, with the reasons."""

    memory_id: str
    kind: str
    text: str
    title: str = ""
    turn_id: str | None = None
    score: float = 0.0
    """Higher is better. Scores are comparable only within one search."""
    signals: Mapping[str, float] = field(default_factory=dict)
    """Score of each way of searching (by words, by vectors)."""
    words: tuple[str, ...] = ()
    """Words of the search that occur in the memory."""
    trust: Trust = Trust.AUTHORED
    pinned: bool = False
    """True if the memory is shown in every prompt while it fits."""
    sources: tuple[MemorySource, ...] = ()
    """Memories of other sessions from which this memory was copied, the original first."""


def sources_of(extra: Mapping[str, Any]) -> tuple[MemorySource, ...]:
    """Return the sources of a memory that was copied from another session. `extra` contains the metadata of the
    memory's entry or evidence.
    """
    return tuple(
        MemorySource(
            session_id=str(each.get("session_id", "")),
            memory_id=str(each.get("memory_id", "")),
            turn_id=each.get("turn_id"),
            depth=each.get("depth"),
        )
        for each in copied_from(extra)
    )
