"""Implements the rules of the turn tree (the turns of a session with their branches), for every store.

The rules decide at which place a turn or an entry is stored, whether two turns are the same, and how an imported turn is
recorded. A head is the end of a branch. Its lineage is the list of branches, each up to a depth, that form the path
from the first turn to the head. The module imports the schema and the codec, never a store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemosyne.core.codec import encode
from mnemosyne.core.errors import VersionConflictError, WorldNotAdoptedError
from mnemosyne.damage import has_lost
from mnemosyne.schema.memory import Chain, MemoryEntry, document_of, session_scope, world_scope
from mnemosyne.schema.record import ImportedTurn, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnStatus

MAIN_BRANCH = "main"
BASE_BRANCH = ""
"""Branch name under which the state before the first turn is stored."""
SNAPSHOT_EVERY = 50
"""Number of changes of the state after which the whole state is stored again, as a snapshot. A past state is rebuilt from the
snapshot before it, so the changes of fewer than this number of turns must be applied.
"""

Ops = tuple[Mapping[str, Any], ...]


def check_version(session_id: str, found: int, expected: int | None) -> None:
    """Check the version of a session before a write. `found` is the present version of the session, and `expected` is the version
    that the writer expects (None: any version).

    Raises VersionConflictError if the two differ.
    """
    if expected is not None and found != expected:
        raise VersionConflictError(session_id, expected, found)


def check_adoption(
    session_id: str, present: str, world_id: str, instead_of: Collection[str], *, has_changed: bool
) -> None:
    """Check that a session of the world `present` may continue in the world `world_id`.

    The session may continue there if `instead_of` contains `present`, and the state of the session has not changed since its
    start (`has_changed` is false). Raises WorldNotAdoptedError otherwise.
    """
    if present not in instead_of:
        raise WorldNotAdoptedError(session_id, world_id, f"it is in world {present!r}")
    if has_changed:
        raise WorldNotAdoptedError(session_id, world_id, "its state has been changed, and the world's would replace it")


def check_place(head: SessionHead, record: TurnRecord) -> None:
    """Raise ValueError unless the turn of `record` follows `head` directly."""
    if (record.parent_id, record.depth) != (head.turn_id, head.depth + 1):
        raise ValueError(
            f"Turn {record.turn_id!r} claims to follow {record.parent_id!r} at depth {record.depth}, but the head of branch "
            f"{head.branch_id!r} is {head.turn_id!r} at depth {head.depth}. Build the record from the head."
        )


def is_on_path(head: SessionHead, branch_id: str, depth: int, status: str) -> bool:
    """Return whether a turn is on the path to `head`, or waits for its reply right after `head`.

    The turn is given by its branch, its depth and its status. An abandoned turn is on no path.
    """
    if status == TurnStatus.COMMITTED:
        return any(span.branch_id == branch_id and depth <= span.upto_depth for span in head.lineage)
    return status == TurnStatus.PREPARED and branch_id == head.branch_id


def is_same(stored: TurnRecord, given: TurnRecord) -> bool:
    """Return whether the record `given` is the same as the record `stored`. The time of writing and the ops (changes of the
    state) are not compared.

    Return False if `stored` is damaged.
    """
    if has_lost(stored):
        return False
    return encode(replace(stored, created_at=None)) == encode(replace(given, created_at=None, ops=stored.ops))


def place_at_turn(entry: MemoryEntry, record: TurnRecord) -> MemoryEntry:
    """Return `entry` with the turn, branch and depth of `record`."""
    return replace(entry, turn_id=record.turn_id, branch_id=record.branch_id, depth=record.depth)


def build_imported_record(
    turn: ImportedTurn, head: SessionHead, parent_id: str | None, depth: int, at: datetime | None
) -> TurnRecord:
    """Return the finished turn `turn` as a committed record on the branch of `head`, at `depth`, after the turn `parent_id`.

    `at` is the time of the record (None: unknown).
    """
    return TurnRecord(
        turn_id=turn.turn_id,
        session_id=head.session_id,
        branch_id=head.branch_id,
        depth=depth,
        parent_id=parent_id,
        kind=turn.kind,
        status=TurnStatus.COMMITTED,
        messages=turn.messages,
        created_at=at,
    )


def check_entry(session_id: str, entry: MemoryEntry) -> None:
    """Raise ValueError unless `entry` may be written to the session `session_id`.

    The entry must have the session's scope. Entries of the history chain are refused, because the store makes them
    from the messages of turns.
    """
    scope = session_scope(session_id)
    if entry.scope != scope:
        raise ValueError(f"Entry {entry.entry_id!r} has scope {entry.scope!r}, not {scope!r}.")
    if entry.chain is Chain.HISTORY:
        raise ValueError(
            f"Entry {entry.entry_id!r} is of the history chain, which the store makes from the messages of turns."
        )


def turn_of(entry: MemoryEntry) -> str:
    """Return the turn id of an entry that was made after a commit. Raises ValueError if the entry has no turn id."""
    if entry.turn_id is None:
        raise ValueError(f"Entry {entry.entry_id!r} names no turn; set turn_id to the turn that it was made from.")
    return entry.turn_id


def place_of_document(entry: MemoryEntry, head: SessionHead) -> MemoryEntry | None:
    """Return the entry of a document with the place before the first turn (depth 0 of the first branch on the path to `head`).

    This place is on the path of every branch, so every branch finds the document. Return None if `entry` has a turn, or is not
    a passage of a document.
    """
    if entry.turn_id is not None or document_of(entry) is None:
        return None
    return replace(entry, branch_id=head.lineage[0].branch_id if head.lineage else head.branch_id, depth=0)


def place_on_path(entry: MemoryEntry, head: SessionHead) -> MemoryEntry:
    """Return `entry` with its place on the path to `head`. `entry` has no turn.

    - An entry without a depth gets the branch, the depth and the turn of `head`.
    - An entry with a depth and a branch is returned unchanged.
    - An entry with only a depth gets the branch that has this depth on the path.

    Raises ValueError if the depth is greater than the length of the path.
    """
    if entry.depth is None:
        return replace(entry, branch_id=head.branch_id, depth=head.depth, turn_id=head.turn_id)
    if entry.branch_id is not None:
        return entry
    for span in reversed(head.lineage):
        if entry.depth <= span.upto_depth:
            return replace(entry, branch_id=span.branch_id)
    raise ValueError(
        f"Entry {entry.entry_id!r} is placed at depth {entry.depth}, but the path to the head is {head.depth} turns long."
    )


def lore_by_id(world_id: str, lore: Sequence[MemoryEntry]) -> dict[str, MemoryEntry]:
    """Return a mapping from id to entry for the lore of a world.

    Raises ValueError if an id occurs twice, or an entry has another scope.
    """
    scope = world_scope(world_id)
    wanted: dict[str, MemoryEntry] = {}
    for entry in lore:
        if entry.scope != scope or entry.entry_id in wanted:
            raise ValueError(
                f"Entry {entry.entry_id!r} of world {world_id!r} occurs twice or has scope {entry.scope!r}."
            )
        wanted[entry.entry_id] = entry
    return wanted
