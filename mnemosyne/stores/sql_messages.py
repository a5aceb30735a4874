"""Writing messages: the rows of a turn that is committed now.

The room exists so that a message is written in one way, whether its turn was played, imported or told by a document. It
runs inside a write transaction that its caller has opened.
"""

from __future__ import annotations

from mnemosyne.codec import encode, time_text
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message
from mnemosyne.speech import is_recalled, settled
from mnemosyne.stores.sql_connection import Connection
from mnemosyne.stores.sql_recall import RECALLED

INSERT_MESSAGE = """INSERT INTO messages (session, branch_id, depth, ord, turn_id, message_id, recalled, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""


def insert_messages(connection: Connection, key: int, record: TurnRecord) -> None:
    """Write the messages of a turn, each under an id that no other message of the session has."""
    if not record.messages:
        return
    messages = settled(record.turn_id, record.messages, lambda wish: _is_used(connection, key, wish))
    connection.executemany(INSERT_MESSAGE, [_row(key, record, place, each) for place, each in enumerate(messages)])


def _row(key: int, record: TurnRecord, place: int, message: Message) -> tuple[object, ...]:
    if message.at is not None:
        time_text(message.at)
    return (
        key,
        record.branch_id,
        record.depth,
        place,
        record.turn_id,
        message.message_id,
        RECALLED if is_recalled(message, record.kind) else 0,
        encode(message),
    )


def _is_used(connection: Connection, key: int, message_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM messages WHERE session = ? AND message_id = ?", (key, message_id)
    ).fetchone()
    return row is not None
