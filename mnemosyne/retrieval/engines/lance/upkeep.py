"""Builds the indexes of the tables of a folder and compacts them; searches and writes continue meanwhile."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

import anyio

from mnemosyne.retrieval.engines.lance.connection import LanceConnection
from mnemosyne.retrieval.engines.lance.table import (
    copy_batch,
    declare_key,
    declare_sums,
    index_columns,
    index_vectors,
    is_conflict,
    is_keyed,
    retry_conflicts,
    width_of,
)

_COPIED_ROWS = 20_000


class TableUpkeep:
    """Keeps the tables of a connection in order. `tidy_writes`: a table is compacted after that many writes."""

    def __init__(self, connection: LanceConnection, *, tidy_writes: int) -> None:
        self._connection, self._tidy_writes = connection, tidy_writes
        self._writes: defaultdict[str, int] = defaultdict(int)
        self._searched, self._keyed = set[str](), set[str]()
        self._indexing, self._tidying = anyio.Lock(), anyio.Lock()

    async def declare(self, scope: str, table: Any) -> None:
        """Declare key and checksums of a table of an earlier release; this process holds the folder's lock."""
        if scope not in self._keyed:
            await declare_key(table)
            await declare_sums(table)
            self._keyed.add(scope)

    def note_write(self, scope: str) -> None:
        """Count a write to a table."""
        self._writes[scope] += 1

    def release(self, scope: str) -> None:
        """Forget a table, so that it is looked at again."""
        self._searched.discard(scope)
        self._keyed.discard(scope)

    def forget(self, scope: str) -> None:
        """Forget a table that was dropped."""
        self.release(scope)
        self._writes.pop(scope, None)

    async def index_words(self, scope: str, table: Any) -> None:
        """Build the index for searching by words, unless there is one. Errors of LanceDB."""
        if scope in self._searched:
            return
        async with self._indexing:
            # Several chains of a scope are searched at once; the first search builds the index for all.
            if scope not in self._searched:
                await index_columns(table, words=True)
                self._searched.add(scope)

    async def prepare(self, scope: str, *, words: bool) -> None:
        """See `LanceIndex.prepare`."""
        async with self._connection.guard(scope):
            table = await self._connection.open(scope)
            if table is not None and await table.count_rows():
                if words:
                    await self.index_words(scope, table)
                else:
                    await index_columns(table, words=False)
                await index_vectors(table)

    async def absorb(self, scope: str, other: str, *, graph: bool) -> None:
        """See `LanceIndex.absorb`."""
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

    async def finish(self, scope: str, *, words: bool, rebuild: bool) -> None:
        """See `LanceIndex.finish`."""
        async with self._connection.guard(scope):
            if (table := await self._connection.open(scope)) is not None:
                await table.optimize()
                await index_columns(table, words=words)
                await index_vectors(table, force=rebuild)
                await table.optimize(cleanup_older_than=timedelta(milliseconds=1), delete_unverified=True)

    async def maintain(self) -> None:
        """See `LanceIndex.maintain`."""
        for scope, table in [each for each in self._connection.opened() if each[0] not in self._keyed]:
            # A failure here is not lost: the next write tries again and raises its reason.
            with suppress(Exception):
                if not await is_keyed(table):
                    async with self._connection.shared.hold_lock(scope):
                        await declare_key(table)
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
        if scope in self._searched:
            await index_vectors(table)
        await table.optimize(cleanup_older_than=timedelta(hours=1))
