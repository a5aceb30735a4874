"""The index of a store: keeps small scopes in memory, each with a file, and large scopes on disk in LanceDB.

A scope is one session or one world. The package `tiers` opens scopes (`places`), manages LanceDB (`durable`) and
works after turns (`upkeep`). Rows of a scope come from its file (`checkpoints`), from LanceDB (`large_scope`), from a
published snapshot (`served`), or from rows that hosts share (`shared`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, StoreError
from mnemosyne.protocols import Index, SegmentStore, Vectors
from mnemosyne.retrieval.engines.checkpoints.scopes import CheckpointedScopes
from mnemosyne.retrieval.engines.lance.files import has_any_table, has_files, remove_scope_files
from mnemosyne.retrieval.engines.large_scope import DurableIndex, adopt_tables, table_names
from mnemosyne.retrieval.engines.rows import RowBatch, row_batch
from mnemosyne.retrieval.engines.served.scopes import ServedScopes
from mnemosyne.retrieval.engines.served.snapshot import SnapshotSource
from mnemosyne.retrieval.engines.shared.scopes import SharedScopes
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.engines.tiers.durable import DurableFolder
from mnemosyne.retrieval.engines.tiers.places import ScopePlaces, TierLimits
from mnemosyne.retrieval.engines.tiers.upkeep import TierUpkeep
from mnemosyne.schema.memory import Chain, is_overlay, staged_scope
from mnemosyne.schema.query import NO_HITS, Hits, IndexFilter, TextSearch
from mnemosyne.schema.record import SequencedEntry


class TieredIndex(Index):
    """An `Index` over a folder.

    A scope with at most `memory_rows` rows is searched in memory. Its durable form is one file, a checkpoint. The file is
    written after turns if rows were removed, or if at least `held_rows` rows and at least one in sixteen rows have changed. It
    is also written when the scope leaves memory, and by `maintain` and `close`.

    Larger scopes are in LanceDB, which is imported by `warm`, or else when the first of them is opened. Their words are searched
    in memory. `delta_rows` limits how many new rows of a large scope, and rows of its small chains, are in memory with their
    vectors. New rows are written to LanceDB when `held_rows` of them are waiting.

    `open_scopes` and `open_rows` limit how many scopes, and how many rows of scopes, stay in memory after an `evict` or a
    `maintain`. The scope used last always stays.

    `segments` is a store that several hosts share. If it is not None, a scope without files in the folder is kept in that store
    until it is too large for memory. Very small scopes are not kept in the store, and are indexed again when they are opened. If
    `has_vectors`, rows are stored for other hosts only after an embedder has processed them.

    If a file is damaged, or the table of a scope cannot be used, `faults` names it. The scope starts empty and is made again
    from the store. If LanceDB is not installed, large scopes stay in memory. This is not a fault, and `degradations_for`
    reports it.

    If `snapshots` has a snapshot of a scope, the scope is searched in the snapshot. Entries that are added stay in memory
    until there is a newer snapshot, which `maintain` looks for. Nothing is written to the folder.

    Several processes may use one folder. Each finds the rows that others have written when it reads a scope. A scope that
    another process has dropped is read again. If two processes write the file of a scope, the file written last counts.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        memory_rows: int = 250_000,
        delta_rows: int = 200_000,
        held_rows: int = 256,
        open_scopes: int = 256,
        open_rows: int = 300_000,
        durable: DurableIndex | None = None,
        segments: SegmentStore | None = None,
        has_vectors: bool = True,
        snapshots: SnapshotSource | None = None,
    ) -> None:
        self.folder = str(folder)
        self._files = DurableFolder(self.folder, durable)
        self._checkpoints = CheckpointedScopes(self.folder, held_rows=held_rows)
        self._served = ServedScopes(snapshots, memory_rows=memory_rows, delta_rows=delta_rows, held_rows=held_rows)
        self._shared = SharedScopes(segments, has_vectors=has_vectors)
        limits = TierLimits(
            memory_rows=memory_rows,
            delta_rows=delta_rows,
            held_rows=held_rows,
            open_scopes=open_scopes,
            open_rows=open_rows,
        )
        self._places = ScopePlaces(self._files, self._checkpoints, self._served, self._shared, limits)
        self._memory = self._places.memory
        self._upkeep = TierUpkeep(self._places)

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
        engine = await self._places.open(scope)
        if engine is not None:
            rows = await to_thread.run_sync(row_batch, entries, vectors, keys, model)
            self._served.note(scope, rows)
            await self._places.guard(scope, partial(engine.write, scope, rows), None)
            if scope not in self._files.detached:
                return
        table = self._memory.table(scope)
        batch = await to_thread.run_sync(_put_rows, table, entries, vectors, keys, model)
        # Another table may have taken its place meanwhile.
        if not self._memory.holds(scope) or self._memory.table(scope) is not table:
            return
        self._checkpoints.note(scope, batch)
        if not self._served.note(scope, batch) and self._shared.holds(scope):
            self._shared.hold(scope, batch)
            if not await self._shared.add_due(scope, table.count()):
                self._places.reread(scope)

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that was seen for `chain` of the scope (0: none)."""
        return await self._places.query(scope, lambda index: index.watermark(scope, chain), 0)

    async def count(self, scope: str) -> int:
        """Return the number of entries of the scope."""
        return await self._places.query(scope, lambda index: index.count(scope), 0)

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of `chain` that were written last, oldest first."""
        return await self._places.query(scope, lambda index: index.newest_ids(scope, chain, limit), ())

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that the embedder `model` has not processed, in the order of writing."""
        return await self._places.query(scope, lambda index: index.unembedded_ids(scope, model, limit), ())

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder that made the vectors of the scope; empty if it has none."""
        return await self._places.query(scope, lambda index: index.encoder_of(scope), "")

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best entries by BM25."""
        return await self._places.query(where.scope, lambda index: index.search_text(text, where, limit), NO_HITS)

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[Hits]:
        """Return the hits of each search. All scopes in memory are searched together, the others concurrently."""
        return await self._places.search_texts(searches)

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best entries by cosine."""
        return await self._places.query(
            where.scope, lambda index: index.search_vector(vector, where, limit, model=model), NO_HITS
        )

    async def engine_of(self, scope: str) -> str:
        """Return where a scope is searched: `memory` or `disk`."""
        return "memory" if await self._places.open(scope) is None else "disk"

    def faults(self) -> tuple[str, ...]:
        """Return the faults of the folder so far, each sentence once, in order. Damaged rows are reported until they were written
        again.
        """
        return (*self._files.faults(), *self._shared.faults())

    async def has_lost(self, scope: str) -> bool:
        """Return whether damaged rows of a scope were left out when it was read, or its snapshot lacks entries of the store."""
        await self._places.open(scope)
        served = self._served.get(scope)
        return bool(self._files.lost_of(scope)) or (served is not None and served.incomplete)

    def snapshot_of(self, scope: str) -> str:
        """Return the id of the snapshot in which a scope is searched; empty if it is in none."""
        served = self._served.get(scope)
        return "" if served is None else served.snapshot_id

    async def remove_lost(self, scope: str) -> bool:
        """Delete the damaged rows of a scope for good. Call this method after their entries were added again.

        Return False if another process has written to the scope meanwhile, so that it is read again, or if the index cannot be
        written. Return True otherwise.
        """
        if (served := self._served.get(scope)) is not None:
            served.incomplete = False
            return True
        return await self._places.guard(scope, partial(self._upkeep.remove_lost, scope), False)

    async def refresh(self, scope: str) -> bool:
        """Forget `scope` if another host has erased it, so that it is read again. Return whether it was forgotten."""
        is_old = self._shared.holds(scope) and not await self._shared.is_current(scope)
        if is_old:
            self._places.reread(scope)
        return is_old

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched.

        `index_in_memory`: LanceDB is not installed, and one of the scopes is so large that it should be there. For
        the codes of snapshots see `ServedScopes.degradations_for`.
        """
        names = tuple(scopes)
        most = self._places.limits.memory_rows
        is_large = any(self._memory.holds(name) and self._memory.table(name).count() > most for name in names)
        alone = ("index_in_memory",) if self._files.is_alone and is_large else ()
        return (*alone, *self._served.degradations_for(names))

    async def adopt(self, scope: str, staged: str) -> None:
        """Replace a scope by its staged scope, in the folder and in memory; see `Index.adopt`."""
        for name in (scope, staged):
            await self._places.open(name)
            if (large := self._places.large.get(name)) is not None:
                await large.flush()
        async with self._places.opening:
            is_detached = not self._files.detached.isdisjoint((scope, staged))
            table = self._memory.table(staged) if self._memory.holds(staged) else None
            lost = self._files.lost_of(staged)
            mark = await self._checkpoints.find_mark(scope, staged)
            if mark is None:
                # Its rows may have words that were erased; the next feed stages it again.
                for name in (scope, staged):
                    self._places.reread(name)
                return
            if table is None and not is_detached and (engine := await self._files.open(scope)) is not None:
                if self._memory.holds(scope):
                    await self._upkeep.write_table(scope, engine)
                await adopt_tables(engine, scope, staged)
            if is_shared := self._shared.holds(scope) and self._shared.holds(staged):
                with self._index_errors(scope):
                    await self._shared.adopt(scope, staged)
            self._places.forget(scope, is_shared=is_shared)
            self._places.forget(staged)
            self._files.release(scope)
            self._files.keep_lost(scope, lost)
            if is_detached:
                self._files.detached.add(scope)
            if table is None:
                await self._checkpoints.remove(scope)
            else:
                self._memory.keep(scope, table)
                if not is_shared and not is_detached and not await self._checkpoints.adopt(scope, table, mark):
                    self._places.reread(scope)
            await self._checkpoints.remove(staged)

    async def drop(self, scope: str) -> None:
        """Remove `scope` and its staged scope from folder and memory. If `scope` was only in memory because of a fault, it may use
        the folder again.

        Raises IndexUnavailableError if files cannot be removed.
        """
        if is_overlay(scope):
            self._places.forget(scope)
            return
        async with self._places.opening:
            staged = staged_scope(scope)
            with self._index_errors(scope):
                await self._shared.drop(scope)
            names = (*table_names(scope), *table_names(staged))
            for name in names:
                # Its caches know the table.
                if self._files.engine is not None and await to_thread.run_sync(has_files, self.folder, name):
                    await self._files.engine.drop(name)
            await remove_scope_files(self.folder, scope, names)
            for name in (scope, staged):
                self._places.forget(name)
            self._served.refuse(scope)
            self._files.clear_faults((scope, staged))

    async def warm(self) -> None:
        """Import LanceDB on a worker thread, which takes two seconds, if the folder has tables of it. A fault is left to the search
        that needs a table.
        """
        if await to_thread.run_sync(has_any_table, self.folder):
            with suppress(IndexUnavailableError):
                await self._files.open("")

    async def maintain(self) -> None:
        """Write pending rows, compact tables that had many writes, move scopes that have grown too large for memory to LanceDB, and
        remove the scopes from memory that were used longest ago.

        While one call is running, other calls only write pending rows.
        """
        await self._upkeep.maintain()

    def held_in_memory(self) -> tuple[str, ...]:
        """Return the scopes that are in memory, the one used last at the end."""
        return tuple(self._memory.scopes())

    def memory_bytes(self) -> int:
        """Return about how many bytes the scopes in memory take. The number grows with the rows of open sessions, up
        to `open_rows` rows.
        """
        return sum(self._memory.table(scope).memory_bytes() for scope in self._memory.scopes())

    async def evict(self) -> int:
        """Remove the scopes from memory that were used longest ago, until the limits `open_scopes` and `open_rows` are met. Each
        scope is written to its file before.

        Return the number of scopes that were beyond the limits.
        """
        return await self._upkeep.evict()

    async def export(self, scope: str, target: Path) -> bool | None:
        """Write all rows of `scope` as one table into the empty folder `target`, for a snapshot.

        Return True if the rows have the sequence numbers of this store, and False if they have those of another store. Return
        None, and write nothing, if the index has no files of `scope` or LanceDB is not installed.
        """
        return await self._upkeep.export(scope, target)

    async def close(self) -> None:
        """Write pending rows and release the folder."""
        await self._upkeep.close()

    @contextmanager
    def _index_errors(self, scope: str) -> Iterator[None]:
        """Raise errors of the rows that hosts share as IndexUnavailableError."""
        try:
            yield
        except StoreError as error:
            raise IndexUnavailableError(self.folder, scope, str(error)) from error


def _put_rows(
    table: ScopeTable,
    entries: Sequence[SequencedEntry],
    vectors: Vectors | None,
    keys: Sequence[str] | None,
    model: str,
) -> RowBatch:
    batch = row_batch(entries, vectors, keys, model)
    table.put(batch)
    return batch
