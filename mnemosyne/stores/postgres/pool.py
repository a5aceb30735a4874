"""Runs whole transactions on a few PostgreSQL connections, which a few threads share.

No statement runs on the event loop, and no two callers share a transaction. A connection is opened when it is needed,
reused, and closed after any error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio
import anyio.to_thread
import psycopg
from psycopg.pq import TransactionStatus

from mnemosyne.core.errors import CommitUnknownError, StoreError, StoreUnavailableError
from mnemosyne.core.masking.credentials import mask_error
from mnemosyne.damage import DamageLog
from mnemosyne.stores.damage import DAMAGED, locate_damage
from mnemosyne.stores.postgres.connection import PostgresConnection
from mnemosyne.stores.postgres.database import PostgresOptions, open_driver, translate_error
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.threads import run_in_thread

T = TypeVar("T")


class ConnectionPool:
    """Runs transactions of one kind (reads or writes), as many at once as it has connections. Further callers wait.

    A read sees one snapshot of the database. A write sees everything that was committed before each of its statements,
    and locks what it is about to change. If a caller is cancelled, either nothing or a complete transaction is left.
    """

    def __init__(
        self,
        opening: PostgresOptions,
        tenant: str,
        log: DamageLog,
        cache: BodyCache,
        *,
        connections: int,
        writing: bool,
    ) -> None:
        self._opening = opening
        self._log, self._cache = log, cache
        self._tenant = tenant
        self._writing = writing
        self._begin = b"BEGIN" if writing else b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        self._threads = ThreadPoolExecutor(max_workers=connections, thread_name_prefix="mnemosyne-postgres")
        self._idle: list[PostgresConnection] = []
        self._closed = False

    async def run(self, work: Callable[[PostgresConnection], T]) -> T:
        """Return the result of `work`, which runs in one transaction. If `work` raises, everything is rolled back.

        Raises:
            StoreBusyError: if a lock is not available in time.
            StoreUnavailableError: if the server cannot be used, or the store is closed.
            CommitUnknownError: if the connection was lost during the commit.
            DamagedRecordError: if a stored record cannot be read.
            StoreError: if an id cannot be stored.
        """
        if self._closed:
            raise StoreUnavailableError(self._opening.address.shown, "this store is closed; open another")
        return await run_in_thread(self._threads, lambda: self._run_guarded(work), finish=self._writing)

    async def close(self) -> None:
        """Wait for running work, then release the connections and threads. A second call does nothing."""
        if not self._closed:
            self._closed = True
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._release)

    def _release(self) -> None:
        self._threads.shutdown()
        while self._idle:
            self._idle.pop().driver.close()

    def _run_guarded(self, work: Callable[[PostgresConnection], T]) -> T:
        try:
            while (connection := self._take_idle()) is not None:
                try:
                    return self._run_transaction(connection, work)
                except psycopg.OperationalError:
                    # The connection was lost while it was idle, so nothing of this transaction has been sent.
                    if connection.answered or not connection.driver.closed:
                        raise
            return self._run_transaction(self._open_connection(), work)
        except (psycopg.Error, OSError) as error:
            known = translate_error(error, self._opening)
            if known is None:
                mask_error(error)
                raise
            raise known from mask_error(error)
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{error.object!r} cannot be an id: it contains half a surrogate pair. Nothing was written; choose another."
            ) from error

    def _take_idle(self) -> PostgresConnection | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _open_connection(self) -> PostgresConnection:
        driver, lock = open_driver(self._opening), " FOR UPDATE" if self._writing else ""
        shown = self._opening.address.shown
        return PostgresConnection(driver, self._tenant, lock, shown=shown, log=self._log, cache=self._cache)

    def _run_transaction(self, connection: PostgresConnection, work: Callable[[PostgresConnection], T]) -> T:
        """Run one transaction; the connection is reused if it is intact afterwards."""
        connection.begin(self._begin)
        try:
            result = work(connection)
            said = self._commit(connection)
        except BaseException as error:
            connection.drop()
            damage = (
                locate_damage(connection, error, self._opening.address.shown) if isinstance(error, DAMAGED) else None
            )
            with contextlib.suppress(psycopg.Error):
                connection.driver.execute(b"ROLLBACK")
            if damage is not None:
                raise damage from mask_error(error)
            raise
        finally:
            self._put_back(connection)
        if said != "COMMIT":
            raise RuntimeError(f"The transaction ended with {said}: a statement had failed and its error was dropped.")
        return result

    def _commit(self, connection: PostgresConnection) -> str | None:
        try:
            return connection.end(b"COMMIT")
        except psycopg.OperationalError as error:
            if self._writing and connection.driver.closed:
                raise CommitUnknownError(self._opening.address.shown) from mask_error(error)
            raise

    def _put_back(self, connection: PostgresConnection) -> None:
        if connection.driver.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            connection.driver.close()
