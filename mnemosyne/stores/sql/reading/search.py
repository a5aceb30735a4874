"""Walks over all stored data row by row, to find texts for an erasure and to prove that they are gone.

The walk covers every column that can contain text (`sql.schema` lists them), and decompresses compressed columns. It
reads a few sessions at a time, so that a search that has found enough reads no more. The module also reads the audit
records of erasures. Each function runs inside a transaction; none of them writes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from mnemosyne.core.codec import decode, parse_time
from mnemosyne.privacy.runs import TextMatcher
from mnemosyne.schema.erasure import PACK_PLACE, AuditRecord, StoredRow
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.stores.sql.blobs import place_of, read_body, unpack_blob
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.reading.archives import find_archived, read_archived_rows
from mnemosyne.stores.sql.schema import OF_A_SESSION, OF_A_TENANT, OF_A_TURN, OF_A_WORLD, TextTable

_SESSIONS_AT_ONCE = 16
_SCOPES = session_scope("")


def read_audits(connection: Connection) -> tuple[AuditRecord, ...]:
    """Return the audit records, oldest first."""
    rows = connection.execute(
        "SELECT audit_id, erased_at, kind, subject_hash, reason, counts FROM audits WHERE tenant = ? ORDER BY number",
        (connection.tenant,),
    ).fetchall()
    return tuple(
        AuditRecord(
            audit_id=audit_id,
            at=parse_time(at),
            kind=kind,
            subject_hash=subject_hash,
            reason=reason,
            counts=_read_counts(connection, audit_id, counts),
        )
        for audit_id, at, kind, subject_hash, reason, counts in rows
    )


def _read_counts(connection: Connection, audit_id: str, body: bytes) -> dict[str, int]:
    return read_body(connection, body, dict[str, int], place_of("audits", "counts", "", audit_id)) or {}


def find_text(connection: Connection, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the places (`table/session/key`, sorted) whose rows contain any of these texts."""
    matcher = TextMatcher(texts, least=1)
    if matcher.seeks_nothing:
        return ()
    return tuple(sorted({row.place for row in _rows(connection, None, ()) if occurs_in_row(matcher, row)}))


def occurs_in_row(matcher: TextMatcher, row: StoredRow) -> bool:
    """Return whether one of the texts of `matcher` occurs in `row`."""
    return any(map(matcher.occurs, row.words)) or any(
        matcher.occurs_in_tree(decode(body, object)) for body in row.bodies
    )


def walk_rows(
    connection: Connection,
    visit: Callable[[StoredRow], bool],
    sessions: Collection[str] | None,
    without: Collection[str],
) -> None:
    """Call `visit` with one stored row after the other, and stop if `visit` returns False.

    Only rows of `sessions` are visited (None: all rows), without the rows of the sessions in `without`.
    """
    for row in _rows(connection, sessions, without):
        if not visit(row):
            return


def find_in_packs(connection: Connection, texts: Sequence[str]) -> frozenset[str]:
    """Return the texts in `texts` that occur in a world pack."""
    matcher = TextMatcher(texts, least=1)
    trees = [
        decode(body, object) for row in ([] if matcher.seeks_nothing else _packs(connection)) for body in row.bodies
    ]
    held = [tree for tree in trees if matcher.occurs_in_tree(tree)]
    return frozenset(text for text in texts for tree in held if TextMatcher([text], least=1).occurs_in_tree(tree))


def find_left(connection: Connection, texts: Sequence[str], session_ids: Collection[str]) -> frozenset[str]:
    """Return the texts in `texts` that occur in one of the sessions `session_ids`."""
    sought = {text: TextMatcher([text], least=1) for text in texts}
    found = set[str]()
    for row in _rows(connection, session_ids, ()) if sought else ():
        found.update(text for text, matcher in sought.items() if text not in found and occurs_in_row(matcher, row))
    return frozenset(found)


def _rows(connection: Connection, sessions: Collection[str] | None, without: Collection[str]) -> Iterator[StoredRow]:
    known = connection.execute(
        "SELECT key, session_id FROM sessions WHERE tenant = ? ORDER BY key", (connection.tenant,)
    ).fetchall()
    wanted = None if sessions is None else frozenset(sessions)
    chosen = [(key, name) for key, name in known if name not in without and (wanted is None or name in wanted)]
    start, size = 0, 1
    while start < len(chosen):
        # A search that looks for what any other session holds has mostly found it in the first.
        yield from _of_sessions(connection, dict(chosen[start : start + size]))
        start, size = start + size, min(2 * size, _SESSIONS_AT_ONCE)
    if sessions is None:
        for table in OF_A_TENANT:
            if table.table != "sessions":
                yield from _of_no_session(connection, table)
        yield from _packs(connection)


