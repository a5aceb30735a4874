"""Place in which each scope of an index is searched: in a snapshot, in rows shared by hosts, in memory from its files,
or in these.

A scope is opened at first use; from there on `ScopePlaces` knows its search engine, and the data to forget when another
process drops it or its files fail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError
from mnemosyne.protocols import Index
from mnemosyne.retrieval.engines.checkpoints.scopes import CheckpointedScopes
from mnemosyne.retrieval.engines.lance.files import has_files
from mnemosyne.retrieval.engines.large_scope import DurableIndex, LargeScope, delta_names, owner_of
from mnemosyne.retrieval.engines.rows import NO_ROWS, merge_watermarks
from mnemosyne.retrieval.engines.served.scopes import OpenedSnapshot, ServedScopes
from mnemosyne.retrieval.engines.shared.scopes import SharedScopes
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.engines.tiers.durable import DurableFolder
from mnemosyne.schema.memory import Chain, is_overlay
from mnemosyne.schema.query import Hit, TextSearch

T = TypeVar("T")

_TRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TierLimits:
    """The limits of a `TieredIndex`; see there."""

    memory_rows: int
    word_rows: int
    delta_rows: int
    held_rows: int
    open_scopes: int
    open_rows: int
    part_rows: int
    long_rows: int


class ScopePlaces:
    """Search engines of the scopes: `memory`, `large` (words in memory, vectors in files) or, if it is `direct`, the
    engine of the `folder`.

    The rows of a scope come from a snapshot (`served`), from rows shared by hosts (`shared`) or from the folder, there
    from a checkpoint if it has one (`checkpoints`). `opening` is held while a scope is opened or changes its place.
    """

    def __init__(
        self,
        folder: DurableFolder,
        checkpoints: CheckpointedScopes,
        served: ServedScopes,
        shared: SharedScopes,
        limits: TierLimits,
    ) -> None:
        self.folder, self.checkpoints, self.served, self.shared = folder, checkpoints, served, shared
        self.limits = limits
        self.memory = MemoryIndex()
        self.large: dict[str, LargeScope] = {}
        self.direct = set[str]()
        self.opening = anyio.Lock()

    async def query(self, scope: str, question: Callable[[Index], Awaitable[T]], nothing: T) -> T:
        """Return the answer of the search engine of a scope; `nothing` if it fails."""
        for _ in range(_TRIES):
            engine = await self.open(scope)
            if engine is None:
                return await question(self.memory)
            try:
                return await question(engine)
            except ScopeDroppedError:
                self.reread(scope)
            except IndexUnavailableError as error:
                self.folder.note(error, scope)
                self.detach(scope)
                break
        return nothing

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[tuple[Hit, ...]]:
        """Return the best by BM25 for each search; see `TieredIndex.search_texts`."""
        scopes = dict.fromkeys(each.where.scope for each in searches)
        for _ in range(_TRIES):
            in_memory = {scope for scope in scopes if await self.open(scope) is None}
            # One may have been evicted while the next was read.
            if all(self.memory.holds(scope) for scope in in_memory):
                break
        found = dict[int, tuple[Hit, ...]]()

        async def search_one(place: int) -> None:
            text, where, limit = searches[place][:3]
            found[place] = await self.query(where.scope, lambda index: index.search_text(text, where, limit), ())

        held = [place for place, each in enumerate(searches) if each.where.scope in in_memory]
        if len(held) < len(searches):
            async with anyio.create_task_group() as group:
                for place in range(len(searches)):
                    if place not in held:
                        group.start_soon(search_one, place)
        if held:
            large = {scope: self.large[scope].words for scope in scopes if scope in self.large}
            hits = await self.memory.search_texts([searches[place] for place in held], large)
            found.update(zip(held, hits, strict=True))
        return [found[place] for place in range(len(searches))]

    async def guard(self, scope: str, work: Callable[[], Awaitable[T]], nothing: T) -> T:
        """Return the result of some work on a scope (empty: on any), `nothing` if it fails; the failed part is
        detached.
        """
        try:
            return await work()
        except ScopeDroppedError as error:
            self.reread(scope or owner_of(error.scope))
            return nothing
        except IndexUnavailableError as error:
            self.folder.note(error, scope)
            self.detach(scope or error.scope)
            return nothing

    async def open(self, scope: str) -> LargeScope | DurableIndex | None:
        """Load a scope into memory at first use; return the engine that searches it, None if memory does."""
        if self.checkpoints.is_read(scope):
            await self._take_whole(scope)
        if self.memory.holds(scope):
            self.memory.touch(scope)
            return None
        if (large := self.large.pop(scope, None)) is not None:
            self.large[scope] = large
            return large
        if is_overlay(scope):
            self.folder.detached.add(scope)
            self.memory.table(scope)
            return None
        async with self.opening:
            if self.memory.holds(scope):
                return None
            if scope in self.large:
                return self.large[scope]
            for _ in range(_TRIES):
                try:
                    return await self._read(scope)
                except ScopeDroppedError:
                    self.reread(scope)
                except IndexUnavailableError as error:
                    self.folder.note(error, scope)
                    self.detach(scope)
                    return None
            self.memory.table(scope)
        return None

    def serve(self, scope: str, opened: OpenedSnapshot) -> None:
        """Search a scope in a snapshot from here on."""
        self.forget(scope)
        if isinstance(opened.table, LargeScope):
            self.large[scope] = opened.table
        else:
            self.memory.keep(scope, opened.table)
        self.served.serve(scope, opened.snapshot)

    async def open_large(self, scope: str, engine: DurableIndex) -> LargeScope:
        """Return the search engine of a scope of which only the words are in memory."""
        await self.remove_checkpoint(scope)
        large = LargeScope(scope, engine, delta_rows=self.limits.delta_rows, held_rows=self.limits.held_rows)
        await large.open()
        self.folder.note_lost(scope, large.lost)
        return large

    async def write_held(self, scope: str) -> None:
        """Write the waiting rows of a scope; if that fails, memory continues, and the store still has their texts."""
        async with self.folder.take_held(scope) as batch:
            if not batch.rows and not batch.removed:
                return
            self.checkpoints.note_write(scope)
            try:
                engine = await self.folder.open(scope)
                if engine is None or not self.memory.holds(scope):
                    return
                if (opened := self.checkpoints.get(scope)) is not None:
                    engine.expect(scope, opened.mark, opened.version)
                read = {chain: self.memory.table(scope).watermark(chain) for chain in Chain}
                await engine.write(scope, replace(batch, watermarks=merge_watermarks(read, batch.watermarks)))
            except ScopeDroppedError:
                self.reread(scope)
            except IndexUnavailableError as error:
                self.folder.note(error, scope)
                self.folder.detached.add(scope)

    async def remove_checkpoint(self, scope: str) -> None:
        """Remove the checkpoint of a scope."""
        try:
            await self.checkpoints.remove(scope)
        except IndexUnavailableError as error:
            self.folder.note(error, scope)

    def is_safe(self, scope: str) -> bool:
        """Return whether folder or snapshot hold everything that memory does of a scope, and memory all of it."""
        if scope in self.served:
            return not self.served.has_changes(scope)
        is_partial = scope in self.folder.detached or self.checkpoints.is_partial(scope)
        return not is_partial and not self.folder.is_pending(scope)

    def has_grown(self, scope: str) -> bool:
        """Return whether a scope in memory has become too large for it."""
        if scope in self.served or not self.is_safe(scope):
            return False
        return self.memory.table(scope).count() > self.limits.memory_rows

    def forget(self, scope: str, *, is_shared: bool = False) -> None:
        """Forget everything of a scope; with `is_shared`, except the rows that hosts share of it."""
        if not is_shared:
            self.shared.forget(scope)
        self._forget_place(scope)
        self.folder.forget(scope)

    def reread(self, scope: str) -> None:
        """Forget a scope that another process has dropped, so that it is read again."""
        self.shared.forget(scope)
        self._forget_place(scope)
        self.folder.drop_held(scope)
        self.folder.release(scope)

    def leave(self, scope: str) -> None:
        """Let go of a scope in memory that is safe; it is opened again when it is used."""
        self.memory.forget(scope)
        self.checkpoints.forget(scope)
        self.served.forget(scope)
        self.shared.forget(scope)
        self.folder.release(scope)

    def detach(self, scope: str) -> None:
        """Continue with a scope only in memory, because its files or its snapshot fail."""
        self.folder.detached.add(scope)
        self.served.refuse(scope)
        self.direct.discard(scope)
        self.large.pop(scope, None)
        self.folder.drop_held(scope)
        self.memory.table(scope)

    def _forget_place(self, scope: str) -> None:
        self.checkpoints.forget(scope)
        self.served.forget(scope)
        self.memory.forget(scope)
        self.large.pop(scope, None)
        self.direct.discard(scope)

    async def _read(self, scope: str) -> LargeScope | DurableIndex | None:
        """Load a scope that is not in use; return the engine that searches it, None if memory does."""
        if (opened := await self.served.open(scope)) is not None:
            self.serve(scope, opened)
            return self.large.get(scope)
        if self.shared.is_on and not await to_thread.run_sync(has_files, self.folder.path, scope):
            self.memory.keep(scope, await self.shared.read_table(scope))
            return None
        # Whether it may be read on another thread, with an engine of its own.
        may_load = self.folder.engine is None or self.folder.has_own_engine
        if scope not in self.direct and may_load:
            table = await self.checkpoints.open(scope, delta_names(scope), memory_rows=self.limits.memory_rows)
            if table is not None:
                self.memory.keep(scope, table)
                return None
        return await self._read_folder(scope, may_load=may_load)

    async def _read_folder(self, scope: str, *, may_load: bool) -> LargeScope | DurableIndex | None:
        engine = await self.folder.open(scope)
        if engine is None:
            self.folder.detached.add(scope)
            self.memory.table(scope)
            return None
        if scope in self.direct:
            return engine
        self.folder.release(scope)
        rows = await engine.count(scope)
        if rows > self.limits.word_rows and rows > self.limits.memory_rows:
            self.direct.add(scope)
            return engine
        if rows > self.limits.memory_rows:
            self.large[scope] = await self.open_large(scope, engine)
            return self.large[scope]
        if rows > self.limits.long_rows and may_load:
            await self._read_part(scope, engine)
            return None
        stored, table = await engine.load(scope), ScopeTable()
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
            self.folder.note_lost(scope, stored.lost)
        # Only once it is complete: any caller that finds it here uses it at once.
        self.memory.keep(scope, table)
        return None

    async def _read_part(self, scope: str, engine: DurableIndex) -> None:
        """Load the rows of a scope that were written last, and begin to load all of them."""
        mark = await self.checkpoints.read_mark(scope)
        stored, table = await engine.load_newest(scope, self.limits.part_rows), ScopeTable()
        marks = {chain: await engine.watermark(scope, chain) for chain in Chain}
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
        await to_thread.run_sync(table.put, replace(NO_ROWS, watermarks=marks))
        self.checkpoints.begin(scope, mark, is_partial=True)
        self.memory.keep(scope, table)

    async def _take_whole(self, scope: str) -> None:
        """Put a scope that was read whole in the place of the part that has served."""
        async with self.opening:
            try:
                whole = await self.checkpoints.take_whole(scope)
            except ScopeDroppedError:
                self.reread(scope)
            except IndexUnavailableError as error:
                self.folder.note(error, scope)
                self.forget(scope)
                self.detach(scope)
            else:
                if whole is not None:
                    self.memory.keep(scope, whole.table)
                    self.folder.sift(scope, whole.table)
                    self.folder.note_lost(scope, whole.lost)
