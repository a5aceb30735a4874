"""Reads and writes a session of a SQL store as one document.

A session document is a session as one value, with one list of messages. The document and the turns of the session always agree.
`mnemosyne.documents.views` decides which parts of a document are new. Each function runs inside a transaction that its caller has
opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemosyne.core.codec import check_times, encode, parse_time
from mnemosyne.core.errors import VersionConflictError
from mnemosyne.documents.views import (
    BRANCH_PREFIX,
    TURN_PREFIX,
    FoundParts,
    MessageDiff,
    bare_frame,
    check_document,
    compose_document,
    continues,
    diff_messages,
    frame_of,
    free_name,
    keyed_turn_id,
    patch_document,
    refs_of_messages,
    with_locale,
)
from mnemosyne.protocols.upkeep import SessionLimit
from mnemosyne.schema.document import ModelUsage, SessionDocument, Summary, Task, ToolCall
from mnemosyne.schema.evidence import ContextBlock
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import ImportedTurn, PutResult, SessionStart
from mnemosyne.schema.session import Message, SessionHead, TurnStatus
from mnemosyne.stores.sql.blobs import frame_place, read_body, seal
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import (
    bump,
    check_stored_refs,
    find_turns_aside,
    read_evidences,
    read_parts,
    refill_evidences,
    refill_parts,
)
from mnemosyne.stores.sql.reading.turns import find_turn, read_path, read_summary
from mnemosyne.stores.sql.sessions import StoredSession, find_session, has_branch, head_of, load_session
from mnemosyne.stores.sql.writing.append import append
from mnemosyne.stores.sql.writing.close import pending_id
from mnemosyne.stores.sql.writing.turn_rows import abandon_pending, turn_status
from mnemosyne.stores.sql.writing.turns import begin_session, open_branch, put_summary


def get_session(connection: Connection, session_id: str, branch_id: str | None) -> SessionDocument | None:
    """Return the whole session on a branch (None: the active one) as a document, or None if there is no session.

    Raises BranchNotFoundError if the session has no such branch.
    """
    session = find_session(connection, session_id)
    return None if session is None else _document(connection, session, head_of(connection, session, branch_id))


def _document(connection: Connection, session: StoredSession, head: SessionHead) -> SessionDocument:
    frame = _frame(connection, session)
    summary, is_stated = read_summary(connection, session.key, head.lineage)
    shown = frame.session.summary if not is_stated else None if summary is None else summary.summary
    messages = (
        *(placed.message for placed in read_path(connection, session.key, head.lineage)),
        *_waiting(connection, session, head),
    )
    found = _read_found(connection, session)
    return compose_document(
        frame,
        messages=messages,
        summary=shown,
        tasks=read_parts(connection, session.key, "task", Task),
        model_usage=read_parts(connection, session.key, "model_usage", ModelUsage),
        found=found.split(find_turns_aside(connection, session.key, head, found.turn_ids()), messages)[0],
        version=session.version,
    )


def _read_found(connection: Connection, session: StoredSession) -> FoundParts:
    return FoundParts(
        evidences=read_evidences(connection, session.key, EvidenceFilter()),
        tool_calls=read_parts(connection, session.key, "tool_call", ToolCall),
        blocks=read_parts(connection, session.key, "block", ContextBlock),
    )


def _waiting(connection: Connection, session: StoredSession, head: SessionHead) -> tuple[Message, ...]:
    """Return the messages of the turn after a head that waits for its reply."""
    turn_id = pending_id(connection, session, head.branch_id)
    return () if turn_id is None else find_turn(connection, session, turn_id).messages


def _frame(connection: Connection, session: StoredSession) -> SessionDocument:
    row = connection.execute("SELECT frame FROM documents WHERE session = ?", (session.key,)).fetchone()
    effect = "The fields of the document that are only there are missing"
    frame = None if row is None else read_body(connection, row[0], SessionDocument, frame_place(session.key), effect)
    locale, at = connection.execute("SELECT locale, created_at FROM sessions WHERE key = ?", (session.key,)).fetchone()
    if frame is not None:
        return with_locale(frame, locale)
    return bare_frame(session.session_id, locale, None if at is None else parse_time(at))


def put_session(
    connection: Connection,
    session_id: str,
    document: SessionDocument,
    expected_version: int | None,
    limit: SessionLimit | None = None,
) -> PutResult:
    """Write a whole document. A missing session is created.

    Raises VersionConflictError if the session has another version than `expected_version`, SchemaValidationError if the
    document has faults, and the error of `limit` if the tenant must not have another session.
    """
    document = check_document(session_id, document)
    if find_session(connection, session_id) is None:
        if expected_version:
            raise VersionConflictError(session_id, expected_version, 0)
        _begin(connection, session_id, document, limit)
    session = load_session(connection, session_id, expected_version)
    before = head = head_of(connection, session)
    stored, given = read_path(connection, session.key, head.lineage), document.session.messages
    if not continues(stored, _waiting(connection, session, head), given):
        session, head = _write_messages(connection, session, head, diff_messages(stored, given))
    _put_rest(connection, session, head, document)
    _put_found(connection, session, (before, head), document)
    return PutResult(version=bump(connection, session))


def _write_messages(
    connection: Connection, session: StoredSession, head: SessionHead, diff: MessageDiff
) -> tuple[StoredSession, SessionHead]:
    """Write a document's messages beyond the path to the head; a waiting turn is abandoned. Return session and head
    after it.
    """
    abandon_pending(connection, session.key, head.branch_id)
    if diff.fork:
        branch_id = free_name(
            BRANCH_PREFIX, session.version + 1, lambda name: has_branch(connection, session.key, name)
        )
        open_branch(connection, session, diff.after, branch_id)
        session = replace(session, active_branch=branch_id)
        head = head_of(connection, session)
    if diff.messages:
        _append(connection, session, head, diff.messages, None)
        head = head_of(connection, session)
    return session, head


def _begin(connection: Connection, session_id: str, document: SessionDocument, limit: SessionLimit | None) -> None:
    """Create an empty session of version 0; another process may have been first."""
    meta = document.meta
    locale, at = ("", None) if meta is None else (meta.locale, meta.created_at)
    start = SessionStart(session_id=session_id, world_id="", locale=locale, state={}, at=at)
    begin_session(connection, start, limit, version=0)


def _append(
    connection: Connection, session: StoredSession, head: SessionHead, messages: Sequence[Message], turn_id: str | None
) -> None:
    new = turn_id is None
    if turn_id is None:
        turn_id = free_name(
            TURN_PREFIX, session.version + 1, lambda name: turn_status(connection, session.key, name) is not None
        )
    append(connection, session, head, (ImportedTurn(turn_id=turn_id, messages=tuple(messages)),), None, new=new)


def _put_found(
    connection: Connection, session: StoredSession, heads: Sequence[SessionHead], document: SessionDocument
) -> None:
    """Replace the finds of turns by the document's, except those that are unknown at all of these heads."""
    found = _read_found(connection, session)
    aside = {name for head in heads for name in find_turns_aside(connection, session.key, head, found.turn_ids())}
    made = found.replaced_by(document, aside)
    refill_evidences(connection, session.key, made.evidences)
    refill_parts(connection, session.key, "block", made.blocks, lambda block: block.block_id)
    refill_parts(connection, session.key, "tool_call", made.tool_calls, lambda call: call.tool_call_id)


