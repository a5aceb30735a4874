"""Database operations that the SQL stores need: running statements and reading their rows.

Every statement is written once, for SQLite and PostgreSQL alike. Statements use `?` for values; a connection translates
the sign if its driver needs another. It knows no driver and nothing of sessions.
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
        """Return the next row, or None."""
        ...

    def fetchall(self) -> list[Any]:
        """Return the rows that are left."""
        ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A database inside a transaction, opened for one tenant."""

    @property
    def tenant(self) -> str:
        """The owner of the rows; it is part of every key."""
        ...

    @property
    def shown(self) -> str:
        """The name of the store for a person, without a password."""
        ...

    @property
    def log(self) -> DamageLog:
        """Return the log for damaged records that a read skips."""
        ...

    @property
    def bodies(self) -> ReadBodies:
        """The values of bodies that were read before this transaction."""
        ...

    @property
    def lock(self) -> str:
        """The suffix of a SELECT of a row that the transaction is about to change (` FOR UPDATE`, or nothing)."""
        ...

    @property
    def shares_index(self) -> bool:
        """Whether the database has the tables that several hosts share (`sql.schema.SHARED`)."""
        ...

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement and return its rows."""
        ...

    def post(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run one statement whose result is not needed.

        It may be sent together with the next query or the commit, whichever comes first; then its error is raised
        there.
        """
        ...

    def insert(self, table: str, columns: str, rows: Sequence[Sequence[Any]]) -> None:
        """Write new rows, few or thousands; `columns` are their names, joined by commas. Errors as for `post`."""
        ...

    def contains(self, column: str) -> str:
        """Return the condition that a text or a blob holds the value of a `?`."""
        ...

    def now_us(self) -> int:
        """Return the time of the database's clock in microseconds since 1970 (UTC)."""
        ...


def expand_in(values: Sequence[T]) -> tuple[str, tuple[T, ...]]:
    """Return the placeholders and values of `IN (...)`, padded with the last value to a power of two so that there are
    few different statements.

    `values` must not be empty.
    """
    size = 1 << (len(values) - 1).bit_length()
    return ", ".join("?" * size), (*values, *([values[-1]] * (size - len(values))))
