"""The document view of a ledger: the session as one document, and its evidences, blocks, calls and tasks.

A document and the turn tree always agree (Store rule 9). `mnemosyne.documents.views` decides which parts of a document
are new. Each writing function runs inside `Ledger.run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from mnemosyne.chains.turn_tree import check_version
from mnemosyne.core.codec import JsonText, check_times, decode_raw, encode_raw
from mnemosyne.core.errors import VersionConflictError
from mnemosyne.documents.views import (
    BRANCH_PREFIX,
    TURN_PREFIX,
    FoundParts,
    bare_frame,
    check_document,
    check_refs,
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
from mnemosyne.schema.document import ModelUsage, SessionDocument, Summary, Task, ToolCall
from mnemosyne.schema.evidence import ContextBlock, Evidence, is_memory, readers_of
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import ImportedTurn, PathSummary, PutResult
from mnemosyne.schema.session import Message, SessionHead, TurnStatus, WindowMessage
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.reads import (
    NO_SUMMARY,
    find_turns_aside,
    messages_of_turn,
    newest_summary_row,
    path_back,
    read_head,
    read_items,
    read_or_none,
    read_turn,
    session_row,
)
from mnemosyne.stores.ledger.rows import EvidenceRow, Row
from mnemosyne.stores.ledger.writes import abandon_pending, advance_head, append, begin, open_branch

T = TypeVar("T")

_FRAME = "frame"


def get_session(ledger: Ledger, session_id: str, branch_id: str | None) -> SessionDocument | None:
    """Return the whole session as a document, or None; BranchNotFoundError."""
    if ledger.session is None:
        return None
    return _document(ledger, read_head(ledger, session_id, branch_id))


def _document(ledger: Ledger, head: SessionHead) -> SessionDocument:
    frame, found = _frame(ledger, head.session_id), _read_found(ledger)
    messages = (*(placed.message for placed in _path(ledger, head)), *_waiting(ledger, head))
    return compose_document(
        frame,
        messages=messages,
        summary=_summary(ledger, head, frame),
        tasks=_items(ledger, "task", Task),
        model_usage=_items(ledger, "model_usage", ModelUsage),
        found=found.split(find_turns_aside(ledger, head, found.turn_ids()), messages)[0],
        version=head.version,
    )


def _read_found(ledger: Ledger) -> FoundParts:
    return FoundParts(
        evidences=tuple(_read_evidences(ledger, ledger.evidences.items())),
        tool_calls=_items(ledger, "tool_call", ToolCall),
        blocks=_items(ledger, "block", ContextBlock),
    )


def _frame(ledger: Ledger, session_id: str) -> SessionDocument:
    stored, session = ledger.bodies("document").get(_FRAME), session_row(ledger, session_id)
    if stored is not None:
        return with_locale(decode_raw(stored, SessionDocument), session.locale)
    return bare_frame(session_id, session.locale, session.created_at)


def _path(ledger: Ledger, head: SessionHead) -> list[WindowMessage]:
    turns = list(path_back(ledger, head.lineage))
    return [placed for turn_id in reversed(turns) for placed in messages_of_turn(ledger, turn_id)]


def _waiting(ledger: Ledger, head: SessionHead) -> tuple[Message, ...]:
    """Return the messages of the turn after a head that waits for its reply."""
    pending = ledger.branches[head.branch_id].pending
    return () if pending is None else read_turn(ledger, head.session_id, pending).messages


def _summary(ledger: Ledger, head: SessionHead, frame: SessionDocument) -> Summary | None:
    row = newest_summary_row(ledger, head)
    if row is None:
        return frame.session.summary
    return None if row == NO_SUMMARY else decode_raw(row, PathSummary).summary


def _items(ledger: Ledger, table: str, kind: type[T]) -> tuple[T, ...]:
    return tuple(read_items(ledger, table, kind))


def _read_evidences(ledger: Ledger, rows: Iterable[tuple[str, EvidenceRow]]) -> Iterator[Evidence]:
    for name, row in rows:
        if (evidence := read_or_none(ledger, row.body, Evidence, f"evidence {name!r}")) is not None:
            yield evidence


def put_session(ledger: Ledger, session_id: str, document: SessionDocument, expected_version: int | None) -> PutResult:
    """Write a whole document, creating the session if there is none; VersionConflictError, SchemaValidationError."""
    check_document(session_id, document)
    if ledger.session is None:
        if expected_version not in (None, 0):
            raise VersionConflictError(session_id, expected_version or 0, 0)
        meta = document.meta
        locale, at = ("", None) if meta is None else (meta.locale, meta.created_at)
        begin(ledger, session_id, "", locale, {}, at, version=0)
    head = read_head(ledger, session_id)
    check_version(head.session_id, head.version, expected_version)
    if not continues(_path(ledger, head), _waiting(ledger, head), document.session.messages):
        _write_messages(ledger, head, document.session.messages)
    _replace_parts(ledger, document, (head, read_head(ledger, session_id)))
    return PutResult(version=advance_head(ledger, read_head(ledger, session_id)).version)


def _write_messages(ledger: Ledger, head: SessionHead, given: Sequence[Message]) -> None:
    """Have the path to the head hold these messages; a waiting turn is abandoned, and what it said is among them."""
    abandon_pending(ledger, head.branch_id)
    diff = diff_messages(_path(ledger, head), given)
    if diff.fork:
        name = free_name(BRANCH_PREFIX, head.version + 1, ledger.branches.__contains__)
        open_branch(ledger, head.session_id, diff.after, name)
    _append_turn(ledger, head.session_id, diff.messages)


def _append_turn(ledger: Ledger, session_id: str, messages: Sequence[Message], turn_id: str | None = None) -> None:
    if messages:
        head = read_head(ledger, session_id)
        turn_id = turn_id or free_name(TURN_PREFIX, head.version + 1, ledger.turns.__contains__)
        append(ledger, head, (ImportedTurn(turn_id=turn_id, messages=tuple(messages)),), None)


def _replace_parts(ledger: Ledger, document: SessionDocument, heads: Sequence[SessionHead]) -> None:
    """Replace everything but the messages by the document's, except what was found in turns that are not known at all of
    these heads; the last one is that of now.
    """
    session, found = document.session, _read_found(ledger)
    aside = {name for each in heads for name in find_turns_aside(ledger, each, found.turn_ids())}
    made, head = found.replaced_by(document, aside), heads[-1]
    frame = frame_of(document)
    if head.turn_id is None:
        frame = replace(frame, session=replace(frame.session, summary=session.summary))
    elif session.summary != _summary(ledger, head, frame):
        ledger.put("summary", head.turn_id, _summary_row(head, session.summary))
    _check_document_times(document)
    ledger.refill("document", {_FRAME: encode_raw(frame)})
    tables: dict[str, dict[str, Row]] = {
        "task": {task.task_id: encode_raw(task) for task in session.task_state.todo_list.tasks},
        "tool_call": {call.tool_call_id: encode_raw(call) for call in made.tool_calls},
        "model_usage": {usage.model_usage_id: encode_raw(usage) for usage in session.model_usage or ()},
        "block": {block.block_id: encode_raw(block) for block in made.blocks},
        "evidence": {
            each.evidence_id: _evidence_row(each, place, ledger.evidences.get(each.evidence_id))
            for place, each in enumerate(made.evidences)
        },
    }
    for table, rows in tables.items():
        ledger.refill(table, rows)


def _summary_row(head: SessionHead, summary: Summary | None) -> JsonText:
    if summary is None or head.turn_id is None:
        return NO_SUMMARY
    return encode_raw(PathSummary(turn_id=head.turn_id, branch_id=head.branch_id, depth=head.depth, summary=summary))


def patch_session(ledger: Ledger, session_id: str, patch: Mapping[str, Any], expected_version: int | None) -> PutResult:
    """Apply a JSON merge patch to the document; SchemaValidationError, VersionConflictError, SessionNotFoundError."""
    head = read_head(ledger, session_id)
    check_version(head.session_id, head.version, expected_version)
    return put_session(ledger, session_id, patch_document(_document(ledger, head), patch), head.version)


def append_messages(
    ledger: Ledger,
    session_id: str,
    messages: Sequence[Message],
    idempotency_key: str | None,
    expected_version: int | None,
) -> PutResult:
    """Commit messages as one turn after the active head; a key that was used before writes nothing."""
    head = read_head(ledger, session_id)
    turn_id = None if idempotency_key is None else keyed_turn_id(idempotency_key)
    known = None if turn_id is None else ledger.turns.get(turn_id)
    if known is not None and known.status is TurnStatus.COMMITTED:
        return PutResult(version=head.version)
    check_version(head.session_id, head.version, expected_version)
    check_refs(refs_of_messages(messages), ledger.evidences.__contains__)
    if not messages:
        return PutResult(version=head.version)
    _append_turn(ledger, session_id, messages, turn_id)
    return PutResult(version=advance_head(ledger, read_head(ledger, session_id)).version)


def put_evidence(ledger: Ledger, session_id: str, evidence: Evidence) -> str:
    """Write or replace an evidence item; the same item again changes nothing."""
    head = read_head(ledger, session_id)
    known = ledger.evidences.get(evidence.evidence_id)
    place = known.place if known is not None else _next_place(ledger)
    check_times(evidence.created_at, evidence.expires_at)
    row = _evidence_row(evidence, place, known)
    if row != known:
        ledger.put("evidence", evidence.evidence_id, row)
        advance_head(ledger, head)
    return evidence.evidence_id


def hold_prompt_parts(
    ledger: Ledger, evidences: Sequence[Evidence], blocks: Sequence[ContextBlock], usages: Sequence[ModelUsage]
) -> None:
    """Write the evidence items, blocks and model calls of a turn's prompt, by id, without a version of their own."""
    for evidence in evidences:
        known = ledger.evidences.get(evidence.evidence_id)
        check_times(evidence.created_at, evidence.expires_at)
        row = _evidence_row(evidence, known.place if known is not None else _next_place(ledger), known)
        if row != known:
            ledger.put("evidence", evidence.evidence_id, row)
    rows: dict[str, Mapping[str, ContextBlock | ModelUsage]] = {
        "block": {block.block_id: block for block in blocks},
        "model_usage": {usage.model_usage_id: usage for usage in usages},
    }
    for table, items in rows.items():
        stored = ledger.bodies(table)
        for name, item in items.items():
            if stored.get(name) != (body := encode_raw(item)):
                ledger.put(table, name, body)


