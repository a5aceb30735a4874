"""Reads memory entries of a SQL store, for recall and its indexes.

An entry is one piece of memory. It belongs to a scope (one session or one world). The messages of a session are returned as
entries, too. Each function runs inside a transaction that its caller has opened; none of them writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mnemosyne.chains.messages.message_ids import message_entry, session_of
from mnemosyne.schema.memory import Chain, MemoryEntry, Trust
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.blobs import entry_place, message_place, read_body
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.read_bodies import ReadOfScope, ScopeMark

RECALLED = 1
RECALLED_NO_MORE = 2
_AFTER_ALL = 2**63 - 1
"""Sequence after every row."""

_ENTRY_AFTER = "SELECT 1 FROM entries WHERE tenant = ? AND scope = ? AND chain = ? AND seq > ?"
_TALK_AFTER = """SELECT 1 FROM messages WHERE recalled <> 0
    AND session = (SELECT key FROM sessions WHERE tenant = ? AND session_id = ?) AND seq > ?"""


_NOBODY = "\0nobody"
_HIDDEN = "It is hidden from every viewer"

ENTERED_CHAINS = tuple(chain for chain in Chain if chain is not Chain.HISTORY)
"""Chains of the table `entries`."""
NEWEST = ", ".join(
    ["(SELECT max(seq) FROM entries WHERE tenant = ? AND scope = ? AND chain = ?)"] * len(ENTERED_CHAINS)
)
"""Columns with the highest row number of each chain of a scope. `places_of` returns their values."""


def places_of(connection: Connection, scope: str) -> list[str]:
    """Return the values for the placeholders in `NEWEST`."""
    return [value for chain in ENTERED_CHAINS for value in (connection.tenant, scope, chain.value)]


def read_mark(connection: Connection, scope: str) -> ScopeMark | None:
    """Return the present mark of `scope`, which changes with every write to it. Return None if its session does not exist."""
    places, session_id = places_of(connection, scope), session_of(scope)
    if session_id is None:
        return ScopeMark(session=None, newest=connection.execute(f"SELECT {NEWEST}", places).fetchone())
    row = connection.execute(
        f"SELECT {NEWEST}, key, version FROM sessions WHERE tenant = ? AND session_id = ?",
        (*places, connection.tenant, session_id),
    ).fetchone()
    return None if row is None else ScopeMark(session=row[-2:], newest=row[:-2])


def find_kept(connection: Connection, scope: str, mark: ScopeMark) -> ReadOfScope:
    """Return the cached entries of `scope` that are still valid. `mark` is the present mark of `scope`."""

    def read_changes(after: int) -> list[tuple[str, int]]:
        signs, chains = expand_in([chain.value for chain in ENTERED_CHAINS])
        return connection.execute(
            f"SELECT entry_id, restricted FROM entries WHERE tenant = ? AND scope = ? AND chain IN ({signs}) AND seq > ?",
            (connection.tenant, scope, *chains, after),
        ).fetchall()

    return connection.bodies.scopes.find(scope, mark, read_changes)


def read_entries(connection: Connection, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
    """Return the entries of a scope (one session or one world) with these ids, in the order of `entry_ids`.

    Entries are left out if they are unknown, deleted, damaged, or messages that recall must not find.
    """
    mark = read_mark(connection, scope) if entry_ids else None
    if mark is None:
        return ()
    kept = find_kept(connection, scope, mark).entries
    found = {entry_id: entry for entry_id in entry_ids if (entry := kept.get(entry_id)) is not None}
    missing = [entry_id for entry_id in entry_ids if entry_id not in found]
    if missing:
        read = _read_stored(connection, scope, missing)
        connection.bodies.scopes.keep(scope, mark, [*read.values()])
        found |= read
    return tuple(found[entry_id] for entry_id in entry_ids if entry_id in found)


def _read_stored(connection: Connection, scope: str, entry_ids: Sequence[str]) -> dict[str, MemoryEntry]:
    marks, wanted = expand_in(entry_ids)
    rows = connection.execute(
        f"""SELECT entry_id, body, chain, restricted, deleted FROM entries
            WHERE tenant = ? AND scope = ? AND entry_id IN ({marks}) AND deleted = 0""",
        (connection.tenant, scope, *wanted),
    ).fetchall()
    read = {row[0]: _entry(connection, scope, *row, keep=False) for row in rows}
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
            message = read_body(connection, body, Message, place, keep=False)
            if message is not None:
                found.setdefault(message_id, message_entry(scope, turn_id, branch_id, depth, message))
    return found


def _entry(
    connection: Connection,
    scope: str,
    entry_id: str,
    body: bytes,
    chain: str,
    restricted: int,
    deleted: int,
    *,
    keep: bool = True,
) -> MemoryEntry | None:
    place = entry_place(entry_id, scope, chain, restricted, deleted)
    return read_body(connection, body, MemoryEntry, place, keep=keep)


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
    return _read_sequence(connection, scope, chain, "seq > ? ORDER BY seq LIMIT ?", (sequence, limit))


def read_entries_before(
    connection: Connection, scope: str, chain: Chain, sequence: int | None, limit: int
) -> tuple[SequencedEntry, ...]:
    """Return at most `limit` entries of a chain that were written before `sequence` (None: the newest), in the reverse
    order of writing. Deleted entries are left out.
    """
    last = f"{'recalled = 1' if chain is Chain.HISTORY else 'deleted = 0'} AND seq < ? ORDER BY seq DESC LIMIT ?"
    before = _AFTER_ALL if sequence is None else sequence
    return _read_sequence(connection, scope, chain, last, (before, limit))


def _read_sequence(
    connection: Connection, scope: str, chain: Chain, last: str, values: tuple[int, ...]
) -> tuple[SequencedEntry, ...]:
    """Return entries of a chain in sequence. `last` is the end of the query, with its `values`."""
    if chain is not Chain.HISTORY:
        rows = connection.execute(
            f"""SELECT seq, entry_id, body, restricted, deleted FROM entries
                WHERE tenant = ? AND scope = ? AND chain = ? AND {last}""",
            (connection.tenant, scope, chain.value, *values),
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
    if (key := _key_of(connection, scope)) is None:
        return ()
    rows = connection.execute(
        f"""SELECT seq, message_id, turn_id, branch_id, depth, ord, body, recalled FROM messages
            WHERE session = ? AND recalled <> 0 AND {last}""",
        (key, *values),
    ).fetchall()
    entries: list[SequencedEntry] = []
    for seq, name, turn_id, branch_id, depth, order, body, recalled in rows:
        message = read_body(connection, body, Message, message_place(key, turn_id, order, branch_id, depth))
        entry = None if message is None else message_entry(scope, turn_id, branch_id, depth, message)
        entries.append(_sequenced(seq, entry, scope, chain, name, recalled == RECALLED_NO_MORE))
    return tuple(entries)


def _key_of(connection: Connection, scope: str) -> int | None:
    found = connection.execute(
        "SELECT key FROM sessions WHERE tenant = ? AND session_id = ?", (connection.tenant, session_of(scope))
    ).fetchone()
    return None if found is None else int(found[0])


def read_chain_sizes(connection: Connection, scope: str) -> dict[Chain, int]:
    """Return how many entries each chain of a scope has, without those that are deleted."""
    rows = connection.execute(
        "SELECT chain, COUNT(*) FROM entries WHERE tenant = ? AND scope = ? AND deleted = 0 GROUP BY chain ORDER BY chain",
        (connection.tenant, scope),
    ).fetchall()
    counts = {Chain(chain): number for chain, number in rows}
    if (key := _key_of(connection, scope)) is not None:
        query = "SELECT COUNT(*) FROM messages WHERE session = ? AND recalled = 1"
        if number := connection.execute(query, (key,)).fetchone()[0]:
            counts[Chain.HISTORY] = number
    return counts


def _sequenced(
    sequence: int, entry: MemoryEntry | None, scope: str, chain: Chain, entry_id: str, deleted: object
) -> SequencedEntry:
    if entry is None:
        return SequencedEntry(sequence=sequence, entry=lost_entry(scope, chain.value, entry_id), deleted=True)
    return SequencedEntry(sequence=sequence, entry=entry, deleted=bool(deleted))


def read_chains_written_after(
    connection: Connection, after: Mapping[tuple[str, Chain], int]
) -> frozenset[tuple[str, Chain]]:
    """Return the pairs (scope, chain) of `after` in which an entry was written after the given sequence, by one query."""
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
    marks = {scope: read_mark(connection, scope) for scope in scopes}
    kept = {scope: find_kept(connection, scope, mark) for scope, mark in marks.items() if mark is not None}
    return list_gated(connection, kept)


def list_gated(connection: Connection, kept: Mapping[str, ReadOfScope]) -> tuple[MemoryEntry, ...]:
    """Return the same as `read_gated_entries`. `kept` has the cached entries of each scope."""
    found = [entry for scope, each in kept.items() for entry in _gated_of(connection, scope, each)]
    return tuple(sorted(found, key=lambda entry: (entry.entry_id, entry.scope)))


def _gated_of(connection: Connection, scope: str, kept: ReadOfScope) -> tuple[MemoryEntry, ...]:
    gated, mark = kept.gated, kept.mark
    if gated is not None:
        return gated
    rows = connection.execute(
        """SELECT entry_id, body, chain FROM entries
            WHERE tenant = ? AND scope = ? AND restricted = 1 AND deleted = 0""",
        (connection.tenant, scope),
    ).fetchall()
    places = [entry_place(entry_id, scope, chain, 1, 0) for entry_id, _, chain in rows]
    read = [
        read_body(connection, row[1], MemoryEntry, place, _HIDDEN, keep=False)
        for row, place in zip(rows, places, strict=True)
    ]
    sound = [entry for entry in read if entry is not None]
    if len(sound) == len(rows):
        connection.bodies.scopes.keep(scope, mark, sound, are_all_gated=True)
    return tuple(
        lost_entry(scope, chain, entry_id) if entry is None else entry
        for (entry_id, _, chain), entry in zip(rows, read, strict=True)
    )
