"""Writes the messages of turns that are being committed.

Messages of played turns, of imported turns and of documents are written in the same way. The function runs inside a write
transaction that its caller has opened.
"""

from __future__ import annotations

from collections.abc import Sequence

from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.chains.messages.message_ids import assign_free_ids, assign_ids, is_recalled
from mnemosyne.core.codec import encode, format_time
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.blobs import message_place, seal
from mnemosyne.stores.sql.connection import Connection, expand_in
from mnemosyne.stores.sql.reading.entries import RECALLED

MESSAGE_COLUMNS = "session, branch_id, depth, ord, turn_id, message_id, recalled, body"
_AT_ONCE = 512


def insert_messages(connection: Connection, key: int, records: Sequence[TurnRecord]) -> None:
    """Write the messages of turns. Each message is given an id that no other message of the session has."""
    candidates = {each.message_id for record in records for each in assign_ids(record.turn_id, record.messages)}
    used = _find_used(connection, key, list(candidates))

    def is_used(candidate: str) -> bool:
        return candidate in used or (candidate not in candidates and bool(_find_used(connection, key, [candidate])))

    rows: list[tuple[object, ...]] = []
    for record in records:
        messages = assign_free_ids(record.turn_id, record.messages, is_used)
        used.update(message.message_id for message in messages)
        exchanges = dict(exchange_digests(messages))
        rows.extend((*_row(key, record, place, each), exchanges.get(place)) for place, each in enumerate(messages))
    connection.insert("messages", f"{MESSAGE_COLUMNS}, exchange", rows)


def _row(key: int, record: TurnRecord, place: int, message: Message) -> tuple[object, ...]:
    if message.at is not None:
        format_time(message.at)
    return (
        key,
        record.branch_id,
        record.depth,
        place,
        record.turn_id,
        message.message_id,
        RECALLED if is_recalled(message, record.kind) else 0,
        seal(encode(message), message_place(key, record.turn_id, place, record.branch_id, record.depth)),
    )


def _find_used(connection: Connection, key: int, message_ids: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(message_ids), _AT_ONCE):
        signs, values = expand_in(message_ids[start : start + _AT_ONCE])
        rows = connection.execute(
            f"SELECT message_id FROM messages WHERE session = ? AND message_id IN ({signs})", (key, *values)
        )
        found.update(message_id for (message_id,) in rows)
    return found