def _next_place(ledger: Ledger) -> int:
    last = next(reversed(ledger.evidences.values()), None)
    return 0 if last is None else last.place + 1


def _evidence_row(evidence: Evidence, place: int, known: EvidenceRow | None) -> EvidenceRow:
    written_at = None
    if evidence.created_at is None:
        written_at = datetime.now(UTC) if known is None else known.written_at
    return EvidenceRow(
        written_at=written_at,
        place=place,
        uri=evidence.source.uri,
        content_hash=evidence.content_hash,
        body=encode_raw(evidence),
        turn_id=evidence.links.turn_id or None,
        readers=readers_of(evidence),
    )


def get_evidence(ledger: Ledger, session_id: str, evidence_id: str) -> Evidence | None:
    """Return an evidence item, or None; SessionNotFoundError."""
    session_row(ledger, session_id)
    row = ledger.evidences.get(evidence_id)
    return None if row is None else read_or_none(ledger, row.body, Evidence, f"evidence {evidence_id!r}")


def find_evidence(ledger: Ledger, session_id: str, uri: str, content_hash: str) -> Evidence | None:
    """Return the oldest evidence item with this source uri and content hash, or None."""
    session_row(ledger, session_id)
    rows = (ledger.evidences.get(name) for name in ledger.sources.get((uri, content_hash), ()))
    alike = [row for row in rows if row is not None and (row.uri, row.content_hash) == (uri, content_hash)]
    return decode_raw(min(alike, key=lambda row: row.place).body, Evidence) if alike else None


