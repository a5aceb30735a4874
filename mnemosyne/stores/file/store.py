"""Stores sessions as readable JSON files in a folder, safe for several processes of one machine.

Every write is a line in a journal. A journal is the file of one session or one world; each tenant has a folder of
journals. The store also keeps a SQLite database that is made from the journals, and reads from this database.

    FOLDER/store.json                    format of this folder
    FOLDER/TENANT/sessions/NAME.jsonl    one journal per session
    FOLDER/TENANT/worlds/NAME.jsonl      one journal per world
    FOLDER/TENANT/audits.jsonl           records of erasures
    FOLDER/lock                          lock for writes
    FOLDER/.cache.db                     the database, which is made again if it is missing
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, Protocol, TypeVar

from mnemosyne.core.errors import SessionNotFoundError, StoreUnavailableError
from mnemosyne.schema.memory import session_scope
from mnemosyne.stores.file.folder import Folder
from mnemosyne.stores.file.journals import Journals
from mnemosyne.stores.file.rows import Owner
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.sql.store import SqlStore
from mnemosyne.stores.sqlite.file import (
    SqliteConnection,
    SqliteOptions,
    open_database,
    open_memory,
    rewrite_file,
)
from mnemosyne.stores.sqlite.store import SqliteStore
from mnemosyne.stores.sqlite.worker import SqliteWorker, run_transaction

T = TypeVar("T")

_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class FileStore(SqliteStore):
    """A Store in a folder of JSON files. See `mnemosyne.protocols.Store` for the methods.

    Nothing is opened before the first call, and the first write creates the folder. Notes on damage name the file and
    line.

    Args:
        synchronous: With `FULL` an acknowledged turn survives a power cut. `NORMAL` is faster and survives a kill of
            the process.
        busy_seconds: Maximum wait for another process. After this time a call raises StoreBusyError.
        create: If false, a missing folder is not created.
        compact_bytes: Size of a journal in bytes. A journal that is larger, and has doubled in size since it was rewritten, is
            rewritten without outdated rows.
    """

    def __init__(
        self,
        folder: str | Path,
        tenant: str = "default",
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_seconds: float = 5.0,
        create: bool = True,
        compact_bytes: int = 4_194_304,
    ) -> None:
        self.folder = self.path = Path(folder)
        self.tenant = tenant
        place = Folder(self.folder, tenant, create=create, durable=synchronous == "FULL", busy_seconds=busy_seconds)
        self._unclean = False
        self._log, self._cache = place.log, BodyCache()
        self._database = _Database(place, tenant, self._cache, busy_seconds=busy_seconds, compact_bytes=compact_bytes)
        self._file = SqliteWorker(
            self.folder, self._database.connect, begin="BEGIN IMMEDIATE", busy_seconds=busy_seconds, finish=True
        )
        SqlStore.__init__(
            self,
            reads=_Runner(self._file, self._database.read),
            writes=_Runner(self._file, self._database.write),
            log=self._log,
            cache=self._cache,
        )

    async def file_faults(self) -> tuple[str, ...]:
        """Return a sentence for each damaged line of the journals."""
        return await self._reads.run(lambda _: self._database.find_faults())


class _StaleError(Exception):
    """The connection is not to the database that is to be used now."""


class _Run(Protocol):
    """One transaction on the thread of the connection."""

    def __call__(self, connection: SqliteConnection, work: Callable[[Connection], T]) -> T: ...


class _Runner:
    """Runs transactions, each on the present database."""

    def __init__(self, worker: SqliteWorker, run: _Run) -> None:
        self._worker, self._run = worker, run

    async def run(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, from one transaction; when it raises, everything is rolled back."""
        while True:
            try:
                return await self._worker.run_outside_transaction(lambda db: self._run(db, work))
            except _StaleError:
                await self._worker.disconnect()

    async def close(self) -> None:
        """Wait for running work, then release the connection and the thread."""
        await self._worker.close()


