"""Finds and deletes shared index data in PostgreSQL (vectors and index rows) that no stored entry needs any more.

Such data are left if entries are removed without an erasure, or if a program that does not use these tables erases
something. An erasure by this program leaves no such data. Each function runs inside a transaction that its caller has opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mnemosyne.chains.messages.message_ids import session_of
from mnemosyne.core.codec import encode
from mnemosyne.core.errors import UnreadableError
from mnemosyne.protocols.upkeep import Lease, SharedScope
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.retrieval.engines.shared.segments import list_rows
from mnemosyne.retrieval.recall.query_features import RECALLED
from mnemosyne.schema.erasure import ERASED
from mnemosyne.schema.memory import MemoryEntry, world_scope
from mnemosyne.stores.postgres.segments import lock_chain
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.reading.entries import RECALLED as RECALLED_MESSAGE
from mnemosyne.stores.sql.reading.entries import read_entries
from mnemosyne.stores.sql.upkeep import leases
from mnemosyne.stores.sql.writing.shared_index import drop_segments
from mnemosyne.values import dataclass

_PAGE = 1_000
_ROWS_AT_ONCE = 300
_WORLD = world_scope("")
_SESSIONS = "sessions WHERE tenant = ? AND session_id = ?"
_WORLDS = "worlds WHERE tenant = ? AND world_id = ?"
_Row = tuple[str, str, bytes]
"""The encoder, the entry and the hash of the text of a vector."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Present:
    """Stored rows of some ids: the sequence of each, and the entry if it can be read."""

    sequences: Mapping[str, int]
    entries: Mapping[str, MemoryEntry]


@dataclass(frozen=True, kw_only=True, slots=True)
class _SharedRows:
    """Shared rows of a scope: its vectors, those of texts that no entry has, and whether its chain is to be deleted."""

    vectors: Sequence[_Row]
    orphans: Sequence[_Row]
    segments: int
    is_stale: bool
    is_damaged: bool


def list_scopes(db: Connection, after: str, limit: int) -> tuple[str, ...]:
    """Return at most `limit` scopes (sessions or worlds) after `after` that have vectors or index rows, sorted."""
    each = "(SELECT DISTINCT scope FROM {table} WHERE tenant = ? AND scope > ? ORDER BY scope LIMIT ?)"
    tables = " UNION ".join(each.format(table=table) for table in ("vectors", "index_segments"))
    rows = db.execute(
        f"SELECT scope FROM ({tables}) AS found ORDER BY scope LIMIT ?", (*(db.tenant, after, limit) * 2, limit)
    )
    return tuple(scope for (scope,) in rows)


def inspect(db: Connection, scope: str, encoder: str) -> SharedScope:
    """Return the shared index data of a scope.

    Its field `missing` counts the entries without a vector of `encoder` (0 if `encoder` is '').
    """
    found = _find(db, scope)
    return SharedScope(
        scope=scope,
        vectors=Counter(encoder for encoder, _, _ in found.vectors),
        missing=_count_missing(db, scope, encoder) if encoder else 0,
        orphaned_vectors=len(found.orphans),
        segments=found.segments,
        orphaned_segments=found.segments if found.is_stale else 0,
        is_damaged=found.is_damaged,
    )


def tidy(db: Connection, scope: str, lease: Lease | None) -> SharedScope:
    """Delete the shared index data of a scope that no entry needs, and return what was deleted.

    While another transaction works on the scope, nothing is deleted. Raises LeaseLostError if `lease`, the right to do
    this job, is lost.
    """
    leases.check(db, lease)
    if _is_gone(db, scope):
        return SharedScope(
            scope=scope,
            orphaned_vectors=_delete_of_nobody(db, "vectors", scope),
            orphaned_segments=_delete_of_nobody(db, "index_segments", scope),
        )
    if not _hold_owner(db, scope):
        return SharedScope(scope=scope)
    found = _find(db, scope)
    for first in range(0, len(found.orphans), _ROWS_AT_ONCE):
        part = found.orphans[first : first + _ROWS_AT_ONCE]
        marks = ", ".join(["(?, ?, ?)"] * len(part))
        db.execute(
            f"DELETE FROM vectors WHERE tenant = ? AND scope = ? AND (encoder, entry_id, text_hash) IN ({marks})",
            (db.tenant, scope, *(value for row in part for value in row)),
        )
    if found.is_stale:
        lock_chain(db, scope)
        drop_segments(db, scope, leave_mark=True)
    return SharedScope(
        scope=scope,
        orphaned_vectors=len(found.orphans),
        orphaned_segments=found.segments if found.is_stale else 0,
    )


def _find(db: Connection, scope: str) -> _SharedRows:
    here = (db.tenant, scope)
    rows: list[_Row] = [
        (encoder, entry_id, bytes(hashed))
        for encoder, entry_id, hashed in db.execute(
            "SELECT encoder, entry_id, text_hash FROM vectors WHERE tenant = ? AND scope = ?", here
        )
    ]
    chain = db.execute(
        "SELECT body FROM index_segments WHERE tenant = ? AND scope = ? ORDER BY ordinal", here
    ).fetchall()
    bodies = [bytes(body) for (body,) in chain if body is not None]
    if _is_gone(db, scope):
        return _SharedRows(vectors=rows, orphans=rows, segments=len(chain), is_stale=bool(chain), is_damaged=False)
    if not _is_known(scope):
        return _SharedRows(vectors=rows, orphans=(), segments=len(bodies), is_stale=False, is_damaged=False)
    try:
        indexed, is_damaged = [list_rows(body) for body in bodies], False
    except UnreadableError:
        # Whoever opens the scope makes it again.
        indexed, is_damaged = [], True
    ids = {row[1] for row in rows}.union(entry_id for segment in indexed for entry_id, _ in segment)
    present = _read_present(db, scope, ids)
    return _SharedRows(
        vectors=rows,
        orphans=[row for row in rows if not _has_text(present, row)],
        segments=len(bodies),
        is_stale=any(_is_past(present, segment, scope) for segment in indexed),
        is_damaged=is_damaged,
    )