def _of_sessions(connection: Connection, names: dict[int, str]) -> Iterator[StoredRow]:
    marks, keys = expand_in(list(names))
    for key in sorted(find_archived(connection, names)):
        yield from _of_archive(connection, key, names[key])
    for table in OF_A_SESSION:
        rows = connection.execute(
            f"SELECT session, {_columns(table)} FROM {table.table} WHERE session IN ({marks})", keys
        )
        yield from (_row(table, names[key], cells) for key, *cells in rows)
    rows = connection.execute(
        f"SELECT u.session, {_columns(OF_A_TURN, 't', 'u')} FROM turns AS u JOIN papers AS t ON t.turn = u.number "
        f"WHERE u.session IN ({marks})",
        keys,
    )
    yield from (_row(OF_A_TURN, names[key], cells) for key, *cells in rows)
    of_tenant = {table.table: table for table in OF_A_TENANT}
    rows = connection.execute(
        f"SELECT key, {_columns(of_tenant['sessions'])} FROM sessions WHERE key IN ({marks})", keys
    )
    yield from (_row(of_tenant["sessions"], names[key], cells) for key, *cells in rows)
    scopes = {session_scope(name): name for name in names.values()}
    marks, values = expand_in(list(scopes))
    rows = connection.execute(
        f"SELECT scope, {_columns(of_tenant['entries'])} FROM entries WHERE tenant = ? AND scope IN ({marks})",
        (connection.tenant, *values),
    )
    yield from (_row(of_tenant["entries"], scopes[scope], cells) for scope, *cells in rows)


def _of_archive(connection: Connection, key: int, session_id: str) -> Iterator[StoredRow]:
    """Yield the rows of an archived session in their open form."""
    tables = {table.table: table for table in (*OF_A_SESSION, *OF_A_TENANT, OF_A_TURN)}
    turns: dict[int, str] = {}
    for name, cells in read_archived_rows(connection, key, session_id):
        if name == "turns":
            turns[cells["number"]] = cells["turn_id"]
        table = tables[name]
        if table is OF_A_TURN:
            cells["turn_id"] = turns[cells["turn"]]
        shown = "" if table.key.startswith("'") else cells[table.key]
        yield _row(table, session_id, (shown, *(cells[column] for column in (*table.words, *table.bodies))))


def _of_no_session(connection: Connection, table: TextTable) -> Iterator[StoredRow]:
    beside = " AND NOT (scope >= ? AND scope < ?)" if table.table == "entries" else ""
    values = (_SCOPES, f"{_SCOPES[:-1]};") if beside else ()
    rows = connection.execute(
        f"SELECT {_columns(table)} FROM {table.table} WHERE tenant = ?{beside}", (connection.tenant, *values)
    )
    yield from (_row(table, "", cells) for cells in rows)


def _packs(connection: Connection) -> Iterator[StoredRow]:
    rows = connection.execute(f"SELECT {_columns(OF_A_WORLD)} FROM packs WHERE tenant = ?", (connection.tenant,))
    for world_id, *cells in rows:
        row = _row(OF_A_WORLD, "", (world_id, *cells))
        yield StoredRow(place=f"{PACK_PLACE}{world_scope(world_id)}", session_id="", words=row.words, bodies=row.bodies)


def _columns(table: TextTable, alias: str = "", of_key: str = "") -> str:
    key = table.key if table.key.startswith("'") else f"{of_key}{'.' if of_key else ''}{table.key}"
    dot = f"{alias}." if alias else ""
    return ", ".join((key, *(f"{dot}{column}" for column in (*table.words, *table.bodies))))


def _row(table: TextTable, session_id: str, cells: Sequence[Any]) -> StoredRow:
    key, *rest = cells
    words, bodies = rest[: len(table.words)], rest[len(table.words) :]
    shown = session_id if table.table not in ("sessions", "entries") else ""
    return StoredRow(
        place="/".join(part for part in (table.table, shown, key) if part),
        session_id=session_id,
        words=tuple(word for word in words if word is not None),
        bodies=tuple(unpack_blob(body) for body in bodies if body is not None),
    )