class _Database:
    """The database of a folder: the cache in it, or, if there is no store yet or it may only be read, one of this process.

    One worker runs everything, one piece of work at a time.
    """

    def __init__(
        self, folder: Folder, tenant: str, cache: BodyCache, *, busy_seconds: float, compact_bytes: int
    ) -> None:
        self._folder, self._tenant, self._bodies = folder, tenant, cache
        self._busy_seconds, self._compact_bytes = busy_seconds, compact_bytes
        self._journals: Journals | None = None
        self._inode = 0
        self._is_broken = self._will_write = False

    def connect(self) -> SqliteConnection:
        """Return a connection whose rows are those of the journals."""
        self._folder.check()
        if not self._will_write and not (self._folder.exists() and self._folder.is_writable()):
            self._inode = 0
            connection = self._wrap(open_memory())
            self._journals = Journals(self._folder, connection, compact_bytes=self._compact_bytes)
            return connection
        with self._folder.hold_lock():
            if self._is_broken:
                self._folder.remove_cache()
            connection = self._wrap(self._open_cache())
            try:
                self._is_broken, self._inode = False, self._folder.cache.stat().st_ino
                self._journals = Journals(self._folder, connection, compact_bytes=self._compact_bytes)
                self._follow(connection)
                self._journals.watch()
            except BaseException:
                connection.driver.close()
                raise
        return connection

    def _wrap(self, driver: sqlite3.Connection) -> SqliteConnection:
        shown, log = str(self._folder.root), self._folder.log
        return SqliteConnection(driver, self._tenant, shown=shown, log=log, cache=self._bodies)

    def _open_cache(self) -> sqlite3.Connection:
        # What was not yet on the disk when the power was cut is read from the journals again.
        options = SqliteOptions(path=self._folder.cache, synchronous="NORMAL", busy_seconds=self._busy_seconds)
        try:
            return open_database(options)
        except (sqlite3.DatabaseError, StoreUnavailableError):
            self._folder.remove_cache()
            return open_database(options)

    def _follow(self, connection: SqliteConnection) -> None:
        """Bring the rows up to the files in a transaction of their own."""
        journals = self._opened()
        run_transaction(connection, "BEGIN IMMEDIATE", lambda _: journals.follow(), connection.shown)
        if self._inode:
            self._folder.end_write()
        if journals.is_remade:
            self._bodies.clear()
            journals.is_remade = not (self._inode and rewrite_file(connection.driver))

    def _opened(self) -> Journals:
        if self._journals is None:
            raise _StaleError
        return self._journals

    def read(self, connection: SqliteConnection, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, from one transaction that reads."""
        self._folder.check()
        if not self._inode:
            if self._folder.exists() and self._folder.is_writable():
                raise _StaleError
            self._follow(connection)
        elif self._is_replaced():
            raise _StaleError
        return self._guard(connection, "BEGIN", work)

    def write(self, connection: SqliteConnection, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`, when the lines of its written rows are on the disk."""
        self._will_write = True
        self._folder.check()
        if self._folder.exists() and not self._folder.is_writable():
            raise StoreUnavailableError(
                str(self._folder.root), "the folder may not be written; what it holds can be read"
            )
        if not self._inode:
            raise _StaleError
        journals = self._opened()
        with self._folder.hold_lock():
            if self._is_replaced():
                raise _StaleError
            if self._folder.is_interrupted():
                self._follow(connection)
            is_committed = False
            try:
                result = self._guard(connection, "BEGIN IMMEDIATE", partial(self._write, journals, work))
                is_committed = True
            finally:
                journals.end_write(is_committed=is_committed)
        return result

    def _write(self, journals: Journals, work: Callable[[Connection], T], connection: Connection) -> T:
        result = work(connection)
        journals.append_written(_name_of(work))
        return result

    def _guard(self, connection: SqliteConnection, begin: str, work: Callable[[Connection], T]) -> T:
        """Run a transaction; a damaged cache is made again, and damage in the journals is noted."""
        journals = self._opened()
        try:
            return run_transaction(connection, begin, work, connection.shown)
        except SessionNotFoundError as error:
            journals.raise_if_lost(Owner(tenant=self._tenant, scope=session_scope(error.session_id)))
            raise
        except sqlite3.DatabaseError as error:
            self._is_broken = bool(self._inode) and getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN
            if self._is_broken:
                raise _StaleError from error
            raise
        finally:
            for note in journals.notes:
                self._folder.log.add(note)

    def _is_replaced(self) -> bool:
        try:
            return self._folder.cache.stat().st_ino != self._inode
        except FileNotFoundError:
            return True

    def find_faults(self) -> tuple[str, ...]:
        """Return the faults of the lines of the journals."""
        return tuple(self._opened().find_faults())


def _name_of(work: Callable[..., object]) -> str:
    """Return the name of the method whose transaction this is, for a person who reads the journal."""
    return "".join(getattr(work, "__qualname__", "").split(".")[1:2]).lstrip("_")
