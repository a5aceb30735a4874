"""Records of a ledger that no window shows: abandoned turns and replaced summaries, for copies of a session.

With them an export loses nothing (`Store.hidden_records`). Writing functions run inside `Ledger.run`.
"""

from __future__ import annotations

from dataclasses import replace

from mnemosyne.chains.messages.message_ids import assign_ids
from mnemosyne.core.codec import decode_raw
from mnemosyne.schema.record import HiddenRecords, PathSummary
from mnemosyne.schema.session import TurnStatus
from mnemosyne.stores.ledger.ledger import Ledger
from mnemosyne.stores.ledger.reads import NO_SUMMARY, branch_row, committed_turn, read_turn, session_row
from mnemosyne.stores.ledger.turn_rows import insert_pending
from mnemosyne.stores.ledger.writes import save_summary


def read_hidden_records(ledger: Ledger, session_id: str) -> HiddenRecords:
    """Return abandoned turns and all summaries; SessionNotFoundError."""
    session_row(ledger, session_id)
    names = sorted(name for name, row in ledger.turns.items() if row.status is TurnStatus.ABANDONED)
    bodies = sorted(ledger.bodies("summary").items())
    return HiddenRecords(
        abandoned=tuple(read_turn(ledger, session_id, name) for name in names),
        summaries=tuple(decode_raw(body, PathSummary) for _, body in bodies if body != NO_SUMMARY),
        unsummed=tuple(turn_id for turn_id, body in bodies if body == NO_SUMMARY),
    )


def save_hidden_records(ledger: Ledger, session_id: str, hidden: HiddenRecords) -> None:
    """Write abandoned turns that do not exist yet, and summaries; BranchNotFoundError, TurnNotFoundError."""
    session_row(ledger, session_id)
    for turn in hidden.abandoned:
        branch_row(ledger, session_id, turn.branch_id)
        if turn.turn_id not in ledger.turns:
            messages = assign_ids(turn.turn_id, turn.messages)
            insert_pending(ledger, replace(turn, messages=messages, status=TurnStatus.ABANDONED))
    for turn_id in hidden.unsummed:
        committed_turn(ledger, session_id, turn_id)
        ledger.put("summary", turn_id, NO_SUMMARY)
    for each in hidden.summaries:
        save_summary(ledger, session_id, each)
