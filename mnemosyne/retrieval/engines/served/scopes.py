"""Keeps track of the scopes of an index that are searched in published snapshots, and of their later changes.

This module must not import an engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from mnemosyne.core.errors import IndexUnavailableError, ScopeDroppedError
from mnemosyne.retrieval.engines.large_scope import LargeScope
from mnemosyne.retrieval.engines.rows import RowBatch
from mnemosyne.retrieval.engines.served.snapshot import ServedSnapshot, SnapshotSource
from mnemosyne.retrieval.engines.served.tables import open_table
from mnemosyne.retrieval.engines.tables.table import ScopeTable

_TRIES = 3


class OpenedSnapshot(NamedTuple):
    """A snapshot, and the table by which it is searched. A small snapshot is in memory as a whole. Of a large one
    (`LargeScope`), only the words are in memory.
    """

    snapshot: ServedSnapshot
    table: ScopeTable | LargeScope


class ServedScopes:
    """The scopes of an index that are searched in snapshots. If `source` is None, there are none. `TieredIndex` explains the
    limits for numbers of rows.
    """

    def __init__(self, source: SnapshotSource | None, *, memory_rows: int, delta_rows: int, held_rows: int) -> None:
        self._source = source
        self._memory_rows, self._delta_rows, self._held_rows = memory_rows, delta_rows, held_rows
        self._served: dict[str, ServedSnapshot] = {}
        self._refused = set[str]()
        self._left: list[ServedSnapshot] = []

    def __contains__(self, scope: str) -> bool:
        return scope in self._served

    def get(self, scope: str) -> ServedSnapshot | None:
        """Return the snapshot in which a scope is searched, or None if it is in none."""
        return self._served.get(scope)

    def has_changes(self, scope: str) -> bool:
        """Return whether anything was added to a scope, or removed from it, since its snapshot was opened."""
        snapshot = self._served.get(scope)
        return snapshot is not None and bool(snapshot.delta.rows or snapshot.delta.removed)

    def note(self, scope: str, batch: RowBatch) -> bool:
        """Add `batch` to the writes since the snapshot of a scope was opened. Return False if the scope is not
        searched in a snapshot.
        """
        if (snapshot := self._served.get(scope)) is None:
            return False
        snapshot.note(batch)
        return True

    async def open(self, scope: str) -> OpenedSnapshot | None:
        """Return the newest usable snapshot of a scope, which is searched only after `serve`. Return None if there is
        none, or the scope was dropped here.
        """
        if self._source is None or scope in self._refused:
            return None
        for _ in range(_TRIES):
            if (found := await self._source.open(scope)) is None:
                return None
            if (opened := await self._open_table(scope, found, self._source)) is not None:
                return opened
        return None

    async def open_newer(self, scope: str) -> OpenedSnapshot | None:
        """Return a usable snapshot that is newer than the present one of a scope, or None. It is searched only after `serve`."""
        if self._source is None or (snapshot := self._served.get(scope)) is None:
            return None
        newer = await self._source.find_newer(scope, snapshot.snapshot_id)
        return None if newer is None else await self._open_table(scope, newer, self._source)

    async def _open_table(self, scope: str, snapshot: ServedSnapshot, source: SnapshotSource) -> OpenedSnapshot | None:
        try:
            table = await open_table(
                scope,
                snapshot,
                memory_rows=self._memory_rows,
                delta_rows=self._delta_rows,
                held_rows=self._held_rows,
            )
        except (IndexUnavailableError, ScopeDroppedError) as error:
            await source.reject(snapshot, str(error))
            return None
        return OpenedSnapshot(snapshot, table)

    def serve(self, scope: str, snapshot: ServedSnapshot) -> None:
        """Search a scope in a snapshot from now on."""
        self.forget(scope)
        self._served[scope] = snapshot

    def forget(self, scope: str) -> None:
        """Stop searching a scope in its snapshot. The snapshot may be opened again."""
        if (snapshot := self._served.pop(scope, None)) is not None:
            self._left.append(snapshot)

    def refuse(self, scope: str) -> None:
        """Search a scope in no snapshot until this process ends."""
        self.forget(scope)
        self._refused.add(scope)

    async def release(self) -> None:
        """Allow the files of the snapshots that are no longer searched to be removed."""
        while self._left and self._source is not None:
            await self._source.release(self._left.pop())

    async def close(self) -> None:
        """Stop searching in snapshots and release all of them."""
        for scope in list(self._served):
            self.forget(scope)
        await self.release()

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched: those of the source, and two more.

        `snapshot_old`: a snapshot is searched together with its later changes. `index_behind`: some of these changes
        are not in the index yet.
        """
        wanted = list(scopes)
        found = [self._served[scope] for scope in wanted if scope in self._served]
        codes = () if self._source is None else self._source.degradations_for(wanted)
        old = ("snapshot_old",) if any(each.is_old for each in found) else ()
        return (*codes, *old, *(("index_behind",) if any(each.incomplete for each in found) else ()))
