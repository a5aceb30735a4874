"""Defines memory entries (texts that recall can find), the conditions and labels on them, and facts about users.

A scope is the world or the session that entries belong to. The constants at the top name kinds of entries, and keys in the
metadata of entries and evidence items.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from mnemosyne.values import dataclass

EMPTY: Mapping[str, Any] = MappingProxyType({})


MACRO = "macro"
"""Kind of a narrative that covers more than one turn. Its `depth` is the depth of the last of these turns."""

QUEST_UPDATE = "quest_update"
"""Kind of an event that changed the status of a quest."""


THREAD = "thread"
"""Kind of an event that left something open: a promise, a debt or a question, as its tag states. Its `keys` are the names and
dates in its text.
"""


DOCUMENT = "document"
"""Kind of a lore entry that is a passage of a document. The document is an evidence item of a session. `metadata` has the id of the
evidence item (`document_id`) and the selector of the passage in the document (`section_id`).
"""

VIEWERS = "viewers"
"""Name of the field in which a message, a summary or a memory lists the viewers who may know it. Without it, everyone may."""
NOBODY = ("\x00nobody",)
"""Value of `viewers` for a memory that no viewer may know."""


TAKES_FROM_RECALL = "takes_from_recall"
"""Key in the metadata of an evidence item. Its value lists the ids of the entries that recall leaves out, because the item
replaces or pins them. In the metadata of an entry, the key has one such id, and nobody may know this entry itself.
"""

UNDONE_AT = "undone_at"
"""Key in the metadata of an evidence item: the time (ISO 8601) when the item was undone. An undone item has no passages for recall
and hides no entries.
"""

COPIED_FROM = "copied_from"
"""Key in the metadata of a memory, and in `extra` of a block, that was copied from another session. Its value lists the sources,
first the original. Each source has `session_id`, `memory_id`, `turn_id` and `depth`.
"""

CONTINUED_IN = "continued_in"
"""Key in the metadata of an evidence item: the id of the session that copied the memories of the item's session."""

PROPOSED = "proposed"
"""Key in the metadata of an evidence item that is a model's proposal of a memory. Until a person decides, the item is neither
recalled nor shown.
"""

SUBJECT, ATTRIBUTE, VALUE = "subject", "attribute", "value"
"""Keys in the metadata of a memory that states a fact: of the subject, the attribute has the value."""

FACT_ENDED = "fact_ended"
"""Kind of an event that ends a fact. Recall then leaves out the fact."""

SUPERSEDED_BY = "superseded_by"
"""Key in the metadata of an event that ends a fact: the id of the memory with the fact that is valid instead."""

OF_TURN = "of_turn"
"""Key in the metadata of an event that ends a fact: the id of the turn that stated the fact."""

STATE_VALUE = "state_value"
"""Kind of a fact that is a value of the state."""

DOCUMENT_ID, SECTION_ID = "document_id", "section_id"


class Chain(StrEnum):
    """Kind of stored data of a session or a world. Recall reads only lore, narrative, event and history."""

    STATE = "state"
    HISTORY = "history"
    PLANNER = "planner"
    EVENT = "event"
    NARRATIVE = "narrative"
    LORE = "lore"


class LoreCategory(StrEnum):
    """Category of a lore entry, which decides how the entry gets into a prompt.

    An axiom is in every prompt. Entries of `agent` and `encyclopedia` are recalled by relevance. A directive is shown next to the
    input.
    """

    AXIOM = "axiom"
    AGENT = "agent"
    ENCYCLOPEDIA = "encyclopedia"
    DIRECTIVE = "directive"


class Trust(StrEnum):
    """Origin of a text, which decides how far the text is trusted. Texts of every origin are escaped."""

    AUTHORED = "authored"
    USER = "user"
    TOOL = "tool"
    MODEL = "model"
    WEB = "web"


