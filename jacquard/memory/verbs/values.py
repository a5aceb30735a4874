"""Values of the memory verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from mnemosyne.schema.memory import Trust, copied_from


class MemoryAction(StrEnum):
    """What an edit did."""

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
    """The place in another session that a memory comes from; `depth` is the number of the turn."""

    session_id: str
    memory_id: str
    turn_id: str | None = None
    depth: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A memory of a session: something that was remembered by hand, or any entry that recall may find.

    `memory_id` is the name for all verbs. `kind` is `remembered`, `document`, or the kind of the entry (`turn_summary`, `message`,
    a category of lore …). `entry_ids` are its entries. `viewers` may know it (empty: everyone). `sources`: those of a memory that
    came from other sessions, the first one first.
    """

    memory_id: str
    kind: str
    text: str
    title: str = ""
    entry_ids: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    trust: Trust = Trust.USER
    sensitivity: str = ""
    sources: tuple[MemorySource, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEdit:
    """One edit in the log of a session. `memory_id` is the memory that it was made on; of REMEMBER it is `edit_id`, of CONTINUE the
    session that took memories along, of ACCEPT and REJECT the proposal. A PROPOSE changes nothing until it is accepted; `turn_id`
    is the turn that it tells of.

    An EDIT, and a SUPERSEDE with a text, make a memory whose id is `edit_id`, which is empty if nothing was stored (`dry_run`).
    `before` and `after` are its texts, empty where there is none. `redacted` names the rules by which secrets were removed.
    Times are aware.
    """

    edit_id: str
    action: MemoryAction
    memory_id: str
    author: str
    at: datetime | None
    before: str = ""
    after: str = ""
    title: str = ""
    undone_at: str = ""
    undone_by: str = ""
    redacted: tuple[str, ...] = ()
    turn_id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMemory:
    """A memory that a search found, and why: `score` (higher is better, comparable within one search), what each arm gave, and
    the words of the search that occur in it. One that is `pinned` is in every prompt, while it fits. `sources`: as of `Memory`.
    """

    memory_id: str
    kind: str
    text: str
    title: str = ""
    turn_id: str | None = None
    score: float = 0.0
    signals: Mapping[str, float] = field(default_factory=dict)
    words: tuple[str, ...] = ()
    trust: Trust = Trust.AUTHORED
    pinned: bool = False
    sources: tuple[MemorySource, ...] = ()


def sources_of(extra: Mapping[str, Any]) -> tuple[MemorySource, ...]:
    """Return the sources of a memory that came from another session, by its further fields."""
    return tuple(
        MemorySource(
            session_id=str(each.get("session_id", "")),
            memory_id=str(each.get("memory_id", "")),
            turn_id=each.get("turn_id"),
            depth=each.get("depth"),
        )
        for each in copied_from(extra)
    )
