"""Appends finished turns to a branch, one or thousands at a time.

An import sends only a few queries to the database, not several for each message. The function runs inside a write transaction
that its caller has opened, with the session loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mnemosyne.chains.turn_tree import build_imported_record
from mnemosyne.schema.record import ImportedTurn, TurnRecord
from mnemosyne.schema.session import SessionHead, TurnStatus
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import StoredSession
from mnemosyne.stores.sql.writing.close import close_pending
from mnemosyne.stores.sql.writing.messages import insert_messages
from mnemosyne.stores.sql.writing.turn_rows import (
    abandon_pending,
    forget_turn,
    insert_bare_turns,
    move_tip,
    turn_statuses,
)

_AT_ONCE = 1_000


def append(
    connection: Connection,
    session: StoredSession,
    head: SessionHead,
    turns: Sequence[ImportedTurn],
    at: datetime | None,
    *,
    new: bool = False,
) -> int:
    """Commit finished turns after `head`, and return how many were new. The version of the session does not change.

    If a turn waits for its reply and is not among `turns`, it is first committed without a reply. `at` is the time of
    writing that `turns` get. Pass `new` only if no stored turn has the id of one of `turns`.
    """
    if _is_any_new(connection, session, turns, all_new=new):
        head = close_pending(connection, session, head, unless={turn.turn_id for turn in turns})
    parent_id, depth = head.turn_id, head.depth
    for start in range(0, len(turns), _AT_ONCE):
        some = turns[start : start + _AT_ONCE]
        known = {} if new else turn_statuses(connection, session.key, [turn.turn_id for turn in some])
        records: list[TurnRecord] = []
        for turn in some:
            status = known.get(turn.turn_id)
            if status is TurnStatus.COMMITTED:
                continue
            if status is not None:
                forget_turn(connection, session.key, turn.turn_id)
            known[turn.turn_id] = TurnStatus.COMMITTED
            depth += 1
            records.append(build_imported_record(turn, head, parent_id, depth, at))
            parent_id = turn.turn_id
        insert_bare_turns(connection, session.key, records)
        insert_messages(connection, session.key, records)
    if depth > head.depth:
        abandon_pending(connection, session.key, head.branch_id)
        move_tip(connection, session.key, head.branch_id, parent_id, depth)
    return depth - head.depth


def _is_any_new(
    connection: Connection, session: StoredSession, turns: Sequence[ImportedTurn], *, all_new: bool
) -> bool:
    if all_new or not turns:
        return bool(turns)
    known = turn_statuses(connection, session.key, [turn.turn_id for turn in turns])
    return any(known.get(turn.turn_id) is not TurnStatus.COMMITTED for turn in turns)
