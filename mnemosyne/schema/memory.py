"""Values of cold memory: entries of the lore, narrative, event and history chains, for recall."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

EMPTY: Mapping[str, Any] = MappingProxyType({})


MACRO = "macro"
"""Kind of a narrative over more than one turn; its `depth` is the last turn's."""

QUEST_UPDATE = "quest_update"
"""Kind of an event that changed the status of a quest."""


THREAD = "thread"
"""Kind of an event that left a promise, a debt or a question open (its tag). Its keys are the names and dates in it."""


DOCUMENT = "document"
"""Kind of a lore entry that is a passage of a document in a session's evidence. `metadata` has the id of that evidence
(`document_id`), and the selector of the passage in it (`section_id`).
"""

VIEWERS = "viewers"
"""Field of a message, a summary or a memory with the viewers who may know it; without it everyone may."""
NOBODY = ("\x00nobody",)
"""Viewers of a memory that no viewer may know."""


TAKES_FROM_RECALL = "takes_from_recall"
"""Key in the metadata of an evidence item: ids of entries that recall leaves out because this item replaces them or
they are pinned. In the metadata of an entry: one such id; nobody may know such an entry itself.
"""

UNDONE_AT = "undone_at"
"""Key in the metadata of an evidence item: time when it was undone (ISO 8601). It then has no passages and hides no
entry.
"""

COPIED_FROM = "copied_from"
"""Key in the metadata of a memory, and in `extra` of a block, that was copied from another session: its sources, the
first one first, each with `session_id`, `memory_id`, `turn_id` and `depth`.
"""

CONTINUED_IN = "continued_in"
"""Key in the metadata of an evidence item: the session that copied the memories of this one."""

PROPOSED = "proposed"
"""Key in the metadata of an evidence item: a model's proposal of a memory, until a person decides. It is not recalled
or shown.
"""

DOCUMENT_ID, SECTION_ID = "document_id", "section_id"


class Chain(StrEnum):
    """The six chains; recall reads lore, narrative, event and history."""

    STATE = "state"
    HISTORY = "history"
    PLANNER = "planner"
    EVENT = "event"
    NARRATIVE = "narrative"
    LORE = "lore"


class LoreCategory(StrEnum):
    """Way of a lore entry into the prompt: always (axiom), by recall (agent, encyclopedia), at the input
    (directive).
    """

    AXIOM = "axiom"
    AGENT = "agent"
    ENCYCLOPEDIA = "encyclopedia"
    DIRECTIVE = "directive"


class Trust(StrEnum):
    """Origin of a text, which decides how far a reader may trust it; every text is escaped, whatever its label."""

    AUTHORED = "authored"
    USER = "user"
    TOOL = "tool"
    MODEL = "model"
    WEB = "web"


class Comparison(StrEnum):
    """Operators of a story condition or an action guard."""

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
    """A typed test on the state: no code. `path` is a flat path (`hero.health`) as in ops; a missing path is false."""

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
    """Kind within the chain: a lore category, `turn_summary` or `macro`, an event type, `quest`, or `message`."""
    text: str
    title: str = ""
    speaker: str | None = None
    at: datetime | None = None
    turn_id: str | None = None
    branch_id: str | None = None
    """Place in the turn tree, with `depth` (None for lore)."""
    depth: int | None = None
    entities: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    quest_id: str | None = None
    priority: int = 50
    viewers: tuple[str, ...] = ()
    """Viewers who may know it (empty: everyone)."""
    when: tuple[Condition, ...] = ()
    """Conditions that must hold on the state, otherwise the entry is not recalled."""
    trust: Trust = Trust.AUTHORED
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def read_audience(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the viewers who may know a message, a summary or a memory, by its further fields; empty means everyone."""
    told = extra.get(VIEWERS)
    return tuple(each for each in told if isinstance(each, str)) if isinstance(told, list | tuple) else ()


def copied_from(extra: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the sources of a memory that came from another session, by its further fields; none for any other."""
    told = extra.get(COPIED_FROM)
    return tuple(each for each in told if isinstance(each, Mapping)) if isinstance(told, list | tuple) else ()


def document_of(entry: MemoryEntry) -> str | None:
    """Return the id of the evidence that an entry is a passage of; None for any other entry."""
    name = entry.metadata.get(DOCUMENT_ID) if entry.kind == DOCUMENT else None
    return name if isinstance(name, str) and name else None


def world_scope(world_id: str) -> str:
    """Return the scope of a world's lore."""
    return f"world:{world_id}"


def session_scope(session_id: str) -> str:
    """Return the scope of a session's entries."""
    return f"session:{session_id}"


class FactKind(StrEnum):
    """Kind of a fact about a user: the types of system and developer blocks of a context package."""

    CORE_PROFILE = "core_profile"
    PREFERENCES = "preferences"
    GOALS = "goals"
    POLICIES = "policies"
    TOOLING_RULES = "tooling_rules"
    FORMAT_RULES = "format_rules"
    SAFETY_RULES = "safety_rules"


@dataclass(frozen=True, kw_only=True, slots=True)
class UserFact:
    """A fact about a user, in all of their sessions. Times are aware.

    Facts of one kind and `topic` exclude each other: a later one ends the earlier one, which is kept. The store sets
    `fact_id`, `recorded_at` and `superseded_by`.
    """

    text: str
    kind: FactKind = FactKind.CORE_PROFILE
    topic: str = ""
    """Topic of which only one fact holds at a time; empty: the fact ends no other one."""
    valid_from: datetime | None = None
    """Begin (None: when it was recorded)."""
    valid_to: datetime | None = None
    """End, exclusive (None: until another fact replaces it)."""
    trust: Trust = Trust.USER
    source: str = ""
    """Session or turn in which it was found."""
    fact_id: str = ""
    recorded_at: datetime | None = None
    superseded_by: str = ""
    """Id of the fact that ended this one."""
    redacted: tuple[str, ...] = ()
    """Names of the rules by which secrets were removed from the text."""


_PROFILE = "user-profile-"


def profile_session_id(user_id: str) -> str:
    """Return the id of the session that has the facts about a user; it does not name the user."""
    return f"{_PROFILE}{hashlib.sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def world_session_id(world_id: str) -> str:
    """Return the id of the session with the proposals of models for the lore of a world."""
    return profile_session_id(f"\0world {world_id}")


def is_profile_session(session_id: str) -> bool:
    """Return whether a session has facts about a user, or proposals for a world, and no conversation."""
    return session_id.startswith(_PROFILE) and len(session_id) == len(_PROFILE) + 32


_OVERLAY = "overlay-"


def overlay_scope(scope: str, token: str) -> str:
    """Return the name under which an index keeps a scope of an overlay, only in memory; no scope of a store has such a
    name.
    """
    return f"{_OVERLAY}{token}:{scope}"


def is_overlay(scope: str) -> bool:
    """Return whether a name is one of `overlay_scope`."""
    return scope.startswith(_OVERLAY)


def staged_scope(scope: str) -> str:
    """Return the name under which an index keeps the replacement of a scope; no scope of a store has such a name."""
    return f"next:{scope}"
