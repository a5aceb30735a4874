"""Writes entries into a ledger: what a session adds to memory, and a world's lore with its pack.

It enforces the rules of entry ids and places. An entry of a session has a place in the turn tree, an entry of a world
has none; a changed entry gets a new number and a deleted one leaves a mark, so that an index can follow. Each function
runs inside `Ledger.run`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mnemosyne.chains.turn_tree import check_entry, lore_by_id, place_of_document, place_on_path, turn_of
from mnemosyne.core.codec import decode_raw, encode_raw, format_time
from mnemosyne.core.errors import EntryConflictError
from mnemosyne.schema.memory import MemoryEntry, document_of
from mnemosyne.schema.session import SessionHead
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.reads import committed_turn, read_head, session_row
from mnemosyne.stores.ledger.rows import PACK, EntryRow

_DIGEST = "digest"


def write_session_entries(ledger: Ledger, head: SessionHead, entries: Sequence[MemoryEntry]) -> int:
    """Write entries of a session and return how many were new or changed.

    An entry's place is that of its turn; without a turn, its depth on the path to `head`; without either, the head
    itself. EntryConflictError when another turn uses the id; ValueError for a wrong scope or chain; TurnNotFoundError.
    """
    return sum(_write_session_entry(ledger, head, entry) for entry in entries)


def _write_session_entry(ledger: Ledger, head: SessionHead, entry: MemoryEntry) -> bool:
    check_entry(head.session_id, entry)
    row = ledger.entries.get(entry.entry_id)
    stored = None if row is None else decode_raw(row.body, MemoryEntry)
    if stored is not None and entry.turn_id is None and entry.depth is None:
        placed = replace(entry, branch_id=stored.branch_id, depth=stored.depth, turn_id=stored.turn_id)
    else:
        placed = _place_entry(ledger, head, entry)
    if stored is not None:
        if placed == stored:
            return False
        if (placed.branch_id, placed.depth) != (stored.branch_id, stored.depth):
            raise EntryConflictError(entry.scope, entry.entry_id, stored.turn_id)
    put_entry(ledger, placed)
    return True


def append_entries(ledger: Ledger, session_id: str, entries: Sequence[MemoryEntry]) -> int:
    """Add entries of committed turns, skipping existing ones, and return how many were new."""
    session_row(ledger, session_id)
    head, added = read_head(ledger, session_id), 0
    for entry in entries:
        check_entry(session_id, entry)
        placed = place_of_document(entry, head)
        if placed is None:
            place = committed_turn(ledger, session_id, turn_of(entry))
            placed = replace(entry, branch_id=place.branch_id, depth=place.depth)
        known = ledger.entries.get(entry.entry_id)
        if document_of(entry) is not None or not entry.text or known is None or known.deleted:
            added += _put_or_remove(ledger, placed)
    return added


def _put_or_remove(ledger: Ledger, entry: MemoryEntry) -> int:
    """Write an entry, or remove it if it has no text; return whether it is new."""
    row = ledger.entries.get(entry.entry_id)
    if row is None or row.deleted or decode_raw(row.body, MemoryEntry) != entry:
        if row is not None or entry.text:
            put_entry(ledger, entry, deleted=not entry.text)
        return int(bool(entry.text) and (row is None or row.deleted))
    return 0


def _place_entry(ledger: Ledger, head: SessionHead, entry: MemoryEntry) -> MemoryEntry:
    if entry.turn_id is None:
        return place_on_path(entry, head)
    place = committed_turn(ledger, head.session_id, entry.turn_id)
    return replace(entry, branch_id=place.branch_id, depth=place.depth)


def replace_world(
    ledger: Ledger,
    world_id: str,
    digest: str,
    lore: Sequence[MemoryEntry],
    pack: Mapping[str, Any] | None,
) -> int:
    """Make a version of a world the current one, lore and pack at once, and return how many lore entries were added,
    changed or removed (0 = it is the current one already).
    """
    body = None if pack is None else encode_raw(pack)
    known = ledger.bodies("world").get(_DIGEST)
    kept = ledger.bodies(PACK)
    if known is not None and decode_raw(known, str) == digest and (body is None or kept.get(digest) == body):
        return 0
    wanted = lore_by_id(world_id, lore)
    changes = 0
    for entry_id, row in list(ledger.entries.items()):
        stored = decode_raw(row.body, MemoryEntry)
        given = wanted.pop(entry_id, None)
        if (given is None and row.deleted) or (given == stored and not row.deleted):
            continue
        put_entry(ledger, given or stored, deleted=given is None)
        changes += 1
    for entry in wanted.values():
        put_entry(ledger, entry)
    for old in [each for each in kept if each != digest or body is None]:
        ledger.drop(PACK, old)
    if body is not None:
        ledger.put(PACK, digest, body)
    ledger.put("world", _DIGEST, encode_raw(digest))
    return changes + len(wanted)


def read_digest(ledger: Ledger) -> str | None:
    """Return the digest of the current version of a world, or None if the ledger is not a world's."""
    known = ledger.bodies("world").get(_DIGEST)
    return None if known is None else decode_raw(known, str)


def read_pack(ledger: Ledger, digest: str) -> Mapping[str, Any] | None:
    """Return the stored pack of a version, or None."""
    body = ledger.bodies(PACK).get(digest)
    return None if body is None else decode_raw(body, dict)


def put_entry(ledger: Ledger, entry: MemoryEntry, *, deleted: bool = False) -> None:
    """Write an entry under a new number."""
    if entry.at is not None:
        format_time(entry.at)
    row = EntryRow(
        sequence=ledger.next_sequence(),
        chain=entry.chain,
        restricted=bool(entry.viewers or entry.when),
        deleted=deleted,
        body=encode_raw(entry),
    )
    ledger.put("entry", entry.entry_id, row)
