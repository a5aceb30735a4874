"""Values of cold memory: what the lore, narrative, event and history chains hold for recall."""

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
"""The kind of a narrative over more than one turn; its `depth` is that of the last turn."""

QUEST_UPDATE = "quest_update"
"""The kind of an event that changed the status of a quest."""


THREAD = "thread"
"""The kind of an event that left a promise, a debt or a question open (its tag). Its keys are the names and dates in it."""


DOCUMENT = "document"
"""The kind of a lore entry that is a passage of a document in a session's evidence. `metadata` has the id of that evidence
(`document_id`), and the selector of the passage in it (`section_id`)."""

VIEWERS = "viewers"
"""The field of a message, a summary or a memory with the viewers that it is kept for; without it everyone may know it."""
NOBODY = ("\x00nobody",)
"""The viewers of what no viewer may know."""


TAKES_FROM_RECALL = "takes_from_recall"
"""In the metadata of an evidence item: ids of entries that recall leaves out because of it, as its text takes their place or they
are pinned. In the metadata of an entry: one such id; nobody may know such an entry itself."""

UNDONE_AT = "undone_at"
"""In the metadata of an evidence item: when it was undone (ISO 8601). It has then no passages, and takes nothing from recall."""

COPIED_FROM = "copied_from"
"""In the metadata of a memory, and in `extra` of a block, that came with another session's memories: its sources, the first one
first, each with `session_id`, `memory_id`, `turn_id` and `depth`."""

CONTINUED_IN = "continued_in"
"""In the metadata of an evidence item: the session that took memories of this one along."""

PROPOSED = "proposed"
"""In the metadata of an evidence item: what a model would remember, until a person decides. Nothing recalls or shows it."""

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
    """How a lore entry reaches the prompt: always (axiom), by recall (agent, encyclopedia), at the input (directive)."""

    AXIOM = "axiom"
    AGENT = "agent"
    ENCYCLOPEDIA = "encyclopedia"
    DIRECTIVE = "directive"


class Trust(StrEnum):
    """The origin of a text. It says how far a reader may trust the text; every text is escaped, whatever its label."""

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
    """One entry of memory.

    `scope` is `world:<id>` for lore and `session:<id>` for entries of a session. `kind` refines the chain: a lore
    category, `turn_summary` or `macro`, an event type, `quest`, or `message`. `branch_id` and `depth` place session
    entries in the turn tree (None for lore). Empty `viewers` mean that everyone may know it. The conditions `when` must
    hold on the state, otherwise the entry is not recalled.
    """

    entry_id: str
    scope: str
    chain: Chain
    kind: str
    text: str
    title: str = ""
    speaker: str | None = None
    at: datetime | None = None
    turn_id: str | None = None
    branch_id: str | None = None
    depth: int | None = None
    entities: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    quest_id: str | None = None
    priority: int = 50
    viewers: tuple[str, ...] = ()
    when: tuple[Condition, ...] = ()
    trust: Trust = Trust.AUTHORED
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


def read_audience(extra: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the viewers that a message, a summary or a memory is kept for, by its further fields; empty means everyone."""
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
    """What a fact about a user is: the types of system and developer blocks of a context package."""

    CORE_PROFILE = "core_profile"
    PREFERENCES = "preferences"
    GOALS = "goals"
    POLICIES = "policies"
    TOOLING_RULES = "tooling_rules"
    FORMAT_RULES = "format_rules"
    SAFETY_RULES = "safety_rules"


@dataclass(frozen=True, kw_only=True, slots=True)
class UserFact:
    """A fact about a user, in all of their sessions.

    It holds from `valid_from` (None: from when it was recorded) up to, not including, `valid_to` (None: until another replaces
    it). Facts of one kind and `topic` exclude each other: a later one ends the earlier one, which is kept and names it in
    `superseded_by`; a fact without a topic stands by itself. `source` says where it is known from (a session, a turn).
    `fact_id`, `recorded_at` and `superseded_by` are set by the store, and `redacted` names the rules by which secrets were removed
    from the text. Times are aware.
    """

    text: str
    kind: FactKind = FactKind.CORE_PROFILE
    topic: str = ""
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    trust: Trust = Trust.USER
    source: str = ""
    fact_id: str = ""
    recorded_at: datetime | None = None
    superseded_by: str = ""
    redacted: tuple[str, ...] = ()


_PROFILE = "user-profile-"


def profile_session_id(user_id: str) -> str:
    """Return the id of the session that holds the facts about a user; it does not name the user."""
    return f"{_PROFILE}{hashlib.sha256(user_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def world_session_id(world_id: str) -> str:
    """Return the id of the session that holds what models proposed for the lore of a world."""
    return profile_session_id(f"\0world {world_id}")


def is_profile_session(session_id: str) -> bool:
    """Return whether a session holds facts about a user, or proposals for a world, and no conversation."""
    return session_id.startswith(_PROFILE) and len(session_id) == len(_PROFILE) + 32


_OVERLAY = "overlay-"


def overlay_scope(scope: str, token: str) -> str:
    """Return the name under which an index keeps a scope of an overlay, in memory alone; no scope of a store has such a name."""
    return f"{_OVERLAY}{token}:{scope}"


def is_overlay(scope: str) -> bool:
    """Return whether a name is one of `overlay_scope`."""
    return scope.startswith(_OVERLAY)


def staged_scope(scope: str) -> str:
    """Return the name under which an index keeps what is to replace a scope; no scope of a store has such a name."""
    return f"next:{scope}"