def list_evidences(ledger: Ledger, session_id: str, where: EvidenceFilter | None) -> tuple[Evidence, ...]:
    """Return evidence items in the order of first writing."""
    session_row(ledger, session_id)
    where = where or EvidenceFilter()
    rows = reversed(ledger.evidences.items()) if where.newest else iter(ledger.evidences.items())
    if where.turn_ids is not None:
        names = {
            name for turn_id in where.turn_ids for name in ledger.found.get(turn_id, ()) if name in ledger.evidences
        }
        found_rows = ((name, ledger.evidences[name]) for name in names)
        rows = iter(sorted(found_rows, key=lambda item: item[1].place, reverse=where.newest))
    head = None if where.branch_id is None else read_head(ledger, session_id, where.branch_id or None)

    def may_pass(row: EvidenceRow) -> bool:
        if (where.without_memories and is_memory(row.uri)) or not where.may_know(row.readers):
            return False
        if where.turn_ids is not None and row.turn_id not in where.turn_ids:
            return False
        return head is None or row.turn_id is None or not find_turns_aside(ledger, head, (row.turn_id,))

    found = _read_evidences(ledger, ((name, row) for name, row in rows if may_pass(row)))
    times = ledger.evidences
    kept = _first(where.limit, (each for each in found if where.admits(each, times[each.evidence_id].written_at)))
    return kept[::-1] if where.newest else kept


