"""Reads memory entries of a SQL store, for recall and its indexes.

The messages of a session are returned as entries too. Each function runs inside a transaction that its caller has
opened; none of them writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnemosyne.chains.messages.message_ids import message_entry, session_of
from mnemosyne.schema.memory import Chain, MemoryEntry, Trust
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.blobs import entry_place, message_place, read_body
from mnemosyne.stores.sql.connection import Connection, expand_in

RECALLED = 1
RECALLED_NO_MORE = 2

_ENTRY_AFTER = "SELECT 1 FROM entries WHERE tenant = ? AND scope = ? AND chain = ? AND seq > ?"
_TALK_AFTER = """SELECT 1 FROM messages WHERE recalled <> 0
    AND session = (SELECT key FROM sessions WHERE tenant = ? AND session_id = ?) AND seq > ?"""


_AS_ENTRY = "\x1fentry\x1f"
_NOBODY = "\0nobody"
_HIDDEN = "It is hidden from every viewer"


def read_entries(connection: Connection, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return the entries of a scope (one session or one world) with these ids, in the order of `entry_ids`.

    Entries are left out if they are unknown, deleted, damaged, or messages that recall may not find.
    """
    if not entry_ids:
        return ()
    marks, wanted = expand_in(entry_ids)
    rows = connection.execute(
        f"""SELECT entry_id, body, chain, restricted, deleted FROM entries
            WHERE tenant = ? AND scope = ? AND entry_id IN ({marks}) AND deleted = 0""",
        (connection.tenant, scope, *wanted),
    ).fetchall()
    read = {row[0]: _entry(connection, scope, *row) for row in rows}
    found = {entry_id: entry for entry_id, entry in read.items() if entry is not None}
    session_id = session_of(scope)
    if session_id is not None and len(found) < len(entry_ids):
        spoken = connection.execute(
            f"""SELECT m.message_id, m.turn_id, m.branch_id, m.depth, m.body, m.ord, s.key FROM sessions AS s
                JOIN messages AS m ON m.session = s.key
                WHERE s.tenant = ? AND s.session_id = ? AND m.message_id IN ({marks}) AND m.recalled = {RECALLED}""",
            (connection.tenant, session_id, *wanted),
        ).fetchall()
        for message_id, turn_id, branch_id, depth, body, order, key in spoken:
            place = message_place(key, turn_id, order, branch_id, depth)
            entry = _read_message_entry(connection, scope, turn_id, branch_id, depth, body, place)
            if entry is not None:
                found.setdefault(message_id, entry)
    return tuple(found[entry_id] for entry_id in entry_ids if entry_id in found)


def _read_message_entry(
    connection: Connection, scope: str, turn_id: str, branch_id: str, depth: int, body: bytes, place: str
) -> MemoryEntry | None:
    """Return a message as an entry, made once of each body: a recall looks at a hundred of them."""
    name = f"{place}{_AS_ENTRY}{scope}"
    known: MemoryEntry | None = connection.bodies.find(name, body)
    if known is not None:
        return known
    message = read_body(connection, body, Message, place)
    if message is None:
        return None
    entry = message_entry(scope, turn_id, branch_id, depth, message)
    connection.bodies.keep(name, body, len(body), entry)
    return entry


def _entry(
    connection: Connection, scope: str, entry_id: str, body: bytes, chain: str, restricted: int, deleted: int
) -> MemoryEntry | None:
    return read_body(connection, body, MemoryEntry, entry_place(entry_id, scope, chain, restricted, deleted))


def lost_entry(scope: str, chain: str, entry_id: str) -> MemoryEntry:
    """Return an entry without content that takes the place of a damaged entry. No viewer may know it."""
    return MemoryEntry(
        entry_id=entry_id,
        scope=scope,
        chain=Chain(chain) if chain in {each.value for each in Chain} else Chain.LORE,
        kind="",
        text="",
        viewers=(_NOBODY,),
        trust=Trust.WEB,
    )


def read_entries_after(
    connection: Connection, scope: str, chain: Chain, sequence: int, limit: int
) -> tuple[SequencedEntry, ...]:
    """Return at most `limit` entries of a chain that were written after `sequence`, in the order of writing.

    Entries of the history chain are messages. A damaged entry is returned empty and as deleted, so that no index keeps
    it.
    """
    if chain is not Chain.HISTORY:
        rows = connection.execute(
            """SELECT seq, entry_id, body, restricted, deleted FROM entries
                WHERE tenant = ? AND scope = ? AND chain = ? AND seq > ? ORDER BY seq LIMIT ?""",
            (connection.tenant, scope, chain.value, sequence, limit),
        ).fetchall()
        return tuple(
            _sequenced(
                seq,
                _entry(connection, scope, name, body, chain.value, restricted, deleted),
                scope,
                chain,
                name,
                deleted,
            )
            for seq, name, body, restricted, deleted in rows
        )
    session_id = session_of(scope)
    found = connection.execute(
        "SELECT key FROM sessions WHERE tenant = ? AND session_id = ?", (connection.tenant, session_id)
    ).fetchone()
    if found is None:
        return ()
    rows = connection.execute(
        """SELECT seq, message_id, turn_id, branch_id, depth, ord, body, recalled FROM messages
            WHERE session = ? AND recalled <> 0 AND seq > ? ORDER BY seq LIMIT ?""",
        (found[0], sequence, limit),
    ).fetchall()
    entries: list[SequencedEntry] = []
    for seq, name, turn_id, branch_id, depth, order, body, recalled in rows:
        message = read_body(connection, body, Message, message_place(found[0], turn_id, order, branch_id, depth))
        entry = None if message is None else message_entry(scope, turn_id, branch_id, depth, message)
        entries.append(_sequenced(seq, entry, scope, chain, name, recalled == RECALLED_NO_MORE))
    return tuple(entries)


def _sequenced(
    sequence: int, entry: MemoryEntry | None, scope: str, chain: Chain, entry_id: str, deleted: object
) -> SequencedEntry:
    if entry is None:
        return SequencedEntry(sequence=sequence, entry=lost_entry(scope, chain.value, entry_id), deleted=True)
    return SequencedEntry(sequence=sequence, entry=entry, deleted=bool(deleted))


def read_chains_written_after(
    connection: Connection, after: Mapping[tuple[str, Chain], int]
) -> frozenset[tuple[str, Chain]]:
    """Return those pairs (scope, chain) of `after` in which something was written after their sequence. One query is
    enough.
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
    """Return the entries of these scopes that have viewers or conditions, ordered by id.

    A damaged one is returned empty, and no viewer may know it.
    """
    if not scopes:
        return ()
    marks, wanted = expand_in(scopes)
    rows = connection.execute(
        f"""SELECT entry_id, scope, body, chain FROM entries
            WHERE tenant = ? AND scope IN ({marks}) AND restricted = 1 AND deleted = 0 ORDER BY entry_id, scope""",
        (connection.tenant, *wanted),
    ).fetchall()
    return tuple(
        read_body(connection, body, MemoryEntry, entry_place(entry_id, scope, chain, 1, 0), _HIDDEN)
        or lost_entry(scope, chain, entry_id)
        for entry_id, scope, body, chain in rows
    )
