"""Log of edits: each edit is an evidence item of its session, so every store, copy, check and erasure covers it.

The item of an edit also has its effect: its content, if any, is recalled by passages like any document, and its metadata name
the entries that recall leaves out because of it. Nothing is overwritten, so an edit is undone by marking its item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jacquard.memory.verbs.values import MemoryAction, MemoryEdit
from mnemosyne.core.errors import SessionNotFoundError
from mnemosyne.evidence.redactions import redaction_of
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import UNDONE_AT
from mnemosyne.schema.query import EvidenceFilter

ACTION = "memory_action"
TARGET = "memory_id"
AUTHOR = "memory_author"
BEFORE = "memory_before"
AFTER = "memory_after"
"""Text after an edit whose item has no content, because it must not be recalled."""
UNDONE_BY = "undone_by"
IS_EDIT = "memory_edit"
EDIT_TAG: Mapping[str, str] = {IS_EDIT: "yes"}
"""Tag by which the store finds edits."""


async def read_log(store: Store, session_id: str) -> tuple[MemoryEdit, ...]:
    """Return all edits of a session, oldest first; raises SessionNotFoundError."""
    return tuple(edit for each in await load_edits(store, session_id) if (edit := edit_of(each)) is not None)


async def load_edits(store: Store, session_id: str, memory_id: str | None = None) -> tuple[Evidence, ...]:
    """Return the items of all edits of a session, or of one memory, oldest first; raises SessionNotFoundError."""
    tags = dict(EDIT_TAG) if memory_id is None else {**EDIT_TAG, TARGET: memory_id}
    found = await store.list_evidences(session_id, EvidenceFilter(tags=tags))
    if not found:
        await store.head(session_id)
    return found


async def load_edit(store: Store, session_id: str, edit_id: str) -> Evidence | None:
    """Return the item of an edit; None for an unknown id."""
    try:
        found = await store.get_evidence(session_id, edit_id)
    except SessionNotFoundError:
        return None
    return found if found is not None and ACTION in found.metadata else None


def edit_of(evidence: Evidence) -> MemoryEdit | None:
    """Return the edit of an item; None if it is not an edit, or is one of a newer release."""
    told: Mapping[str, Any] = evidence.metadata
    try:
        action = MemoryAction(str(told.get(ACTION)))
    except ValueError:
        return None
    redaction = redaction_of(evidence)
    return MemoryEdit(
        edit_id=evidence.evidence_id,
        action=action,
        memory_id=str(told.get(TARGET) or evidence.evidence_id),
        author=str(told.get(AUTHOR, "")),
        at=evidence.created_at,
        before=str(told.get(BEFORE, "")),
        after=evidence.content or str(told.get(AFTER, "")),
        title=evidence.source.name,
        undone_at=str(told.get(UNDONE_AT, "")),
        undone_by=str(told.get(UNDONE_BY, "")),
        redacted=() if redaction is None else redaction.rules_applied,
    )


def is_undone(evidence: Evidence) -> bool:
    """Return whether an edit was undone."""
    return UNDONE_AT in evidence.metadata
