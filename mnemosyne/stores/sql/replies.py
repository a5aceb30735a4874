"""Stores the chunks of replies that are not complete yet, in the tables `unfinished_replies` and `reply_chunks`.

The chunks do not belong to a turn until the reply is committed, so the version of the session does not change. Each
function runs inside a transaction that its caller has opened.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mnemosyne.core.codec import decode, encode
from mnemosyne.core.errors import NoPendingTurnError, TurnNotFoundError
from mnemosyne.schema.replies import AddedChunk, ChunkLimits, ChunkOutcome, ReplyChunk, UnfinishedReply
from mnemosyne.stores.sql.blobs import chunk_place, seal, unseal
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.sessions import StoredSession, load_session
from mnemosyne.stores.sql.writing.close import pending_id
from mnemosyne.stores.sql.writing.turn_rows import turn_status

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def add_chunk(connection: Connection, session_id: str, chunk: ReplyChunk, limits: ChunkLimits) -> AddedChunk:
    """Add a chunk to a reply. The first chunk creates the reply.

    The outcome states whether the chunk was added, repeated, conflicted with a stored one, or made the reply too long.
    Raises NoPendingTurnError if the chunk names no turn and none waits for a reply. Raises TurnNotFoundError if there
    is no such turn.
    """
    session = load_session(connection, session_id)
    key, turn_id = session.key, chunk.turn_id or _find_turn(connection, session, chunk.message_id)
    if turn_id is None:
        raise NoPendingTurnError(session_id)
    oldest_us, now_us = _microseconds(limits.expired_before), _microseconds(chunk.at)
    reply = _find_reply(connection, key, turn_id, chunk.message_id)
    number, chars = (None, 0) if reply is None or reply[1] < oldest_us else (reply[0], reply[2])
    known = None if number is None else _read_chunk(connection, key, number, chunk.index)
    if known is not None and known != chunk.text:
        return AddedChunk(turn_id=turn_id, outcome=ChunkOutcome.CONFLICTING, chars=chars)
    chars += 0 if known is not None else len(chunk.text)
    if chars > limits.chars:
        return AddedChunk(turn_id=turn_id, outcome=ChunkOutcome.TOO_LONG, chars=chars)
    dropped: tuple[tuple[str, str], ...] = ()
    if number is None:
        if turn_status(connection, key, turn_id) is None:
            raise TurnNotFoundError(session_id, turn_id)
        dropped = _drop_stale(connection, key, oldest_us, limits.replies - 1)
        (number,) = connection.execute(
            "INSERT INTO unfinished_replies (session, turn_id, message_id, changed_us, chars) VALUES (?, ?, ?, ?, 0) "
            "RETURNING number",
            (key, turn_id, chunk.message_id, now_us),
        ).fetchone()
    if known is None:
        body = seal(encode(chunk.text), chunk_place(key, number, chunk.index))
        connection.insert("reply_chunks", "session, reply, ord, body", [(key, number, chunk.index, body)])
    changes = (now_us, chars, number)
    connection.post("UPDATE unfinished_replies SET changed_us = ?, chars = ? WHERE number = ?", changes)
    outcome = ChunkOutcome.ADDED if known is None else ChunkOutcome.REPEATED
    return AddedChunk(turn_id=turn_id, outcome=outcome, chars=chars, dropped=dropped)


def read_unfinished(
    connection: Connection, session_id: str, turn_id: str | None, message_id: str
) -> UnfinishedReply | None:
    """Return the unfinished reply `message_id` with its chunks, or None if it has no chunks.

    If `turn_id` is None, the turn is found by `message_id`. Raises UnreadableError if a chunk is damaged.
    """
    session = load_session(connection, session_id)
    turn_id = turn_id or _find_turn(connection, session, message_id)
    reply = None if turn_id is None else _find_reply(connection, session.key, turn_id, message_id)
    if turn_id is None or reply is None:
        return None
    rows = connection.execute(
        "SELECT ord, body FROM reply_chunks WHERE session = ? AND reply = ? ORDER BY ord", (session.key, reply[0])
    ).fetchall()
    return UnfinishedReply(
        turn_id=turn_id,
        message_id=message_id,
        changed_at=_EPOCH + timedelta(microseconds=reply[1]),
        chunks={
            index: decode(unseal(bytes(body), chunk_place(session.key, reply[0], index)), str) for index, body in rows
        },
    )


def drop_unfinished(connection: Connection, session_id: str, turn_id: str | None, message_id: str) -> int:
    """Delete the chunks of a reply, and return their number. If `turn_id` is None, the turn is found by the message."""
    session = load_session(connection, session_id)
    turn_id = turn_id or _find_turn(connection, session, message_id)
    reply = None if turn_id is None else _find_reply(connection, session.key, turn_id, message_id)
    return 0 if reply is None else _delete(connection, session.key, reply[0])


def drop_all_unfinished(connection: Connection, key: int) -> int:
    """Delete the chunks of all replies of a session, and return their number."""
    connection.post("DELETE FROM unfinished_replies WHERE session = ?", (key,))
    return len(connection.execute("DELETE FROM reply_chunks WHERE session = ? RETURNING ord", (key,)).fetchall())


def drop_old_unfinished(connection: Connection, before: datetime, limit: int) -> int:
    """Delete at most `limit` unfinished replies of the tenant whose newest chunk came before `before`. Return their
    number.
    """
    rows = connection.execute(
        """SELECT r.session, r.number FROM sessions AS s JOIN unfinished_replies AS r ON r.session = s.key
            WHERE s.tenant = ? AND r.changed_us < ? ORDER BY r.number LIMIT ?""",
        (connection.tenant, _microseconds(before), limit),
    ).fetchall()
    for key, number in rows:
        _delete(connection, key, number)
    return len(rows)


def _find_turn(connection: Connection, session: StoredSession, message_id: str) -> str | None:
    """Return the only turn that has chunks for a message, else the pending turn of the active branch."""
    rows = connection.execute(
        "SELECT turn_id FROM unfinished_replies WHERE session = ? AND message_id = ?", (session.key, message_id)
    ).fetchall()
    return str(rows[0][0]) if len(rows) == 1 else pending_id(connection, session, session.active_branch)


def _find_reply(connection: Connection, key: int, turn_id: str, message_id: str) -> tuple[int, int, int] | None:
    """Return number, time of the last chunk, and characters of a reply."""
    row = connection.execute(
        "SELECT number, changed_us, chars FROM unfinished_replies WHERE session = ? AND turn_id = ? AND message_id = ?",
        (key, turn_id, message_id),
    ).fetchone()
    return None if row is None else (row[0], row[1], row[2])


def _read_chunk(connection: Connection, key: int, number: int, index: int) -> str | None:
    row = connection.execute(
        "SELECT body FROM reply_chunks WHERE session = ? AND reply = ? AND ord = ?", (key, number, index)
    ).fetchone()
    return None if row is None else decode(unseal(bytes(row[0]), chunk_place(key, number, index)), str)


def _drop_stale(connection: Connection, key: int, oldest_us: int, most: int) -> tuple[tuple[str, str], ...]:
    """Delete the expired replies of a session and, oldest first, those beyond `most`; return turn and message of each."""
    rows = connection.execute(
        "SELECT number, turn_id, message_id, changed_us FROM unfinished_replies WHERE session = ? ORDER BY changed_us, number",
        (key,),
    ).fetchall()
    stale = [row for place, row in enumerate(rows) if row[3] < oldest_us or place < len(rows) - most]
    for number, *_ in stale:
        _delete(connection, key, number)
    return tuple((turn_id, message_id) for _, turn_id, message_id, _ in stale)


def _delete(connection: Connection, key: int, number: int) -> int:
    connection.post("DELETE FROM unfinished_replies WHERE number = ?", (number,))
    rows = connection.execute("DELETE FROM reply_chunks WHERE session = ? AND reply = ? RETURNING ord", (key, number))
    return len(rows.fetchall())


def _microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)