def _put_rest(connection: Connection, session: StoredSession, head: SessionHead, document: SessionDocument) -> None:
    """Replace everything but the messages, and the finds of turns, by the document's."""
    session_part, meta = document.session, document.meta
    calls = () if session_part.tool_state is None else session_part.tool_state.tool_calls
    check_times(*(call.called_at for call in calls))
    if session_part.summary is not None:
        check_times(session_part.summary.updated_at)
    frame = frame_of(document)
    if head.turn_id is None:
        frame = replace(frame, session=replace(frame.session, summary=session_part.summary))
    else:
        _put_summary(connection, session, head, session_part.summary)
    if meta is not None:
        check_times(meta.created_at, meta.updated_at)
    connection.post(
        "INSERT INTO documents (session, frame) VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET frame = excluded.frame",
        (session.key, seal(encode(frame), frame_place(session.key))),
    )
    user_id = meta.actor.user_id if meta is not None and meta.actor is not None else ""
    connection.post("UPDATE sessions SET user_id = ? WHERE key = ?", (user_id or None, session.key))
    refill_parts(connection, session.key, "task", session_part.task_state.todo_list.tasks, lambda task: task.task_id)
    refill_parts(
        connection, session.key, "model_usage", session_part.model_usage or (), lambda usage: usage.model_usage_id
    )


def _put_summary(connection: Connection, session: StoredSession, head: SessionHead, wanted: Summary | None) -> None:
    """Write the summary at the head, unless the path has the same one already."""
    shown = read_summary(connection, session.key, head.lineage)[0]
    if wanted == (None if shown is None else shown.summary) or head.turn_id is None:
        return
    put_summary(connection, session.key, (head.branch_id, head.depth, head.turn_id), wanted)


def patch_session(
    connection: Connection, session_id: str, patch: Mapping[str, Any], expected_version: int | None
) -> PutResult:
    """Apply a JSON merge patch to the document of a session.

    Raises SessionNotFoundError if there is no session, VersionConflictError if it has another version than
    `expected_version`, and SchemaValidationError if the changed document has faults.
    """
    session = load_session(connection, session_id, expected_version)
    document = _document(connection, session, head_of(connection, session))
    return put_session(connection, session_id, patch_document(document, patch), session.version)


def append_messages(
    connection: Connection,
    session_id: str,
    messages: Sequence[Message],
    idempotency_key: str | None,
    expected_version: int | None,
) -> PutResult:
    """Commit messages as one turn after the active head. If `idempotency_key` was used before, nothing is written.

    Raises VersionConflictError if the session has another version than `expected_version`.
    """
    session = load_session(connection, session_id)
    turn_id = None if idempotency_key is None else keyed_turn_id(idempotency_key)
    if turn_id is not None and turn_status(connection, session.key, turn_id) is TurnStatus.COMMITTED:
        return PutResult(version=session.version)
    if expected_version is not None and session.version != expected_version:
        raise VersionConflictError(session_id, expected_version, session.version)
    check_stored_refs(connection, session.key, refs_of_messages(messages))
    if not messages:
        return PutResult(version=session.version)
    _append(connection, session, head_of(connection, session), messages, turn_id)
    return PutResult(version=bump(connection, session))
