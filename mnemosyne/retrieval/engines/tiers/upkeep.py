"""Work on the scopes of an index after turns: rows and checkpoints are written, grown scopes move to files, scopes used
longest ago leave memory, and newer snapshots are opened.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path

import anyio
from anyio import to_thread

from mnemosyne.retrieval.engines.lance.files import has_files
from mnemosyne.retrieval.engines.large_scope import DurableIndex
from mnemosyne.retrieval.engines.rows import NO_ROWS, batch_of
from mnemosyne.retrieval.engines.tiers.places import ScopePlaces
from mnemosyne.schema.memory import Chain


class TierUpkeep:
    """Keeps the scopes of `places` in order. Every method may take long; searches and writes continue meanwhile."""

    def __init__(self, places: ScopePlaces) -> None:
        self._places = places
        self._maintaining = anyio.Lock()

    async def maintain(self) -> None:
        """See `TieredIndex.maintain`."""
        places = self._places
        await self._write_all()
        for scope, large in list(places.large.items()):
            await places.guard(scope, large.flush, None)
        if self._maintaining.locked():
            return
        async with self._maintaining:
            if places.shared.is_on and any(map(places.has_grown, places.memory.scopes())):
                await places.guard("", partial(places.folder.open, ""), None)
            if places.folder.engine is not None:
                await self._tidy(places.folder.engine)
            for scope in places.memory.scopes():
                await self._save(scope, is_last=False)
            await self._evict_all()
            await self._renew_snapshots()

    async def evict(self) -> int:
        """Write and forget the scopes in memory that were used longest ago, beyond `open_scopes` and `open_rows`; return how many
        they are.
        """
        places, excess = self._places, self._find_excess()
        for scope in excess:
            await places.write_held(scope)
            await self._save(scope, is_last=True)
            async with places.opening:
                if places.is_safe(scope):
                    places.leave(scope)
        return len(excess)

    async def close(self) -> None:
        """Write pending rows and release the folder."""
        places = self._places
        places.checkpoints.give_up()
        await self._write_all()
        for scope in places.memory.scopes():
            await self._save(scope, is_last=True)
        await places.checkpoints.close()
        for scope, large in list(places.large.items()):
            await places.guard(scope, large.close, None)
        places.large.clear()
        await places.served.close()
        if places.folder.engine is not None:
            await places.folder.engine.close()

    async def export(self, scope: str, target: Path) -> bool | None:
        """See `TieredIndex.export`."""
        places = self._places
        await self.maintain()
        await places.open(scope)
        served = places.served.get(scope)
        has_folder = scope not in places.folder.detached and await to_thread.run_sync(
            has_files, places.folder.path, scope
        )
        if served is None and not has_folder:
            return None
        module = await to_thread.run_sync(import_module, "mnemosyne.retrieval.engines.served.export")
        await module.export_scope(
            places.folder.path if served is None else str(served.folder),
            scope,
            target,
            NO_ROWS if served is None else served.changes,
            word_rows=places.limits.word_rows,
            is_shared=served is None,
        )
        return served is None or not served.sequences

    async def remove_lost(self, scope: str) -> bool:
        """Delete the damaged rows of a scope; see `Index.remove_lost`. IndexUnavailableError, ScopeDroppedError."""
        places, folder = self._places, self._places.folder
        await places.write_held(scope)
        engine = await folder.open(scope)
        if not folder.lost_of(scope) or scope in folder.detached or engine is None:
            return True
        if (large := places.large.get(scope)) is not None:
            is_removed = await large.remove_lost(scope)
        else:
            read = {chain: places.memory.table(scope).watermark(chain) for chain in Chain}
            is_removed = await engine.remove_damaged(scope, read)
        if is_removed:
            folder.note_lost(scope, 0)
        else:
            places.reread(scope)
        return is_removed

    async def _write_all(self) -> None:
        for scope in self._places.folder.held_scopes():
            await self._places.write_held(scope)

    async def _tidy(self, engine: DurableIndex) -> None:
        places = self._places
        for scope in [scope for scope in places.memory.scopes() if places.has_grown(scope)]:
            await places.guard(scope, partial(self._move_out, scope, engine), None)
        for scope in list(places.direct):
            await places.guard(scope, partial(engine.prepare, scope), None)
        for scope, large in list(places.large.items()):
            await places.guard(scope, large.maintain, None)
        await places.guard("", engine.maintain, None)

    async def _move_out(self, scope: str, engine: DurableIndex) -> None:
        """Move a grown scope to the folder; while its indexes are built it is still searched in memory."""
        places = self._places
        if places.shared.holds(scope):
            await self._copy_to_folder(scope, engine)
            return
        is_large = places.memory.table(scope).count() <= places.limits.word_rows
        await engine.prepare(scope, words=not is_large)
        async with places.opening:
            large = await places.open_large(scope, engine) if is_large else None
            if not places.has_grown(scope):
                return
            places.memory.forget(scope)
            if large is None:
                places.direct.add(scope)
            else:
                places.large[scope] = large

    async def _copy_to_folder(self, scope: str, engine: DurableIndex) -> None:
        """Write the rows that hosts share of a scope to the folder, from which it is read from then on."""
        places = self._places
        if not await places.shared.add(scope):
            return
        stored = await places.shared.read(scope)
        if stored is not None and len(stored.ids) > places.limits.memory_rows:
            await engine.write(scope, await to_thread.run_sync(batch_of, stored))
            places.reread(scope)

    async def _save(self, scope: str, *, is_last: bool) -> None:
        """Write a checkpoint of a scope if one is due."""
        places, folder = self._places, self._places.folder
        if (
            folder.engine is None
            or not places.memory.holds(scope)
            or not places.is_safe(scope)
            or folder.lost_of(scope)
        ):
            return
        table = places.memory.table(scope)
        rows, opened = table.count(), places.checkpoints.get(scope)
        if opened is None or not places.checkpoints.is_due(scope, rows, is_last=is_last):
            return
        marks = {chain: table.watermark(chain) for chain in Chain}
        folder.engine.expect(scope, opened.mark, 0)
        stamp = await places.guard(scope, partial(folder.engine.stamp, scope, rows, marks, table.model), "")
        if stamp and places.is_safe(scope):
            await places.guard(scope, partial(places.checkpoints.save, scope, stamp, table), None)

    async def _evict_all(self) -> None:
        places = self._places
        await self.evict()
        async with places.opening:
            rows = {scope: await large.count(scope) for scope, large in places.large.items()}
            for scope in list(rows)[:-1]:
                if sum(rows.values()) > places.limits.word_rows:
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
