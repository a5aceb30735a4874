"""Reads SQLite databases of other programs. Nothing in a database is changed, and no code that it defines is run."""

from __future__ import annotations

import sqlite3
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from mnemosyne.core.errors import CorpusError

MOST_VALUE_BYTES = 16_000_000
"""Maximum size of one value in a database."""
MOST_ROWS = 2_000_000
MOST_DATABASE_BYTES = 4_000_000_000
_ROWS_AT_ONCE = 100
_MAGIC = b"SQLite format 3\0"
_BUSY = "close the program that uses it, and import again"


def is_database(path: Path) -> bool:
    """Return whether `path` is a file that begins with the signature of SQLite."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def tables_of(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the columns of each table, by the name of the table. Views and virtual tables are left out.

    Raises CorpusError if the file is not a database, is damaged, or is in use.
    """
    with open_database(path) as database:
        return database.tables


def has_columns(tables: Mapping[str, Sequence[str]], table: str, columns: Sequence[str]) -> bool:
    """Return whether `tables` contains the table `table` with at least these columns."""
    return set(columns) <= set(tables.get(table, ()))


class Database:
    """A database that is open for reading. `tables` has the columns of each table."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self._path, self._connection = path, connection
        self.tables = {name: self._columns(name) for name in self._names()}

    def rows(self, table: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table in the order of insertion. A column that the table does not have is left out.

        Raises CorpusError if the database is damaged, or if the table has more than MOST_ROWS rows.
        """
        for count, row in enumerate(self._select(table, columns, "ORDER BY rowid", ())):
            if count == MOST_ROWS:
                raise CorpusError(f"{self._path}: `{table}` has more than {MOST_ROWS:,} rows; import a part of it.")
            yield row

    def rows_at(self, table: str, columns: Sequence[str], numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table whose row numbers are `numbers`. The numbers must ascend. Raises CorpusError for a
        damaged database.
        """
        for start in range(0, len(numbers), _ROWS_AT_ONCE):
            some = tuple(numbers[start : start + _ROWS_AT_ONCE])
            marks = ", ".join("?" * len(some))
            yield from self._select(table, columns, f"WHERE rowid IN ({marks}) ORDER BY rowid", some)

    def numbers_by(self, table: str, column: str) -> dict[str, array[int]]:
        """Return the row numbers of a table by the text in `column`, each list in the order of insertion. Raises
        CorpusError as `rows` does.
        """
        numbers: dict[str, array[int]] = {}
        for row in self.rows(table, ("rowid", column)):
            numbers.setdefault(str(row[column]), array("q")).append(row["rowid"])
        return numbers

    def _select(
        self, table: str, columns: Sequence[str], terms: str, values: tuple[int, ...]
    ) -> Iterator[dict[str, Any]]:
        known = [column for column in columns if column == "rowid" or column in self.tables[table]]
        query = f"SELECT {', '.join(map(_quoted, known))} FROM {_quoted(table)} {terms}"
        with _named_errors(self._path), closing(self._connection.execute(query, values)) as rows:
            for row in rows:
                yield dict(zip(known, row, strict=True))

    def _names(self) -> list[str]:
        with _named_errors(self._path):
            query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid LIMIT 1000"
            rows = self._connection.execute(query).fetchall()
        return [
            name for name, sql in rows if isinstance(sql, str) and not sql[:40].upper().startswith("CREATE VIRTUAL")
        ]

    def _columns(self, table: str) -> tuple[str, ...]:
        with _named_errors(self._path):
            return tuple(row[1] for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})"))


@contextmanager
def open_database(path: Path) -> Iterator[Database]:
    """Open a database for reading, for a `with` block. Invalid UTF-8 in texts becomes U+FFFD.

    Raises CorpusError if the file is not a database, is damaged, is too large, or is in use.
    """
    if not path.is_file():
        raise CorpusError(f"{path}: {'is not a regular file' if path.exists() else 'there is no such file'}.")
    if not is_database(path):
        raise CorpusError(f"{path}: is not a SQLite database.")
    if _size(path) > MOST_DATABASE_BYTES:
        raise CorpusError(f"{path}: has more than {MOST_DATABASE_BYTES:,} bytes; import a part of it.")
    beside = {ending: path.with_name(path.name + ending) for ending in ("-journal", "-wal", "-shm")}
    has_newer = _size(beside["-wal"]) > 0
    if _size(beside["-journal"]) > 0 or (has_newer and not beside["-shm"].exists()):
        raise CorpusError(f"{path}: has changes that are not finished; {_BUSY}.")
    # Data that is still next to the database (-wal) is only read without `immutable`, which in turn needs no lock and
    # no other file.
    address = f"file:{quote(str(path.resolve()))}?mode=ro{'' if has_newer else '&immutable=1'}"
    # Rows are read page by page, and each page may be read in another thread, one at a time.
    connected = sqlite3.connect(address, uri=True, timeout=1, check_same_thread=False)
    with _named_errors(path), closing(connected) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_VALUE_BYTES)
        connection.text_factory = _decode
        for pragma in (
            "trusted_schema = OFF",
            "query_only = ON",
            "cell_size_check = ON",
            "mmap_size = 0",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")
        yield Database(path, connection)


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError, MemoryError) as error:
        if getattr(error, "sqlite_errorname", "") in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            raise CorpusError(f"{path}: is locked; {_BUSY}.") from error
        raise CorpusError(f"{path}: cannot be read as a SQLite database ({error}); restore it from a copy.") from error


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
