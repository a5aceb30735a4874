"""Reads and writes records of a session that no branch shows: abandoned turns and replaced summaries.

They make the copy of a session complete (`Store.hidden_records`). Each function runs inside a transaction that its
caller has opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mnemosyne.chains.messages.message_ids import assign_ids
from mnemosyne.core.codec import check_times
from mnemosyne.core.errors import BranchNotFoundError, DamagedRecordError
from mnemosyne.schema.record import HiddenRecords, TurnRecord
from mnemosyne.schema.session import TurnStatus
from mnemosyne.stores.sql.blobs import note_damage, place_of
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.reading.turns import find_turn, path_summary
from mnemosyne.stores.sql.sessions import StoredSession, committed_place, has_branch, load_session
from mnemosyne.stores.sql.writing.turn_rows import insert_turn, turn_status
from mnemosyne.stores.sql.writing.turns import put_summary


def read_hidden_records(connection: Connection, session_id: str) -> HiddenRecords:
    """Return the abandoned turns and all summaries of a session. Raises SessionNotFoundError if there is no session."""
    session = load_session(connection, session_id)
    names = connection.execute(
        "SELECT turn_id FROM turns WHERE session = ? AND status = 'abandoned' ORDER BY turn_id", (session.key,)
    ).fetchall()
    rows = connection.execute(
        "SELECT body, turn_id, branch_id, depth FROM summaries WHERE session = ? ORDER BY turn_id", (session.key,)
    ).fetchall()
    all_summaries = [path_summary(connection, session.key, row) for row in rows]
    return HiddenRecords(
        abandoned=tuple(_read_abandoned(connection, session, [name for (name,) in names])),
        summaries=tuple(summary for summary in all_summaries if summary is not None),
        unsummed=tuple(row[1] for row in rows if row[0] is None),
    )


def _read_abandoned(connection: Connection, session: StoredSession, names: Sequence[str]) -> Iterator[TurnRecord]:
    for name in names:
        try:
            yield find_turn(connection, session, name)
        except DamagedRecordError as error:
            note_damage(connection, error, place_of("turns", "draft", session.key, name))


def save_hidden_records(connection: Connection, session_id: str, hidden: HiddenRecords) -> None:
    """Write abandoned turns that do not exist yet, and summaries.

    Raises BranchNotFoundError or TurnNotFoundError if the branch of a turn, or the turn of a summary, does not exist.
    """
    session = load_session(connection, session_id)
    for turn in hidden.abandoned:
        if not has_branch(connection, session.key, turn.branch_id):
            raise BranchNotFoundError(session_id, turn.branch_id)
        if turn_status(connection, session.key, turn.turn_id) is None:
            messages = assign_ids(turn.turn_id, turn.messages)
            insert_turn(connection, session.key, replace(turn, messages=messages, status=TurnStatus.ABANDONED))
    for turn_id in hidden.unsummed:
        put_summary(connection, session.key, (*committed_place(connection, session, turn_id), turn_id), None)
    for each in hidden.summaries:
        check_times(each.summary.updated_at)
        place = (*committed_place(connection, session, each.turn_id), each.turn_id)
        put_summary(connection, session.key, place, each.summary)
