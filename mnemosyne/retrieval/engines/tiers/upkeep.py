"""Maintains the scopes of an index between turns. A scope is one session or one world.

- Rows that are only in memory are written to files.
- A scope that has grown too large for memory is moved to LanceDB (tables on disk).
- The scopes that were used longest ago leave memory, if memory holds too many scopes or rows.
- A scope that is searched in a snapshot (a published, ready index) changes to a newer snapshot, if there is one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from mnemosyne.retrieval.engines.lance.files import remove_others
from mnemosyne.retrieval.engines.large_scope import DurableIndex
from mnemosyne.retrieval.engines.rows import NO_ROWS, RowBatch, batch_of
from mnemosyne.retrieval.engines.tiers.durable import open_engine
from mnemosyne.retrieval.engines.tiers.places import ScopePlaces
from mnemosyne.schema.memory import Chain

_WRITTEN_ROWS = 10_000
_LONG_ROWS = 20_000
"""A scope with more rows is written only if its file is due (`CheckpointedScopes`), or if the scope leaves memory."""
_WORD_ROWS = 2_000_000
"""Maximum rows of all large scopes whose words stay in memory after a `maintain`; the scope used last stays in any case."""


class TierUpkeep:
    """Keeps the scopes of `places` in order. Every method may take long; searches and writes continue meanwhile."""

    def __init__(self, places: ScopePlaces) -> None:
        self._places = places
        self._maintaining = anyio.Lock()

    async def maintain(self) -> None:
        """Write rows that are only in memory, move scopes that are too large for memory to LanceDB, compact tables, remove the
        scopes from memory that were used longest ago, and open newer snapshots.

        While one call is running, other calls only write rows.
        """
        places = self._places
        for scope, large in list(places.large.items()):
            await places.guard(scope, large.flush, None)
        due = places.checkpoints.list_due(places.memory)
        for scope in places.memory.scopes():
            if scope in due or places.memory.table(scope).count() <= _LONG_ROWS:
                await places.save(scope)
        if self._maintaining.locked():
            return
        async with self._maintaining:
            if any(map(places.has_grown, places.memory.scopes())):
                await places.guard("", partial(places.folder.open, ""), None)
            if places.folder.engine is not None:
                await self._tidy(places.folder.engine)
            await self._evict_all()
            await self._renew_snapshots()

    async def evict(self) -> int:
        """Remove the scopes from memory that were used longest ago, until the limits `open_scopes` and `open_rows` are met.

        A removed scope is written to its file before. The file of a scope that stays is written if many rows of the scope have
        changed since the file was written, or if rows were removed (`CheckpointedScopes`). Return the number of scopes that were
        beyond the limits.
        """
        places, excess = self._places, self._find_excess()
        for scope in places.checkpoints.list_due(places.memory):
            await places.save(scope)
        for scope in excess:
            await places.save(scope)
            async with places.opening:
                if places.is_safe(scope):
                    places.leave(scope)
        return len(excess)

    async def close(self) -> None:
        """Write pending rows and release the folder."""
        places = self._places
        for scope in places.memory.scopes():
            await places.save(scope)
        for scope, large in list(places.large.items()):
            await places.guard(scope, large.close, None)
        places.large.clear()
        await places.served.close()
        if places.folder.engine is not None:
            await places.folder.engine.close()

    async def export(self, scope: str, target: Path) -> bool | None:
        """Write all rows of `scope` as one table into the empty folder `target`.

        Return True if the rows have the sequence numbers of this store. Return False if they have those of another store,
        because they come from its snapshot. Return None, and write nothing, if the index has no files of `scope` or LanceDB is
        not installed.
        """
        places = self._places
        await self.maintain()
        await places.open(scope)
        served = places.served.get(scope)
        if places.memory.holds(scope) and served is None:
            try:
                engine: Any = await to_thread.run_sync(open_engine, str(target))
            except ImportError:
                return None
            try:
                await self.write_table(scope, engine)
                await engine.finish(scope, rebuild=True)
            finally:
                await engine.close()
            await to_thread.run_sync(remove_others, target, scope)
            return True
        if served is None and scope not in places.large:
            return None
        module = await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.served.export")
        await module.export_scope(
            places.folder.path if served is None else str(served.folder),
            scope,
            target,
            NO_ROWS if served is None else served.changes,
            is_shared=served is None,
        )
        return served is None or not served.sequences

    async def remove_lost(self, scope: str) -> bool:
        """Delete the damaged rows of a scope for good. Call this method after their entries were added again.

        Return True if no damaged rows are left. Return False if another process has written to the scope meanwhile. The scope
        is then read again at its next use.

        Raises:
            IndexUnavailableError: if the tables cannot be written.
            ScopeDroppedError: if another process has dropped the scope.
        """
        places, folder = self._places, self._places.folder
        if (large := places.large.get(scope)) is None:
            folder.note_lost(scope, 0)
            await places.save(scope)
            return True
        is_removed = not folder.lost_of(scope) or await large.remove_lost(scope)
        if is_removed:
            folder.note_lost(scope, 0)
        else:
            places.reread(scope)
        return is_removed

    async def _tidy(self, engine: DurableIndex) -> None:
        places = self._places
        for scope in [scope for scope in places.memory.scopes() if places.has_grown(scope)]:
            await places.guard(scope, partial(self._move_out, scope, engine), None)
        for scope, large in list(places.large.items()):
            await places.guard(scope, large.maintain, None)
        await places.guard("", engine.maintain, None)

    async def _move_out(self, scope: str, engine: DurableIndex) -> None:
        """Write a grown scope into LanceDB and build its indexes there. Until all is done it is searched in memory, and its file
        counts.
        """
        places = self._places
        await places.save(scope)
        if not places.is_safe(scope):
            return
        await places.checkpoints.remove_tables(scope)
        places.folder.release(scope)
        places.checkpoints.begin_move(scope)
        table = places.memory.table(scope)
        for part in await self._split(scope):
            async with places.opening:
                # An erasure, which waits for the lock, must not be followed by rows of before.
                if not places.memory.holds(scope) or places.memory.table(scope) is not table:
                    return
                await engine.write(scope, part)
        await engine.prepare(scope)
        async with places.opening:
            late = places.checkpoints.take_moving(scope)
            if not places.memory.holds(scope) or places.memory.table(scope) is not table:
                return
            if late.rows or late.removed:
                await engine.write(scope, self._with_marks(scope, late))
            large = await places.open_large(scope, engine)
            await places.checkpoints.remove(scope)
            places.checkpoints.forget(scope)
            places.shared.forget(scope)
            places.memory.forget(scope)
            places.large[scope] = large

    async def write_table(self, scope: str, engine: DurableIndex) -> None:
        """Write all rows of a scope in memory into an empty table of `engine`."""
        for part in await self._split(scope):
            await engine.write(scope, part)

    async def _split(self, scope: str) -> list[RowBatch]:
        """Return all rows of a scope in memory, some at a time."""
        batch = await to_thread.run_sync(lambda: batch_of(self._places.memory.table(scope).stored()))
        batch = self._with_marks(scope, batch)
        # A shared scope has no file that counts until all rows are written.
        size = len(batch.rows) if self._places.shared.holds(scope) else _WRITTEN_ROWS
        firsts = range(0, len(batch.rows), max(size, 1))
        return [replace(batch, rows=batch.rows[first : first + size]) for first in firsts]

    def _with_marks(self, scope: str, batch: RowBatch) -> RowBatch:
        table = self._places.memory.table(scope)
        return replace(batch, watermarks={chain: table.watermark(chain) for chain in Chain})

    async def _evict_all(self) -> None:
        places = self._places
        await self.evict()
        async with places.opening:
            rows = {scope: await large.count(scope) for scope, large in places.large.items()}
            for scope in list(rows)[:-1]:
                if sum(rows.values()) > _WORD_ROWS:
                    del rows[scope]
                    places.served.forget(scope)
                    await places.guard(scope, places.large.pop(scope).close, None)

    def _find_excess(self) -> list[str]:
        """Return the scopes in memory that are beyond the limits, the one used longest ago first."""
        limits, memory = self._places.limits, self._places.memory
        excess, rows = list[str](), 0
        for place, scope in enumerate(reversed(memory.scopes())):
            rows += memory.table(scope).count()
            if place and (place >= limits.open_scopes or rows > limits.open_rows):
                excess.append(scope)
        return excess[::-1]

    async def _renew_snapshots(self) -> None:
        """Open newer snapshots in the place of the searched ones; searches use these until then."""
        places = self._places
        for scope in [*places.memory.scopes(), *places.large]:
            if (newer := await places.served.open_newer(scope)) is not None:
                places.serve(scope, newer)
        await places.served.release()
