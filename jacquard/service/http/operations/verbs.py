"""Operations of the memory verbs: manual changes of memory, state and lore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jacquard.core.errors import ConfigError, MemoryNotFoundError
from jacquard.memory.verbs.values import FoundMemory, Memory, MemoryEdit
from jacquard.service.http.call_settings import id_from_key, verbs_for
from jacquard.service.http.operation import AUTHOR, VIEWER, Call, Operation, Query
from jacquard.service.values import Scope
from mnemosyne.core.errors import (
    RedactionError,
    SessionExistsError,
    SessionNotFoundError,
    StateOpError,
    VersionConflictError,
)
from mnemosyne.schema.memory import LoreCategory, MemoryEntry
from mnemosyne.schema.session import SessionHead


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchRequest:
    """Text to search for, and the number of memories to return (1 to 100)."""

    text: str
    limit: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class RememberRequest:
    """A text to remember. With `dry_run` nothing is stored."""

    text: str
    title: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryTextRequest:
    """New text for a memory; only `supersede` accepts an empty one. With `dry_run` nothing is stored."""

    text: str = ""
    dry_run: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptRequest:
    """The text to remember instead of the proposed one (empty: that one)."""

    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ForgottenMemory:
    """The ids of the evidence that was erased."""

    evidence_ids: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ContinueRequest:
    """A session to start with memories of another: all, those named, or the best `limit` that a search for `query` finds."""

    new_session_id: str
    memory_ids: tuple[str, ...] | None = None
    query: str = ""
    limit: int = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class StateRequest:
    """Values to set, by their flat paths (`hero.health`); all or none."""

    changes: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreRequest:
    """A new entry of lore. `viewers` may know it (empty: everyone)."""

    text: str
    title: str = ""
    keys: tuple[str, ...] = ()
    category: LoreCategory = LoreCategory.ENCYCLOPEDIA
    viewers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreChange:
    """Changes of a lore entry (null: unchanged)."""

    text: str | None = None
    title: str | None = None


async def search(call: Call) -> tuple[FoundMemory, ...]:
    """Search the memory of a session."""
    sent = call.read(SearchRequest)
    return await verbs_for(call).search(call.session_id, sent.text, limit=sent.limit)


async def get_memory(call: Call) -> Memory:
    """Return one memory."""
    return await verbs_for(call).memory(call.session_id, call.ids["memory_id"])


async def remember(call: Call) -> MemoryEdit:
    """Remember a text."""
    sent = call.read(RememberRequest)
    key = id_from_key(call, "memory")
    return await verbs_for(call).remember(call.session_id, sent.text, title=sent.title, key=key, dry_run=sent.dry_run)


async def edit(call: Call) -> MemoryEdit:
    """Correct a memory."""
    sent = call.read(MemoryTextRequest)
    return await verbs_for(call).edit(call.session_id, call.ids["memory_id"], sent.text, dry_run=sent.dry_run)


async def supersede(call: Call) -> MemoryEdit:
    """Mark a memory as no longer true."""
    sent = call.read(MemoryTextRequest)
    return await verbs_for(call).supersede(call.session_id, call.ids["memory_id"], sent.text, dry_run=sent.dry_run)


async def pin(call: Call) -> MemoryEdit:
    """Pin a memory."""
    return await verbs_for(call).pin(call.session_id, call.ids["memory_id"])


async def unpin(call: Call) -> MemoryEdit:
    """Unpin a memory."""
    return await verbs_for(call).unpin(call.session_id, call.ids["memory_id"])


async def forget(call: Call) -> ForgottenMemory:
    """Erase a memory."""
    gone = await verbs_for(call).forget(call.session_id, call.ids["memory_id"], reason=call.query["reason"])
    return ForgottenMemory(evidence_ids=gone)


async def undo(call: Call) -> MemoryEdit:
    """Undo an edit."""
    return await verbs_for(call).undo(call.session_id, call.ids["edit_id"])


async def list_proposals(call: Call) -> tuple[MemoryEdit, ...]:
    """List proposals."""
    return await verbs_for(call).proposals(call.session_id)


async def accept(call: Call) -> MemoryEdit:
    """Accept a proposal."""
    return await verbs_for(call).accept(call.session_id, call.ids["proposal_id"], call.read(AcceptRequest).text)


async def reject(call: Call) -> MemoryEdit:
    """Reject a proposal."""
    return await verbs_for(call).reject(call.session_id, call.ids["proposal_id"])


async def read_log(call: Call) -> tuple[MemoryEdit, ...]:
    """Return the edits of a session."""
    return await verbs_for(call).log(call.session_id)


async def continue_session(call: Call) -> SessionHead:
    """Start a session with the memories of another."""
    sent = call.read(ContinueRequest)
    return await verbs_for(call).continue_session(
        call.session_id, sent.new_session_id, memory_ids=sent.memory_ids, query=sent.query, limit=sent.limit
    )


async def set_state(call: Call) -> SessionHead:
    """Set values of the state."""
    sent = call.read(StateRequest)
    return await verbs_for(call).set_state(call.session_id, sent.changes)


async def add_lore(call: Call) -> MemoryEntry:
    """Add an entry to a world."""
    sent = call.read(LoreRequest)
    return await verbs_for(call).add_lore(
        call.ids["world_id"],
        sent.text,
        title=sent.title,
        keys=sent.keys,
        category=sent.category,
        viewers=sent.viewers,
    )


async def edit_lore(call: Call) -> MemoryEntry:
    """Change an entry of a world."""
    sent = call.read(LoreChange)
    return await verbs_for(call).edit_lore(call.ids["world_id"], call.ids["entry_id"], text=sent.text, title=sent.title)


_MEMORY = "/api/v1/sessions/{session_id}/memory"
_ONE = f"{_MEMORY}/{{memory_id}}"
_PROPOSALS = "/api/v1/sessions/{session_id}/memory-proposals"
_LOG = "/api/v1/sessions/{session_id}/memory-log"
_ERRORS = (SessionNotFoundError, MemoryNotFoundError, ConfigError, RedactionError)


def _operation(name: str, method: str, path: str, doc: str, run: Any, **more: Any) -> Operation:
    as_whom = (VIEWER,) if method == "GET" or name == "search_memory" else (AUTHOR, VIEWER)
    given = {"errors": _ERRORS, "open_to_viewers": True, "query": as_whom, **more}
    return Operation(name=name, method=method, path=path, doc=doc, run=run, **given)


OPERATIONS = (
    _operation(
        "search_memory",
        "POST",
        f"{_MEMORY}/search",
        "Return the memories that recall finds for a text, best first, and why.",
        search,
        body=SearchRequest,
        answer=tuple[FoundMemory, ...],
    ),
    _operation("get_memory", "GET", _ONE, "Return one memory.", get_memory, answer=Memory),
    _operation(
        "remember_memory",
        "POST",
        _MEMORY,
        "Store a text as a memory of the session; the same idempotency key stores it once.",
        remember,
        body=RememberRequest,
        answer=MemoryEdit,
        status=201,
    ),
    _operation(
        "edit_memory",
        "PATCH",
        _ONE,
        "Correct a memory: recall finds the new text and no longer the old one.",
        edit,
        body=MemoryTextRequest,
        answer=MemoryEdit,
    ),
    _operation(
        "supersede_memory",
        "POST",
        f"{_ONE}/supersede",
        "Say that a memory holds no longer, and what holds now, if anything does.",
        supersede,
        body=MemoryTextRequest,
        answer=MemoryEdit,
        is_repeatable=False,
    ),
    _operation(
        "pin_memory",
        "POST",
        f"{_ONE}/pin",
        "Show a memory in every prompt while it fits.",
        pin,
        answer=MemoryEdit,
    ),
    _operation(
        "unpin_memory",
        "POST",
        f"{_ONE}/unpin",
        "Show a memory no longer in every prompt.",
        unpin,
        answer=MemoryEdit,
        is_repeatable=False,
    ),
    _operation(
        "forget_memory",
        "DELETE",
        _ONE,
        "Erase a remembered memory or a document for good, with its corrections and pins.",
        forget,
        query=(AUTHOR, VIEWER, Query(name="reason", doc="Why; the record of the erasure keeps it.", default="")),
        answer=ForgottenMemory,
        is_audited=True,
    ),
    _operation(
        "memory_proposals",
        "GET",
        _PROPOSALS,
        "Return what models would remember and nobody has decided on, oldest first (`memory.review`).",
        list_proposals,
        answer=tuple[MemoryEdit, ...],
    ),
    _operation(
        "accept_proposal",
        "POST",
        f"{_PROPOSALS}/{{proposal_id}}/accept",
        "Carry out a proposal, with another text if one is given; a second call changes nothing.",
        accept,
        body=AcceptRequest,
        answer=MemoryEdit,
    ),
    _operation(
        "reject_proposal",
        "POST",
        f"{_PROPOSALS}/{{proposal_id}}/reject",
        "Refuse a proposal; it is not made again for the same turns.",
        reject,
        answer=MemoryEdit,
    ),
    _operation(
        "memory_log",
        "GET",
        _LOG,
        "Return the edits of a session, oldest first.",
        read_log,
        answer=tuple[MemoryEdit, ...],
    ),
    _operation(
        "undo_memory_edit",
        "POST",
        f"{_LOG}/{{edit_id}}/undo",
        "Undo an edit; a second call changes nothing.",
        undo,
        answer=MemoryEdit,
    ),
    _operation(
        "continue_session",
        "POST",
        "/api/v1/sessions/{session_id}/continue",
        "Start a session with the memories of another one; the same call again returns the session that it made.",
        continue_session,
        body=ContinueRequest,
        answer=SessionHead,
        status=201,
        errors=(*_ERRORS, SessionExistsError),
    ),
    _operation(
        "set_state",
        "PUT",
        "/api/v1/sessions/{session_id}/state",
        "Set values of the state by their flat paths, all or none.",
        set_state,
        scope=Scope.AUTHOR,
        open_to_viewers=False,
        query=(AUTHOR,),
        body=StateRequest,
        answer=SessionHead,
        errors=(*_ERRORS, StateOpError, VersionConflictError),
    ),
    _operation(
        "add_lore",
        "POST",
        "/api/v1/worlds/{world_id}/lore",
        "Add an entry to a world that was imported.",
        add_lore,
        scope=Scope.AUTHOR,
        open_to_viewers=False,
        query=(AUTHOR,),
        body=LoreRequest,
        answer=MemoryEntry,
        status=201,
    ),
    _operation(
        "edit_lore",
        "PATCH",
        "/api/v1/worlds/{world_id}/lore/{entry_id}",
        "Change the text or the title of an entry of a world that was imported.",
        edit_lore,
        scope=Scope.AUTHOR,
        open_to_viewers=False,
        query=(AUTHOR,),
        body=LoreChange,
        answer=MemoryEntry,
    ),
)
