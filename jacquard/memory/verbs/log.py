"""Reads the log of memory edits. Each edit is an evidence item (a stored text) of its session, so stores, copies,
checks and erasures cover the log.

The item also carries out the edit. If the item has a content, recall finds passages of it as it finds passages of a
document. The metadata of the item name the entries that recall leaves out because of the edit. Nothing is overwritten,
so an edit is undone by marking its item.
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
"""Field with the text after an edit. It is used instead of the content if the text must not be recalled."""
UNDONE_BY = "undone_by"
IS_EDIT = "memory_edit"
EDIT_TAG: Mapping[str, str] = {IS_EDIT: "yes"}
"""Metadata by which the store finds the items of edits."""


async def read_log(store: Store, session_id: str) -> tuple[MemoryEdit, ...]:
    """Return all edits of a session, oldest first. Raises SessionNotFoundError if the session does not exist."""
    return tuple(edit for each in await load_edits(store, session_id) if (edit := edit_of(each)) is not None)


async def load_edits(store: Store, session_id: str, memory_id: str | None = None) -> tuple[Evidence, ...]:
    """Return the items of all edits of a session, oldest first. If `memory_id` is given, return only the edits of this
    memory.

    Raises SessionNotFoundError if the session does not exist.
    """
    tags = dict(EDIT_TAG) if memory_id is None else {**EDIT_TAG, TARGET: memory_id}
    found = await store.list_evidences(session_id, EvidenceFilter(tags=tags))
    if not found:
        await store.head(session_id)
    return found


async def load_pin(store: Store, session_id: str, memory_id: str) -> Evidence | None:
    """Return the item of the edit that pins a memory now, or None if the memory is not pinned. Raises SessionNotFoundError."""
    found = await load_edits(store, session_id, memory_id)
    pins = [each for each in found if each.metadata.get(ACTION) == MemoryAction.PIN.value and not is_undone(each)]
    return pins[-1] if pins else None


async def load_edit(store: Store, session_id: str, edit_id: str) -> Evidence | None:
    """Return the item of the edit `edit_id`. Return None if the session or the id is unknown, or if the item is not an
    edit.
    """
    try:
        found = await store.get_evidence(session_id, edit_id)
    except SessionNotFoundError:
        return None
    return found if found is not None and ACTION in found.metadata else None


def edit_of(evidence: Evidence) -> MemoryEdit | None:
    """Return the edit that the item `evidence` states. Return None if the item is not an edit, or has an action that
    this release does not know.
    """
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
    """Return whether the edit whose item is `evidence` was undone."""
    return UNDONE_AT in evidence.metadata
