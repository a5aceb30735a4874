"""Defines the protocol of a database connection, by which the SQL stores run statements and read rows.

Every statement is written only once, for SQLite and PostgreSQL. Statements contain `?` for values. A connection translates the
`?` if its driver needs another placeholder. This module must not import a driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from mnemosyne.damage import DamageLog
from mnemosyne.stores.sql.read_bodies import ReadBodies

T = TypeVar("T")


class Rows(Protocol):
    """The rows of one statement, each a tuple."""

    def fetchone(self) -> Any:
        """Return the next row, or None if there are no more rows."""
        ...

    def fetchall(self) -> list[Any]:
        """Return all rows that have not been read yet."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A database inside a transaction, opened for one tenant."""

    @property
    def tenant(self) -> str:
        """The owner of the rows. Every key includes the tenant."""
        ...

    @property
    def shown(self) -> str:
        """The name of the store for people, without a password."""
        ...

    @property
    def log(self) -> DamageLog:
        """The log for damaged records that a read skips."""
        ...

    @property
    def bodies(self) -> ReadBodies:
        """The cache of values that were decoded before."""
        ...

    @property
    def lock(self) -> str:
        """SQL to add to a SELECT so that its row is locked until the end of a write transaction (` FOR UPDATE`), or '' if this
        is not needed.
        """
        ...

    @property
    def shares_index(self) -> bool:
        """Whether the database has the tables with which several hosts share indexes (`sql.schema.SHARED`)."""
        ...

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement and return its rows."""
        ...

    def post(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement whose result is not needed.

        The statement may be sent later, together with the next query or with the commit. An error of the statement is then
        raised by that query or commit.
        """
        ...

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Write new rows, few or thousands. `columns` are the names of the columns, joined by commas.

        The rows may be sent later, as in `post`.
        """
        ...

    def contains(self, column: str) -> str:
        """Return the SQL condition that the text or blob `column` contains the value of a `?`."""
        ...

    def now_us(self) -> int:
        """Return the time of the database's clock in microseconds since 1970 (UTC)."""
        ...


def expand_in(values: Sequence[T]) -> tuple[str, tuple[T, ...]]:
    """Return (placeholders, values) for SQL `IN (…)`. `values` must not be empty.

    The values are padded with the last one to a power of two, so that there are few different statements.
    """
    size = 1 << (len(values) - 1).bit_length()
    return ", ".join("?" * size), (*values, *([values[-1]] * (size - len(values))))
