"""The embedded store: a SQLite file in WAL mode, safe for several processes.

The room exists to give the Store protocol its transactions: each method is one, on a thread of its own. Writes take their
turn on one lane (BEGIN IMMEDIATE), reads on another, so that a read never waits for a locked file. What the rows mean is
in `sqlite_rows`, `sqlite_writes` and `sqlite_entries`; the tables are in `sqlite_schema`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.record import (
    ImportedTurn,
    Prefetch,
    SequencedEntry,
    SessionStart,
    SessionWindow,
    TurnCommit,
    TurnRecord,
)
from mnemosyne.schema.session import SessionHead
from mnemosyne.stores import sqlite_entries, sqlite_rows, sqlite_writes
from mnemosyne.stores.lane import Lane
from mnemosyne.stores.sqlite_schema import Opening, open_database


class SqliteStore:
    """A Store in one SQLite file.

    Nothing is opened before the first call; the file and its folder are made then (unless `create` is false). With
    `synchronous="FULL"` an acknowledged turn survives a power cut; `NORMAL` is faster and survives a kill of the process.
    `busy_seconds` bounds the wait for another process (StoreBusyError). `page_limit` bounds the file (4096 bytes a page;
    StoreUnavailableError when it is reached). For what a method does and raises, see `mnemosyne.protocols.Store`.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Literal["FULL", "NORMAL"] = "FULL",
        busy_seconds: float = 5.0,
        create: bool = True,
        page_limit: int | None = None,
    ) -> None:
        self.path = Path(path)
        opening = Opening(
            path=self.path, synchronous=synchronous, busy_seconds=busy_seconds, create=create, page_limit=page_limit
        )
        reading = replace(opening, read_only=True)
        self._writes = Lane(
            self.path, lambda: open_database(opening), begin="BEGIN IMMEDIATE", busy_seconds=busy_seconds, finish=True
        )
        self._reads = Lane(
            self.path, lambda: open_database(reading), begin="BEGIN", busy_seconds=busy_seconds, finish=False
        )

    async def close(self) -> None:
        """Let the work in hand end, then release the file and the threads. Closing twice is fine."""
        await self._reads.close()
        await self._writes.close()

    async def create_session(self, start: SessionStart) -> SessionHead:
        """Create a session with its first turns and entries; SessionExistsError."""
        return await self._writes.run(lambda db: sqlite_writes.create_session(db, start))

    async def append_turns(
        self, session_id: str, turns: Sequence[ImportedTurn], entries: Sequence[MemoryEntry] = ()
    ) -> SessionHead:
        """Commit finished turns after the active head; committed ones are skipped, and entries that are there already."""
        return await self._writes.run(lambda db: sqlite_writes.append_turns(db, session_id, turns, entries))

    async def sessions(self) -> tuple[str, ...]:
        """Return all session ids, sorted."""
        return await self._reads.run(
            lambda db: tuple(name for (name,) in db.execute("SELECT session_id FROM sessions ORDER BY session_id"))
        )

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        """Return the head of the active branch, or of `branch_id`."""
        return await self._reads.run(lambda db: sqlite_rows.read_head(db, session_id, branch_id))

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        """Return what a turn needs; `previous` and `pending` come with plan, prompt and receipt."""
        return await self._reads.run(lambda db: sqlite_rows.read_window(db, session_id, message_limit, branch_id))

    async def save_prepared(self, record: TurnRecord, *, expected_version: int) -> SessionHead:
        """Write a prepared turn as the pending one of its head."""
        return await self._writes.run(lambda db: sqlite_writes.save_prepared(db, record, expected_version))

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        """Commit the pending turn: reply, ops, state and entries at once."""
        return await self._writes.run(lambda db: sqlite_writes.commit_turn(db, session_id, commit, expected_version))

    async def commit_numerical(
        self, record: TurnRecord, state: Mapping[str, Any], *, expected_version: int
    ) -> SessionHead:
        """Write and commit a numerical turn in one step."""
        return await self._writes.run(lambda db: sqlite_writes.commit_numerical(db, record, state, expected_version))

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        """Return one turn with all that was stored of it."""
        return await self._reads.run(lambda db: sqlite_rows.read_turn(db, session_id, turn_id))

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        """Return the newest committed turns on the path, oldest first, without prompt, receipt and report."""
        return await self._reads.run(lambda db: sqlite_rows.read_turns(db, session_id, limit, branch_id, before_depth))

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Return the head of every branch: the active one first, the others as they were opened."""
        return await self._reads.run(lambda db: sqlite_rows.read_branches(db, session_id))

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        """Open a branch after `turn_id` (None = before the first turn) and make it the active one."""
        return await self._writes.run(lambda db: sqlite_writes.fork(db, session_id, turn_id, branch_id))

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Make another branch the active one."""
        return await self._writes.run(lambda db: sqlite_writes.switch(db, session_id, branch_id))

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        """Rebuild the state as it was after a committed turn (None = before the first)."""
        return await self._reads.run(lambda db: sqlite_rows.rebuild_state(db, session_id, turn_id)[0])

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        """Keep a late result for the next turn of its branch; None forgets those of the session."""
        await self._writes.run(lambda db: sqlite_writes.save_prefetch(db, session_id, prefetch))

    async def replace_world(self, world_id: str, digest: str, lore: Sequence[MemoryEntry]) -> int:
        """Bring a world's lore up to date; returns how many entries changed (0 = same digest)."""
        return await self._writes.run(lambda db: sqlite_entries.replace_world(db, world_id, digest, lore))

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return full entries in the order asked; unknown ids are left out."""
        return await self._reads.run(lambda db: sqlite_rows.read_entries(db, scope, entry_ids))

    async def restricted(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of these scopes that carry viewers or conditions, ordered by id."""
        return await self._reads.run(lambda db: sqlite_rows.read_restricted(db, scopes))

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return entries written after `sequence`, in the order of writing."""
        return await self._reads.run(lambda db: sqlite_rows.read_entries_after(db, scope, chain, sequence, limit))
