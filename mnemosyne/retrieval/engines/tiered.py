"""The index of a store: LanceDB stores the rows, memory searches them.

Scopes up to a limit are read into memory at first use and kept up to date there. Of larger ones only the words are
(`large_scope`), and beyond a second limit everything is searched on disk. New rows are collected in memory and written
in batches, because single rows slow LanceDB down; a crash costs only vectors that must be computed again, because the
store has the texts. The durable engine is imported when it is first needed, by name and off the event loop: it is
heavy, and a store without a session should not pay for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.lance_files import has_files, remove_scope_files
from mnemosyne.retrieval.engines.large_scope import (
    DurableIndex,
    LargeScope,
    SearchEngine,
    adopt_tables,
    delta_names,
    owner_of,
)
from mnemosyne.retrieval.engines.memory import MemoryIndex
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, merge_batches, merge_watermarks, row_batch
from mnemosyne.retrieval.engines.served.scopes import ServedScopes, ServedSnapshot, SnapshotSource
from mnemosyne.retrieval.engines.served.tables import open_table
from mnemosyne.retrieval.engines.table import ScopeTable
from mnemosyne.schema.memory import Chain, staged_scope
from mnemosyne.schema.query import Hit, IndexFilter, TextSearch
from mnemosyne.schema.record import SequencedEntry

T = TypeVar("T")

_TRIES = 3
_LARGE_ROWS = 2_000
WORD_ROWS = 2_000_000
"""The largest scope whose words are searched in memory, unless it is said otherwise."""


class TieredIndex:
    """An `Index` over a folder.

    `memory_rows`: the largest scope that is searched in memory. `word_rows`: the largest scope whose words are searched
    in memory, and the total of all such scopes after a `maintain`. `delta_rows`: the limit of new rows of such a scope,
    and of rows of its rare chains, that are in memory with their vectors. `held_rows`: the number of new rows that are
    collected before they are written (`maintain` and `close` write all). `open_scopes` and `open_rows`: the number of scopes
    that stay in memory after an `evict` or a `maintain`, and of their rows (the scope used last stays in any case).

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
        memory_rows: int = 200_000,
        word_rows: int = WORD_ROWS,
        delta_rows: int = 200_000,
        held_rows: int = 256,
        open_scopes: int = 256,
        open_rows: int = 300_000,
        durable: DurableIndex | None = None,
        snapshots: SnapshotSource | None = None,
    ) -> None:
        self.folder = str(folder)
        self._memory_rows, self._held_rows = memory_rows, held_rows
        self._open_scopes, self._open_rows = open_scopes, open_rows
        self._durable, self._word_rows, self._delta_rows = durable, word_rows, delta_rows
        self._memory, self._served = MemoryIndex(), ServedScopes(snapshots)
        self._big: dict[str, LargeScope] = {}
        self._held: dict[str, RowBatch] = {}
        self._direct: set[str] = set()
        self._cut_off: set[str] = set()
        self._in_flight: set[str] = set()
        self._faults: dict[str, str] = {}
        self._lost: dict[str, str] = {}
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
        if (served := self._served.get(scope)) is not None:
            served.note(batch)
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
        return (*self._faults, *self._lost.values())

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
        process. Those of snapshots: `ServedScopes.degradations_for`.
        """
        scopes = list(scopes)
        large = any(self._memory.holds(name) and self._memory.table(name).count() > _LARGE_ROWS for name in scopes)
        return (*(("index_in_memory",) if self._is_alone and large else ()), *self._served.degradations_for(scopes))

    async def adopt(self, scope: str, staged: str) -> None:
        """Put the staged scope in the place of the scope, in folder and memory; see `ReencodableIndex.adopt`."""
        for name in (scope, staged):
            await self._open(name)
            await self._write_held(name)
            if (big := self._big.get(name)) is not None:
                await big.flush()
        async with self._opening, self._writing:
            durable = await self._engine(scope)
            if is_cut_off := scope in self._cut_off or staged in self._cut_off:
                durable = None
            if durable is not None:
                await adopt_tables(durable, scope, staged)
            table = self._memory.table(staged) if self._memory.holds(staged) and self._memory.holds(scope) else None
            lost = self._lost.get(staged)
            self._forget(scope)
            self._forget(staged)
            if lost is not None:
                self._lost[scope] = lost
            if is_cut_off:
                self._cut_off.add(scope)
            if table is not None:
                self._memory.keep(scope, table)

    async def drop(self, scope: str) -> None:
        """Remove a scope from folder and memory, with what is staged for it; if a fault had detached it from the folder,
        that ends. IndexUnavailableError when files cannot be removed.
        """
        async with self._opening, self._writing:
            durable = await self._engine(scope)
            staged = staged_scope(scope)
            names = (scope, *delta_names(scope), staged, *delta_names(staged))
            if durable is None:
                await remove_scope_files(self.folder, scope, names)
            else:
                for name in names:
                    await durable.drop(name)
            for name in (scope, staged):
                self._forget(name)
            self._served.refuse(scope)
            self._faults = {fault: of for fault, of in self._faults.items() if of not in (scope, staged, "")}

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
            if self._durable is not None:
                await self._tidy(self._durable)
            await self._evict_scopes()
            await self._renew_snapshots()

    async def evict(self) -> None:
        """Write and forget the scopes in memory that were used longest ago, beyond `open_scopes` and `open_rows`."""
        for scope in self._find_excess():
            await self._write_held(scope)
            async with self._opening:
                if self._is_safe(scope):
                    self._memory.forget(scope)
                    self._served.forget(scope)
                    self._release(scope)

    async def close(self) -> None:
        """Write pending rows and release the folder."""
        for scope in list(self._held):
            await self._write_held(scope)
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

    async def _move_out(self, scope: str, durable: DurableIndex) -> None:
        """Move a grown scope to disk; while its indexes are built it is still searched in memory."""
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

    async def _open_large_scope(self, scope: str, durable: DurableIndex) -> LargeScope:
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

    def _forget(self, scope: str) -> None:
        self._served.forget(scope)
        self._memory.forget(scope)
        self._big.pop(scope, None)
        self._held.pop(scope, None)
        self._lost.pop(scope, None)
        self._direct.discard(scope)
        self._cut_off.discard(scope)

    def _has_grown(self, scope: str) -> bool:
        return (
            scope not in self._served and self._is_safe(scope) and self._memory.table(scope).count() > self._memory_rows
        )

    def _is_safe(self, scope: str) -> bool:
        """Return whether folder or snapshot hold everything that memory does of a scope."""
        served = self._served.get(scope)
        if served is not None:
            return not (served.delta.rows or served.delta.removed)
        return scope not in self._cut_off and scope not in self._held and scope not in self._in_flight

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
        durable = await self._engine(scope)
        if durable is None:
            self._cut_off.add(scope)
            self._memory.table(scope)
            return None
        if scope in self._direct:
            return durable
        if await self._open_snapshot(scope):
            return self._big.get(scope)
        self._release(scope)
        if (rows := await durable.count(scope)) > self._memory_rows:
            if rows > self._word_rows:
                self._direct.add(scope)
                return durable
            self._big[scope] = await self._open_large_scope(scope, durable)
            return self._big[scope]
        stored, table = await durable.load(scope), ScopeTable()
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
            self._note_lost(scope, stored.lost)
        # Only once it is complete: any caller that finds it here uses it at once.
        self._memory.keep(scope, table)
        return None

    def _reread(self, scope: str) -> None:
        """Forget a scope that another process has dropped, so that it is read again."""
        self._served.forget(scope)
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
                module = await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.lance")
            except ModuleNotFoundError:
                self._is_alone = True
                return None
            except ImportError as error:
                reason = f"lancedb cannot be loaded ({error}); install it again: pip install 'jacquard-context[lance]'"
                raise IndexUnavailableError(self.folder, scope, reason) from error
            durable: DurableIndex = module.LanceIndex(self.folder)
            self._durable = durable
        return self._durable

    async def _write_held(self, scope: str) -> None:
        async with self._writing:
            batch = self._held.pop(scope, NO_ROWS)
            if not batch.rows and not batch.removed:
                return
            self._in_flight.add(scope)
            try:
                durable = await self._engine(scope)
                if durable is not None and self._memory.holds(scope):
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
