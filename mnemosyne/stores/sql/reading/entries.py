"""Reads entries of a SQL store for recall and its indexes.

The messages of a session and its other entries are returned alike. Each function runs inside a transaction that its
caller has opened; none of them writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnemosyne.chains.message_ids import message_entry, session_of
from mnemosyne.core.codec import decode
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.connection import Connection, expand_in

RECALLED = 1
RECALLED_NO_MORE = 2

_ENTRY_AFTER = "SELECT 1 FROM entries WHERE tenant = ? AND scope = ? AND chain = ? AND seq > ?"
_TALK_AFTER = """SELECT 1 FROM messages WHERE recalled <> 0
    AND session = (SELECT key FROM sessions WHERE tenant = ? AND session_id = ?) AND seq > ?"""


def read_entries(connection: Connection, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return complete entries in the order of `entry_ids`; ids that are unknown, deleted or not recalled are left out."""
    if not entry_ids:
        return ()
    marks, wanted = expand_in(entry_ids)
    rows = connection.execute(
        f"SELECT entry_id, body FROM entries WHERE tenant = ? AND scope = ? AND entry_id IN ({marks}) AND deleted = 0",
        (connection.tenant, scope, *wanted),
    )
    found = {entry_id: decode(body, MemoryEntry) for entry_id, body in rows}
    session_id = session_of(scope)
    if session_id is not None and len(found) < len(entry_ids):
        spoken = connection.execute(
            f"""SELECT m.message_id, m.turn_id, m.branch_id, m.depth, m.body FROM sessions AS s
                JOIN messages AS m ON m.session = s.key
                WHERE s.tenant = ? AND s.session_id = ? AND m.message_id IN ({marks}) AND m.recalled = {RECALLED}""",
            (connection.tenant, session_id, *wanted),
        )
        for message_id, turn_id, branch_id, depth, body in spoken:
            found.setdefault(message_id, message_entry(scope, turn_id, branch_id, depth, decode(body, Message)))
    return tuple(found[entry_id] for entry_id in entry_ids if entry_id in found)


def read_entries_after(
    connection: Connection, scope: str, chain: Chain, sequence: int, limit: int
) -> tuple[SequencedEntry, ...]:
    """Return entries written after `sequence`, in the order of writing; those of the history chain are messages."""
    if chain is not Chain.HISTORY:
        rows = connection.execute(
            """SELECT seq, body, deleted FROM entries
                WHERE tenant = ? AND scope = ? AND chain = ? AND seq > ? ORDER BY seq LIMIT ?""",
            (connection.tenant, scope, chain.value, sequence, limit),
        )
        return tuple(
            SequencedEntry(sequence=seq, entry=decode(body, MemoryEntry), deleted=bool(deleted))
            for seq, body, deleted in rows
        )
    session_id = session_of(scope)
    found = connection.execute(
        "SELECT key FROM sessions WHERE tenant = ? AND session_id = ?", (connection.tenant, session_id)
    ).fetchone()
    if found is None:
        return ()
    rows = connection.execute(
        """SELECT seq, turn_id, branch_id, depth, body, recalled FROM messages
            WHERE session = ? AND recalled <> 0 AND seq > ? ORDER BY seq LIMIT ?""",
        (found[0], sequence, limit),
    )
    return tuple(
        SequencedEntry(
            sequence=seq,
            entry=message_entry(scope, turn_id, branch_id, depth, decode(body, Message)),
            deleted=recalled == RECALLED_NO_MORE,
        )
        for seq, turn_id, branch_id, depth, body, recalled in rows
    )


def read_chains_written_after(
    connection: Connection, after: Mapping[tuple[str, Chain], int]
) -> frozenset[tuple[str, Chain]]:
    """Return those of the given (scope, chain) in which something was written after the sequence given with each, by
    one query.
    """
    if not after:
        return frozenset()
    tests: list[str] = []
    values: list[object] = []
    for (scope, chain), sequence in after.items():
        is_history = chain is Chain.HISTORY
        tests.append(f"EXISTS ({_TALK_AFTER if is_history else _ENTRY_AFTER})")
        values += [connection.tenant, *((session_of(scope),) if is_history else (scope, chain.value)), sequence]
    row = connection.execute(f"SELECT {', '.join(tests)}", values).fetchone()
    return frozenset(place for place, there in zip(after, row, strict=True) if there)


def read_gated_entries(connection: Connection, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return the entries of these scopes that have viewers or conditions, ordered by id."""
    if not scopes:
        return ()
    marks, wanted = expand_in(scopes)
    rows = connection.execute(
        f"""SELECT body FROM entries WHERE tenant = ? AND scope IN ({marks}) AND restricted = 1 AND deleted = 0
            ORDER BY entry_id, scope""",
        (connection.tenant, *wanted),
    )
    return tuple(decode(body, MemoryEntry) for (body,) in rows)
