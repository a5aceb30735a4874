"""The same messages in PostgreSQL, kept by hand with its driver; imported when that store is measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

import psycopg
from psycopg import sql

from benchmarks.stores.drivers import Said, encode_message


class PlainPostgres:
    """A table in a schema of its own, each turn one transaction."""

    def __init__(self, uri: str, schema: str) -> None:
        self._driver = psycopg.connect(uri, autocommit=True)
        name = sql.Identifier(schema)
        self._driver.execute(sql.SQL("CREATE SCHEMA {}").format(name))
        self._driver.execute(sql.SQL("SET search_path TO {}").format(name))
        self._driver.execute("CREATE TABLE session (head BIGINT NOT NULL)")
        self._driver.execute("INSERT INTO session VALUES (0)")
        self._driver.execute("CREATE TABLE messages (depth BIGINT, ord BIGINT, body BYTEA, PRIMARY KEY (depth, ord))")

    def fill(self, turns: Iterable[Sequence[Said]]) -> None:
        """Write many turns."""
        with self._driver.transaction(), self._driver.cursor() as cursor:
            depth = 0
            with cursor.copy("COPY messages FROM STDIN") as copy:
                for turn in turns:
                    depth += 1
                    for place, each in enumerate(turn):
                        copy.write_row((depth, place, encode_message(each)))
            cursor.execute("UPDATE session SET head = %s", (depth,))

    def append(self, turn: Sequence[Said]) -> None:
        """Write one turn."""
        with self._driver.transaction():
            row = self._driver.execute("UPDATE session SET head = head + 1 RETURNING head").fetchone()
            depth = 0 if row is None else row[0]
            rows = [(depth, place, encode_message(each)) for place, each in enumerate(turn)]
            with self._driver.cursor() as cursor:
                cursor.executemany("INSERT INTO messages VALUES (%s, %s, %s)", rows)

    def load_newest(self, count: int) -> list[Said]:
        """Return the newest messages, oldest first."""
        rows = self._driver.execute("SELECT body FROM messages ORDER BY depth DESC, ord DESC LIMIT %s", (count,))
        return [json.loads(body) for (body,) in rows][::-1]

    def close(self) -> None:
        """Close the connection."""
        self._driver.close()


def read_database_bytes(conninfo: str) -> int:
    """Return how much disk a database takes."""
    with psycopg.connect(conninfo) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        return 0 if row is None else int(row[0])