def _has_text(present: _Present, row: _Row) -> bool:
    """Return whether an entry has the text of a vector, or is there and cannot be read."""
    _, entry_id, hashed = row
    entry = present.entries.get(entry_id)
    return entry_id in present.sequences if entry is None else text_hash(entry) == hashed


def _is_past(present: _Present, segment: Sequence[tuple[str, int]], scope: str) -> bool:
    """Return whether index rows, by id and sequence, are outdated: of entries that are gone or whose words were erased
    since, or all of them older than the entries of a session, which is then another session of the same name. (Rows
    that are written again do not get lower sequences.)
    """
    older = list[str]()
    for entry_id, sequence in segment:
        now = present.sequences.get(entry_id)
        if now is None:
            return True
        if now > sequence:
            older.append(entry_id)
    if session_of(scope) is not None and older and len(older) == len(segment):
        return True
    entries = (present.entries.get(entry_id) for entry_id in older)
    return any(entry is not None and ERASED.encode() in encode(entry) for entry in entries)


def _read_present(db: Connection, scope: str, entry_ids: Iterable[str]) -> _Present:
    sequences: dict[str, int] = {}
    entries: dict[str, MemoryEntry] = {}
    for page in _pages(sorted(entry_ids)):
        marks, values = expand_in(page)
        sequences |= db.execute(
            f"SELECT entry_id, seq FROM entries WHERE tenant = ? AND scope = ? AND deleted = 0 AND entry_id IN ({marks})",
            (db.tenant, scope, *values),
        ).fetchall()
        if (session_id := session_of(scope)) is not None:
            sequences |= db.execute(
                f"""SELECT m.message_id, m.seq FROM sessions AS s JOIN messages AS m ON m.session = s.key
                    WHERE s.tenant = ? AND s.session_id = ? AND m.message_id IN ({marks}) AND m.recalled = {RECALLED_MESSAGE}""",
                (db.tenant, session_id, *values),
            ).fetchall()
        entries |= {entry.entry_id: entry for entry in read_entries(db, scope, page)}
    return _Present(sequences=sequences, entries=entries)


def _count_missing(db: Connection, scope: str, encoder: str) -> int:
    """Return how many entries that recall may find have no vector of an encoder."""
    without = "NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.tenant = ? AND v.scope = ? AND v.encoder = ? AND v.entry_id = {})"
    mine = (db.tenant, scope, encoder)
    marks, chains = expand_in([chain.value for chain in RECALLED])
    (missing,) = db.execute(
        f"SELECT count(*) FROM entries AS e WHERE e.tenant = ? AND e.scope = ? AND e.deleted = 0 AND e.chain IN ({marks}) "
        f"AND {without.format('e.entry_id')}",
        (db.tenant, scope, *chains, *mine),
    ).fetchone()
    if (session_id := session_of(scope)) is not None:
        (spoken,) = db.execute(
            "SELECT count(*) FROM sessions AS s JOIN messages AS m ON m.session = s.key WHERE s.tenant = ? AND s.session_id = ? "
            f"AND m.recalled = {RECALLED_MESSAGE} AND {without.format('m.message_id')}",
            (db.tenant, session_id, *mine),
        ).fetchone()
        missing += spoken
    return int(missing)


def _is_known(scope: str) -> bool:
    return session_of(scope) is not None or scope.startswith(_WORLD)


def _owner_of(scope: str) -> tuple[str, str]:
    """Return the table and the name of whom a scope belongs to."""
    session_id = session_of(scope)
    return (_WORLDS, scope.removeprefix(_WORLD)) if session_id is None else (_SESSIONS, session_id)


def _is_gone(db: Connection, scope: str) -> bool:
    """Return whether the session or the world of a scope is not in the store."""
    if not _is_known(scope):
        return False
    where, values = _nobody(db, scope)
    return bool(db.execute(f"SELECT {where}", values).fetchone()[0])


def _nobody(db: Connection, scope: str) -> tuple[str, Sequence[Any]]:
    """Return the condition that nobody has a scope, with its values; a world may have entries before it has a row."""
    table, name = _owner_of(scope)
    return (
        f"NOT EXISTS (SELECT 1 FROM {table}) AND NOT EXISTS (SELECT 1 FROM entries WHERE tenant = ? AND scope = ?)",
        (db.tenant, name, db.tenant, scope),
    )


def _delete_of_nobody(db: Connection, table: str, scope: str) -> int:
    """Delete the rows of a scope in one statement with the condition that nobody has it: who begins one meanwhile keeps its own."""
    where, values = _nobody(db, scope)
    (number,) = db.execute(
        f"WITH gone AS (DELETE FROM {table} WHERE tenant = ? AND scope = ? AND {where} RETURNING 1) SELECT count(*) FROM gone",
        (db.tenant, scope, *values),
    ).fetchone()
    return int(number)


def _hold_owner(db: Connection, scope: str) -> bool:
    """Keep everybody from writing to a scope until the transaction ends; return False if somebody does, or it is
    unknown.
    """
    if not _is_known(scope):
        return False
    table, name = _owner_of(scope)
    return db.execute(f"SELECT 1 FROM {table} FOR UPDATE SKIP LOCKED", (db.tenant, name)).fetchone() is not None


def _pages(entry_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(entry_ids), _PAGE):
        yield entry_ids[first : first + _PAGE]
