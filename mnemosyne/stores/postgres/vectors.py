"""Shares the vectors of embedded texts between hosts, in PostgreSQL.

A vector is stored as pgvector's `halfvec` if the server has this type, else as bytes. Its numbers are float16: on LoCoMo the ten
best results of a search stay the same (docs/decisions/0052), and half as much is read. A row contains a checksum of its vector.
So a damaged vector is noticed, and its text is embedded again.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
from psycopg.adapt import Dumper
from psycopg.pq import Format

from mnemosyne.core.errors import StoreError
from mnemosyne.protocols import EmbeddedText, Vectors
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.schema.memory import session_scope
from mnemosyne.stores.postgres.connection import PostgresConnection
from mnemosyne.stores.postgres.locks import PostgresSessionLocks
from mnemosyne.stores.postgres.pool import ConnectionPool
from mnemosyne.stores.sql.connection import expand_in
from mnemosyne.stores.sql.reading.entries import read_entries
from mnemosyne.stores.sql.writing.shared_index import drop_vectors

_FEW_IDS = 1_024
_ROWS_AT_ONCE = 64
_HEAD_BYTES = 4
_COLUMNS = "tenant, scope, encoder, entry_id, text_hash, checksum, vector"
_SESSION = session_scope("")


class PostgresVectors:
    """The `VectorStore` of a `PostgresStore`. See `mnemosyne.protocols.VectorStore` for the methods."""

    def __init__(self, reads: ConnectionPool, writes: ConnectionPool, locks: PostgresSessionLocks, shown: str) -> None:
        self._reads, self._writes, self._locks, self._shown = reads, writes, locks, shown
        self._is_half: bool | None = None
        self._away = ""
        self._damaged: dict[tuple[str, str], set[str]] = {}

    async def get(self, scope: str, encoder: str, wanted: Mapping[str, bytes]) -> Mapping[str, Vectors | None]:
        """Return the stored vectors by entry id, each as float32 of the shape (dimensions,).

        `wanted` maps entry ids to hashes of their present texts; vectors of former texts are left out. A value of None means
        that the model does not know the language of the text.
        """
        if not wanted:
            return {}
        try:
            found, damaged = await self._reads.run(lambda db: self._read(db, scope, encoder, wanted))
        except StoreError as error:
            self._away = str(error)
            return {}
        self._away = ""
        if damaged:
            self._damaged.setdefault((scope, encoder), set()).update(damaged)
        return found

    async def put(self, scope: str, encoder: str, texts: Sequence[EmbeddedText]) -> bool:
        """Store vectors in place of earlier vectors of the same entries. Return whether the server was reached."""
        if not texts:
            return True
        try:
            await self._writes.run(lambda db: self._write(db, scope, encoder, texts))
        except StoreError as error:
            self._away = str(error)
            return False
        self._away = ""
        if (damaged := self._damaged.get((scope, encoder))) is not None:
            damaged.difference_update(each.entry_id for each in texts)
            if not damaged:
                del self._damaged[scope, encoder]
        return True

    @asynccontextmanager
    async def claim(self, scope: str) -> AsyncIterator[None]:
        """Let only this host embed texts of a scope during the block. If the server cannot be used, the block runs anyway."""
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self._locks.hold(f"vectors of {scope}"))
            except StoreError as error:
                self._away = str(error)
            yield

    async def close(self) -> None:
        """Release the connection that `claim` uses."""
        await self._locks.close()

    async def drop(self, scope: str, entry_ids: Sequence[str] | None = None) -> None:
        """Remove the vectors of `scope`, of every encoder. If `entry_ids` is given, remove only the vectors of these entries."""
        await self._writes.run(lambda db: drop_vectors(db, scope, entry_ids))
        if entry_ids is None:
            self._damaged = {key: ids for key, ids in self._damaged.items() if key[0] != scope}

    def faults(self) -> tuple[str, ...]:
        """Return one sentence for each present fault."""
        away = (
            f"The vectors in {self._shown} cannot be used ({self._away.rstrip('.')}): texts are embedded here, and again on every "
            "other host, until they can be.",
        )
        damaged = (
            f"{len(ids)} vectors of {scope!r} in {self._shown} are damaged ({', '.join(sorted(ids)[:3])} …); their texts are "
            "embedded again behind the next turn, or by `jacquard operate reindex`."
            for (scope, _), ids in self._damaged.items()
        )
        return (*(away if self._away else ()), *damaged)

    def _read(
        self, db: PostgresConnection, scope: str, encoder: str, wanted: Mapping[str, bytes]
    ) -> tuple[dict[str, Vectors | None], list[str]]:
        is_half = self._find_type(db)
        where, values = "", tuple[str, ...]()
        if len(wanted) <= _FEW_IDS:
            marks, values = expand_in([*wanted])
            where = f" AND entry_id IN ({marks})"
        rows = db.execute(
            "SELECT entry_id, text_hash, checksum, vector FROM vectors "
            f"WHERE tenant = ? AND scope = ? AND encoder = ?{where}",
            (db.tenant, scope, encoder, *values),
        ).fetchall()
        rows = [row for row in rows if wanted.get(row[0]) == row[1]]
        found: dict[str, Vectors | None] = {}
        damaged = list[str]()
        for group in _by_width(rows):
            codes = _codes_of([row[3] or b"" for row in group], is_half)
            vectors = codes.astype(np.float32)
            for place, (entry_id, hashed, checksum, data) in enumerate(group):
                if codes.dtype.itemsize != 2 or checksum != _checksum(
                    encoder, entry_id, hashed, codes[place].tobytes()
                ):
                    damaged.append(entry_id)
                else:
                    found[entry_id] = None if data is None else vectors[place]
        return found, damaged

    def _write(self, db: PostgresConnection, scope: str, encoder: str, texts: Sequence[EmbeddedText]) -> None:
        is_half = self._find_type(db)
        lock_owner(db, scope)
        present = {entry.entry_id: text_hash(entry) for entry in read_entries(db, scope, [t.entry_id for t in texts])}
        kept = {each.entry_id: each for each in texts if present.get(each.entry_id) == each.text_hash}
        rows = [_row_of(db.tenant, scope, encoder, each, is_half) for _, each in sorted(kept.items())]
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[first : first + _ROWS_AT_ONCE]
            marks = ", ".join([f"({', '.join('?' * len(part[0]))})"] * len(part))
            db.execute(
                f"""INSERT INTO vectors ({_COLUMNS}) VALUES {marks}
                    ON CONFLICT (tenant, scope, encoder, entry_id) DO UPDATE
                    SET text_hash = excluded.text_hash, checksum = excluded.checksum, vector = excluded.vector""",
                [value for row in part for value in row],
            )

    def _find_type(self, db: PostgresConnection) -> bool:
        """Return whether the column has pgvector's type, and let the connection send vectors."""
        db.driver.adapters.register_dumper(_Vector, _VectorDumper)
        if self._is_half is None:
            row = db.execute(
                """SELECT t.typname FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid
                    WHERE a.attrelid = 'vectors'::regclass AND a.attname = 'vector'"""
            ).fetchone()
            self._is_half = bytes(row[0]) == b"halfvec" if isinstance(row[0], bytes) else row[0] == "halfvec"
        return self._is_half


