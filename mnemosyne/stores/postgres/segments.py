"""Shares the index rows of scopes (sessions or worlds) between hosts, in PostgreSQL.

Each scope has a chain of segments, and a segment contains index rows. A host reads the chain, and adds a segment with
the rows that it indexed since. Hosts that have read the same entries have made the same rows, so a segment of one host
can replace the work of another. Each segment states how far its host had read (`marks`: the highest sequence number of
each chain of entries). The marks decide which rows are missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from mnemosyne.core.codec import decode, encode
from mnemosyne.protocols import IndexBase, SegmentRows, StoredSegments
from mnemosyne.stores.postgres.connection import PostgresConnection
from mnemosyne.stores.postgres.pool import ConnectionPool
from mnemosyne.stores.postgres.vectors import find_owner, lock_owner
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.writing.shared_index import drop_segments

_OF_A_SCOPE = "FROM index_segments WHERE tenant = ? AND scope = ?"


class PostgresSegments:
    """The `SegmentStore` of a `PostgresStore`. See `mnemosyne.protocols.SegmentStore` for the methods."""

    def __init__(self, reads: ConnectionPool, writes: ConnectionPool) -> None:
        self._reads, self._writes = reads, writes

    async def load(self, scope: str) -> StoredSegments:
        """Return the segments of a scope, oldest first."""
        return await self._reads.run(lambda db: _load(db, scope))

    async def append(self, scope: str, rows: SegmentRows) -> IndexBase | None:
        """Add a segment with `rows` to the chain of `scope`, and return the new end of the chain.

        Return `rows.base` if the segment cannot be added for now. Return None if the caller's rows are outdated; the caller must
        then read the scope again.
        """
        return await self._writes.run(lambda db: _append(db, scope, rows))

    async def is_current(self, scope: str, base: IndexBase) -> bool:
        """Return whether the chain still contains the segment `base`, so that it was not dropped or replaced."""
        return await self._reads.run(lambda db: _is_current(db, scope, base))

    async def drop(self, scope: str) -> None:
        """Remove all segments of a scope."""

        def work(db: PostgresConnection) -> None:
            if lock_owner(db, scope) is not None:
                lock_chain(db, scope)
                drop_segments(db, scope, leave_mark=True)

        await self._writes.run(work)


def _load(db: PostgresConnection, scope: str) -> StoredSegments:
    owner = find_owner(db, scope)
    rows = db.execute(f"SELECT token, body {_OF_A_SCOPE} ORDER BY ordinal", (db.tenant, scope)).fetchall()
    token = rows[-1][0] if rows else ""
    base = IndexBase(owner=0 if owner is None else owner, token=token)
    return StoredSegments(base=base, bodies=tuple(bytes(body) for _, body in rows if body is not None))


def _append(db: PostgresConnection, scope: str, rows: SegmentRows) -> IndexBase | None:
    base = rows.base
    if lock_owner(db, scope) != base.owner:
        return None
    lock_chain(db, scope)
    chain = db.execute(
        f"SELECT ordinal, token, marks, body IS NULL {_OF_A_SCOPE} ORDER BY ordinal", (db.tenant, scope)
    ).fetchall()
    if not _is_part(base, [(token, is_mark) for _, token, _, is_mark in chain]):
        return None
    last, token, marks, _ = chain[-1] if chain else (0, "", b"{}", False)
    if token != base.token and not _covers(rows.marks, marks):
        return IndexBase(owner=base.owner, token=token) if _covers_all(marks, rows.marks) else base
    if rows.is_whole:
        if token != base.token:
            return base
        drop_segments(db, scope, leave_mark=False)
    added = IndexBase(owner=base.owner, token=uuid4().hex)
    db.execute(
        "INSERT INTO index_segments (tenant, scope, ordinal, token, marks, body) VALUES (?, ?, ?, ?, ?, ?)",
        (db.tenant, scope, int(last) + 1, added.token, encode(dict(rows.marks)), rows.body),
    )
    return added


def _is_current(db: PostgresConnection, scope: str, base: IndexBase) -> bool:
    owner = find_owner(db, scope)
    rows = db.execute(f"SELECT token, body IS NULL {_OF_A_SCOPE} ORDER BY ordinal", (db.tenant, scope)).fetchall()
    return base.owner == (owner or 0) and _is_part(base, rows)


def _is_part(base: IndexBase, chain: list[tuple[str, bool]]) -> bool:
    """Return whether a chain (tokens, and whether each is the mark of a drop) continues from a base."""
    if base.token:
        return any(token == base.token for token, _ in chain)
    return not (chain and chain[0][1])


def _covers(marks: Mapping[str, int], stored: bytes) -> bool:
    return all(marks.get(chain, 0) >= sequence for chain, sequence in decode(stored, dict[str, int]).items())


def _covers_all(stored: bytes, marks: Mapping[str, int]) -> bool:
    held = decode(stored, dict[str, int])
    return all(held.get(chain, 0) >= sequence for chain, sequence in marks.items())


def lock_chain(db: Connection, scope: str) -> None:
    """Lock the segments of a scope until the transaction ends, so that only one host at a time adds to them."""
    db.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('segments ' || current_schema() || ? || ' ' || ?, 0))",
        (db.tenant, scope),
    )
