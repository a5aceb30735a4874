"""Opens, creates and recognises SQLite files, and rewrites a file after an erasure.

A file of another program is refused, and so is a file of another revision (format of the tables), unless it is opened to be
converted. The module also sets the options of each connection.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from mnemosyne.core.errors import StoreUnavailableError
from mnemosyne.damage import DamageLog
from mnemosyne.files import make_private_file, make_private_folder
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.sql.schema import check_revision, statements
from mnemosyne.values import dataclass

APPLICATION_ID = 0x4A435144


@dataclass(frozen=True, kw_only=True, slots=True)
class SqliteOptions:
    """Options for opening a file."""

    path: Path
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_seconds: float = 5.0
    """Maximum wait for another process, in seconds."""
    create: bool = True
    """Whether a missing file is created."""
    page_limit: int | None = None
    """Maximum size of the file, in pages of 4096 bytes. None: no limit."""
    read_only: bool = False
    """Whether the connection refuses to write. If it is false, a file that this process must not write is refused."""
    any_revision: bool = False
    """Whether a file of another revision is opened too, so that it can be converted."""


class SqliteConnection:
    """A connection to SQLite for one tenant. `Connection` explains the attributes.

    Args:
        driver: connection of the sqlite3 module.
        tenant: owner of the rows that are read and written.
        shown: name of the store in messages to people.
        log: log for damaged records that a read skips (None: a new log).
        cache: cache of decoded values (None: a new cache).
    """

    lock = ""
    """SQL that locks the rows of a SELECT. It is empty, because SQLite allows only one writer at a time."""
    shares_index = False
    """Whether the database has tables of an index that several hosts share. A SQLite file never has them."""

    def __init__(
        self,
        driver: sqlite3.Connection,
        tenant: str,
        *,
        shown: str = "",
        log: DamageLog | None = None,
        cache: BodyCache | None = None,
    ) -> None:
        self.driver = driver
        self.tenant = tenant
        self.shown = shown
        self.log = log or DamageLog()
        self._cache = cache or BodyCache()
        self.bodies = self._cache.current
        self.execute = driver.execute

    def begin(self, statement: str) -> None:
        """Begin a transaction with `statement`."""
        self.bodies = self._cache.current
        self.driver.execute(statement)

    def post(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement whose result is not needed."""
        self.driver.execute(sql, parameters)

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Write new rows. `columns` are the names of the columns, joined by commas."""
        if rows:
            signs = ", ".join("?" * len(rows[0]))
            self.driver.executemany(f"INSERT INTO {table} ({columns}) VALUES ({signs})", rows)

    def contains(self, column: str) -> str:
        """Return SQL that is true if the value in the text or blob column `column` contains a parameter as a part.

        The SQL has one `?`, for which the caller passes this parameter.
        """
        return f"instr({column}, ?) > 0"

    def now_us(self) -> int:
        """Return the time in microseconds since 1970 (UTC). The time comes from the clock of this machine, because all processes
        that use the file run here.
        """
        return time.time_ns() // 1000


def open_database(opening: SqliteOptions) -> sqlite3.Connection:
    """Return a connection to the SQLite file `opening.path`, with the options of `opening`. A missing or empty file gets the
    tables of the current revision, and uses a write-ahead log (WAL).

    Any thread may use the connection, one at a time. SQLite overwrites deleted rows (`secure_delete`), but it may leave
    copies of them. `rewrite_file` removes these copies.

    Raises StoreUnavailableError, before anything is written, in these cases:

    - The file is missing and `create` is false, or its folder cannot be created.
    - The path is a folder.
    - This process has no permission to write the file or its folder, and `read_only` is false.
    - The file is a database of another program.
    - The file has another revision, and `any_revision` is false.
    """
    path = opening.path
    if not path.exists():
        if not opening.create:
            raise StoreUnavailableError(str(path), "there is no such file; start a session there first")
        _make_folder(path)
    elif path.is_dir():
        raise StoreUnavailableError(str(path), "it is a folder; name a file in it")
    elif not opening.read_only and not _may_write(path):
        raise StoreUnavailableError(str(path), "the file or its folder may not be written; what it holds can be read")
    connection = _connect(opening)
    try:
        if not _recognise(connection, path) and _may_write(path):
            _use_wal(connection, opening.busy_seconds)
            _make(connection)
        if not opening.any_revision:
            check_revision(_recognise(connection, path), str(path), f"sqlite:///{path}")
        connection.execute(f"PRAGMA synchronous = {opening.synchronous}")
        connection.execute("PRAGMA secure_delete = ON")
        # Without it a page whose count of cells is damaged may look empty, and what it holds is missing without a word.
        connection.execute("PRAGMA cell_size_check = ON")
        if opening.page_limit is not None:
            connection.execute(f"PRAGMA max_page_count = {opening.page_limit:d}")
        if opening.read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_memory() -> sqlite3.Connection:
    """Return a connection to a new database in memory. Any thread may use it, one at a time."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA secure_delete = ON")
    _make(connection)
    return connection


def _connect(opening: SqliteOptions) -> sqlite3.Connection:
    """Return a connection to the file. It can only read if this process has no permission to write the file or its folder."""
    path = opening.path
    if not path.exists():
        make_private_file(path)
    if _may_write(path):
        return sqlite3.connect(path, timeout=opening.busy_seconds, isolation_level=None, check_same_thread=False)
    log = path.with_name(f"{path.name}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    # Without a log, and if none can be made, SQLite reads only the file once it knows that nobody writes it.
    way = "mode=ro" if has_log else "immutable=1"
    address = f"{path.absolute().as_uri()}?{way}"
    return sqlite3.connect(
        address, timeout=opening.busy_seconds, isolation_level=None, uri=True, check_same_thread=False
    )


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def rewrite_file(connection: sqlite3.Connection) -> bool:
    """Rewrite the file and empty its log, so that no byte of deleted rows is left. Return whether this succeeded.

    `secure_delete` overwrites a row in its page, but SQLite leaves copies of rows when it splits a page, and only
    VACUUM removes them. VACUUM is not possible while another process is inside a transaction, nor on a full disk.
    """
    try:
        connection.execute("VACUUM")
        return not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError:
        return False


def _make_folder(path: Path) -> None:
    try:
        make_private_folder(path.parent)
    except OSError as error:
        raise StoreUnavailableError(
            str(path), f"its folder cannot be made ({error.filename}: {error.strerror}); choose another path"
        ) from error


def _recognise(connection: sqlite3.Connection, path: Path) -> int:
    """Return the revision of a file, or 0 for an empty one. Raises StoreUnavailableError if it is another program's."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    # Last, because another process may be making the database: whatever was seen of it before, it has this number now.
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION_ID and (tables or application or version):
        raise StoreUnavailableError(str(path), "it is a database of another program; choose another path")
    if "store_revision" not in tables:
        return min(1, len(tables))
    (revision,) = connection.execute("SELECT max(revision) FROM store_revision").fetchone()
    return int(revision)


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database, judged by its first bytes."""
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"


def read_revision(path: Path) -> int:
    """Return the revision of a file. Nothing is changed. Raises StoreUnavailableError if the file is of another program."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        return _recognise(connection, path)


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch to WAL, waiting for other processes, because SQLite itself does not wait here."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _make(connection: sqlite3.Connection) -> None:
    """Create the tables in one transaction, unless another process has."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None:
            for statement in statements("sqlite"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
