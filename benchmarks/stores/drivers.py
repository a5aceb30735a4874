"""The same messages kept by hand, without a store: what a host would write who needs nothing but the last messages.

With it, a store's cost is compared with that of its driver. Each writes a turn of messages in one transaction that is
as durable as the store's own, and reads the newest messages back; none knows branches, states, receipts or recall.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

Said = dict[str, Any]
"""One message as JSON."""

_BATCH = 10_000
_TAIL_BYTES = 16_384


class PlainDriver(Protocol):
    """Keeps one conversation."""

    def fill(self, turns: Iterable[Sequence[Said]]) -> None:
        """Write many turns, as fast as it goes."""
        ...

    def append(self, turn: Sequence[Said]) -> None:
        """Write one turn; it is kept when this returns."""
        ...

    def load_newest(self, count: int) -> list[Said]:
        """Return the newest messages, oldest first."""
        ...

    def close(self) -> None:
        """Release what is held."""
        ...


class PlainList:
    """A list in memory."""

    def __init__(self) -> None:
        self._said: list[bytes] = []

    def fill(self, turns: Iterable[Sequence[Said]]) -> None:
        """Write many turns."""
        for turn in turns:
            self.append(turn)

    def append(self, turn: Sequence[Said]) -> None:
        """Write one turn."""
        self._said.extend(encode_message(each) for each in turn)

    def load_newest(self, count: int) -> list[Said]:
        """Return the newest messages, oldest first."""
        return [json.loads(body) for body in self._said[-count:]]

    def close(self) -> None:
        """Forget them."""
        self._said.clear()


class PlainLines:
    """A file of JSON lines, synced after each turn; the newest are read from its end."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fill(self, turns: Iterable[Sequence[Said]]) -> None:
        """Write many turns."""
        with self._path.open("ab") as file:
            file.writelines(encode_message(each) + b"\n" for turn in turns for each in turn)

    def append(self, turn: Sequence[Said]) -> None:
        """Write one turn."""
        with self._path.open("ab", buffering=0) as file:
            file.write(b"".join(encode_message(each) + b"\n" for each in turn))
            os.fsync(file.fileno())

    def load_newest(self, count: int) -> list[Said]:
        """Return the newest messages, oldest first."""
        with self._path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            reach = _TAIL_BYTES
            while True:
                file.seek(max(size - reach, 0))
                lines = file.read().splitlines()
                if len(lines) > count or reach >= size:
                    return [json.loads(line) for line in lines[-count:]]
                reach *= 2

    def close(self) -> None:
        """Nothing is held."""


class PlainSqlite:
    """A table in SQLite, in WAL mode, synced at each commit."""

    def __init__(self, path: Path) -> None:
        self._driver = sqlite3.connect(path, isolation_level=None)
        self._driver.execute("PRAGMA journal_mode = WAL")
        self._driver.execute("PRAGMA synchronous = FULL")
        self._driver.execute("CREATE TABLE session (head INTEGER NOT NULL)")
        self._driver.execute("INSERT INTO session VALUES (0)")
        self._driver.execute(
            "CREATE TABLE messages (depth INTEGER, ord INTEGER, body BLOB, PRIMARY KEY (depth, ord)) WITHOUT ROWID"
        )

    def fill(self, turns: Iterable[Sequence[Said]]) -> None:
        """Write many turns."""
        walk = iter(turns)
        while batch := list(islice(walk, _BATCH)):
            self._driver.execute("BEGIN IMMEDIATE")
            for turn in batch:
                self._write(turn)
            self._driver.execute("COMMIT")

    def append(self, turn: Sequence[Said]) -> None:
        """Write one turn."""
        self._driver.execute("BEGIN IMMEDIATE")
        self._write(turn)
        self._driver.execute("COMMIT")

    def _write(self, turn: Sequence[Said]) -> None:
        (depth,) = self._driver.execute("UPDATE session SET head = head + 1 RETURNING head").fetchone()
        rows = [(depth, place, encode_message(each)) for place, each in enumerate(turn)]
        self._driver.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)

    def load_newest(self, count: int) -> list[Said]:
        """Return the newest messages, oldest first."""
        rows = self._driver.execute("SELECT body FROM messages ORDER BY depth DESC, ord DESC LIMIT ?", (count,))
        return [json.loads(body) for (body,) in rows][::-1]

    def close(self) -> None:
        """Close the file."""
        self._driver.close()


def encode_message(said: Said) -> bytes:
    """Return the JSON of a message."""
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode()
