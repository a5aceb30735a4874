"""Stores sessions in one SQLite file in WAL mode. Several processes of one machine may use the file at the same time.

Writes run one after the other on one connection (BEGIN IMMEDIATE). Reads run on another connection, so a read never
waits for a locked file.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from mnemosyne.core.errors import StoreError
from mnemosyne.damage import DamageLog
from mnemosyne.protocols.upkeep import Lease
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.sql.store import SqlStore
from mnemosyne.stores.sqlite.file import SqliteConnection, SqliteOptions, open_database, rewrite_file
from mnemosyne.stores.sqlite.worker import SqliteWorker


class SqliteStore(SqlStore):
    """A Store in one SQLite file, opened for one tenant (the owner of sessions). `mnemosyne.protocols.Store` explains the
    methods.

    The file is opened by the first call. If `create`, that call also creates the file and its folder.

    After an erasure the file is rewritten (VACUUM), so that no erased text is left in the file or next to it. If
    another process prevents the rewriting, the file is rewritten after the next erasure, or by `close`. To try again, repeat
    the same erasure: it erases nothing more, and rewrites the file.

    Args:
        synchronous: With `FULL` an acknowledged turn survives a power cut. `NORMAL` is faster and survives a kill of
            the process.
        busy_seconds: Maximum wait for another process. After this time a call raises StoreBusyError.
        page_limit: Maximum size of the file in pages of 4096 bytes (None: no limit). A write beyond it raises
            StoreUnavailableError.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        tenant: str = "default",
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_seconds: float = 5.0,
        create: bool = True,
        page_limit: int | None = None,
    ) -> None:
        self.path = Path(path)
        self.tenant = tenant
        opening = SqliteOptions(
            path=self.path, synchronous=synchronous, busy_seconds=busy_seconds, create=create, page_limit=page_limit
        )
        self._unclean = False
        self._log, self._cache = DamageLog(), BodyCache()
        self._file = self._build_worker(opening, "BEGIN IMMEDIATE")
        reads = self._build_worker(replace(opening, read_only=True), "BEGIN")
        super().__init__(reads=reads, writes=self._file, log=self._log, cache=self._cache)

    def _build_worker(self, opening: SqliteOptions, begin: Literal["BEGIN", "BEGIN IMMEDIATE"]) -> SqliteWorker:
        return SqliteWorker(
            self.path,
            lambda: SqliteConnection(
                open_database(opening), self.tenant, shown=str(self.path), log=self._log, cache=self._cache
            ),
            begin=begin,
            busy_seconds=opening.busy_seconds,
            finish=not opening.read_only,
        )

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        """Erase the texts that `erasure` names everywhere in the store, in one transaction, and write an audit record. Then
        rewrite the file.
        """
        outcome = await super().erase(erasure)
        self._unclean = True
        await self._clean()
        return outcome

    async def erase_archived(
        self, erasure: Erasure, *, archived_before: datetime, lease: Lease | None = None
    ) -> ErasureOutcome | None:
        """Erase the session of `erasure` if it was archived before the time `archived_before` and still is. Return None, and
        erase nothing, otherwise.

        `lease` is the caller's exclusive right to do this work; if it is lost, nothing is erased. The file is not rewritten
        now, but after the next `erase`, or when the store is closed.
        """
        outcome = await super().erase_archived(erasure, archived_before=archived_before, lease=lease)
        self._unclean = self._unclean or outcome is not None
        return outcome

    async def file_faults(self) -> tuple[str, ...]:
        """Return the faults that SQLite finds in the file (`PRAGMA integrity_check`): damaged pages, and indexes that do not
        fit their tables.
        """
        found = await self._reads.run(lambda db: db.execute("PRAGMA integrity_check(100)").fetchall())
        return tuple(str(fault) for (fault,) in found if fault != "ok")

    async def close(self) -> None:
        """Wait for running work, then release the file and the threads. A second call does nothing."""
        if self._unclean:
            with contextlib.suppress(StoreError):
                await self._clean()
        await super().close()

    async def _clean(self) -> None:
        self._unclean = not await self._file.run_outside_transaction(lambda db: rewrite_file(db.driver))
