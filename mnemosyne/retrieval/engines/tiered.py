"""The index of a store: LanceDB stores the rows, memory searches them.

Scopes up to a limit are read into memory at first use and kept up to date there. Of larger ones only the words are
(`large_scope`), and beyond a second limit everything is searched on disk. New rows are collected in memory and written
in batches, because single rows slow LanceDB down; a crash costs only vectors that must be computed again, because the
store has the texts. The durable engine is imported when it is first needed, by name and off the event loop: it is
heavy, and a store without a session should not pay for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError, StoreError
from mnemosyne.protocols import SegmentStore, Vectors
from mnemosyne.retrieval.engines.lance_files import has_files, read_mark, remove_scope_files
from mnemosyne.retrieval.engines.large_scope import (
    DurableIndex,
    LargeScope,
    SearchEngine,
    adopt_tables,
    delta_names,
    owner_of,
)
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, batch_of, merge_batches, merge_watermarks, row_batch
from mnemosyne.retrieval.engines.served.scopes import ServedScopes, ServedSnapshot, SnapshotSource
from mnemosyne.retrieval.engines.served.tables import open_table
from mnemosyne.retrieval.engines.shared.scopes import SharedScopes
from mnemosyne.retrieval.engines.tables.checkpoint import (
    OpenedScope,
    read_scope_files,
    remove_checkpoint,
    write_checkpoint,
)
from mnemosyne.retrieval.engines.tables.loading import ScopeLoad
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.schema.memory import Chain, staged_scope
from mnemosyne.schema.query import Hit, IndexFilter, TextSearch
from mnemosyne.schema.record import SequencedEntry

T = TypeVar("T")

_TRIES = 3
_LARGE_ROWS = 2_000
_SAVED_SHARE = 16
WORD_ROWS = 2_000_000
"""The largest scope whose words are searched in memory, unless it is said otherwise."""


class TieredIndex:
    """An `Index` over a folder.

    `memory_rows`: the largest scope that is searched in memory. `word_rows`: the largest scope whose words are searched
    in memory, and the total of all such scopes after a `maintain`. `delta_rows`: the limit of new rows of such a scope,
    and of rows of its rare chains, that are in memory with their vectors. `held_rows`: the number of new rows that are
    collected before they are written (`maintain` and `close` write all). `open_scopes` and `open_rows`: the number of scopes
    that stay in memory after an `evict` or a `maintain`, and of their rows (the scope used last stays in any case).

    A scope opens from a checkpoint beside its table, where there is one. While a table is read because its checkpoint is of an
    earlier state, that state serves; of a table of more than `long_rows` rows without one, the `part_rows` rows written last do.
    Reading begins after `head_start_seconds`, so that the turn that opens the scope has the processor for itself.

    With `segments` (a store for several hosts) a scope that has no files in the folder is kept there until it is too large for
    memory; small ones are kept nowhere and made again when they are opened. With `has_vectors` rows are given to other hosts
    once an embedder has processed them.

    A scope whose table cannot be used continues in memory, starts empty there, and is named by `faults`. If LanceDB is
    not installed, all scopes are in memory only; that is not a fault, and `degradations_for` reports where it matters.

    `snapshots`: where it has one of a scope, the scope is searched in that, and what is added stays in memory until there is a
    newer one (`maintain` looks for it); nothing is written to the folder.

    Several processes may use one folder: each finds what the others have written when it reads a scope, and a scope
    that another drops is read again.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        memory_rows: int = 250_000,
        word_rows: int = WORD_ROWS,
        delta_rows: int = 200_000,
        held_rows: int = 256,
        open_scopes: int = 256,
        open_rows: int = 300_000,
        part_rows: int = 5_000,
        long_rows: int = 20_000,
        head_start_seconds: float = 0.3,
        durable: DurableIndex | None = None,
        segments: SegmentStore | None = None,
        has_vectors: bool = True,
        snapshots: SnapshotSource | None = None,
    ) -> None:
        self.folder = str(folder)
        self._memory_rows, self._held_rows = memory_rows, held_rows
        self._open_scopes, self._open_rows = open_scopes, open_rows
        self._durable, self._word_rows, self._delta_rows = durable, word_rows, delta_rows
        self._has_own_engine = durable is None
        self._part_rows, self._long_rows, self._head_start_seconds = part_rows, long_rows, head_start_seconds
        self._memory, self._served = MemoryIndex(), ServedScopes(snapshots)
        self._shared = None if segments is None else SharedScopes(segments, has_vectors=has_vectors)
        self._big: dict[str, LargeScope] = {}
        self._held: dict[str, RowBatch] = {}
        self._direct: set[str] = set()
        self._cut_off: set[str] = set()
        self._in_flight: set[str] = set()
        self._faults: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._opened: dict[str, OpenedScope] = {}
        self._saved: dict[str, tuple[str, int]] = {}
        self._unchanged = set[str]()
        self._loads: dict[str, ScopeLoad] = {}
        self._is_alone = False
        self._opening = anyio.Lock()
        self._writing = anyio.Lock()
        self._maintaining = anyio.Lock()

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
        direct = await self._open(scope)
        if direct is not None:
            rows = await to_thread.run_sync(row_batch, entries, vectors, keys, model)
            if (served := self._served.get(scope)) is not None:
                served.note(rows)
            await self._run_guarded(scope, lambda: direct.append(scope, rows), None)
            if scope not in self._cut_off:
                return
        table = self._memory.table(scope)
        batch = await to_thread.run_sync(_put_rows, table, entries, vectors, keys, model)
        if batch.removed:
            # The file would keep their words.
            await self._remove_checkpoint(scope)
        if (load := self._loads.get(scope)) is not None:
            load.note(batch)
        if (served := self._served.get(scope)) is not None:
            served.note(batch)
        elif self._shared is not None and self._shared.holds(scope):
            if self._memory.holds(scope) and self._memory.table(scope) is table:
                self._shared.hold(scope, batch)
                await self._share(scope)
        elif scope not in self._cut_off and self._memory.holds(scope) and self._memory.table(scope) is table:
            self._held[scope] = merge_batches(self._held.get(scope, NO_ROWS), batch)
            if len(self._held[scope].rows) >= self._held_rows:
                await self._write_held(scope)

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence seen for this chain of the scope (0 = none)."""
        return await self._run_query(scope, lambda index: index.watermark(scope, chain), 0)

    async def count(self, scope: str) -> int:
        """Return how many entries the scope holds."""
        return await self._run_query(scope, lambda index: index.count(scope), 0)

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of the chain that were written last, oldest first."""
        return await self._run_query(scope, lambda index: index.newest_ids(scope, chain, limit), ())

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that this model has not processed, in the order of writing."""
        return await self._run_query(scope, lambda index: index.unembedded_ids(scope, model, limit), ())

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder whose vectors the scope has; empty where it has none."""
        return await self._run_query(scope, lambda index: index.encoder_of(scope), "")

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> tuple[Hit, ...]:
        """Return the best by BM25."""
        return await self._run_query(where.scope, lambda index: index.search_text(text, where, limit), ())

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[tuple[Hit, ...]]:
        """Return what `search_text` returns for each: all scopes in memory together, the others side by side. A scope whose words
        are not in memory counts beside no other.
        """
        scopes = dict.fromkeys(each.where.scope for each in searches)
        for _ in range(_TRIES):
            in_memory = {scope for scope in scopes if await self._open(scope) is None}
            # One may have been evicted while the next was read.
            if all(self._memory.holds(scope) for scope in in_memory):
                break
        found = dict[int, tuple[Hit, ...]]()

        async def search_one(place: int) -> None:
            found[place] = await self.search_text(*searches[place][:3])

        held = [place for place, each in enumerate(searches) if each.where.scope in in_memory]
        if len(held) < len(searches):
            async with anyio.create_task_group() as group:
                for place in range(len(searches)):
                    if place not in held:
                        group.start_soon(search_one, place)
        if held:
            big = {scope: self._big[scope].words for scope in scopes if scope in self._big}
            hits = await self._memory.search_texts([searches[place] for place in held], big)
            found.update(zip(held, hits, strict=True))
        return [found[place] for place in range(len(searches))]

    async def search_vector(
        self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = ""
    ) -> tuple[Hit, ...]:
        """Return the best by cosine."""
        return await self._run_query(
            where.scope, lambda index: index.search_vector(vector, where, limit, model=model), ()
        )

    async def engine_of(self, scope: str) -> str:
        """Return where a scope is searched: `memory` or `disk`."""
        return "memory" if await self._open(scope) is None else "disk"

    def faults(self) -> tuple[str, ...]:
        """Return the faults of the folder so far, each sentence once, in order; damaged rows are none any more once they
        were made again.
        """
        shared = () if self._shared is None else self._shared.faults()
        return (*self._faults, *self._lost.values(), *shared)

    async def has_lost(self, scope: str) -> bool:
        """Return whether rows of a scope were damaged and left out when it was read."""
        await self._open(scope)
        served = self._served.get(scope)
        return scope in self._lost or (served is not None and served.incomplete)

    def snapshot_of(self, scope: str) -> str:
        """Return the id of the snapshot in which a scope is searched; empty where it is in none."""
        served = self._served.get(scope)
        return "" if served is None else served.snapshot_id

    async def remove_lost(self, scope: str) -> None:
        """Delete the damaged rows of a scope, which were made again."""
        if (served := self._served.get(scope)) is not None:
            served.incomplete = False
            return
        await self._run_guarded(scope, partial(self._remove_lost, scope), None)

    async def refresh(self, scope: str) -> None:
        """Let go of what another host has erased of a scope: it is read again."""
        if self._shared is not None and self._shared.holds(scope) and not await self._shared.is_current(scope):
            self._reread(scope)

    async def _share(self, scope: str) -> None:
        """Add new rows of a scope to what hosts share, where it is due."""
        table = self._memory.table(scope)
        is_due = self._shared is not None and self._shared.is_due(scope, table.count())
        if self._shared is not None and is_due and not await self._shared.add(scope):
            self._reread(scope)

    async def _remove_lost(self, scope: str) -> None:
        await self._write_held(scope)
        durable = await self._engine(scope)
        if scope not in self._lost or scope in self._cut_off or durable is None:
            return
        if (big := self._big.get(scope)) is not None:
            is_removed = await big.remove_lost()
        else:
            read = {chain: self._memory.table(scope).watermark(chain) for chain in Chain}
            is_removed = await durable.remove_damaged(scope, read)
        if is_removed:
            self._lost.pop(scope, None)
        else:
            self._reread(scope)

    def _note_lost(self, scope: str, rows: int) -> None:
        self._lost.pop(scope, None)
        if rows:
            self._lost[scope] = (
                f"The index of {scope!r} in {self.folder} has damaged rows, which recall does without. Nothing of the "
                "session is lost: they are made again from the store after the next turn, or by `jacquard reindex`."
            )

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched.

        `index_in_memory`: LanceDB is not installed, and one of them is so large that it should not be rebuilt in every
        process. `index_loading`: of one of them only a part is searched, because it is still read. Those of snapshots:
        `ServedScopes.degradations_for`.
        """
        loading = () if self._loads.keys().isdisjoint(names := tuple(scopes)) else ("index_loading",)
        large = any(self._memory.holds(name) and self._memory.table(name).count() > _LARGE_ROWS for name in names)
        alone = ("index_in_memory",) if self._is_alone and large else ()
        return (*loading, *alone, *self._served.degradations_for(names))

    async def read_stored(self, scope: str) -> None:
        """Read a scope from its table, without a checkpoint; see `PartialIndex`."""
        opened = self._opened.get(scope)
        if scope in self._cut_off or (self._memory.holds(scope) and not (opened and opened.has_checkpoint)):
            return
        await self._write_held(scope)
        await self._remove_checkpoint(scope)
        async with self._opening:
            if scope in self._loads or self._memory.holds(scope):
                self._reread(scope)
        await self.wait_until_whole(scope)

    async def wait_until_whole(self, scope: str) -> bool:
        """Return when a scope is searched whole, and whether that was not so before; see `PartialIndex`."""
        await self._open(scope)
        if (load := self._loads.get(scope)) is None:
            return False
        await load.wait()
        await self._open(scope)
        return True

    async def adopt(self, scope: str, staged: str) -> None:
        """Put the staged scope in the place of the scope, in folder and memory; see `ReencodableIndex.adopt`."""
        for name in (scope, staged):
            await self.wait_until_whole(name)
            await self._write_held(name)
            if (big := self._big.get(name)) is not None:
                await big.flush()
        async with self._opening, self._writing:
            durable = await self._engine(scope) if self._has_folder(scope) else None
            if is_cut_off := scope in self._cut_off or staged in self._cut_off:
                durable = None
            if durable is not None:
                await adopt_tables(durable, scope, staged)
            # It has the vectors of the former embedder.
            await self._remove_checkpoint(scope)
            table = self._memory.table(staged) if self._memory.holds(staged) and self._memory.holds(scope) else None
            lost = self._lost.get(staged)
            if is_shared := self._shared is not None and self._shared.holds(scope) and self._shared.holds(staged):
                await self._adopt_shared(scope, staged)
            self._forget(scope, is_shared=is_shared)
            self._forget(staged)
            if lost is not None:
                self._lost[scope] = lost
            if is_cut_off:
                self._cut_off.add(scope)
            if table is not None:
                self._memory.keep(scope, table)
                self._opened[scope] = OpenedScope(await to_thread.run_sync(read_mark, self.folder, scope))

    async def drop(self, scope: str) -> None:
        """Remove a scope from folder and memory, with what is staged for it; if a fault had detached it from the folder,
        that ends. IndexUnavailableError when files cannot be removed.
        """
        async with self._opening, self._writing:
            staged = staged_scope(scope)
            names = (scope, *delta_names(scope), staged, *delta_names(staged))
            durable = await self._engine(scope) if self._shared is None or self._durable is not None else None
            if self._shared is not None:
                await self._drop_shared(scope)
            if durable is None:
                await remove_scope_files(self.folder, scope, names)
            else:
                for name in names:
                    await durable.drop(name)
            for name in (scope, staged):
                self._forget(name)
            self._served.refuse(scope)
            self._faults = {fault: of for fault, of in self._faults.items() if of not in (scope, staged, "")}

    async def _drop_shared(self, scope: str) -> None:
        if self._shared is not None:
            try:
                await self._shared.drop(scope)
            except StoreError as error:
                raise IndexUnavailableError(self.folder, scope, str(error)) from error

    async def _adopt_shared(self, scope: str, staged: str) -> None:
        if self._shared is not None:
            try:
                await self._shared.adopt(scope, staged)
            except StoreError as error:
                raise IndexUnavailableError(self.folder, scope, str(error)) from error

    async def maintain(self) -> None:
        """Write pending rows, compact files when it is due, move grown scopes to disk, and evict old ones from memory.

        While one call is running, others only write pending rows.
        """
        for scope in list(self._held):
            await self._write_held(scope)
        for scope, big in list(self._big.items()):
            await self._run_guarded(scope, big.flush, None)
        if self._maintaining.locked():
            return
        async with self._maintaining:
            if self._shared is not None and any(map(self._has_grown, self._memory.scopes())):
                await self._run_guarded("", partial(self._engine, ""), None)
            if self._durable is not None:
                await self._tidy(self._durable)
            for scope in self._memory.scopes():
                if scope not in self._unchanged:
                    await self._save(scope, is_last=False)
            await self._evict_scopes()
            await self._renew_snapshots()

    def held_in_memory(self) -> tuple[str, ...]:
        """Return the scopes that are held in memory, the one used last at the end."""
        return tuple(self._memory.scopes())

    async def evict(self) -> None:
        """Write and forget the scopes in memory that were used longest ago, beyond `open_scopes` and `open_rows`."""
        for scope in self._find_excess():
            await self._write_held(scope)
            await self._save(scope)
            async with self._opening:
                if self._is_safe(scope):
                    self._memory.forget(scope)
                    self._forget_files(scope)
                    self._served.forget(scope)
                    if self._shared is not None:
                        self._shared.forget(scope)
                    self._release(scope)

    async def close(self) -> None:
        """Write pending rows and release the folder."""
        for load in self._loads.values():
            load.give_up()
        for scope in list(self._held):
            await self._write_held(scope)
        for scope in self._memory.scopes():
            await self._save(scope)
        for load in list(self._loads.values()):
            # It is close to its end; a thread in the engine when the process ends is not safe.
            await load.wait()
        for scope, big in list(self._big.items()):
            await self._run_guarded(scope, big.close, None)
        self._big.clear()
        await self._served.close()
        if self._durable is not None:
            await self._durable.close()

    async def _tidy(self, durable: DurableIndex) -> None:
        for scope in [scope for scope in self._memory.scopes() if self._has_grown(scope)]:
            await self._run_guarded(scope, partial(self._move_out, scope, durable), None)
        for scope in list(self._direct):
            await self._run_guarded(scope, partial(durable.prepare, scope), None)
        for scope, big in list(self._big.items()):
            await self._run_guarded(scope, big.maintain, None)
        await self._run_guarded("", durable.maintain, None)

    async def _evict_scopes(self) -> None:
        await self.evict()
        async with self._opening:
            rows = {scope: await big.count(scope) for scope, big in self._big.items()}
            for scope in list(rows)[:-1]:
                if sum(rows.values()) > self._word_rows:
                    del rows[scope]
                    self._served.forget(scope)
                    await self._run_guarded(scope, self._big.pop(scope).close, None)

    def _find_excess(self) -> list[str]:
        """Return the scopes in memory that are beyond the limits, the one used longest ago first."""
        scopes, excess, rows = self._memory.scopes(), list[str](), 0
        for place, scope in enumerate(reversed(scopes)):
            rows += self._memory.table(scope).count()
            if place and (place >= self._open_scopes or rows > self._open_rows):
                excess.append(scope)
        return excess[::-1]

    async def _save(self, scope: str, *, is_last: bool = True) -> None:
        """Write a checkpoint of a scope that has changed; unless it `is_last`, that of a long one only once it has grown."""
        if self._durable is None or not self._memory.holds(scope) or not self._is_safe(scope) or scope in self._lost:
            return
        if (opened := self._opened.get(scope)) is None:
            return
        table = self._memory.table(scope)
        rows, (saved, rows_then) = table.count(), self._saved.get(scope, ("", 0))
        if not rows or (not is_last and rows > self._long_rows and (rows - rows_then) * _SAVED_SHARE < rows):
            return
        marks = {chain: table.watermark(chain) for chain in Chain}
        self._durable.expect(scope, opened.mark, 0)
        stamp = await self._run_guarded(scope, partial(self._durable.stamp, scope, rows, marks, table.model), "")
        if stamp and self._is_safe(scope):
            # A write that begins while the file is written counts as one after it.
            self._unchanged.add(scope)
            if stamp != saved:
                await to_thread.run_sync(write_checkpoint, self.folder, scope, stamp, opened.mark, table)
                self._saved[scope] = stamp, rows

    async def _remove_checkpoint(self, scope: str) -> None:
        self._saved.pop(scope, None)
        self._unchanged.discard(scope)
        try:
            await to_thread.run_sync(remove_checkpoint, self.folder, scope)
        except OSError as error:
            self._note(IndexUnavailableError(self.folder, scope, str(error)), scope)

    async def _move_out(self, scope: str, durable: DurableIndex) -> None:
        """Move a grown scope to disk; while its indexes are built it is still searched in memory."""
        if self._shared is not None and self._shared.holds(scope):
            await self._copy_to_folder(scope, durable)
            return
        is_big = self._memory.table(scope).count() <= self._word_rows
        await durable.prepare(scope, words=not is_big)
        async with self._opening:
            big = await self._open_large_scope(scope, durable) if is_big else None
            if not self._has_grown(scope):
                return
            self._memory.forget(scope)
            if big is None:
                self._direct.add(scope)
            else:
                self._big[scope] = big

    async def _copy_to_folder(self, scope: str, durable: DurableIndex) -> None:
        """Write the rows that hosts share of a scope to the folder, from which it is read from then on."""
        if self._shared is None or not await self._shared.add(scope):
            return
        stored = await self._shared.read(scope)
        if stored is not None and len(stored.ids) > self._memory_rows:
            await durable.write(scope, await to_thread.run_sync(batch_of, stored))
            self._reread(scope)

    async def _open_large_scope(self, scope: str, durable: DurableIndex) -> LargeScope:
        await self._remove_checkpoint(scope)
        big = LargeScope(scope, durable, delta_rows=self._delta_rows, held_rows=self._held_rows)
        await big.open()
        self._note_lost(scope, big.lost)
        return big

    async def export(self, scope: str, target: Path) -> bool | None:
        """Write all rows of a scope, with its graph, as one table into an empty folder, for a snapshot; return whether they have
        the sequences of this store, or None, with nothing written, where there are no files of it. Takes long.
        IndexUnavailableError.
        """
        await self.maintain()
        await self._open(scope)
        has_folder = scope not in self._cut_off and await to_thread.run_sync(has_files, self.folder, scope)
        if scope not in self._served and not has_folder:
            return None
        served = self._served.get(scope)
        module = await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.served.export")
        await module.export_scope(
            self.folder if served is None else str(served.folder),
            scope,
            target,
            NO_ROWS if served is None else served.changes,
            word_rows=self._word_rows,
            is_shared=served is None,
        )
        return served is None or not served.sequences

    async def _renew_snapshots(self) -> None:
        """Open newer snapshots in the place of those that are searched; searches go on in these until then."""
        for scope in [*self._memory.scopes(), *self._big]:
            if (newer := await self._served.find_newer(scope)) is not None:
                await self._serve(scope, newer)
        await self._served.release()

    async def _open_snapshot(self, scope: str) -> bool:
        """Search a scope in its newest snapshot, if it has a usable one; return whether it has."""
        for _ in range(_TRIES):
            found = await self._served.find(scope)
            if found is None:
                return False
            if await self._serve(scope, found):
                return True
        return False

    async def _serve(self, scope: str, snapshot: ServedSnapshot) -> bool:
        """Search a scope in a snapshot from here on; return False where its table cannot be read."""
        sizes = {"memory_rows": self._memory_rows, "delta_rows": self._delta_rows, "held_rows": self._held_rows}
        try:
            opened = await open_table(scope, snapshot, **sizes)
        except (IndexUnavailableError, ScopeDroppedError) as error:
            await self._served.reject(snapshot, str(error))
            return False
        self._forget(scope)
        if isinstance(opened, LargeScope):
            self._big[scope] = opened
        else:
            self._memory.keep(scope, opened)
        self._served.serve(scope, snapshot)
        return True

    def _forget(self, scope: str, *, is_shared: bool = False) -> None:
        self._served.forget(scope)
        if self._shared is not None and not is_shared:
            self._shared.forget(scope)
        self._forget_files(scope)
        self._memory.forget(scope)
        self._big.pop(scope, None)
        self._held.pop(scope, None)
        self._lost.pop(scope, None)
        self._direct.discard(scope)
        self._cut_off.discard(scope)

    def _forget_files(self, scope: str) -> None:
        self._opened.pop(scope, None)
        self._saved.pop(scope, None)
        self._unchanged.discard(scope)
        if (load := self._loads.pop(scope, None)) is not None:
            load.give_up()

    def _has_folder(self, scope: str) -> bool:
        """Return whether the folder has, or gets, the rows of a scope in use."""
        return self._shared is None or not self._shared.holds(scope)

    def _has_grown(self, scope: str) -> bool:
        return (
            scope not in self._served and self._is_safe(scope) and self._memory.table(scope).count() > self._memory_rows
        )

    def _is_safe(self, scope: str) -> bool:
        """Return whether folder or snapshot hold everything that memory does of a scope, and memory all of it."""
        if (served := self._served.get(scope)) is not None:
            return not (served.delta.rows or served.delta.removed)
        places: tuple[Container[str], ...] = (self._cut_off, self._held, self._in_flight, self._loads)
        return not any(scope in each for each in places)

    async def _run_query(self, scope: str, question: Callable[[SearchEngine], Awaitable[T]], nothing: T) -> T:
        for _ in range(_TRIES):
            direct = await self._open(scope)
            if direct is None:
                return await question(self._memory)
            try:
                return await question(direct)
            except ScopeDroppedError:
                self._reread(scope)
            except IndexUnavailableError as error:
                self._note(error, scope)
                self._detach(scope)
                break
        return nothing

    async def _run_guarded(self, scope: str, work: Callable[[], Awaitable[T]], nothing: T) -> T:
        try:
            return await work()
        except ScopeDroppedError as error:
            self._reread(scope or owner_of(error.scope))
            return nothing
        except IndexUnavailableError as error:
            self._note(error, scope)
            self._detach(scope or error.scope)
            return nothing

    async def _open(self, scope: str) -> LargeScope | DurableIndex | None:
        """Load a scope into memory at first use; return the engine that searches it, None when memory alone does."""
        if (load := self._loads.get(scope)) is not None and load.is_done:
            await self._take_whole(load)
        if self._memory.holds(scope):
            self._memory.touch(scope)
            return None
        if (big := self._big.pop(scope, None)) is not None:
            self._big[scope] = big
            return big
        async with self._opening:
            if self._memory.holds(scope):
                return None
            if scope in self._big:
                return self._big[scope]
            for _ in range(_TRIES):
                try:
                    return await self._read(scope)
                except ScopeDroppedError:
                    self._reread(scope)
                except IndexUnavailableError as error:
                    self._note(error, scope)
                    self._detach(scope)
                    return None
            self._memory.table(scope)
        return None

    async def _read(self, scope: str) -> LargeScope | DurableIndex | None:
        """Load a scope that is not in use; return the engine that searches it, None when memory alone does."""
        if await self._open_snapshot(scope):
            return self._big.get(scope)
        if self._shared is not None and not await to_thread.run_sync(has_files, self.folder, scope):
            await self._read_shared(scope, self._shared)
            return None
        if scope not in self._direct and self._may_load and await self._read_checkpoint(scope):
            return None
        durable = await self._engine(scope)
        if durable is None:
            self._cut_off.add(scope)
            self._memory.table(scope)
            return None
        if scope in self._direct:
            return durable
        self._release(scope)
        if (rows := await durable.count(scope)) > self._memory_rows:
            if rows > self._word_rows:
                self._direct.add(scope)
                return durable
            self._big[scope] = await self._open_large_scope(scope, durable)
            return self._big[scope]
        if rows > self._long_rows and self._may_load:
            await self._read_part(scope, durable)
            return None
        stored, table = await durable.load(scope), ScopeTable()
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
            self._note_lost(scope, stored.lost)
        # Only once it is complete: any caller that finds it here uses it at once.
        self._memory.keep(scope, table)
        return None

    @property
    def _may_load(self) -> bool:
        """Whether scopes may be read on another thread, with an engine of its own."""
        return self._durable is None or self._has_own_engine

    async def _read_checkpoint(self, scope: str) -> bool:
        """Load a scope without the durable engine; return False where that is not possible.

        A checkpoint that is not whole serves while the scope is read.
        """
        files = await to_thread.run_sync(read_scope_files, self.folder, scope, delta_names(scope))
        self._opened[scope] = OpenedScope(files.mark)
        if files.checkpoint is None and not files.is_empty:
            return False
        table = ScopeTable() if files.checkpoint is None else files.checkpoint.table
        if table.count() > self._memory_rows:
            return False
        version = files.version if files.is_whole else 0
        self._opened[scope] = OpenedScope(files.mark, version, files.checkpoint is not None)
        if files.is_whole:
            self._saved[scope] = files.stamp, table.count()
        elif not files.is_empty:
            self._loads[scope] = ScopeLoad(self.folder, scope, files.mark, _open_engine, self._head_start_seconds)
        self._memory.keep(scope, table)
        return True

    async def _read_part(self, scope: str, durable: DurableIndex) -> None:
        """Load the rows of a scope that were written last, and begin to load all of them."""
        mark = await to_thread.run_sync(read_mark, self.folder, scope)
        stored, table = await durable.load_newest(scope, self._part_rows), ScopeTable()
        marks = {chain: await durable.watermark(scope, chain) for chain in Chain}
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
        await to_thread.run_sync(table.put, replace(NO_ROWS, watermarks=marks))
        self._opened[scope] = OpenedScope(mark)
        self._loads[scope] = ScopeLoad(self.folder, scope, mark, _open_engine, self._head_start_seconds)
        self._memory.keep(scope, table)

    async def _take_whole(self, load: ScopeLoad) -> None:
        """Put a scope that was read whole in the place of the part that has served, with what was written to that meanwhile."""
        scope = load.scope
        async with self._opening:
            if self._loads.get(scope) is not load:
                return
            if load.table is None or load.mark != await to_thread.run_sync(read_mark, self.folder, scope):
                if isinstance(load.error, IndexUnavailableError):
                    self._note(load.error, scope)
                    self._forget(scope)
                    self._detach(scope)
                else:
                    self._reread(scope)
                return
            while load.added is not NO_ROWS:
                added, load.added = load.added, NO_ROWS
                await to_thread.run_sync(load.table.put, _select_news(load.table, added))
            del self._loads[scope]
            self._memory.keep(scope, load.table)
            if scope in self._held:
                self._held[scope] = _select_news(load.table, self._held[scope])
            self._note_lost(scope, load.lost)
            if load.stamp:
                self._saved[scope] = load.stamp, load.table.count()

    async def _read_shared(self, scope: str, shared: SharedScopes) -> None:
        stored, table = await shared.read(scope), ScopeTable()
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
        self._memory.keep(scope, table)

    def _reread(self, scope: str) -> None:
        """Forget a scope that another process has dropped, so that it is read again."""
        self._forget_files(scope)
        self._served.forget(scope)
        if self._shared is not None:
            self._shared.forget(scope)
        self._memory.forget(scope)
        self._big.pop(scope, None)
        self._held.pop(scope, None)
        self._direct.discard(scope)
        self._release(scope)

    def _release(self, scope: str) -> None:
        """Close the tables of a scope."""
        if self._durable is not None:
            for name in (scope, *delta_names(scope)):
                self._durable.release(name)

    async def _engine(self, scope: str) -> DurableIndex | None:
        """Return the durable engine; None if it is not installed."""
        if self._durable is None and not self._is_alone:
            try:
                self._durable = await to_thread.run_sync(_open_engine, self.folder)
            except ModuleNotFoundError:
                self._is_alone = True
                return None
            except ImportError as error:
                reason = f"lancedb cannot be loaded ({error}); install it again: pip install 'jacquard-context[lance]'"
                raise IndexUnavailableError(self.folder, scope, reason) from error
        return self._durable

    async def _write_held(self, scope: str) -> None:
        async with self._writing:
            batch = self._held.pop(scope, NO_ROWS)
            if not batch.rows and not batch.removed:
                return
            self._in_flight.add(scope)
            self._unchanged.discard(scope)
            try:
                durable = await self._engine(scope)
                if durable is not None and self._memory.holds(scope):
                    if (opened := self._opened.get(scope)) is not None:
                        durable.expect(scope, opened.mark, opened.version)
                    read = {chain: self._memory.table(scope).watermark(chain) for chain in Chain}
                    await durable.write(scope, replace(batch, watermarks=merge_watermarks(read, batch.watermarks)))
            except ScopeDroppedError:
                self._reread(scope)
            except IndexUnavailableError as error:
                # Memory continues; the store still has what was not written here.
                self._note(error, scope)
                self._cut_off.add(scope)
            finally:
                self._in_flight.discard(scope)

    def _detach(self, scope: str) -> None:
        self._cut_off.add(scope)
        self._served.refuse(scope)
        self._direct.discard(scope)
        self._big.pop(scope, None)
        self._held.pop(scope, None)
        self._memory.table(scope)

    def _note(self, error: IndexUnavailableError, scope: str) -> None:
        self._faults[str(error)] = scope or error.scope


def _open_engine(folder: str) -> DurableIndex:
    opened: DurableIndex = import_module("mnemosyne.retrieval.engines.lance").LanceIndex(folder)
    return opened


def _select_news(table: ScopeTable, batch: RowBatch) -> RowBatch:
    """Return a batch that was written beside a part of a scope, without rows of which the whole has more."""
    return replace(batch, rows=tuple(row for row in batch.rows if not table.is_ahead_of(row)))


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
