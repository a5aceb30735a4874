"""Keeps track of the scopes of an index that are searched in published snapshots, and of the changes since then.

A scope is one session or one world. A snapshot is a published, read-only index of one scope, made by another process. A
snapshot is usable if its tables can be opened. To serve a scope is to search it in a snapshot. This module must not import
an engine.
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
    """An opened snapshot, and the table that searches it.

    The table of a small snapshot (`ScopeTable`) has all rows in memory. The table of a large one (`LargeScope`) has only the
    words in memory.
    """

    snapshot: ServedSnapshot
    table: ScopeTable | LargeScope


class ServedScopes:
    """Holds the scopes of an index that are searched in snapshots of `source`. If `source` is None, no scope is.

    A snapshot with at most `memory_rows` rows is searched in memory. `delta_rows` limits how many new rows of a larger one
    are in memory with their vectors. `held_rows` is the number of new rows after which they are written.
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
        """Return the snapshot in which `scope` is searched, or None if `scope` is not searched in a snapshot."""
        return self._served.get(scope)

    def has_changes(self, scope: str) -> bool:
        """Return whether entries of `scope` were added or removed since the snapshot of `scope` was opened."""
        snapshot = self._served.get(scope)
        return snapshot is not None and bool(snapshot.delta.rows or snapshot.delta.removed)

    def note(self, scope: str, batch: RowBatch) -> bool:
        """Record that `batch` was written to `scope` after its snapshot was opened. Return False, and record nothing, if
        `scope` is not searched in a snapshot.
        """
        if (snapshot := self._served.get(scope)) is None:
            return False
        snapshot.note(batch)
        return True

    async def open(self, scope: str) -> OpenedSnapshot | None:
        """Open the newest snapshot of `scope` whose tables can be opened, and return it. A call of `serve` then begins the
        searching.

        Return None if there is no such snapshot, or `refuse` was called for `scope`.
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
        """Open a snapshot that is newer than the present one of `scope`, and return it. A call of `serve` then begins the
        searching.

        Return None if there is no newer snapshot, its tables cannot be opened, or `scope` is not searched in a snapshot.
        """
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
        """Search `scope` in `snapshot` from now on. The former snapshot of `scope` is given up."""
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
        """Allow the source to remove the files of snapshots that are no longer searched."""
        while self._left and self._source is not None:
            await self._source.release(self._left.pop())

    async def close(self) -> None:
        """Stop searching in snapshots and release all of them."""
        for scope in list(self._served):
            self.forget(scope)
        await self.release()

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when `scopes` are searched: the source's codes, and two more.

        `snapshot_old` means that entries were written after a snapshot was made, and are searched with it. `index_behind`
        means that some of these entries are not in the index yet.
        """
        wanted = list(scopes)
        found = [self._served[scope] for scope in wanted if scope in self._served]
        codes = () if self._source is None else self._source.degradations_for(wanted)
        old = ("snapshot_old",) if any(each.is_old for each in found) else ()
        return (*codes, *old, *(("index_behind",) if any(each.incomplete for each in found) else ()))