def lock_owner(db: PostgresConnection, scope: str) -> int | None:
    """Return the number of the session to which `scope` belongs, and prevent erasures of it until the transaction ends.

    Return None if there is no such session, and 0 if `scope` is the scope of a world.
    """
    return find_owner(db, scope, lock=" FOR SHARE")


def find_owner(db: PostgresConnection, scope: str, *, lock: str = "") -> int | None:
    """Return the number of the session to which `scope` belongs.

    Return None if there is no such session, and 0 if `scope` is the scope of a world. `lock` is SQL at the end of the query.
    """
    if not scope.startswith(_SESSION):
        return 0
    row = db.execute(
        f"SELECT key FROM sessions WHERE tenant = ? AND session_id = ?{lock}",
        (db.tenant, scope.removeprefix(_SESSION)),
    ).fetchone()
    return None if row is None else int(row[0])


class _Vector:
    """A vector as the column takes it, in binary."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data


class _VectorDumper(Dumper):
    """Sends the bytes of a vector; the server takes the type from the column."""

    format = Format.BINARY

    def dump(self, obj: _Vector) -> bytes:
        """Return the bytes."""
        return obj.data


def _row_of(tenant: str, scope: str, encoder: str, text: EmbeddedText, is_half: bool) -> Sequence[Any]:
    data, sent = b"", None
    if text.vector is not None:
        codes = np.asarray(text.vector, dtype="<f2")
        data = codes.tobytes()
        head = len(codes).to_bytes(2, "big") + bytes(2)
        sent = _Vector(head + codes.astype(">f2").tobytes() if is_half else data)
    checksum = _checksum(encoder, text.entry_id, text.text_hash, data)
    return (tenant, scope, encoder, text.entry_id, text.text_hash, checksum, sent)


def _checksum(encoder: str, entry_id: str, hashed: bytes, data: bytes) -> int:
    return zlib.crc32(data, zlib.crc32(f"{encoder}\0{entry_id}\0".encode("utf-8", "surrogatepass") + hashed))


def _by_width(rows: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield the rows by the length of their vector: one group, unless some are damaged or have none."""
    groups: dict[int, list[Any]] = {}
    for row in rows:
        groups.setdefault(0 if row[3] is None else len(row[3]), []).append(row)
    yield from groups.values()


def _codes_of(vectors: Sequence[bytes], is_half: bool) -> npt.NDArray[Any]:
    """Return vectors of one length as an array of float16, one row each; of bytes if that is not the length of a
    vector.
    """
    width = len(vectors[0])
    if width % 2 or (is_half and 0 < width <= _HEAD_BYTES):
        return np.zeros((len(vectors), 1), dtype=np.uint8)
    joined = b"".join(vectors)
    if not is_half or not width:
        return np.frombuffer(joined, dtype="<f2").reshape(len(vectors), width // 2)
    codes = np.frombuffer(joined, dtype=">f2").reshape(len(vectors), width // 2)
    return np.ascontiguousarray(codes[:, _HEAD_BYTES // 2 :].astype("<f2"))
