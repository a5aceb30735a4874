"""Writing messages: ids for those that come without, and what is recalled of them.

The room exists so that the rules of message ids stand in one place. It runs inside a write transaction that its caller
has opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mnemosyne.codec import encode, time_text
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Message, Role
from mnemosyne.stores.sqlite_rows import is_recalled


def named(turn_id: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Give an id to every message without one: `<turn>.u` and `<turn>.a` for the first of each, else `<turn>.m<n>`."""
    taken = {message.message_id for message in messages}
    done: list[Message] = []
    for place, message in enumerate(messages, start=1):
        if not message.message_id:
            short = {Role.USER: f"{turn_id}.u", Role.ASSISTANT: f"{turn_id}.a"}.get(message.role, f"{turn_id}.m{place}")
            message_id = short if short not in taken else next(_own_ids(turn_id, place, taken))
            taken.add(message_id)
            message = replace(message, message_id=message_id)
        done.append(message)
    return tuple(done)


def insert_messages(connection: sqlite3.Connection, record: TurnRecord) -> None:
    """Write the messages of a turn that is committed now.

    An id that another message of the session has already (a retry of the same input) gives way to one of the turn's own.
    """
    messages = named(record.turn_id, record.messages)
    taken: set[str] = set()
    rows = []
    for place, message in enumerate(messages):
        wishes = _wishes(record.turn_id, message.message_id, place + 1, taken)
        message_id = next(wish for wish in wishes if not _is_used(connection, record.session_id, wish))
        taken.add(message_id)
        if message.message_id != message_id:
            message = replace(message, message_id=message_id)
        if message.at is not None:
            time_text(message.at)
        rows.append(
            (
                record.session_id,
                record.branch_id,
                record.depth,
                place,
                record.turn_id,
                message_id,
                int(is_recalled(message, record.kind)),
                encode(message),
            )
        )
    connection.executemany(
        """INSERT INTO messages (session_id, branch_id, depth, ord, turn_id, message_id, recalled, body)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
        rows,
    )


def _wishes(turn_id: str, message_id: str, place: int, taken: set[str]) -> Iterator[str]:
    if message_id not in taken:
        yield message_id
    yield from _own_ids(turn_id, place, taken)


def _own_ids(turn_id: str, place: int, taken: set[str]) -> Iterator[str]:
    """Yield `<turn>.m<n>` from `place` on, without those that are taken."""
    while True:
        if f"{turn_id}.m{place}" not in taken:
            yield f"{turn_id}.m{place}"
        place += 1


def _is_used(connection: sqlite3.Connection, session_id: str, message_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM messages WHERE session_id = ? AND message_id = ?", (session_id, message_id)
    ).fetchone()
    return row is not None
