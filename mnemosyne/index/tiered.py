"""The index of a store: LanceDB keeps, memory searches.

Scopes up to a limit are read into memory at first use and kept in step. Of bigger ones `settle` reads the words into memory, a
tenth of what the vectors take; until then, and beyond a second limit, all of them is searched where it lies. What is
new is held in memory and written in batches, because single rows slow LanceDB down; a crash costs only vectors that have
to be made again, since the store has the texts. The durable engine is imported when it is first needed, by name and off
the event loop: it is heavy, and a store without a session should not pay for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeVar

import anyio
from anyio import to_thread

from mnemosyne.errors import IndexUnavailableError
from mnemosyne.index.memory import MemoryIndex
from mnemosyne.index.rows import IndexRow, RowBatch, StoredScope, row_batch
from mnemosyne.index.table import ScopeTable
from mnemosyne.protocols import Index, Vectors
from mnemosyne.query import Hit, IndexFilter
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.record import SequencedEntry

T = TypeVar("T")
NOTHING_HELD = RowBatch(rows=(), removed=(), watermarks={})


class DurableIndex(Index, Protocol):
    """An index that outlives the process; any of its methods may raise IndexUnavailableError."""

    async def load(self, scope: str, *, vectors: bool = True) -> StoredScope | None:
        """Read a whole scope back in the order of writing, unless told otherwise with vectors; None when nothing is stored."""
        ...

    async def prepare(self, scope: str) -> None:
        """Make the indexes that searching a big scope needs; takes long and never holds up a search or a write."""
        ...

    async def write(self, scope: str, batch: RowBatch) -> None:
        """Write rows in one batch, replacing those of the same id, and remove what the batch removes."""
        ...


class TieredIndex:
    """An `Index` over a folder.

    `memory_rows`: the biggest scope that is searched in memory. `word_rows`: of bigger ones the words of so many rows in all
    are. `held_rows`: so many new rows are held back before they are written (`settle` and `close` write all).
    `open_scopes`: so many scopes stay in memory after a `settle`.
    A scope whose table cannot be used goes on in memory, starts empty there, and is named by `faults`.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        memory_rows: int = 200_000,
        word_rows: int = 2_000_000,
        held_rows: int = 256,
        open_scopes: int = 64,
        durable: DurableIndex | None = None,
    ) -> None:
        self.folder = str(folder)
        self._memory_rows, self._held_rows, self._open_scopes = memory_rows, held_rows, open_scopes
        self._durable, self._word_rows = durable, word_rows
        self._memory = MemoryIndex()
        self._words = MemoryIndex()
        self._unread: dict[str, list[RowBatch]] = {}
        self._held: dict[str, RowBatch] = {}
        self._direct: set[str] = set()
        self._cut_off: set[str] = set()
        self._in_flight: set[str] = set()
        self._faults: dict[str, str] = {}
        self._opening = anyio.Lock()
        self._writing = anyio.Lock()

    async def add(
        self,
        scope: str,
        entries: Sequence[SequencedEntry],
        vectors: Vectors | None,
        *,
        keys: Sequence[str] | None = None,
        model: str = "",
    ) -> None:
        """Add, replace or remove entries; see `Index.add`."""
        batch = await to_thread.run_sync(row_batch, entries, vectors, keys, model)
        direct = await self._open(scope)
        if direct is not None:
            await self._guarded(scope, lambda: direct.write(scope, batch), None)
            if scope not in self._cut_off:
                await self._keep_words(scope, batch)
                return
        table = self._memory.table(scope)
        await to_thread.run_sync(table.put, batch)
        if scope not in self._cut_off:
            self._held[scope] = _joined(self._held.get(scope, NOTHING_HELD), batch)
            if len(self._held[scope].rows) >= self._held_rows:
                await self._write_held(scope)

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence seen for this chain of the scope (0 = none)."""
        return await self._ask(scope, lambda index: index.watermark(scope, chain), 0)

    async def count(self, scope: str) -> int:
        """Return how many entries the scope holds."""
        return await self._ask(scope, lambda index: index.count(scope), 0)

    async def newest(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the chain's entries written last, oldest first."""
        return await self._ask(scope, lambda index: index.newest(scope, chain, limit), ())

    async def unseen(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return ids of entries that this model has not looked at, in the order of writing."""
        return await self._ask(scope, lambda index: index.unseen(scope, model, limit), ())

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> tuple[Hit, ...]:
        """Return the best by BM25."""
        if self._words.holds(where.scope):
            self._words.touch(where.scope)
            return await self._words.search_text(text, where, limit)
        return await self._ask(where.scope, lambda index: index.search_text(text, where, limit), ())

    async def search_vector(
        self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = ""
    ) -> tuple[Hit, ...]:
        """Return the best by cosine."""
        return await self._ask(where.scope, lambda index: index.search_vector(vector, where, limit, model=model), ())

    async def engine_of(self, scope: str) -> str:
        """Say where a scope is searched: `memory` or `disk`."""
        return "memory" if await self._open(scope) is None else "disk"

    def faults(self) -> tuple[str, ...]:
        """Return what has gone wrong with the folder so far, each sentence once, in order."""
        return tuple(self._faults)

    async def drop(self, scope: str) -> None:
        """Remove all of a scope from folder and memory; it is no longer cut off from the folder then."""
        async with self._opening, self._writing:
            durable = await self._engine(scope)
            await durable.drop(scope)
            self._memory.forget(scope)
            self._words.forget(scope)
            self._held.pop(scope, None)
            self._direct.discard(scope)
            self._cut_off.discard(scope)
            self._faults = {fault: of for fault, of in self._faults.items() if of not in (scope, "")}

    async def settle(self) -> None:
        """Write what is held back, tidy files when it is due, move grown scopes to disk, let old ones go from memory."""
        grown: list[str] = []
        for scope in list(self._held):
            await self._write_held(scope)
        if self._durable is not None:
            durable = self._durable
            grown = [scope for scope in self._memory.scopes() if self._has_grown(scope)]
            for scope in (*grown, *self._direct):
                # While its indexes are made a grown scope is still searched in memory.
                await self._guarded(scope, partial(durable.prepare, scope), None)
            await self._guarded("", durable.settle, None)
        async with self._opening:
            for scope in self._memory.scopes():
                if self._has_grown(scope) and scope in grown:
                    self._direct.add(scope)
                    self._memory.forget(scope)
            for scope in self._memory.scopes()[: -self._open_scopes]:
                if self._is_safe(scope):
                    self._memory.forget(scope)
        for scope in list(self._direct):
            await self._guarded(scope, partial(self._read_words, scope), None)

    async def close(self) -> None:
        """Write what is held back and release the folder."""
        for scope in list(self._held):
            await self._write_held(scope)
        if self._durable is not None:
            await self._durable.close()

    async def _read_words(self, scope: str) -> None:
        """Bring the words of a big scope into memory, if they fit; what is written meanwhile is brought after them."""
        durable = await self._engine(scope)
        rows = await durable.count(scope)
        if self._words.holds(scope) or rows > self._word_rows:
            return
        late = self._unread[scope] = []
        try:
            stored, table = await durable.load(scope, vectors=False), ScopeTable()
            if stored is not None:
                await to_thread.run_sync(table.fill, stored)
            while late:
                await to_thread.run_sync(table.put, late.pop(0))
            if scope in self._direct:
                self._words.adopt(scope, table)
        finally:
            del self._unread[scope]
        while sum(self._words.table(each).count() for each in self._words.scopes()) > self._word_rows:
            self._words.forget(self._words.scopes()[0])

    async def _keep_words(self, scope: str, batch: RowBatch) -> None:
        bare = replace(batch, rows=tuple(replace(row, vector=None, model="") for row in batch.rows))
        if scope in self._unread:
            self._unread[scope].append(bare)
        if self._words.holds(scope):
            await to_thread.run_sync(self._words.table(scope).put, bare)

    def _has_grown(self, scope: str) -> bool:
        return self._is_safe(scope) and self._memory.table(scope).count() > self._memory_rows

    def _is_safe(self, scope: str) -> bool:
        """Say whether the folder holds all that memory does of a scope."""
        return scope not in self._cut_off and scope not in self._held and scope not in self._in_flight

    async def _ask(self, scope: str, question: Callable[[Index], Awaitable[T]], nothing: T) -> T:
        direct = await self._open(scope)
        if direct is None:
            return await question(self._memory)
        return await self._guarded(scope, lambda: question(direct), nothing)

    async def _guarded(self, scope: str, work: Callable[[], Awaitable[T]], nothing: T) -> T:
        try:
            return await work()
        except IndexUnavailableError as error:
            self._note(error)
            self._cut(scope or error.scope)
            return nothing

    async def _open(self, scope: str) -> DurableIndex | None:
        """Bring a scope into memory at first use; return the durable index when the scope is searched there."""
        if self._memory.holds(scope):
            self._memory.touch(scope)
            return None
        async with self._opening:
            if self._memory.holds(scope):
                return None
            try:
                durable = await self._engine(scope)
                if scope in self._direct:
                    return durable
                if await durable.count(scope) > self._memory_rows:
                    self._direct.add(scope)
                    return durable
                if scope in self._held:
                    await self._write_held(scope)
                stored = await durable.load(scope)
                table = self._memory.table(scope)
                if stored is not None:
                    await to_thread.run_sync(table.fill, stored)
            except IndexUnavailableError as error:
                self._note(error)
                self._cut(scope)
        return None

    async def _engine(self, scope: str) -> DurableIndex:
        if self._durable is None:
            try:
                module = await to_thread.run_sync(import_module, "mnemosyne.index.lance")
            except ImportError as error:
                reason = f"lancedb is not installed ({error}); pip install 'jacquard-context[lance]'"
                raise IndexUnavailableError(self.folder, scope, reason) from error
            durable: DurableIndex = module.LanceIndex(self.folder)
            self._durable = durable
        return self._durable

    async def _write_held(self, scope: str) -> None:
        async with self._writing:
            batch = self._held.pop(scope, NOTHING_HELD)
            if not batch.rows and not batch.removed:
                return
            self._in_flight.add(scope)
            try:
                durable = await self._engine(scope)
                await durable.write(scope, batch)
            except IndexUnavailableError as error:
                # Memory goes on; the store still has what was not written here.
                self._note(error)
                self._cut_off.add(scope)
            finally:
                self._in_flight.discard(scope)

    def _cut(self, scope: str) -> None:
        self._cut_off.add(scope)
        self._direct.discard(scope)
        self._words.forget(scope)
        self._held.pop(scope, None)
        self._memory.table(scope)

    def _note(self, error: IndexUnavailableError) -> None:
        self._faults[str(error)] = error.scope


def _joined(held: RowBatch, late: RowBatch) -> RowBatch:
    """Return both batches as one; the later word on an id counts."""
    rows: dict[str, IndexRow] = {row.entry_id: row for row in held.rows}
    removed = dict.fromkeys(held.removed)
    for row in late.rows:
        rows.pop(row.entry_id, None)
        rows[row.entry_id] = row
        removed.pop(row.entry_id, None)
    for entry_id in late.removed:
        rows.pop(entry_id, None)
        removed[entry_id] = None
    return replace(
        late, rows=tuple(rows.values()), removed=tuple(removed), watermarks={**held.watermarks, **late.watermarks}
    )