class Comparison(StrEnum):
    """Operators of conditions on the state."""

    EQ = "=="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="
    IN = "in"
    CONTAINS = "contains"


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """A test of one value in the state, without any code. `path` is a flat path such as `hero.health`.

    If the state has no value at the path, the condition is false.
    """

    path: str
    op: Comparison
    value: Any
    message: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEntry:
    """One entry of memory."""

    entry_id: str
    scope: str
    """`world:<id>` for lore, `session:<id>` for entries of a session."""
    chain: Chain
    kind: str
    """Kind of entry within its chain: a lore category, `turn_summary` or `macro`, an event type, `quest`, or `message`."""
    text: str
    title: str = ""
    speaker: str | None = None
    at: datetime | None = None
    turn_id: str | None = None
    branch_id: str | None = None
    """Branch of the entry's turn (None for lore)."""
    depth: int | None = None
    """Depth of the entry's turn in the turn tree (None for lore)."""
    entities: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    quest_id: str | None = None
    priority: int = 50
    viewers: tuple[str, ...] = ()
    """Viewers who may know the entry (empty: everyone)."""
    when: tuple[Condition, ...] = ()
    """Conditions on the state. The entry is recalled only if all of them are true."""
    trust: Trust = Trust.AUTHORED
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def read_audience(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the viewers who may know a message, a summary or a memory (empty: everyone). `extra` has its further fields."""
    told = extra.get(VIEWERS)
    return tuple(each for each in told if isinstance(each, str)) if isinstance(told, list | tuple) else ()


def copied_from(extra: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the sources of a memory that was copied from another session (empty: it was not copied).

    `extra` has the metadata of the memory.
    """
    told = extra.get(COPIED_FROM)
    return tuple(each for each in told if isinstance(each, Mapping)) if isinstance(told, list | tuple) else ()


def document_of(entry: MemoryEntry) -> str | None:
    """Return the id of the document (an evidence item) of which an entry is a passage, or None if it is not a passage."""
    name = entry.metadata.get(DOCUMENT_ID) if entry.kind == DOCUMENT else None
    return name if isinstance(name, str) and name else None


def world_scope(world_id: str) -> str:
    """Return the name of the scope to which the lore of a world belongs."""
    return f"world:{world_id}"


def session_scope(session_id: str) -> str:
    """Return the name of the scope to which the entries of a session belong."""
    return f"session:{session_id}"


class FactKind(StrEnum):
    """Kind of a fact about a user. A context package uses the kinds as types of its system and developer blocks."""

    CORE_PROFILE = "core_profile"
    PREFERENCES = "preferences"
    GOALS = "goals"
    POLICIES = "policies"
    TOOLING_RULES = "tooling_rules"
    FORMAT_RULES = "format_rules"
    SAFETY_RULES = "safety_rules"


@dataclass(frozen=True, kw_only=True, slots=True)
class UserFact:
    """A fact about a user, for all sessions of the user. Its times have a time zone.

    At any time, only one fact of the same `kind` and `topic` is valid. A later fact ends the earlier one, which stays stored. The
    store sets `fact_id`, `recorded_at` and `superseded_by`.
    """

    text: str
    kind: FactKind = FactKind.CORE_PROFILE
    topic: str = ""
    """Topic of the fact. If it is empty, the fact does not end another fact."""
    valid_from: datetime | None = None
    """Time from which the fact is valid (None: from the time when it was recorded)."""
    valid_to: datetime | None = None
    """Time from which the fact is no longer valid (None: it is valid until another fact ends it)."""
    trust: Trust = Trust.USER
    source: str = ""
    """Session or turn in which the fact was found."""
    fact_id: str = ""
    recorded_at: datetime | None = None
    superseded_by: str = ""
    """Id of the fact that ended this one."""
    redacted: tuple[str, ...] = ()
    """Names of the rules by which secrets were removed from the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryFact:
    """A fact of a story on one branch: an attribute of a subject has a value from one turn to another.

    It is a value of the state, or a memory that consolidation made of turns.
    """

    fact_id: str
    """Id of the memory; for a value of the state, a name that is unique on the branch."""
    kind: str
    """`state_value`, or the kind of the memory (`found`, `travelled` …)."""
    subject: str
    attribute: str
    value: str
    text: str
    """Sentence of the memory; for a value of the state, its path with the value."""
    valid_from: int
    """Number of the turn from which the fact is valid (0: from the beginning)."""
    valid_to: int | None = None
    """Number of the turn from which it is no longer valid (None: it is valid)."""
    superseded_by: str = ""
    """Id of the fact that is valid instead ('': none)."""
    time: str = ""
    """Time of the story when the fact began, in a world that states it."""
    turn_id: str = ""
    """Turn that stated the fact ('': it was so in the beginning)."""
    at: datetime | None = None
    """Time when that turn was written."""
    trust: Trust = Trust.MODEL


_PROFILE = "user-profile-"


def profile_session_id(user_id: str) -> str:
    """Return the id of the hidden session that stores the facts about a user. The id does not reveal the user."""
    return f"{_PROFILE}{hashlib.sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def world_session_id(world_id: str) -> str:
    """Return the id of the hidden session that stores the changes that models propose for the lore of a world."""
    return profile_session_id(f"\0world {world_id}")


def is_profile_session(session_id: str) -> bool:
    """Return whether a session is a hidden one, with facts about a user or proposals for a world, and without a conversation."""
    return session_id.startswith(_PROFILE) and len(session_id) == len(_PROFILE) + 32


_OVERLAY = "overlay-"


def overlay_scope(scope: str, token: str) -> str:
    """Return the name under which an index holds the entries that an overlay adds to a scope. They are only in memory.

    `token` identifies the overlay. No scope in a store has such a name.
    """
    return f"{_OVERLAY}{token}:{scope}"


def is_overlay(scope: str) -> bool:
    """Return whether a scope name was made by `overlay_scope`."""
    return scope.startswith(_OVERLAY)


def staged_scope(scope: str) -> str:
    """Return the name under which an index builds the replacement of a scope. No scope in a store has such a name."""
    return f"next:{scope}"
