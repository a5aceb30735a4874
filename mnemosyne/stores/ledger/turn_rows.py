"""Writes and removes the rows of turns in a ledger, and moves the head of a branch after them.

Each function runs inside `Ledger.run`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mnemosyne.chains.messages.message_ids import assign_free_ids, is_recalled
from mnemosyne.core.codec import check_times, encode_raw
from mnemosyne.schema.record import TurnRecord
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.rows import NO_OPS, PAPERS, MessageRow, RecallMark, TurnRow


def turn_row(record: TurnRecord) -> TurnRow:
    """Return the row of a turn."""
    check_times(record.created_at)
    return TurnRow(
        branch_id=record.branch_id,
        depth=record.depth,
        parent_id=record.parent_id,
        kind=record.kind,
        status=record.status,
        fingerprint=record.fingerprint,
        created_at=record.created_at,
        ops=encode_raw(record.ops) if record.ops else NO_OPS,
        origin_id=record.origin_id,
    )


def insert_turn(ledger: Ledger, record: TurnRecord) -> None:
    """Write a turn with its large parts, without its messages."""
    ledger.put("turn", record.turn_id, turn_row(record))
    blobs: dict[str, Mapping[str, Any] | None] = {
        "plan": record.plan,
        "anchors": record.anchors or None,
        "receipt": record.receipt,
        "prompt": record.prompt,
    }
    for table, blob in blobs.items():
        if blob is not None:
            ledger.put(table, record.turn_id, encode_raw(blob))


def insert_pending(ledger: Ledger, record: TurnRecord) -> None:
    """Write a turn that is not committed, its messages as a draft."""
    insert_turn(ledger, record)
    ledger.put("draft", record.turn_id, encode_raw(record.messages))


def insert_messages(ledger: Ledger, record: TurnRecord) -> None:
    """Write the messages of a committed turn, each with an id that no other message of the session has."""
    said = assign_free_ids(record.turn_id, record.messages, ledger.messages.__contains__)
    for place, message in enumerate(said):
        check_times(message.at)
        row = MessageRow(
            sequence=ledger.next_sequence(),
            turn_id=record.turn_id,
            place=place,
            recalled=RecallMark.YES if is_recalled(message, record.kind) else RecallMark.NO,
            body=encode_raw(message),
        )
        ledger.put("message", message.message_id, row)


def forget_turn(ledger: Ledger, turn_id: str) -> None:
    """Remove a turn that is not committed, so that its id can be used again."""
    row = ledger.turns[turn_id]
    branch = ledger.branches[row.branch_id]
    if branch.pending == turn_id:
        ledger.put("branch", row.branch_id, replace(branch, pending=None))
    for table in PAPERS:
        ledger.drop(table, turn_id)
    ledger.drop("turn", turn_id)


def move_tip(ledger: Ledger, branch_id: str, turn_id: str | None, depth: int) -> None:
    """Move the head of a branch to a turn, which waits no more."""
    branch = replace(ledger.branches[branch_id], head_turn=turn_id, head_depth=depth)
    ledger.put("branch", branch_id, replace(branch, pending=None if branch.pending == turn_id else branch.pending))
