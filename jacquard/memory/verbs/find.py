"""Finds a memory of any kind (remembered text, document or entry) by its id. This module must not import a concrete
store.
"""

from __future__ import annotations

from collections.abc import Iterable

from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.memory.verbs.log import ACTION, is_undone, load_edits
from jacquard.memory.verbs.values import Memory, MemoryAction, sources_of
from mnemosyne.chains.audience import audience_of_entry, may_read
from mnemosyne.chains.turn_tree import is_on_path
from mnemosyne.evidence.documents import document_entries, is_document
from mnemosyne.protocols import Store
from mnemosyne.schema.evidence import Evidence, readers_of
from mnemosyne.schema.memory import TAKES_FROM_RECALL, MemoryEntry, document_of, session_scope, world_scope
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.session import SessionHead, TurnStatus

REMEMBERED = "remembered"
"""Kind of a memory that is a text remembered by hand."""
SENSITIVITY = "sensitivity"
"""Metadata field of a memory with its sensitivity."""
WITH_TEXT = frozenset({MemoryAction.REMEMBER.value, MemoryAction.EDIT.value, MemoryAction.SUPERSEDE.value})
"""Actions whose edit has a text and so may be a memory itself."""


def has_words(text: str, query: str) -> bool:
    """Return whether `text` contains every word of `query`. Case does not matter, and a word may be a part of a longer
    word.
    """
    lowered = text.lower()
    return all(word in lowered for word in query.lower().split())


async def find_memory(
    store: Store, session_id: str, memory_id: str, viewer: str | None, *, all_viewers: bool
) -> Memory:
    """Return the memory with the id `memory_id`, if `viewer` may know it. If `all_viewers` is true, any memory is
    returned.

    Raises MemoryNotFoundError if there is no such memory, or if the viewer must not know it. The error is the same, so a
    viewer cannot find out which memories others know. Raises ConfigError if the memory was superseded. Raises
    SessionNotFoundError if the session does not exist.
    """
    head = await store.head(session_id)
    memory = await _find(store, session_id, head.world_id, memory_id)
    if memory is not None and not all_viewers:
        memory = memory if may_read(memory.viewers, viewer) and await _is_known(store, head, memory) else None
    if memory is None:
        raise MemoryNotFoundError(
            f"There is no memory {memory_id!r} in session {session_id!r}; a search shows the ids."
        )
    for edit in await load_edits(store, session_id, memory.memory_id):
        action = edit.metadata.get(ACTION)
        if action in (MemoryAction.EDIT.value, MemoryAction.SUPERSEDE.value) and not is_undone(edit):
            advice = "Name that one, or undo it first." if edit.content else "Undo that first."
            raise ConfigError(f"Memory {memory_id!r} was superseded by edit {edit.evidence_id!r}. {advice}")
    return memory


async def find_erasable(
    store: Store, session_id: str, memory_id: str, viewer: str | None, *, all_viewers: bool
) -> Memory:
    """Return the memory with this id if it can be erased by itself. Raises the errors of `find_memory`.

    Raises ConfigError if the memory was made of turns or of a world.
    """
    memory = await find_memory(store, session_id, memory_id, viewer, all_viewers=all_viewers)
    evidence = await store.get_evidence(session_id, memory.memory_id)
    if evidence is None or not is_document(evidence):
        raise ConfigError(
            f"Memory {memory_id!r} was made of turns or of a world; `supersede` takes it from recall, and an erasure of the "
            "session, or an edit of the world, erases it."
        )
    return memory


async def _find(store: Store, session_id: str, world_id: str, memory_id: str) -> Memory | None:
    evidence = await store.get_evidence(session_id, memory_id)
    if evidence is None or not is_document(evidence):
        # An entry that a prompt has shown is evidence too, under its own id.
        for scope in (session_scope(session_id), world_scope(world_id)):
            for entry in await store.entries(scope, (memory_id,)):
                if TAKES_FROM_RECALL in entry.metadata:
                    return None
                if (document_id := document_of(entry)) is None:
                    return memory_of_entry(entry)
                evidence = await store.get_evidence(session_id, document_id)
    if evidence is None or not is_document(evidence) or is_undone(evidence) or not evidence.content:
        return None
    return memory_of_evidence(session_id, evidence)


async def _is_known(store: Store, head: SessionHead, memory: Memory) -> bool:
    """Return whether a memory that was made of a turn, or found in it, is known on the active branch."""
    for entry in await store.entries(session_scope(head.session_id), memory.entry_ids):
        if entry.branch_id is not None and entry.depth is not None:
            return is_on_path(head, entry.branch_id, entry.depth, TurnStatus.COMMITTED)
    return True


def memory_of_entry(entry: MemoryEntry) -> Memory:
    """Return a memory that consists of one entry. The entry must not be a passage of a document."""
    return Memory(
        memory_id=entry.entry_id,
        kind=entry.kind,
        text=entry.text,
        title=entry.title,
        entry_ids=(entry.entry_id,),
        viewers=audience_of_entry(entry),
        trust=entry.trust,
        sensitivity=str(entry.metadata.get(SENSITIVITY, "")),
        sources=sources_of(entry.metadata),
    )


def memory_of_evidence(session_id: str, evidence: Evidence) -> Memory:
    """Return a document or a remembered text (an evidence item) as a memory."""
    entries = document_entries(session_id, evidence)
    return Memory(
        memory_id=evidence.evidence_id,
        kind=kind_of_document(evidence),
        text=evidence.content,
        title=evidence.source.name,
        entry_ids=tuple(each.entry_id for each in entries if TAKES_FROM_RECALL not in each.metadata),
        viewers=readers_of(evidence),
        trust=evidence.trust,
        sensitivity=str(evidence.metadata.get(SENSITIVITY, "")),
        sources=sources_of(evidence.metadata),
    )


def kind_of_document(evidence: Evidence) -> str:
    """Return the kind of a memory that is an evidence item: `remembered` or `document`."""
    return REMEMBERED if evidence.metadata.get(ACTION) in WITH_TEXT else "document"


async def load_documents(store: Store, session_id: str, entries: Iterable[MemoryEntry]) -> dict[str, Evidence]:
    """Return the evidence items, by id, of which `entries` are passages. Entries of another kind are passed over."""
    names = frozenset(name for each in entries if (name := document_of(each)) is not None)
    found = await store.list_evidences(session_id, EvidenceFilter(evidence_ids=names)) if names else ()
    return {each.evidence_id: each for each in found}
