"""Runs whole transactions on one SQLite connection, one after the other, off the event loop.

No statement runs on the event loop, and no two callers share a transaction. Errors of SQLite are raised as errors of a store.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NoReturn, TypeVar

from mnemosyne.core.errors import DamagedRecordError, StoreBusyError, StoreError, StoreUnavailableError
from mnemosyne.stores.damage import DAMAGED, locate_damage
from mnemosyne.stores.sqlite.file import SqliteConnection
from mnemosyne.stores.threads import SerialThread

T = TypeVar("T")

_REASONS = {
    sqlite3.SQLITE_FULL: "the disk or the size limit is full; free some space and try again",
    sqlite3.SQLITE_READONLY: "the file or its folder may not be written; grant write permission or choose another path",
    sqlite3.SQLITE_PERM: "the file or its folder may not be used; grant permission or choose another path",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that the path names a file in a folder that may be written",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed; check the disk and its free space",
    sqlite3.SQLITE_NOTADB: "the file is not a SQLite database; choose another path",
    sqlite3.SQLITE_CORRUPT: "the database is damaged; restore it from a backup",
}


class SqliteWorker:
    """Runs transactions of one kind (reads or writes) in order.

    If a caller is cancelled, either nothing or a complete transaction is left. If `finish` (for writes), a cancelled caller is
    released when the transaction is over, so that its outcome is known. If not (for reads), the caller is released immediately.

    `connect` opens the connection, and `begin` is the statement that begins a transaction. `thread` is a thread to share with
    other workers (None: the worker makes its own thread).
    """

    def __init__(
        self,
        path: Path,
        connect: Callable[[], SqliteConnection],
        *,
        begin: Literal["BEGIN", "BEGIN IMMEDIATE"],
        busy_seconds: float,
        finish: bool,
        thread: SerialThread | None = None,
    ) -> None:
        self._path = path
        self._connect = connect
        self._begin = begin
        self._busy_seconds = busy_seconds
        self._finish = finish
        self._thread = thread or SerialThread("mnemosyne-sqlite")
        self._connection: SqliteConnection | None = None
        self._closed = False

    async def run(self, work: Callable[[SqliteConnection], T]) -> T:
        """Return the result of `work`, which runs in one transaction. If `work` raises, everything is rolled back.

        Raises:
            StoreBusyError: if the database stays locked.
            StoreUnavailableError: if the database cannot be used, or the worker is closed.
            DamagedRecordError: if a stored record cannot be read.
            StoreError: if an id cannot be stored.
        """
        return await self._run_in_thread(
            lambda connection: run_transaction(connection, self._begin, work, str(self._path))
        )

    async def run_outside_transaction(self, work: Callable[[SqliteConnection], T]) -> T:
        """Return the result of `work`, which runs in order with the other calls but outside of a transaction.

        It raises the same errors as `run`.
        """
        return await self._run_in_thread(work)

    async def _run_in_thread(self, work: Callable[[SqliteConnection], T]) -> T:
        if self._closed:
            self._refuse()
        return await self._thread.run(lambda: self._run_guarded(work), finish=self._finish)

    async def disconnect(self) -> None:
        """Release the connection; the next call opens another."""
        await self._thread.run(self._disconnect, finish=True)

    async def close(self) -> None:
        """Wait for running work, then release the connection and the thread. A second call does nothing."""
        if not self._closed:
            self._closed = True
            await self._thread.end(self._release)

    def _release(self) -> None:
        self._disconnect()
        self._connect = self._refuse

    def _refuse(self) -> NoReturn:
        raise StoreUnavailableError(str(self._path), "this store is closed; open another")

    def _run_guarded(self, work: Callable[[SqliteConnection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._connect()
            return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            known = self._translate(error)
            if known is None:
                raise
            if isinstance(known, StoreUnavailableError):
                self._disconnect()
            raise known from error
        except UnicodeEncodeError as error:
            raise StoreError(
                f"{error.object!r} cannot be an id: it contains half a surrogate pair. Nothing was written; choose another."
            ) from error

    def _translate(self, error: sqlite3.Error | OSError) -> StoreError | None:
        if isinstance(error, OSError):
            return StoreUnavailableError(str(self._path), f"{error.strerror or error}")
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreBusyError(str(self._path), self._busy_seconds)
        if code in _REASONS:
            return StoreUnavailableError(str(self._path), f"{_REASONS[code]} ({error})")
        if isinstance(error, sqlite3.OperationalError) and "UTF-8" in str(error):
            return DamagedRecordError(str(self._path), "A text", str(error))
        return None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.driver.close()


def run_transaction(connection: SqliteConnection, begin: str, work: Callable[[SqliteConnection], T], shown: str) -> T:
    """Return the result of `work`, which runs in one transaction. If `work` raises, everything is rolled back.

    `begin` is the statement that begins the transaction; `shown` names the store in messages. Raises DamagedRecordError
    if a stored record cannot be read.
    """
    driver = connection.driver
    connection.begin(begin)
    try:
        result = work(connection)
        driver.execute("COMMIT")
    except BaseException as error:
        damage = locate_damage(connection, error, shown) if isinstance(error, DAMAGED) else None
        if driver.in_transaction:
            driver.execute("ROLLBACK")
        if damage is not None:
            raise damage from error
        raise
    return result
