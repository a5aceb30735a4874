"""Values of the memory verbs. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from mnemosyne.schema.memory import Trust


class MemoryAction(StrEnum):
    """What an edit did."""

    REMEMBER = "remember"
    EDIT = "edit"
    SUPERSEDE = "supersede"
    PIN = "pin"
    UNPIN = "unpin"


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A memory of a session: something that was remembered by hand, or any entry that recall may find.

    `memory_id` is the name for all verbs. `kind` is `remembered`, `document`, or the kind of the entry (`turn_summary`, `message`,
    a category of lore …). `entry_ids` are its entries. `viewers` may know it (empty: everyone).
    """

    memory_id: str
    kind: str
    text: str
    title: str = ""
    entry_ids: tuple[str, ...] = ()
    viewers: tuple[str, ...] = ()
    trust: Trust = Trust.USER
    sensitivity: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEdit:
    """One edit in the log of a session. `memory_id` is the memory that it was made on; of REMEMBER it is `edit_id`.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundMemory:
    """A memory that a search found, and why: `score` (higher is better, comparable within one search), what each arm gave, and
    the words of the search that occur in it. One that is `pinned` is in every prompt, while it fits.
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
