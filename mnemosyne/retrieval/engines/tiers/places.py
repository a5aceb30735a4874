"""Decides where each scope of an index is searched, and opens it there: in memory, or partly on disk in LanceDB.

A scope is one session or one world. A scope is opened at its first use, from a published snapshot, from rows that hosts share,
from its file, or from LanceDB. `ScopePlaces` remembers by which engine each open scope is searched. If another process drops a
scope, or if its files fail, `ScopePlaces` forgets it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio
from anyio import to_thread

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError, UnreadableError
from mnemosyne.protocols import Index
from mnemosyne.retrieval.engines.checkpoints.scopes import CheckpointedScopes, has_tables
from mnemosyne.retrieval.engines.large_scope import DurableIndex, LargeScope, owner_of
from mnemosyne.retrieval.engines.served.scopes import OpenedSnapshot, ServedScopes
from mnemosyne.retrieval.engines.shared.scopes import SharedScopes
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.engines.tiers.durable import DurableFolder
from mnemosyne.schema.memory import is_overlay
from mnemosyne.schema.query import NO_HITS, Hits, TextSearch
from mnemosyne.values import dataclass

T = TypeVar("T")

_TRIES = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TierLimits:
    """The limits of a `TieredIndex`, which explains them."""

    memory_rows: int
    delta_rows: int
    held_rows: int
    open_scopes: int
    open_rows: int


class ScopePlaces:
    """The search engine of each scope: `memory`, or `large` (words in memory, most vectors on disk).

    The rows of a scope come from a snapshot (`served`), from the segments that hosts share (`shared`), from its file
    (`checkpoints`) or, if it is large, from LanceDB. `opening` is held while a scope is opened or changes its place.
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
        self.opening = anyio.Lock()

    async def query(self, scope: str, question: Callable[[Index], Awaitable[T]], nothing: T) -> T:
        """Return the result of `question`, called with the index that searches `scope`. Return `nothing` if the index fails."""
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

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[Hits]:
        """Return the best entries by BM25 for each search; see `TieredIndex.search_texts`."""
        scopes = dict.fromkeys(each.where.scope for each in searches)
        for _ in range(_TRIES):
            in_memory = {scope for scope in scopes if await self.open(scope) is None}
            # One may have been evicted while the next was read.
            if all(self.memory.holds(scope) for scope in in_memory):
                break
        found = dict[int, Hits]()

        async def search_one(place: int) -> None:
            text, where, limit = searches[place][:3]
            found[place] = await self.query(where.scope, lambda index: index.search_text(text, where, limit), NO_HITS)

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
        """Return the result of `work`, which uses `scope` ('': any scope). Return `nothing` if `work` fails.

        If `work` failed because another process has dropped the scope, the scope is read again. After any other failure, the
        scope continues only in memory (`detach`).
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

    async def open(self, scope: str) -> LargeScope | None:
        """Load a scope at first use. Return the engine that searches it, or None if it is searched in memory."""
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
        """Search a scope in a snapshot from now on."""
        self.forget(scope)
        if isinstance(opened.table, LargeScope):
            self.large[scope] = opened.table
        else:
            self.memory.keep(scope, opened.table)
        self.served.serve(scope, opened.snapshot)

    async def open_large(self, scope: str, engine: DurableIndex) -> LargeScope:
        """Return the search engine of a scope of which only the words are in memory."""
        large = LargeScope(scope, engine, delta_rows=self.limits.delta_rows, held_rows=self.limits.held_rows)
        await large.open()
        self.folder.note_lost(scope, large.lost)
        return large

    async def save(self, scope: str) -> None:
        """Write the file of a scope in memory if the scope has changed. If this fails, the scope stays in memory, and
        the store has all its texts.
        """
        if not self.memory.holds(scope) or scope in self.folder.detached or self.folder.lost_of(scope):
            return
        try:
            if not await self.checkpoints.save(scope, self.memory.table(scope)):
                self.reread(scope)
            self.folder.clear_faults((scope,))
        except IndexUnavailableError as error:
            self.folder.note(error, scope)

    def is_safe(self, scope: str) -> bool:
        """Return whether a scope may leave memory, because everything in memory is also in the folder or in its snapshot."""
        if scope in self.served:
            return not self.served.has_changes(scope)
        return scope not in self.folder.detached and not self.checkpoints.has_changes(scope)

    def has_grown(self, scope: str) -> bool:
        """Return whether a scope in memory has become too large for memory."""
        if scope in self.served or scope in self.folder.detached:
            return False
        return self.memory.table(scope).count() > self.limits.memory_rows

    def forget(self, scope: str, *, is_shared: bool = False) -> None:
        """Forget everything of a scope. With `is_shared`, its rows that hosts share are kept."""
        if not is_shared:
            self.shared.forget(scope)
        self._forget_place(scope)
        self.folder.forget(scope)

    def reread(self, scope: str) -> None:
        """Forget a scope that another process has dropped, so that it is read again."""
        self.shared.forget(scope)
        self._forget_place(scope)
        self.folder.release(scope)

    def leave(self, scope: str) -> None:
        """Remove a safe scope (`is_safe`) from memory. It is opened again when it is used."""
        self.memory.forget(scope)
        self.checkpoints.forget(scope)
        self.served.forget(scope)
        self.shared.forget(scope)
        self.folder.release(scope)

    def detach(self, scope: str) -> None:
        """Continue with a scope only in memory, because its files or its snapshot fail."""
        self.folder.detached.add(scope)
        self.served.refuse(scope)
        self.large.pop(scope, None)
        self.memory.table(scope)

    def _forget_place(self, scope: str) -> None:
        self.checkpoints.forget(scope)
        self.served.forget(scope)
        self.memory.forget(scope)
        self.large.pop(scope, None)

    async def _read(self, scope: str) -> LargeScope | None:
        """Load a scope that is not in use; return the engine that searches it, or None if memory does."""
        if (opened := await self.served.open(scope)) is not None:
            self.serve(scope, opened)
            return self.large.get(scope)
        if self.shared.is_on and not await to_thread.run_sync(has_tables, self.folder.path, scope):
            self.memory.keep(scope, await self.shared.read_table(scope))
            return None
        try:
            table = await self.checkpoints.open(scope)
        except UnreadableError:
            table = ScopeTable()
            self.folder.note(IndexUnavailableError(self.folder.path, scope, "its file is damaged"), scope)
        if table is not None and (table.count() or self.limits.memory_rows >= 0):
            self.memory.keep(scope, table)
            return None
        return await self._read_folder(scope)

    async def _read_folder(self, scope: str) -> LargeScope | None:
        engine = await self.folder.open(scope)
        if engine is None:
            self.folder.detached.add(scope)
            self.memory.table(scope)
            return None
        self.folder.release(scope)
        if await engine.count(scope) > self.limits.memory_rows:
            self.large[scope] = await self.open_large(scope, engine)
            return self.large[scope]
        # A table of an earlier release, or of a scope that is small now.
        stored, table = await engine.load(scope), ScopeTable()
        if stored is not None:
            await to_thread.run_sync(table.fill, stored)
            self.folder.note_lost(scope, stored.lost)
        # Only once it is complete: any caller that finds it here uses it at once.
        self.memory.keep(scope, table)
        return None
