"""Reads and writes the lists of a session: evidence (source texts), prompt blocks, tasks, tool calls and model calls.

All lists are stored in the same way. An item has an id and a place, and keeps its place when it is rewritten. Each
function runs inside a transaction that its caller has opened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeVar

from mnemosyne.chains.turn_tree import is_on_path
from mnemosyne.core.codec import check_times, decode, encode
from mnemosyne.documents.views import check_refs
from mnemosyne.schema.document import ModelUsage, Task, ToolCall
from mnemosyne.schema.evidence import ContextBlock, Evidence, is_memory, readers_of
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import PutResult, SessionWindow
from mnemosyne.schema.session import Ref, SessionHead
from mnemosyne.stores.sql.blobs import bare, evidence_place, part_place, read_body, seal
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.sessions import StoredSession, head_of, load_session

T = TypeVar("T")
Kind = Literal["block", "task", "tool_call", "model_usage"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PUT_EVIDENCE = """INSERT INTO evidences
    (session, evidence_id, ord, type, source_kind, created_us, origin, is_memory, turn_id, readers, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (session, evidence_id) DO UPDATE SET type = excluded.type,
    source_kind = excluded.source_kind, created_us = COALESCE(excluded.created_us, evidences.created_us), origin = excluded.origin,
    is_memory = excluded.is_memory, turn_id = excluded.turn_id, readers = excluded.readers, body = excluded.body"""
_LEAST_PAGE = 256
_AT_ONCE = 512
_PUT_PART = """INSERT INTO parts (session, kind, part_id, ord, body) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (session, kind, part_id) DO UPDATE SET body = excluded.body"""


def put_evidence(connection: Connection, session_id: str, evidence: Evidence) -> str:
    """Write or replace an evidence item, and return its id. If the stored item is the same, nothing changes."""
    session = load_session(connection, session_id)
    check_times(evidence.created_at, evidence.expires_at)
    known = connection.execute(
        "SELECT body FROM evidences WHERE session = ? AND evidence_id = ?", (session.key, evidence.evidence_id)
    ).fetchone()
    if known is None or bare(known[0]) != encode(evidence):
        place = _next_place(connection, "evidences WHERE session = ?", (session.key,))
        connection.post(_PUT_EVIDENCE, _evidence_row(session.key, place, evidence))
        _note_times(connection, session.key, (evidence,))
        bump(connection, session)
    return evidence.evidence_id


def _note_times(connection: Connection, key: int, evidences: Sequence[Evidence]) -> None:
    """Give items without a time the time of their first writing."""
    names = [each.evidence_id for each in evidences if each.created_at is None]
    for start in range(0, len(names), _AT_ONCE):
        marks, wanted = expand_in(names[start : start + _AT_ONCE])
        connection.post(
            f"UPDATE evidences SET created_us = ? WHERE session = ? AND created_us IS NULL AND evidence_id IN ({marks})",
            (connection.now_us(), key, *wanted),
        )


def _evidence_row(key: int, place: int, evidence: Evidence) -> tuple[object, ...]:
    created = evidence.created_at
    return (
        key,
        evidence.evidence_id,
        place,
        evidence.type.value,
        evidence.source.kind.value,
        None if created is None else _microseconds(created),
        *columns_made_of(evidence).values(),
        seal(encode(evidence), evidence_place(key, evidence.evidence_id)),
    )


def columns_made_of(evidence: Evidence) -> dict[str, object]:
    """Return the columns that are calculated from the body of an evidence item. They must agree with the body."""
    readers = readers_of(evidence)
    return {
        "origin": origin_of(evidence.source.uri, evidence.content_hash),
        "is_memory": 1 if is_memory(evidence.source.uri) else None,
        "turn_id": evidence.links.turn_id or None,
        "readers": encode(readers).decode("utf-8") if readers else None,
    }


def origin_of(uri: str, content_hash: str) -> str:
    """Return a short key for a source address and a content hash, because an address may be too long for a database index."""
    return hashlib.sha256(f"{content_hash}\0{uri}".encode("utf-8", "surrogatepass")).hexdigest()


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def get_evidence(connection: Connection, session_id: str, evidence_id: str) -> Evidence | None:
    """Return an evidence item, or None if it is missing or damaged. Raises SessionNotFoundError if there is no session."""
    key = load_session(connection, session_id).key
    row = connection.execute(
        "SELECT body FROM evidences WHERE session = ? AND evidence_id = ?", (key, evidence_id)
    ).fetchone()
    return None if row is None else read_body(connection, row[0], Evidence, evidence_place(key, evidence_id))


def find_evidence(connection: Connection, session_id: str, uri: str, content_hash: str) -> Evidence | None:
    """Return the oldest readable evidence item with this source address and content hash, or None if there is none.

    Raises SessionNotFoundError if there is no session.
    """
    key = load_session(connection, session_id).key
    rows = connection.execute(
        "SELECT evidence_id, body FROM evidences WHERE session = ? AND origin = ? ORDER BY ord",
        (key, origin_of(uri, content_hash)),
    ).fetchall()
    read = (read_body(connection, body, Evidence, evidence_place(key, name)) for name, body in rows)
    return next((each for each in read if each is not None), None)


def list_evidences(connection: Connection, session_id: str, where: EvidenceFilter | None) -> tuple[Evidence, ...]:
    """Return the evidence items that pass the filter `where`, in the order of first writing.

    Raises SessionNotFoundError or BranchNotFoundError if there is no such session or branch.
    """
    session, where = load_session(connection, session_id), where or EvidenceFilter()
    head = None if where.branch_id is None else head_of(connection, session, where.branch_id or None)
    return read_evidences(connection, session.key, where, head)


def read_evidences(
    connection: Connection, key: int, where: EvidenceFilter, head: SessionHead | None = None
) -> tuple[Evidence, ...]:
    """Return the evidence items of a session that pass the filter `where`, in the order of first writing.

    If `head` is given, only items that are known on its branch are returned. An item is not known there if a turn on another
    branch found it.
    """
    # Times are columns: that of an item without one is not in it.
    rest = replace(where, since=None, until=None)
    kept = _first(where.limit, (each for each in _select_evidences(connection, key, where, head) if rest.admits(each)))
    return kept[::-1] if where.newest else kept


def _select_evidences(
    connection: Connection, key: int, where: EvidenceFilter, head: SessionHead | None
) -> Iterator[Evidence]:
    """Yield the evidence items that pass all conditions of a filter that are columns, the newest first with `newest`."""
    tests, values = _conditions(key, where)
    order, beyond = ("DESC", "<") if where.newest else ("ASC", ">")
    page, limit = None, where.limit
    if limit is not None and (where.tags is not None or where.known_to is not None or head):
        # Tags are in no column, and whether a turn is on the path stands elsewhere, so one page may not be enough.
        page = limit = max(limit, _LEAST_PAGE)
    # A sign before the column keeps SQLite from walking all items in order to find the few of a turn.
    sorted_by = f"{'ord' if where.turn_ids is None else '+ord'} {order}"
    bound = "" if limit is None else f" LIMIT {max(limit, 0):d}"
    place: int | None = None
    while True:
        onward = "" if place is None else f" AND ord {beyond} ?"
        rows = connection.execute(
            f"SELECT ord, evidence_id, turn_id, readers, body FROM evidences WHERE {tests}{onward} ORDER BY {sorted_by}{bound}",
            values if place is None else (*values, place),
        ).fetchall()
        aside = set[str]() if head is None else find_turns_aside(connection, key, head, {row[2] for row in rows})
        for _, name, turn_id, readers, body in rows:
            if turn_id in aside or (readers is not None and not where.may_know(_read_readers(readers))):
                continue
            # A list of the newest is kept whole (`ScopeReads`); its items would displace messages and records of other sessions.
            found = read_body(connection, body, Evidence, evidence_place(key, name), keep=not where.newest)
            if found is not None:
                yield found
        if page is None or len(rows) < page:
            return
        place = rows[-1][0]


def _conditions(key: int, where: EvidenceFilter) -> tuple[str, tuple[object, ...]]:
    """Return the conditions of a filter that are columns, and their values."""
    tests, values = ["session = ?"], [key]
    given = (
        ("type", where.types),
        ("source_kind", where.source_kinds),
        ("evidence_id", where.evidence_ids),
        ("turn_id", where.turn_ids),
    )
    for column, names in given:
        if names is not None:
            marks, wanted = expand_in(sorted(map(str, names)) or [""])
            tests.append(f"{column} IN ({marks})")
            values.extend(wanted)  # type: ignore[arg-type]
    for test, at in (("created_us >= ?", where.since), ("created_us < ?", where.until)):
        if at is not None:
            tests.append(test)
            values.append(_microseconds(at))
    if where.without_memories:
        tests.append("is_memory IS NULL")
    return " AND ".join(tests), tuple(values)


@lru_cache(maxsize=1024)
def _read_readers(text: str) -> tuple[str, ...]:
    return decode(text.encode("utf-8"), tuple[str, ...])


def find_turns_aside(
    connection: Connection, key: int, head: SessionHead, turn_ids: Collection[str | None]
) -> frozenset[str]:
    """Return the ids in `turn_ids` of turns of the session that are neither on the path to `head` nor copied to this path."""
    wanted = sorted(name for name in turn_ids if name)
    found, known = set[str](), set[str]()
    for start in range(0, len(wanted), _AT_ONCE):
        marks, names = expand_in(wanted[start : start + _AT_ONCE])
        for column in ("turn_id", "origin_id"):
            rows = connection.execute(
                f"SELECT {column}, branch_id, depth, status FROM turns WHERE session = ? AND {column} IN ({marks})",
                (key, *names),
            )
            for name, branch_id, depth, status in rows:
                found.add(name)
                if is_on_path(head, branch_id, depth, status):
                    known.add(name)
    return frozenset(found - known)


def list_newest_evidences(
    connection: Connection, session: StoredSession, where: EvidenceFilter, window: SessionWindow
) -> tuple[Evidence, ...]:
    """Return the same result as `read_evidences`. It is taken from the cache if it was read at this version of the session.

    If the branch in the filter `where` is '', the branch of `window` is meant.
    """
    where = where.on_branch(window.head.branch_id)
    head = None if where.branch_id is None else window.head
    kept = connection.bodies.scopes
    known = kept.find_evidences(session.scope, session.mark, where)
    if known is None:
        known = read_evidences(connection, session.key, where, head)
        waiting = () if window.pending is None else (window.pending.turn_id, window.pending.origin_id)
        # The next write may abandon the turn that waits, and then what it found is known no more.
        if not any(each.links.turn_id and each.links.turn_id in waiting for each in known):
            kept.keep_evidences(session.scope, session.mark, where, known)
    return known


def _first(limit: int | None, items: Iterable[T]) -> tuple[T, ...]:
    return tuple(items) if limit is None else tuple(islice(items, max(limit, 0)))


def list_context_blocks(connection: Connection, session_id: str, where: BlockFilter | None) -> tuple[ContextBlock, ...]:
    """Return the prompt blocks that pass the filter, in the order of first writing.

    Raises SessionNotFoundError if there is no session.
    """
    return read_context_blocks(connection, load_session(connection, session_id).key, where or BlockFilter())


def read_context_blocks(connection: Connection, key: int, where: BlockFilter) -> tuple[ContextBlock, ...]:
    """Return the prompt blocks of a session that pass the filter, in the order of first writing."""
    # Prompts of turns leave many blocks behind, which need not be read where their names say that they are not wanted.
    tests = "".join(f" AND substr(part_id, 1, {len(prefix)}) <> ?" for prefix in where.without_prefixes)
    rows = connection.execute(
        f"SELECT part_id, body FROM parts WHERE session = ? AND kind = 'block'{tests} ORDER BY ord",
        (key, *where.without_prefixes),
    )
    found = _read_items(connection, key, "block", rows, ContextBlock)
    return _first(where.limit, (block for block in found if where.admits(block)))


def read_parts(connection: Connection, key: int, kind: Kind, what: type[T]) -> tuple[T, ...]:
    """Return one list of a session (`kind`) in its order. `what` is the type of its items."""
    rows = connection.execute(
        "SELECT part_id, body FROM parts WHERE session = ? AND kind = ? ORDER BY ord", (key, kind)
    ).fetchall()
    return tuple(_read_items(connection, key, kind, rows, what))


def _read_items(
    connection: Connection, key: int, kind: Kind, rows: Iterable[tuple[str, bytes]], what: type[T]
) -> Iterator[T]:
    for name, body in rows:
        item = read_body(connection, body, what, part_place(key, name, kind))
        if item is not None:
            yield item


def put_context_blocks(
    connection: Connection, session_id: str, blocks: Sequence[ContextBlock], expected_version: int | None
) -> PutResult:
    """Write or replace prompt blocks by id.

    Raises SchemaValidationError if a block refers to evidence that the session does not have.
    """
    key = load_session(connection, session_id).key
    check_stored_refs(connection, key, ((f"context block {block.block_id!r}", block.refs) for block in blocks))
    return _upsert(connection, session_id, "block", {block.block_id: block for block in blocks}, expected_version)


def check_stored_refs(connection: Connection, key: int, items: Iterable[tuple[str, Sequence[Ref]]]) -> None:
    """Raise SchemaValidationError if a reference names evidence that the session does not have.

    `items` are pairs (name of the item for the error message, its references). A remote reference is allowed.
    """
    held = [(path, refs) for path, refs in items if refs]
    wanted = list({ref.evidence_id for _, refs in held for ref in refs})
    if wanted:
        marks, values = expand_in(wanted)
        rows = connection.execute(
            f"SELECT evidence_id FROM evidences WHERE session = ? AND evidence_id IN ({marks})", (key, *values)
        )
        check_refs(held, {name for (name,) in rows}.__contains__)


def append_tool_calls(
    connection: Connection, session_id: str, calls: Sequence[ToolCall], expected_version: int | None
) -> PutResult:
    """Append tool calls. A call whose id exists already replaces the stored call in its place."""
    check_times(*(call.called_at for call in calls))
    return _upsert(connection, session_id, "tool_call", {call.tool_call_id: call for call in calls}, expected_version)


def find_tool_call(connection: Connection, session_id: str, tool_call_id: str) -> ToolCall | None:
    """Return a tool call, or None if it is missing or damaged. Raises SessionNotFoundError if there is no session."""
    key = load_session(connection, session_id).key
    row = connection.execute(
        "SELECT body FROM parts WHERE session = ? AND kind = 'tool_call' AND part_id = ?", (key, tool_call_id)
    ).fetchone()
    return None if row is None else read_body(connection, row[0], ToolCall, part_place(key, tool_call_id, "tool_call"))


def append_model_usage(
    connection: Connection, session_id: str, usages: Sequence[ModelUsage], expected_version: int | None
) -> PutResult:
    """Append model calls. A call whose id exists already replaces the stored call in its place."""
    items = {usage.model_usage_id: usage for usage in usages}
    return _upsert(connection, session_id, "model_usage", items, expected_version)


def upsert_tasks(
    connection: Connection, session_id: str, tasks: Sequence[Task], expected_version: int | None
) -> PutResult:
    """Write or replace tasks by id. New tasks are added at the end."""
    return _upsert(connection, session_id, "task", {task.task_id: task for task in tasks}, expected_version)


def _upsert(
    connection: Connection, session_id: str, kind: Kind, items: Mapping[str, Any], expected_version: int | None
) -> PutResult:
    """Write new and changed items; only then the version grows."""
    session = load_session(connection, session_id, expected_version)
    changed = _write_parts(connection, session.key, kind, items)
    return PutResult(version=bump(connection, session) if changed else session.version)


def _write_parts(connection: Connection, key: int, kind: Kind, items: Mapping[str, Any]) -> bool:
    """Write new and changed items; return whether there were any."""
    if not items:
        return False
    marks, wanted = expand_in(list(items))
    known = dict(
        connection.execute(
            f"SELECT part_id, body FROM parts WHERE session = ? AND kind = ? AND part_id IN ({marks})",
            (key, kind, *wanted),
        ).fetchall()
    )
    bodies = {name: encode(item) for name, item in items.items()}
    changed = {
        name: seal(body, part_place(key, name, kind))
        for name, body in bodies.items()
        if name not in known or bare(known[name]) != body
    }
    if not changed:
        return False
    start = _next_place(connection, "parts WHERE session = ? AND kind = ?", (key, kind))
    rows = [(key, kind, name, start + place, body) for place, (name, body) in enumerate(changed.items())]
    for row in rows:
        connection.post(_PUT_PART, row)
    return True


def hold_prompt_parts(
    connection: Connection,
    session: StoredSession,
    evidences: Sequence[Evidence],
    blocks: Sequence[ContextBlock],
    usages: Sequence[ModelUsage],
) -> tuple[list[Evidence], frozenset[str]]:
    """Write the evidence items, blocks and model calls of a turn's prompt. The version of the session does not change.

    Return (items, replaced): the evidence items that are new or changed, and the ids of items that were stored before.
    """
    written = _write_evidences(connection, session.key, evidences)
    _write_parts(connection, session.key, "block", {block.block_id: block for block in blocks})
    _write_parts(connection, session.key, "model_usage", {usage.model_usage_id: usage for usage in usages})
    return written


def _write_evidences(
    connection: Connection, key: int, evidences: Sequence[Evidence]
) -> tuple[list[Evidence], frozenset[str]]:
    """Write new and changed evidence items; return these, and the ids of the changed ones."""
    if not evidences:
        return [], frozenset()
    for evidence in evidences:
        check_times(evidence.created_at, evidence.expires_at)
    marks, wanted = expand_in([evidence.evidence_id for evidence in evidences])
    rows = connection.execute(
        f"SELECT evidence_id, body FROM evidences WHERE session = ? AND evidence_id IN ({marks})", (key, *wanted)
    )
    known = {name: bare(body) for name, body in rows}
    changed = [each for each in evidences if known.get(each.evidence_id) != encode(each)]
    place = _next_place(connection, "evidences WHERE session = ?", (key,)) if changed else 0
    for number, evidence in enumerate(changed):
        connection.post(_PUT_EVIDENCE, _evidence_row(key, place + number, evidence))
    _note_times(connection, key, changed)
    return changed, frozenset(known.keys() & {each.evidence_id for each in changed})


def bump(connection: Connection, session: StoredSession) -> int:
    """Increment the version of a session, and return the new version."""
    connection.post("UPDATE sessions SET version = ? WHERE key = ?", (session.version + 1, session.key))
    return session.version + 1


def _next_place(connection: Connection, where: str, values: tuple[object, ...]) -> int:
    (last,) = connection.execute(f"SELECT max(ord) FROM {where}", values).fetchone()
    return 0 if last is None else int(last) + 1


def refill_evidences(connection: Connection, key: int, evidences: Iterable[Evidence]) -> None:
    """Replace all evidence items of a session by `evidences`, in this order."""
    wanted = list(evidences)
    for evidence in wanted:
        check_times(evidence.created_at, evidence.expires_at)
    rows = [_evidence_row(key, place, evidence) for place, evidence in enumerate(wanted)]
    _refill(connection, "evidences", "evidence_id", (key,), rows, _PUT_EVIDENCE)
    _note_times(connection, key, wanted)


def refill_parts(connection: Connection, key: int, kind: Kind, items: Iterable[T], name: Callable[[T], str]) -> None:
    """Replace all items of one list of a session (`kind`) by `items`, in this order. `name` returns the id of an item."""
    rows = [
        (key, kind, name(item), place, seal(encode(item), part_place(key, name(item), kind)))
        for place, item in enumerate(items)
    ]
    _refill(connection, "parts", "part_id", (key, kind), rows, _PUT_PART)


def _refill(
    connection: Connection,
    table: str,
    id_column: str,
    here: tuple[object, ...],
    rows: Sequence[tuple[Any, ...]],
    put: str,
) -> None:
    """Write the rows that differ; from the first row with another id on, all are rewritten in order."""
    where = "session = ?" if len(here) == 1 else "session = ? AND kind = ?"
    stored = connection.execute(
        f"SELECT {id_column}, ord, body FROM {table} WHERE {where} ORDER BY ord", here
    ).fetchall()
    shared = 0
    while shared < min(len(stored), len(rows)) and stored[shared][0] == rows[shared][len(here)]:
        shared += 1
    if shared < len(stored):
        connection.post(f"DELETE FROM {table} WHERE {where} AND ord >= ?", (*here, stored[shared][1]))
    end = stored[shared - 1][1] if shared else -1
    changed = [
        row if place < shared else (*row[: len(here) + 1], end + 1 + place - shared, *row[len(here) + 2 :])
        for place, row in enumerate(rows)
        if place >= shared or bare(stored[place][2]) != bare(row[-1])
    ]
    for row in changed:
        connection.post(put, row)
