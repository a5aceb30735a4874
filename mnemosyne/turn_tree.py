"""The rules of the turn tree that every store keeps alike.

The room exists so that where a turn may stand, when two are the same, and how an imported one becomes a record is decided
once. Pure: it knows the schema and the codec, never a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from mnemosyne.codec import encode
from mnemosyne.errors import VersionConflictError
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import ImportedTurn, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnStatus

MAIN_BRANCH = "main"
BASE_BRANCH = ""
"""Under this name stands the state before the first turn."""
SNAPSHOT_EVERY = 50
"""Turns that change the state between two snapshots: rebuilding a past state replays fewer than this, a branch."""

Ops = tuple[Mapping[str, Any], ...]


def check_version(session_id: str, found: int, expected: int | None) -> None:
    """Raise VersionConflictError when a version is expected and another is found."""
    if expected is not None and found != expected:
        raise VersionConflictError(session_id, expected, found)


def check_place(head: SessionHead, record: TurnRecord) -> None:
    """Raise ValueError unless a turn follows the head."""
    if (record.parent_id, record.depth) != (head.turn_id, head.depth + 1):
        raise ValueError(
            f"Turn {record.turn_id!r} says it follows {record.parent_id!r} at depth {record.depth}, but the head of branch "
            f"{head.branch_id!r} is {head.turn_id!r} at depth {head.depth}. Make the record from the head."
        )


def is_same(stored: TurnRecord, given: TurnRecord) -> bool:
    """Compare what the caller decided; the time of writing may differ between two calls."""
    return encode(replace(stored, created_at=None)) == encode(replace(given, created_at=None, ops=stored.ops))


def at_turn(entry: MemoryEntry, record: TurnRecord) -> MemoryEntry:
    """Return an entry in the place of a turn."""
    return replace(entry, turn_id=record.turn_id, branch_id=record.branch_id, depth=record.depth)


def imported_record(
    turn: ImportedTurn, head: SessionHead, parent_id: str | None, depth: int, at: datetime | None
) -> TurnRecord:
    """Return a finished turn as a committed record on the branch of `head`."""
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
