"""Archives sessions and opens them again, each in one transaction.

The row of an archived session stays in `sessions`, with its number, because the checksums of its bodies include the number.
The empty `active_branch` of the row marks the session as archived. All other rows are in the archive unchanged, including
their numbers, so the index of another host still fits when the session is opened. Each function runs inside a write
transaction that its caller has opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from mnemosyne.chains.messages.message_parts import read_user
from mnemosyne.core.codec import decode, encode, parse_time
from mnemosyne.core.errors import DamagedRecordError, SessionNotFoundError, VersionConflictError
from mnemosyne.protocols.upkeep import ArchivedSession, Lease
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.erase import erase
from mnemosyne.stores.sql.reading.archives import (
    cells_of,
    delete_session_rows,
    pack_rows,
    read_parts,
    read_session_rows,
)
from mnemosyne.stores.sql.sessions import read_branches
from mnemosyne.stores.sql.upkeep import leases
from mnemosyne.stores.sql.upkeep.figures import last_active
from mnemosyne.stores.sql.writing.shared_index import drop_segments, drop_vectors

_COLUMNS = (
    "session, tenant, archived_at, active_at, active_branch, number_of_rows, raw_bytes, packed_bytes, heads, authors"
)


def archive(
    connection: Connection, session_id: str, at: datetime, expected_version: int | None, lease: Lease | None
) -> ArchivedSession | None:
    """Pack the rows of a session into an archive, and return its figures.

    Return None if the session is archived already, or has evidence that will expire. Raises SessionNotFoundError if
    there is no session, VersionConflictError if it has another version than `expected_version`, and LeaseLostError if
    `lease` (the caller's exclusive right to do this work) is lost.
    """
    leases.check(connection, lease)
    key, branch, version, created_at = _find(connection, session_id)
    if not branch:
        return None
    if expected_version is not None and version != expected_version:
        raise VersionConflictError(session_id, expected_version, version)
    if _will_expire(connection, key):
        return None
    heads, authors = read_branches(connection, session_id), _authors(connection, key)
    active = last_active(connection, {key: created_at}).get(key, at)
    rows, raw, packed = 0, 0, 0
    parts = pack_rows(session_id, key, read_session_rows(connection, key, session_id))
    for part, (body, number, size) in enumerate(parts):
        connection.insert("archive_parts", "session, part, body", [(key, part, body)])
        rows, raw, packed = rows + number, raw + size, packed + len(body)
    row = (key, connection.tenant, utc_text(at), utc_text(active), branch, rows, raw, packed)
    connection.insert("archives", _COLUMNS, [(*row, encode(heads), encode(authors))])
    delete_session_rows(connection, key, session_id)
    if connection.shares_index:
        scope = session_scope(session_id)
        drop_vectors(connection, scope)
        drop_segments(connection, scope, leave_mark=True)
    connection.execute("UPDATE sessions SET active_branch = '' WHERE key = ?", (key,))
    return ArchivedSession(
        session_id=session_id, archived_at=at, active_at=active, rows=rows, raw_bytes=raw, packed_bytes=packed
    )


def open_archived(connection: Connection, session_id: str) -> bool:
    """Put the rows of an archived session back into their tables. Return whether the session was archived.

    Raises SessionNotFoundError if there is no session, and DamagedRecordError if the archive cannot be read.
    """
    key, branch, _, _ = _find(connection, session_id)
    if branch:
        return False
    found = connection.execute("SELECT active_branch FROM archives WHERE session = ?", (key,)).fetchone()
    if found is None:
        raise DamagedRecordError(connection.shown, f"The archive of session {session_id!r}", "it is missing")
    for part in read_parts(connection, key, session_id):
        for kept in part.tables:
            connection.insert(kept.table, ", ".join(kept.columns), [cells_of(row) for row in kept.rows])
    connection.execute("UPDATE sessions SET active_branch = ? WHERE key = ?", (found[0], key))
    connection.execute("DELETE FROM archive_parts WHERE session = ?", (key,))
    connection.execute("DELETE FROM archives WHERE session = ?", (key,))
    return True


def erase_archived(
    connection: Connection, erasure: Erasure, archived_before: datetime, lease: Lease | None
) -> ErasureOutcome | None:
    """Erase the session of `erasure` if it was archived before the time `archived_before`, and return the outcome.

    Return None if there is no such session, if it is not archived, or if it was archived later. `lease` is the caller's
    exclusive right to do this work (None: no lease is checked). Raises ValueError unless the erasure names a whole session.
    Raises LeaseLostError if `lease` is lost.
    """
    if erasure.session_id is None or erasure.evidence_ids:
        raise ValueError("An archived session is erased whole: name the session.")
    leases.check(connection, lease)
    found = connection.execute(
        f"SELECT key, active_branch FROM sessions WHERE tenant = ? AND session_id = ?{connection.lock}",
        (connection.tenant, erasure.session_id),
    ).fetchone()
    if found is None or found[1]:
        return None
    (archived_at,) = connection.execute("SELECT archived_at FROM archives WHERE session = ?", (found[0],)).fetchone()
    if archived_at >= utc_text(archived_before):
        return None
    open_archived(connection, erasure.session_id)
    return erase(connection, erasure)


def check_archive(connection: Connection, session_id: str) -> None:
    """Read all parts of a session's archive. Raises DamagedRecordError if a part cannot be read.

    A session that is not archived is not read.
    """
    key, branch, _, _ = _find(connection, session_id)
    for _ in () if branch else read_parts(connection, key, session_id):
        pass


def read_archived(
    connection: Connection, before: datetime | None, after: str, limit: int, session_id: str | None = None
) -> tuple[ArchivedSession, ...]:
    """Return at most `limit` archived sessions, ordered by id. Only ids after `after` are returned.

    If `before` is given, only sessions that were archived before this time are returned; if `session_id` is given, only this
    session.
    """
    aged = "" if before is None else " AND a.archived_at < ?"
    named = "" if session_id is None else " AND s.session_id = ?"
    rows = connection.execute(
        f"""SELECT s.session_id, a.archived_at, a.active_at, a.number_of_rows, a.raw_bytes, a.packed_bytes
            FROM sessions AS s JOIN archives AS a ON a.session = s.key
            WHERE s.tenant = ? AND s.session_id > ?{aged}{named} ORDER BY s.session_id LIMIT ?""",
        (
            connection.tenant,
            after,
            *(() if before is None else (utc_text(before),)),
            *(() if session_id is None else (session_id,)),
            limit,
        ),
    )
    return tuple(
        ArchivedSession(
            session_id=name,
            archived_at=parse_time(archived_at),
            active_at=parse_time(active_at),
            rows=number,
            raw_bytes=raw,
            packed_bytes=packed,
        )
        for name, archived_at, active_at, number, raw, packed in rows
    )


def read_archived_ids(connection: Connection) -> frozenset[str]:
    """Return the ids of all archived sessions."""
    rows = connection.execute(
        "SELECT s.session_id FROM archives AS a JOIN sessions AS s ON s.key = a.session WHERE a.tenant = ?",
        (connection.tenant,),
    )
    return frozenset(name for (name,) in rows)


def utc_text(at: datetime) -> str:
    """Return a time as UTC text. The order of such texts is the order of the times."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _find(connection: Connection, session_id: str) -> tuple[int, str, int, str | None]:
    row = connection.execute(
        f"SELECT key, active_branch, version, created_at FROM sessions WHERE tenant = ? AND session_id = ?{connection.lock}",
        (connection.tenant, session_id),
    ).fetchone()
    if row is None:
        raise SessionNotFoundError(session_id)
    return row[0], row[1], row[2], row[3]


def _will_expire(connection: Connection, key: int) -> bool:
    """Return whether the text of some evidence must be deleted one day, which a sweep does in open sessions."""
    rows = connection.execute("SELECT body FROM evidences WHERE session = ?", (key,))
    return any(found.expires_at is not None and found.content for found in (decode(body, Evidence) for (body,) in rows))


def _authors(connection: Connection, key: int) -> list[str]:
    messages = list(_messages(connection, key))
    named = {each.author.id for each in messages if each.author is not None}
    return sorted({*named, *map(read_user, messages)} - {""})


def _messages(connection: Connection, key: int) -> Iterator[Message]:
    for (body,) in connection.execute("SELECT body FROM messages WHERE session = ?", (key,)):
        yield decode(body, Message)
    drafts: Any = connection.execute("SELECT draft FROM turns WHERE session = ? AND draft IS NOT NULL", (key,))
    for (draft,) in drafts:
        yield from decode(draft, tuple[Message, ...])
