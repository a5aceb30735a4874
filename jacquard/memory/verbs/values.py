"""Values of the memory verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import Trust, copied_from


class MemoryAction(StrEnum):
    """Action of an edit."""

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
    """Source of a memory in another session; `depth` is the number of the turn."""

    session_id: str
    memory_id: str
    turn_id: str | None = None
    depth: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory of a session: a text remembered by hand, or any entry that recall may find."""

    memory_id: str
    """Name for all verbs."""
    kind: str
    """`remembered`, `document`, or the kind of the entry (`turn_summary`, `message`, a category of lore …)."""
    text: str
    title: str = ""
    entry_ids: tuple[str, ...] = ()
    """Its entries."""
    viewers: tuple[str, ...] = ()
    """Viewers who may know it (empty: everyone)."""
    trust: Trust = Trust.USER
    sensitivity: str = ""
    sources: tuple[MemorySource, ...] = ()
    """Sources in other sessions, the first one first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEdit:
    """One edit in the log of a session. Times are aware."""

    edit_id: str
    """Id of the edit, and of the memory that an EDIT, or a SUPERSEDE with a text, makes; '' if nothing was stored (`dry_run`).
    """
    action: MemoryAction
    """A PROPOSE changes nothing until it is accepted."""
    memory_id: str
    """Edited memory. REMEMBER: `edit_id`; CONTINUE: the session that took memories; ACCEPT and REJECT: the proposal."""
    author: str
    at: datetime | None
    before: str = ""
    """Text before, '' if there was none."""
    after: str = ""
    """Text after, '' if there is none."""
    title: str = ""
    undone_at: str = ""
    undone_by: str = ""
    redacted: tuple[str, ...] = ()
    """Rules by which secrets were removed."""
    turn_id: str = ""
    """Turn that a proposal is about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMemory:
    """Memory that a search found, and the reasons."""

    memory_id: str
    kind: str
    text: str
    title: str = ""
    turn_id: str | None = None
    score: float = 0.0
    """Higher is better; comparable within one search."""
    signals: Mapping[str, float] = field(default_factory=dict)
    """Score of each arm."""
    words: tuple[str, ...] = ()
    """Words of the search that occur in it."""
    trust: Trust = Trust.AUTHORED
    pinned: bool = False
    """True if it is in every prompt, while it fits."""
    sources: tuple[MemorySource, ...] = ()
    """Sources in other sessions, the first one first."""


def sources_of(extra: Mapping[str, Any]) -> tuple[MemorySource, ...]:
    """Return the sources of a memory that came from another session, from its further fields."""
    return tuple(
        MemorySource(
            session_id=str(each.get("session_id", "")),
            memory_id=str(each.get("memory_id", "")),
            turn_id=each.get("turn_id"),
            depth=each.get("depth"),
        )
        for each in copied_from(extra)
    )
