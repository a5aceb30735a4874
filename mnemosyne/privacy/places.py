"""Lists how an erasure treats each stored value, field by field. Both the scrubbing and the proof use this list.

To scrub means to cut the erased texts out. The list is made from the types themselves: a field that can contain text
is scrubbed, unless this module names it as an id. A kind of value that is not in CONTENTS cannot be stored in a table
of texts, because the stores look each kind up by its name. So a new field is scrubbed as soon as it exists.
`jacquard.wiring.erasure_places` prints the whole list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum, StrEnum
from functools import lru_cache
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from mnemosyne.schema.document import (
    AgentInfo,
    Meta,
    ModelUsage,
    Session,
    SessionDocument,
    Summary,
    Task,
    ToolCall,
)
from mnemosyne.schema.erasure import AuditRecord
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceLinks
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import PathSummary, Prefetch
from mnemosyne.schema.session import Message, Ref
from mnemosyne.values import dataclass


class Treatment(StrEnum):
    """Treatment of a stored value by an erasure."""

    SCRUBBED = "the erased texts are cut out of it"
    WORDS = "words taken from the erased texts are removed"
    REFS = "references to erased evidence are removed"
    PARTS = "its fields are treated one by one"
    KEPT = "kept: an id, a hash, a number, a time or one of a few fixed words"
    AUTHORED = "kept: it is the author's"
    WHOLE = "removed whole"
    REBUILT = "removed, and built again from what is left"
    CLEARED = "emptied"
    OPENED = "opened first; its rows are then treated as those of any session"


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """One kind of value that a store keeps as JSON."""

    name: str
    counted: str
    """Name under which the result of an erasure counts values of this kind."""
    kind: type[Any] | None = None
    """Type of the value, or None for a JSON tree."""
    is_derived: bool = True
    """True if the value was made from the conversation. Even short erased texts are then cut out of it. False if the value
    contains words of others or a part of the story. A short text in it then counts as the author's own and stays.
    """
    is_dropped: bool = False
    """Whether an erasure removes the whole value."""
    word_keys: frozenset[str] = frozenset()
    """Keys of the tree below which there are words taken from a message."""


WORD_KEYS = frozenset({"entities", "focus_keywords", "keywords", "queries", "rationale", "reasons"})
"""Keys in plans, receipts and prefetched selections below which there are words taken from the user's message."""

CONTENTS: Mapping[str, Content] = {
    each.name: each
    for each in (
        Content(name="message", counted="messages", kind=Message, is_derived=False),
        Content(name="draft", counted="drafts", kind=Message, is_derived=False),
        Content(name="evidence", counted="evidences", kind=Evidence, is_derived=False),
        Content(name="entry", counted="entries", kind=MemoryEntry),
        Content(name="block", counted="blocks", kind=ContextBlock),
        Content(name="task", counted="tasks", kind=Task),
        Content(name="tool_call", counted="tool_calls", kind=ToolCall),
        Content(name="model_usage", counted="model_usage", kind=ModelUsage),
        Content(name="document", counted="documents", kind=SessionDocument),
        Content(name="summary", counted="summaries", kind=Summary),
        Content(name="path_summary", counted="summaries", kind=PathSummary),
        Content(name="prefetch", counted="prefetches", kind=Prefetch),
        Content(name="chunk", counted="chunks", is_dropped=True),
        Content(name="plan", counted="plans", word_keys=WORD_KEYS),
        Content(name="receipt", counted="receipts", word_keys=WORD_KEYS),
        Content(name="prompt", counted="prompts"),
        Content(name="report", counted="reports"),
        Content(name="anchors", counted="anchors", is_derived=False),
        Content(name="ops", counted="states", is_derived=False),
        Content(name="state", counted="states", is_derived=False),
    )
}
"""All kinds of JSON values of a session, by name."""

OF_NO_SESSION: Mapping[str, tuple[Treatment, type[Any] | None]] = {
    "audit": (Treatment.KEPT, AuditRecord),
    "counts": (Treatment.KEPT, None),
    "pack": (Treatment.AUTHORED, None),
    "world": (Treatment.KEPT, None),
    "archived_heads": (Treatment.KEPT, None),
    "archived_authors": (Treatment.KEPT, None),
    "archive": (Treatment.OPENED, None),
}
"""Stored values that belong to no session, by name, with their treatment and type.

The reason in an audit record comes from the caller; the proof searches it.
"""

_IDS: Mapping[type[Any], frozenset[str]] = {
    Message: frozenset({"message_id"}),
    Ref: frozenset({"evidence_id", "hash"}),
    Evidence: frozenset({"evidence_id", "content_hash"}),
    EvidenceLinks: frozenset({"model_usage_id", "tool_call_id", "turn_id"}),
    ContextBlock: frozenset({"block_id"}),
    MemoryEntry: frozenset({"entry_id", "scope", "turn_id", "branch_id", "quest_id"}),
    Prefetch: frozenset({"turn_id", "branch_id", "focus_quest_id"}),
    PathSummary: frozenset({"turn_id", "branch_id"}),
    Session: frozenset({"session_id"}),
    AgentInfo: frozenset({"agent_id"}),
    Task: frozenset({"task_id", "depends_on"}),
    ToolCall: frozenset({"tool_call_id", "task_id"}),
    ModelUsage: frozenset({"model_usage_id", "task_id"}),
    SessionDocument: frozenset({"schema_version"}),
    Meta: frozenset({"locale"}),
}
_WORDS: Mapping[type[Any], frozenset[str]] = {
    Prefetch: frozenset({"keywords"}),
    MemoryEntry: frozenset({"entities", "keys"}),
}
_REFS = frozenset({"refs", "result_evidence_ids"})


@lru_cache(maxsize=64)
def treatments(kind: type[Any]) -> Mapping[str, Treatment]:
    """Return how an erasure treats each field of the schema type `kind`, in the order of the fields."""
    hints = get_type_hints(kind)
    return {each.name: _treatment(kind, each.name, hints[each.name]) for each in fields(kind)}


def _treatment(kind: type[Any], name: str, hint: Any) -> Treatment:
    if name in _REFS:
        return Treatment.REFS
    if name in _WORDS.get(kind, ()):
        return Treatment.WORDS
    if name in _IDS.get(kind, ()) or not _can_hold_text(hint):
        return Treatment.KEPT
    return Treatment.PARTS if any(map(is_dataclass, types_in(hint))) else Treatment.SCRUBBED


def _can_hold_text(hint: Any) -> bool:
    return any(
        not isinstance(each, type) or not issubclass(each, Enum | bool | int | float | datetime | NoneType)
        for each in types_in(hint)
    )


def types_in(hint: Any) -> tuple[Any, ...]:
    """Return the types that the type `hint` names, those inside containers included."""
    if get_origin(hint) is None:
        return (hint,)
    return tuple(each for part in get_args(hint) if part is not ... for each in types_in(part))
