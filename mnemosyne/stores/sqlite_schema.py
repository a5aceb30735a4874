"""Tables of the SQLite store, its versions, and how a file is opened.

The room exists so that the shape of the file, its migrations and its refusals (another program's file, a newer version)
are read in one place. It knows nothing of the values that the rows hold.

What stands where:
- `messages` and `entries` hold committed things only. Their `seq` grows with every commit, so whoever has seen everything
  up to a number will see the rest after it. What waits for a reply lies in `turns.draft`.
- `papers` keeps the heavy parts of a turn (receipt, prompt, report) off the pages that are walked each turn.
- `branch_states` is the head state; `snapshots` and `turns.ops` rebuild any other. Branch '' of `snapshots` is the state
  before the first turn.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mnemosyne.errors import StoreUnavailableError

APPLICATION_ID = 0x4A435144

_VERSION_1 = (
    """CREATE TABLE sessions (
        session_id TEXT PRIMARY KEY, world_id TEXT NOT NULL, locale TEXT NOT NULL, active_branch TEXT NOT NULL,
        version INTEGER NOT NULL, created_at TEXT) WITHOUT ROWID""",
    """CREATE TABLE branches (
        session_id TEXT NOT NULL, branch_id TEXT NOT NULL, ordinal INTEGER NOT NULL, parent_branch TEXT,
        fork_depth INTEGER NOT NULL, head_turn TEXT, head_depth INTEGER NOT NULL, changes INTEGER NOT NULL,
        PRIMARY KEY (session_id, branch_id)) WITHOUT ROWID""",
    """CREATE TABLE branch_states (
        session_id TEXT NOT NULL, branch_id TEXT NOT NULL, state BLOB NOT NULL, PRIMARY KEY (session_id, branch_id))""",
    """CREATE TABLE snapshots (
        session_id TEXT NOT NULL, branch_id TEXT NOT NULL, depth INTEGER NOT NULL, state BLOB NOT NULL,
        PRIMARY KEY (session_id, branch_id, depth))""",
    """CREATE TABLE turns (
        row INTEGER PRIMARY KEY, session_id TEXT NOT NULL, turn_id TEXT NOT NULL, branch_id TEXT NOT NULL,
        depth INTEGER NOT NULL, parent_id TEXT, kind TEXT NOT NULL, status TEXT NOT NULL, fingerprint TEXT NOT NULL,
        created_at TEXT, anchors BLOB, ops BLOB, draft BLOB, plan BLOB, UNIQUE (session_id, turn_id))""",
    """CREATE UNIQUE INDEX turns_on_path ON turns (session_id, branch_id, depth) WHERE status = 'committed'""",
    """CREATE UNIQUE INDEX turns_pending ON turns (session_id, branch_id) WHERE status = 'prepared'""",
    """CREATE INDEX turns_changing ON turns (session_id, branch_id, depth)
        WHERE status = 'committed' AND ops IS NOT NULL""",
    """CREATE TABLE papers (turn_row INTEGER PRIMARY KEY, receipt BLOB, prompt BLOB, report BLOB)""",
    """CREATE TABLE messages (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, branch_id TEXT NOT NULL, depth INTEGER NOT NULL,
        ord INTEGER NOT NULL, turn_id TEXT NOT NULL, message_id TEXT NOT NULL, recalled INTEGER NOT NULL,
        body BLOB NOT NULL)""",
    """CREATE UNIQUE INDEX messages_on_path ON messages (session_id, branch_id, depth, ord)""",
    """CREATE UNIQUE INDEX messages_by_id ON messages (session_id, message_id)""",
    """CREATE INDEX messages_recalled ON messages (session_id, seq) WHERE recalled = 1""",
    """CREATE TABLE entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, scope TEXT NOT NULL, chain TEXT NOT NULL, entry_id TEXT NOT NULL,
        branch_id TEXT, depth INTEGER, turn_id TEXT, restricted INTEGER NOT NULL, deleted INTEGER NOT NULL,
        body BLOB NOT NULL)""",
    """CREATE UNIQUE INDEX entries_by_id ON entries (scope, entry_id)""",
    """CREATE INDEX entries_by_chain ON entries (scope, chain, seq)""",
    """CREATE INDEX entries_restricted ON entries (scope, entry_id) WHERE restricted = 1 AND deleted = 0""",
    """CREATE TABLE prefetches (
        session_id TEXT NOT NULL, branch_id TEXT NOT NULL, depth INTEGER NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (session_id, branch_id))""",
    """CREATE TABLE worlds (world_id TEXT PRIMARY KEY, digest TEXT NOT NULL) WITHOUT ROWID""",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_VERSION_1,)
"""Statements that lead from version n (PRAGMA user_version) to n + 1; a released one is never edited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Opening:
    """How to open a file. `busy_seconds` bounds the wait for another process; `page_limit` the size (4096 bytes a page)."""

    path: Path
    synchronous: Literal["FULL", "NORMAL"] = "FULL"
    busy_seconds: float = 5.0
    create: bool = True
    page_limit: int | None = None
    read_only: bool = False


def open_database(opening: Opening) -> sqlite3.Connection:
    """Return a connection in WAL mode on a file of the present version, made or migrated if need be.

    A file of another program or of a newer version, and with `create` false a missing one, raises StoreUnavailableError
    before anything is written. Use it on the thread that will use the connection.
    """
    path = opening.path
    if not path.exists():
        if not opening.create:
            raise StoreUnavailableError(str(path), "there is no such file; start a session there first")
        _make_folder(path)
    elif path.is_dir():
        raise StoreUnavailableError(str(path), "it is a folder; name a file in it")
    connection = sqlite3.connect(path, timeout=opening.busy_seconds, isolation_level=None)
    try:
        _refuse_strangers(connection, path)
        connection.execute(f"PRAGMA synchronous = {opening.synchronous}")
        if opening.page_limit is not None:
            connection.execute(f"PRAGMA max_page_count = {opening.page_limit:d}")
        if connection.execute("PRAGMA user_version").fetchone()[0] < len(MIGRATIONS):
            _use_wal(connection, opening.busy_seconds)
            _migrate(connection)
        if opening.read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnavailableError(
            str(path), f"its folder cannot be made ({error.filename}: {error.strerror}); choose another path"
        ) from error


def _refuse_strangers(connection: sqlite3.Connection, path: Path) -> None:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID and (tables or application or version):
        raise StoreUnavailableError(str(path), "it is a database of another program; choose another path")
    if version > len(MIGRATIONS):
        raise StoreUnavailableError(
            str(path),
            f"it was written by a newer release (store version {version}, this one reads up to {len(MIGRATIONS)}); update",
        )


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch to WAL; SQLite does not wait for others by itself here, so this does."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to the present version in one transaction; whoever comes second finds it done."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        for statements in MIGRATIONS[version:]:
            for statement in statements:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
