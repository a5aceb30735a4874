"""Sends statements and rows to PostgreSQL inside a transaction, in as few round trips as possible.

A statement without a result is sent together with the next query, and thousands of rows are sent by COPY. The module
knows nothing of sessions, and is imported only if an address names PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import Any

import psycopg
from psycopg.adapt import Buffer, Loader
from psycopg.pq import Format

from mnemosyne.damage import DamageLog
from mnemosyne.stores.sql.connection import Rows
from mnemosyne.stores.sql.read_bodies import BodyCache

Driver = psycopg.Connection[tuple[Any, ...]]

_FEW_ROWS = 8
_MOST_POSTED = 500


class PostgresConnection:
    """A connection of the driver inside a transaction, for one tenant."""

    shares_index = True

    def __init__(
        self,
        driver: Driver,
        tenant: str,
        lock: str,
        *,
        shown: str = "",
        log: DamageLog | None = None,
        cache: BodyCache | None = None,
    ) -> None:
        self.driver = driver
        self.tenant = tenant
        self.lock = lock
        self.shown = shown
        self.log = log or DamageLog()
        self._cache = cache or BodyCache()
        self.bodies = self._cache.current
        self.answered = False
        self._posted: list[tuple[bytes, Sequence[Any]]] = []

    def begin(self, statement: bytes) -> None:
        """Begin a transaction. `statement` is sent together with the next statement."""
        self.answered = False
        self.bodies = self._cache.current
        self._posted = [(statement, ())]

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement, after all posted ones, and return its rows."""
        return self._run_query(_number_parameters(sql), _escape_nul(parameters))

    def post(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement without a result. It is sent together with the next query or with the commit."""
        self._posted.append((_number_parameters(sql), _escape_nul(parameters)))
        if len(self._posted) >= _MOST_POSTED:
            self._flush()

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Write new rows. A few rows are sent with the next query, many by COPY. `columns` are their names, joined by
        commas.
        """
        if len(rows) > _FEW_ROWS:
            self._copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT BINARY)".encode(), rows)
        elif rows:
            signs = f"({', '.join('?' * len(rows[0]))})"
            values = [value for row in rows for value in row]
            self.post(f"INSERT INTO {table} ({columns}) VALUES {', '.join([signs] * len(rows))}", values)

    def end(self, statement: bytes) -> str | None:
        """Run the last statement of a transaction, after all posted ones.

        Return the status that the server reports (`COMMIT` or `ROLLBACK`), or None if it reports none.
        """
        return self._run_query(statement, ()).statusmessage

    def contains(self, column: str) -> str:
        """Return the SQL condition that a text or blob column contains the value of a `?`."""
        return f"position(? IN {column}) > 0"

    def now_us(self) -> int:
        """Return the time of the server in microseconds since 1970. It is one clock for all hosts."""
        row = self.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        return int(row[0])

    def drop(self) -> None:
        """Forget posted statements that have not been sent."""
        self._posted = []

    def _run_query(self, statement: bytes, values: Sequence[Any]) -> psycopg.Cursor[tuple[Any, ...]]:
        cursor = self.driver.cursor(binary=True)
        if self._posted:
            with self.driver.pipeline():
                self._send()
                cursor.execute(statement, values)
        else:
            cursor.execute(statement, values)
        self.answered = True
        return cursor

    def _flush(self) -> None:
        with self.driver.pipeline():
            self._send()
        self.answered = True

    def _send(self) -> None:
        posted, self._posted = self._posted, []
        for statement, values in posted:
            self.driver.cursor().execute(statement, values)

    def _copy(self, statement: bytes, rows: Sequence[Sequence[Any]]) -> None:
        self._flush()
        with self.driver.cursor().copy(statement) as copy:
            copy.set_types([_type_of(column) for column in zip(*rows, strict=True)])
            for row in rows:
                copy.write_row(_escape_nul(row))


def _type_of(column: Sequence[Any]) -> str:
    """Return the type of a column of values: COPY needs exactly the right one."""
    first = next((value for value in column if value is not None), None)
    if isinstance(first, int):
        return "int8"
    return "text" if isinstance(first, str) else "bytea"


@lru_cache(maxsize=512)
def _number_parameters(sql: str) -> bytes:
    """Return a statement with `$1`, `$2` … in place of `?`."""
    numbers = count(1)
    return "".join(f"${next(numbers)}" if sign == "?" else sign for sign in sql).encode()


def _escape_nul(values: Sequence[Any]) -> Sequence[Any]:
    """Encode NUL, which PostgreSQL's text cannot contain, as two characters; the order of texts does not change."""
    if any(isinstance(value, str) and ("\0" in value or "\1" in value) for value in values):
        return [escape_nul(value) if isinstance(value, str) else value for value in values]
    return values


def escape_nul(text: str) -> str:
    """Return the text without NUL, which PostgreSQL cannot store.

    U+0000 becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002. The order of texts stays the same.
    """
    return text.replace("\1", "\1\2").replace("\0", "\1\1")


def unescape_nul(text: str) -> str:
    """Return the text that `escape_nul` encoded."""
    return text.replace("\1\1", "\0").replace("\1\2", "\1")


class TextLoader(Loader):
    """Decodes text columns whose values `escape_nul` encoded."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        """Return the original text of a column's bytes."""
        text = bytes(data).decode()
        return unescape_nul(text) if "\1" in text else text
