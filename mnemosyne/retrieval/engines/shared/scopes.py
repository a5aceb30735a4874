"""Reads and adds the index rows that several hosts share in a `SegmentStore`, for each scope of an index.

A scope is one session or one world. Its shared rows are a list of segments. A segment is added when at least 64 new rows wait
and all of them have their vectors. When there are 16 segments, they are joined into one. A scope with fewer than 256 rows is not
shared, because its rows can be made again in some milliseconds. A staged scope is the copy of a scope that is filled anew and
then replaces the scope. This module must not import an engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import anyio
from anyio import to_thread

from mnemosyne.core.errors import StoreError, UnreadableError
from mnemosyne.protocols import IndexBase, SegmentRows, SegmentStore
from mnemosyne.retrieval.engines.rows import (
    NO_ROWS,
    RowBatch,
    StoredScope,
    highest_sequences,
    merge_batches,
    merge_watermarks,
)
from mnemosyne.retrieval.engines.shared.segments import decode_segments, encode_scope, encode_segment
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.schema.memory import Chain, staged_scope
from mnemosyne.values import dataclass

LEAST_ROWS = 256
SEGMENT_ROWS = 64
CHAIN_SEGMENTS = 16
_LONGEST_WAIT_ROWS = 1_024
_STAGED = staged_scope("")
_NEVER = IndexBase(owner=-1, token="")


@dataclass(kw_only=True, slots=True)
class _Scope:
    """State of a shared scope. `base` is None while the chain cannot be read: then nothing is added."""

    base: IndexBase | None
    marks: Mapping[Chain, int]
    segments: int = 0
    held: RowBatch = NO_ROWS
    adding: anyio.Lock = field(default_factory=anyio.Lock)


class SharedScopes:
    """Reads the shared rows of scopes from `store`, and adds new rows to it. If `has_vectors`, new rows wait until an
    embedder has processed them.

    If `store` is None, no scope is shared, `is_on` is False, and `read` must not be called.
    """

    def __init__(self, store: SegmentStore | None, *, has_vectors: bool = True) -> None:
        self._given, self._has_vectors = store, has_vectors
        self._scopes: dict[str, _Scope] = {}
        self._faults: dict[str, str] = {}

    @property
    def is_on(self) -> bool:
        """Whether there is a store to share scopes in."""
        return self._given is not None

    @property
    def _store(self) -> SegmentStore:
        if self._given is None:
            raise TypeError("there is no store in which scopes are shared")
        return self._given

    def holds(self, scope: str) -> bool:
        """Return whether `scope` was read here. Without a store the result is always False."""
        return scope in self._scopes

    def faults(self) -> tuple[str, ...]:
        """Return the present faults, one sentence each."""
        return tuple(dict.fromkeys(self._faults.values()))

    async def read(self, scope: str) -> StoredScope | None:
        """Return the shared rows of `scope`, or None if it has none. Damaged segments are dropped, so that their rows are made
        again.
        """
        known, stored = await self._read(scope)
        self._scopes[scope] = known
        return stored

    async def read_table(self, scope: str) -> ScopeTable:
        """Return a table in memory with the shared rows of a scope."""
        known, stored = await self._read(scope)
        table = ScopeTable()
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
        # Not while it is read: who forgets the scope meanwhile would leave the table in memory as one that is not shared.
        self._scopes[scope] = known
        return table

    async def _read(self, scope: str) -> tuple[_Scope, StoredScope | None]:
        known = _Scope(base=None, marks={})
        try:
            found = await self._store.load(scope)
            stored = await to_thread.run_sync(decode_segments, found.bodies) if found.bodies else None
        except UnreadableError:
            self._faults[scope] = (
                f"The index rows of {scope!r} in the store are damaged; they are made again from its entries here."
            )
            await self._drop_chain(scope, known)
            return known, None
        except StoreError as error:
            self._note(scope, error)
            return known, None
        self._faults.pop(scope, None)
        known.base, known.segments = found.base, len(found.bodies)
        known.marks = {} if stored is None else highest_sequences(stored)
        return known, stored

    def hold(self, scope: str, batch: RowBatch) -> None:
        """Remember rows that are new in a scope until they are added."""
        known = self._scopes[scope]
        known.held = merge_batches(known.held, batch)

    def is_due(self, scope: str, rows: int) -> bool:
        """Return whether the waiting rows of `scope` should be added to the shared rows now. `rows` is the number of all rows of
        `scope`.

        Return False if `scope` is small or staged, or if few rows wait. Rows that no embedder has processed wait until their
        number is large.
        """
        held = self._scopes[scope].held.rows
        if rows < LEAST_ROWS or len(held) < SEGMENT_ROWS or scope.startswith(_STAGED):
            return False
        return len(held) >= _LONGEST_WAIT_ROWS or not self._has_vectors or all(row.model for row in held)

    async def add_due(self, scope: str, rows: int) -> bool:
        """Add the waiting rows of `scope` to the shared rows, if `is_due` returns True. `rows` is the number of all its rows.

        Return False if the scope must be read again, because its shared rows were dropped. Return True otherwise.
        """
        return not self.is_due(scope, rows) or await self.add(scope)

    async def add(self, scope: str) -> bool:
        """Add the waiting rows of `scope` to the shared rows.

        Return False if the scope must be read again, because its shared rows were dropped. Return True otherwise.
        """
        known = self._scopes[scope]
        async with known.adding:
            batch, known.held = known.held, NO_ROWS
            if known.base is None or not (batch.rows or batch.removed):
                known.held = merge_batches(batch, known.held)
                return True
            marks = merge_watermarks(known.marks, batch.watermarks)
            try:
                body = await to_thread.run_sync(encode_segment, batch)
                rows = SegmentRows(
                    base=known.base, marks={chain.value: mark for chain, mark in marks.items()}, body=body
                )
                base = await self._store.append(scope, rows)
            except StoreError as error:
                self._note(scope, error)
                base = known.base
            if base is None:
                return False
            if base == known.base:
                known.held = merge_batches(batch, known.held)
                return True
            self._faults.pop(scope, None)
            known.base, known.marks = base, marks
            known.segments += 1
            if known.segments >= CHAIN_SEGMENTS:
                await self._join(scope, known)
        return True

    async def is_current(self, scope: str) -> bool:
        """Return whether the rows that were read of a scope are still valid.

        The rows are not valid after an erasure on another host. They are also not valid if the store could not be read when the
        scope was read, but can be read now.
        """
        known = self._scopes.get(scope)
        if known is None:
            return True
        try:
            return await self._store.is_current(scope, known.base or _NEVER) and known.base is not None
        except StoreError:
            return True

    async def drop(self, scope: str) -> None:
        """Remove the shared rows of a scope. Raises StoreError if the store cannot be used."""
        self.forget(scope)
        if self.is_on and not scope.startswith(_STAGED):
            await self._store.drop(scope)

    async def adopt(self, scope: str, staged: str) -> None:
        """Replace the shared rows of a scope by the rows of a staged scope. The rows of the staged scope were not added yet.
        Raises StoreError if the store cannot be used.
        """
        held = self._scopes[staged].held if staged in self._scopes else NO_ROWS
        await self.drop(scope)
        self.forget(staged)
        await self.read(scope)
        self._scopes[scope].held = held

    def forget(self, scope: str) -> None:
        """Forget a scope. Rows that were not added yet are made again when the scope is read."""
        self._scopes.pop(scope, None)
        self._faults.pop(scope, None)

    async def _join(self, scope: str, known: _Scope) -> None:
        """Make one segment of a chain that has not changed since the last one was added."""
        try:
            found = await self._store.load(scope)
            if found.base != known.base:
                known.segments = len(found.bodies)
                return
            stored = await to_thread.run_sync(decode_segments, found.bodies)
            if stored is None:
                return
            body = await to_thread.run_sync(encode_scope, stored)
            marks = {chain.value: mark for chain, mark in known.marks.items()}
            whole = SegmentRows(base=found.base, marks=marks, body=body, is_whole=True)
            base = await self._store.append(scope, whole)
        except (StoreError, UnreadableError) as error:
            self._note(scope, error)
            return
        if base is not None and base != known.base:
            known.base, known.segments = base, 1

    async def _drop_chain(self, scope: str, known: _Scope) -> None:
        try:
            await self._store.drop(scope)
            known.base = (await self._store.load(scope)).base
        except StoreError as error:
            self._note(scope, error)

    def _note(self, scope: str, error: Exception) -> None:
        self._faults[scope] = (
            f"The index rows that hosts share cannot be used ({str(error).rstrip('.')}): this host makes its own meanwhile."
        )