def list_context_blocks(ledger: Ledger, session_id: str, where: BlockFilter | None) -> tuple[ContextBlock, ...]:
    """Return blocks in the order of first writing."""
    session_row(ledger, session_id)
    where = where or BlockFilter()
    rows = ledger.bodies("block").items()
    # Prompts of turns leave many blocks behind, which need not be read where their names say that they are not wanted.
    wanted = ((name, body) for name, body in rows if not name.startswith(where.without_prefixes))
    found = (read_or_none(ledger, body, ContextBlock, f"block {name!r}") for name, body in wanted)
    return _first(where.limit, (each for each in found if each is not None and where.admits(each)))


def put_context_blocks(
    ledger: Ledger, session_id: str, blocks: Sequence[ContextBlock], expected_version: int | None
) -> PutResult:
    """Write or replace blocks by id; SchemaValidationError for a ref that leads nowhere."""
    check_refs(((f"context block {block.block_id!r}", block.refs) for block in blocks), ledger.evidences.__contains__)
    return _upsert(ledger, session_id, "block", {block.block_id: block for block in blocks}, expected_version)


def append_tool_calls(
    ledger: Ledger, session_id: str, calls: Sequence[ToolCall], expected_version: int | None
) -> PutResult:
    """Append tool calls; one with an existing id replaces that in its place."""
    check_times(*(call.called_at for call in calls))
    return _upsert(ledger, session_id, "tool_call", {call.tool_call_id: call for call in calls}, expected_version)


def find_tool_call(ledger: Ledger, session_id: str, tool_call_id: str) -> ToolCall | None:
    """Return a tool call, or None if there is none that can be read; SessionNotFoundError."""
    session_row(ledger, session_id)
    body = ledger.bodies("tool_call").get(tool_call_id)
    return None if body is None else read_or_none(ledger, body, ToolCall, f"tool_call {tool_call_id!r}")


def append_model_usage(
    ledger: Ledger, session_id: str, usages: Sequence[ModelUsage], expected_version: int | None
) -> PutResult:
    """Append model calls; one with an existing id replaces that in its place."""
    rows = {usage.model_usage_id: usage for usage in usages}
    return _upsert(ledger, session_id, "model_usage", rows, expected_version)


def upsert_tasks(ledger: Ledger, session_id: str, tasks: Sequence[Task], expected_version: int | None) -> PutResult:
    """Write or replace tasks by id, new ones at the end."""
    return _upsert(ledger, session_id, "task", {task.task_id: task for task in tasks}, expected_version)


def _upsert(
    ledger: Ledger, session_id: str, table: str, items: Mapping[str, Any], expected_version: int | None
) -> PutResult:
    """Write what is new or changed; only then the version grows."""
    head = read_head(ledger, session_id)
    check_version(head.session_id, head.version, expected_version)
    known = ledger.bodies(table)
    changed = {
        name: body
        for name, body in ((name, encode_raw(item)) for name, item in items.items())
        if known.get(name) != body
    }
    for name, body in changed.items():
        ledger.put(table, name, body)
    return PutResult(version=advance_head(ledger, head).version if changed else head.version)


def _first(limit: int | None, items: Iterable[T]) -> tuple[T, ...]:
    return tuple(items) if limit is None else tuple(islice(items, max(limit, 0)))


def _check_document_times(document: SessionDocument) -> None:
    meta, session = document.meta, document.session
    calls = () if session.tool_state is None else session.tool_state.tool_calls
    check_times(
        None if meta is None else meta.created_at,
        None if meta is None else meta.updated_at,
        None if session.summary is None else session.summary.updated_at,
        *(call.called_at for call in calls),
    )
    for evidence in document.evidences.values():
        check_times(evidence.created_at, evidence.expires_at)
