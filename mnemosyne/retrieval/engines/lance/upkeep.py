"""Builds the indexes of the LanceDB tables in a folder, and compacts the tables. Searches and writes continue meanwhile.

Each table has the rows of one scope (session or world). Its indexes are for filters and for the nearest vectors (the graph).
"""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from functools import partial

import anyio

from mnemosyne.retrieval.engines.lance.connection import LanceConnection
from mnemosyne.retrieval.engines.lance.table import (
    copy_batch,
    index_columns,
    index_vectors,
    is_conflict,
    retry_conflicts,
    width_of,
)

_COPIED_ROWS = 20_000


class TableUpkeep:
    """Builds the indexes of the tables of `connection`, and compacts a table after `tidy_writes` writes."""

    def __init__(self, connection: LanceConnection, *, tidy_writes: int) -> None:
        self._connection, self._tidy_writes = connection, tidy_writes
        self._writes: defaultdict[str, int] = defaultdict(int)
        self._tidying = anyio.Lock()

    def note_write(self, scope: str) -> None:
        """Count a write to the table of `scope`."""
        self._writes[scope] += 1

    def forget(self, scope: str) -> None:
        """Forget the count of writes of `scope`, whose table was dropped."""
        self._writes.pop(scope, None)

    async def prepare(self, scope: str) -> None:
        """Build the indexes of the table of `scope`: the graph, and the indexes for filters. This takes long.

        Raises IndexUnavailableError if the table cannot be used.
        """
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is not None and await table.count_rows():
                await index_columns(table)
                await index_vectors(table)

    async def absorb(self, scope: str, other: str, *, graph: bool) -> None:
        """Write all rows of the table `other` into the table of `scope`. If `graph` is true, also rebuild the graph of `scope`.

        If another write interrupts the building of the graph, the graph is built later, and until then the new rows are scanned.
        Raises IndexUnavailableError if the tables cannot be used.
        """
        async with self._connection.guard(scope):
            table, late = await self._connection.open(scope), await self._connection.open(other)
            if table is None or late is None:
                return
            width = await width_of(late)
            async for batch in await late.query().to_batches(max_batch_length=_COPIED_ROWS):
                async with self._connection.shared.hold_lock(scope, other):
                    await retry_conflicts(partial(copy_batch, table, batch, width))
        if not graph:
            return
        async with self._connection.guard(scope):
            try:
                async with self._tidying:
                    await index_vectors(table, force=True)
                    await table.optimize(cleanup_older_than=timedelta(hours=1))
            except Exception as error:
                if not is_conflict(error):
                    raise

    async def finish(self, scope: str, *, rebuild: bool) -> None:
        """Build the indexes of the table of `scope`, and delete the files of all but its last version. Call this method when the
        table will not be written any more.

        `rebuild` states whether rows were written since the graph was built. Raises IndexUnavailableError if the table cannot be
        used.
        """
        async with self._connection.guard(scope):
            if (table := await self._connection.open(scope)) is not None:
                await table.optimize()
                await index_columns(table)
                await index_vectors(table, force=rebuild)
                await table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)

    async def maintain(self) -> None:
        """Compact each table that had at least `tidy_writes` writes since it was last compacted, and update its indexes.

        If a write interrupts the compaction of a table, this table is compacted by a later call.
        """
        async with self._tidying:
            for scope, writes in list(self._writes.items()):
                if writes < self._tidy_writes:
                    continue
                async with self._connection.guard(scope):
                    try:
                        await self._tidy(scope)
                    except Exception as error:
                        if is_conflict(error):
                            continue
                        raise
                self._writes[scope] -= writes

    async def _tidy(self, scope: str) -> None:
        if (table := await self._connection.open(scope)) is None:
            return
        await table.optimize(cleanup_older_than=timedelta(hours=1))
