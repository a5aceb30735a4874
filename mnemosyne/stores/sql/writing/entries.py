"""Writes the memory entries of a session. (`sql.writing.worlds` writes the lore of a world.)

This module enforces the rules for ids and positions. An entry of a session has a position in the turn tree; an entry of a world
has none. A changed entry gets a new number, and a deleted entry leaves a mark, so that an index notices the change. Each
function runs inside a write transaction that its caller has opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mnemosyne.chains.turn_tree import check_entry, place_of_document, place_on_path, turn_of
from mnemosyne.core.codec import encode, format_time
from mnemosyne.core.errors import EntryConflictError
from mnemosyne.schema.memory import MemoryEntry, document_of
from mnemosyne.schema.session import SessionHead
from mnemosyne.stores.sql.blobs import entry_place, read_body, reseal
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import StoredSession, committed_place, head_of

_StoredEntry = tuple[int, bytes, str | None, int | None, str | None, str, int, int]
"""Sequence, body, branch, depth, turn, chain, whether it is restricted, whether it was removed."""


def write_session_entries(
    connection: Connection, session: StoredSession, head: SessionHead, entries: Sequence[MemoryEntry]
) -> int:
    """Write entries of a session, and return how many were new or changed.

    An entry is placed at its turn. An entry without a turn is placed at its depth on the path to `head`, and an entry
    without a depth at the head itself.

    Raises EntryConflictError if another turn uses the id, ValueError if an entry has a wrong scope or chain, and
    TurnNotFoundError if its turn does not exist.
    """
    return sum(_write_session_entry(connection, session, head, entry) for entry in entries)


def _write_session_entry(connection: Connection, session: StoredSession, head: SessionHead, entry: MemoryEntry) -> bool:
    check_entry(session.session_id, entry)
    row = _find_stored(connection, entry)
    if row is not None and entry.turn_id is None and entry.depth is None:
        placed = replace(entry, branch_id=row[2], depth=row[3], turn_id=row[4])
    else:
        placed = _place_entry(connection, session, head, entry)
    if row is not None:
        where = entry_place(entry.entry_id, entry.scope, *row[5:])
        if placed == read_body(connection, row[1], MemoryEntry, where, "It was written again"):
            return False
        if (placed.branch_id, placed.depth) != (row[2], row[3]):
            raise EntryConflictError(entry.scope, entry.entry_id, row[4])
    replace_entry(connection, placed, None if row is None else row[0])
    return True


def append_session_entries(connection: Connection, session: StoredSession, entries: Sequence[MemoryEntry]) -> int:
    """Write entries of committed turns that do not exist yet, and return their number.

    An entry that is a passage of a document replaces a stored entry with the same id; if it has no text, it removes the stored
    entry. Raises TurnNotFoundError if the turn of an entry is not committed.
    """
    written, head = 0, head_of(connection, session) if entries else None
    for entry in entries:
        check_entry(session.session_id, entry)
        placed = None if head is None else place_of_document(entry, head)
        if placed is None:
            branch_id, depth = committed_place(connection, session, turn_of(entry))
            placed = replace(entry, branch_id=branch_id, depth=depth)
        row = _find_stored(connection, entry)
        if document_of(entry) is not None or not entry.text or row is None or row[7]:
            written += _put_or_remove(connection, placed, row)
    return written


def _put_or_remove(connection: Connection, entry: MemoryEntry, row: _StoredEntry | None) -> int:
    """Write an entry in place of its stored row, or remove it if it has no text; return whether it is new."""
    if row is None:
        if entry.text:
            replace_entry(connection, entry, None)
        return int(bool(entry.text))
    was_deleted = bool(row[7])
    where = entry_place(entry.entry_id, entry.scope, *row[5:])
    if was_deleted or entry != read_body(connection, row[1], MemoryEntry, where, "It was written again"):
        replace_entry(connection, entry, row[0], deleted=not entry.text)
    return int(was_deleted and bool(entry.text))


def _place_entry(connection: Connection, session: StoredSession, head: SessionHead, entry: MemoryEntry) -> MemoryEntry:
    if entry.turn_id is None:
        return place_on_path(entry, head)
    branch_id, depth = committed_place(connection, session, entry.turn_id)
    return replace(entry, branch_id=branch_id, depth=depth)


def _find_stored(connection: Connection, entry: MemoryEntry) -> _StoredEntry | None:
    row: _StoredEntry | None = connection.execute(
        """SELECT seq, body, branch_id, depth, turn_id, chain, restricted, deleted FROM entries
            WHERE tenant = ? AND scope = ? AND entry_id = ?""",
        (connection.tenant, entry.scope, entry.entry_id),
    ).fetchone()
    return row


def replace_entry(
    connection: Connection, entry: MemoryEntry, seq: int | None, *, deleted: bool = False, former: bytes = b""
) -> None:
    """Write an entry under a new number. `seq` is the number of the row that it replaces (None: there is none).

    `former` is the body of that row. If `former` was damaged, the new body counts as damaged, too.
    """
    if entry.at is not None:
        format_time(entry.at)
    restricted = int(bool(entry.viewers or entry.when))
    place = entry_place(entry.entry_id, entry.scope, entry.chain.value, restricted, int(deleted))
    if seq is not None:
        connection.post("DELETE FROM entries WHERE seq = ?", (seq,))
    connection.post(
        """INSERT INTO entries (tenant, scope, chain, entry_id, branch_id, depth, turn_id, restricted, deleted, body)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            connection.tenant,
            entry.scope,
            entry.chain.value,
            entry.entry_id,
            entry.branch_id,
            entry.depth,
            entry.turn_id,
            restricted,
            int(deleted),
            reseal(encode(entry), former, place),
        ),
    )
