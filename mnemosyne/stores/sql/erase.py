"""Erases a user, a session or evidence (source texts) from a SQL store, and writes the audit record.

One pass covers every table of a session; `sql.schema` lists the tables and the contents of their columns. The pass runs
inside one write transaction that the caller has opened. A session is locked before any of its rows is changed. Several
sessions are locked in ascending order of their numbers.

A row is deleted if all of its content is erased. Any other row is rewritten in place. But a rewritten message or entry
gets a new number, so that every index that follows the order of writing notices the change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from typing import Any
from uuid import uuid4

from mnemosyne.core.codec import decode, encode, format_time
from mnemosyne.privacy.places import CONTENTS
from mnemosyne.privacy.runs import WORTH_SEEKING, is_distinctive, weight
from mnemosyne.privacy.scrub import subject_of
from mnemosyne.privacy.session_scrubber import (
    NO_COPIES,
    PARTS,
    CopiedParts,
    PreviewTally,
    SessionScrubber,
    Source,
    erased_sources,
    find_copies,
    heirs_named,
    scrubber_of_evidence,
    scrubber_of_user,
    texts_written_by,
)
from mnemosyne.schema.erasure import Erasure, ErasureOutcome, ErasurePreview
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import CONTINUED_IN, MemoryEntry, is_profile_session, session_scope
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.blobs import (
    PLACED_BY,
    blob_place,
    change_blob,
    message_place,
    place_of_row,
    reseal,
)
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import bump, columns_made_of
from mnemosyne.stores.sql.reading.archives import archived_of_user
from mnemosyne.stores.sql.reading.entries import RECALLED_NO_MORE
from mnemosyne.stores.sql.reading.search import find_in_packs, find_left
from mnemosyne.stores.sql.replies import drop_all_unfinished
from mnemosyne.stores.sql.schema import OF_A_SESSION, OF_A_TURN, PART, TextTable
from mnemosyne.stores.sql.sessions import SessionArchivedError, StoredSession, find_session, load_session
from mnemosyne.stores.sql.writing.entries import replace_entry
from mnemosyne.stores.sql.writing.messages import MESSAGE_COLUMNS
from mnemosyne.stores.sql.writing.shared_index import drop_segments, drop_vectors
from mnemosyne.values import dataclass


@dataclass(kw_only=True, slots=True)
class _Tally:
    """The outcome of an erasure so far."""

    counts: dict[str, int] = field(default_factory=dict)
    sessions: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    entry_ids: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)

    def count(self, kind: str, number: int = 1) -> None:
        if number:
            self.counts[kind] = self.counts.get(kind, 0) + number


@dataclass(frozen=True, kw_only=True, slots=True)
class _Task:
    """One session that stays, and how to rewrite it."""

    session: StoredSession
    scrubber: SessionScrubber
    tally: _Tally


def erase(connection: Connection, erasure: Erasure) -> ErasureOutcome:
    """Erase the subject of `erasure` and its copies in other sessions, write the audit record, and return the outcome.

    Raises ValueError unless the erasure names exactly one subject: a user, a session, or evidence of a session.
    """
    kind, subject_hash = subject_of(erasure)
    tally = _Tally()
    if kind == "session":
        session = find_session(connection, str(erasure.session_id))
        if session is not None:
            heirs = _find_heirs(connection, (session.session_id,))
            _drop(connection, session, tally)
            _erase_copies(connection, heirs, erased_sources(erasure, tally.sessions), tally)
    elif kind == "user":
        _erase_user(connection, erasure, tally)
    else:
        heirs = _find_heirs(connection, (str(erasure.session_id),))
        _erase_evidence(connection, str(erasure.session_id), frozenset(erasure.evidence_ids), tally)
        _erase_copies(connection, heirs, erased_sources(erasure), tally)
    if connection.shares_index:
        _drop_shared(connection, tally)
    audit_id = uuid4().hex
    connection.execute(
        """INSERT INTO audits (tenant, audit_id, erased_at, kind, subject_hash, reason, counts)
            VALUES (?, ?, ?, ?, ?, ?, ?)""",
        (
            connection.tenant,
            audit_id,
            format_time(erasure.at),
            kind,
            subject_hash,
            erasure.reason,
            encode(tally.counts),
        ),
    )
    sought = [text for text in tally.texts if weight(text) >= WORTH_SEEKING]
    common = find_left(connection, [text for text in sought if not is_distinctive(text)], tally.touched)
    common |= find_in_packs(connection, sought)
    return ErasureOutcome(
        audit_id=audit_id,
        counts=tally.counts,
        sessions=tuple(tally.sessions),
        entry_ids={scope: tuple(ids) for scope, ids in tally.entry_ids.items() if ids},
        texts=tuple(text for text in sought if text not in common),
        touched=tuple(tally.touched),
    )


def preview(connection: Connection, erasure: Erasure) -> ErasurePreview:
    """Return what an erasure would remove. Nothing is changed."""
    found = PreviewTally(erasure=erasure)
    for session, owner in _concerned(connection, erasure):
        spoken = [] if erasure.evidence_ids else list(_read_messages(connection, session.key))
        items = [decode(body, Evidence) for (body,) in _rows(connection, "body FROM evidences", session.key)]
        found.add(session.session_id, owner, [message for _, message in spoken], items)
    sources = erased_sources(erasure, found.whole)
    for heir in _find_heirs(connection, (*found.whole, *found.touched)):
        found.add_copies(heir, _read_copies(connection, load_session(connection, heir), sources))
    return found.preview()


def _concerned(connection: Connection, erasure: Erasure) -> Iterator[tuple[StoredSession, str | None]]:
    """Yield the sessions that an erasure may concern, each with its owner."""
    if erasure.session_id is not None:
        session = find_session(connection, erasure.session_id)
        if session is not None:
            yield session, None
        return
    owned, wrote = _sessions_of_user(connection, str(erasure.user_id), lock="")
    for session_id in owned:
        yield load_session(connection, session_id), erasure.user_id
    for session_id in wrote:
        yield load_session(connection, session_id), None


def _drop(connection: Connection, session: StoredSession, tally: _Tally) -> None:
    """Delete every row of a session."""
    here, scope = (session.key,), session_scope(session.session_id)
    for kind, table in (
        ("messages", "messages"),
        ("turns", "turns"),
        ("evidences", "evidences"),
        ("summaries", "summaries"),
        ("prefetches", "prefetches"),
        ("chunks", "reply_chunks"),
        ("branches", "branches"),
    ):
        tally.count(kind, _number(connection, f"{table} WHERE session = ?", here))
    for part, (_, kind) in PARTS.items():
        tally.count(kind, _number(connection, "parts WHERE session = ? AND kind = ?", (session.key, part)))
    of_turns = "papers WHERE turn IN (SELECT number FROM turns WHERE session = ?)"
    tally.count("receipts", _number(connection, of_turns, here))
    entries = "entries WHERE tenant = ? AND scope = ?"
    tally.count("entries", _number(connection, entries, (connection.tenant, scope)))
    connection.execute(f"DELETE FROM {of_turns}", here)
    connection.execute(f"DELETE FROM {entries}", (connection.tenant, scope))
    for kept in OF_A_SESSION:
        connection.execute(f"DELETE FROM {kept.table} WHERE session = ?", here)
    connection.execute("DELETE FROM sessions WHERE key = ?", here)
    tally.count("sessions")
    tally.sessions.append(session.session_id)


def _drop_shared(connection: Connection, tally: _Tally) -> None:
    """Delete the vectors of erased texts, and the index rows of every affected session: they have words of
    neighbours.
    """
    for session_id in tally.sessions:
        drop_vectors(connection, session_scope(session_id))
        drop_segments(connection, session_scope(session_id), leave_mark=False)
    for session_id in tally.touched:
        scope = session_scope(session_id)
        drop_vectors(connection, scope, tally.entry_ids.get(scope, ()))
        drop_segments(connection, scope, leave_mark=True)


def _number(connection: Connection, where: str, values: tuple[Any, ...]) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {where}", values).fetchone()
    return int(number)


def _erase_user(connection: Connection, erasure: Erasure, tally: _Tally) -> None:
    """Delete the sessions of a user, erase the user's texts in all other sessions in which the user wrote, and their
    copies in further sessions.
    """
    user_id = str(erasure.user_id)
    owned, wrote = _sessions_of_user(connection, user_id, lock=connection.lock)
    heirs = _find_heirs(connection, (*owned, *wrote))
    turns: dict[str, frozenset[str]] = {}
    for session_id in (*owned, *wrote):
        session = load_session(connection, session_id)
        theirs = texts_written_by(user_id, _read_messages(connection, session.key))
        if theirs is not None:
            tally.texts.update(dict.fromkeys(theirs[0]))
            turns[session_id] = theirs[1]
        if session_id in owned and is_profile_session(session_id):
            items = (decode(body, Evidence) for (body,) in _rows(connection, "body FROM evidences", session.key))
            tally.texts.update((each.content, None) for each in items)
    for session_id in owned:
        _drop(connection, load_session(connection, session_id), tally)
    sources, copied = erased_sources(erasure, owned), list[str]()
    for session_id in (*wrote, *heirs):
        session = load_session(connection, session_id)
        copies = _take_copies(connection, session, sources, tally)
        copied += copies.texts
        if copies.number or session_id in turns or session_id in heirs:
            scrubber = scrubber_of_user(user_id, tally.texts, turns.get(session_id, ()), copies, sources)
            _rewrite(connection, _Task(session=session, scrubber=scrubber, tally=tally))
    tally.texts.update(dict.fromkeys(copied))
    if not tally.touched:
        tally.texts.clear()


def _sessions_of_user(connection: Connection, user_id: str, *, lock: str) -> tuple[list[str], list[str]]:
    """Return the sessions of a user, and the others in which the user may have written, in the order of their numbers.
    SessionArchivedError names sessions that must be opened before.
    """
    if archived := archived_of_user(connection, user_id):
        raise SessionArchivedError(archived)
    rows = connection.execute(
        f"SELECT key, session_id, user_id FROM sessions WHERE tenant = ? ORDER BY key{lock}", (connection.tenant,)
    ).fetchall()
    wrote = {
        key
        for table, column in (("messages", "body"), ("turns", "draft"))
        for (key,) in connection.execute(
            f"""SELECT DISTINCT t.session FROM {table} AS t JOIN sessions AS s ON s.key = t.session
                WHERE s.tenant = ? AND t.{column} IS NOT NULL AND {connection.contains(f"t.{column}")}""",
            (connection.tenant, encode(user_id)),
        )
    }
    owned = [session_id for _, session_id, owner in rows if owner == user_id]
    return owned, [session_id for key, session_id, owner in rows if owner != user_id and key in wrote]


def _read_messages(connection: Connection, key: int) -> Iterator[tuple[str, Message]]:
    """Yield all messages of a session, each with the id of its turn, including those of pending turns."""
    for turn_id, body in _rows(connection, "turn_id, body FROM messages", key):
        yield turn_id, decode(body, Message)
    for turn_id, draft in _rows(connection, "turn_id, draft FROM turns", key):
        for message in () if draft is None else decode(draft, tuple[Message, ...]):
            yield turn_id, message


def _erase_evidence(connection: Connection, session_id: str, evidence_ids: frozenset[str], tally: _Tally) -> None:
    """Delete evidence items of a session, blocks that rest only on them, refs to them, and their text wherever it
    occurs.
    """
    session = find_session(connection, session_id)
    if session is None:
        return
    texts: list[str] = []
    for evidence_id in sorted(evidence_ids):
        row = connection.execute(
            "DELETE FROM evidences WHERE session = ? AND evidence_id = ? RETURNING body", (session.key, evidence_id)
        ).fetchone()
        if row is not None:
            tally.count("evidences")
            texts.append(decode(row[0], Evidence).content)
    tally.texts.update(dict.fromkeys(text for text in texts if text.strip()))
    _rewrite(connection, _Task(session=session, scrubber=scrubber_of_evidence(evidence_ids, texts), tally=tally))


def _find_heirs(connection: Connection, session_ids: Sequence[str]) -> list[str]:
    """Return the other sessions that took memories of these along, at first or at second hand."""
    known = list(session_ids)
    for session_id in known:
        session = find_session(connection, session_id)
        if session is None:
            continue
        rows = connection.execute(
            f"SELECT body FROM evidences WHERE session = ? AND {connection.contains('body')}",
            (session.key, encode(CONTINUED_IN)),
        ).fetchall()
        for heir in heirs_named(decode(body, Evidence) for (body,) in rows):
            if heir not in known and find_session(connection, heir) is not None:
                known.append(heir)
    return known[len(session_ids) :]


def _read_copies(connection: Connection, session: StoredSession, sources: frozenset[Source]) -> CopiedParts:
    """Return the copies of a session from sources."""
    if not sources:
        return NO_COPIES
    items = [decode(body, Evidence) for (body,) in _rows(connection, "body FROM evidences", session.key)]
    rows = connection.execute(
        "SELECT body FROM entries WHERE tenant = ? AND scope = ?",
        (connection.tenant, session_scope(session.session_id)),
    ).fetchall()
    return find_copies((*items, *(decode(body, MemoryEntry) for (body,) in rows)), sources)


def _take_copies(
    connection: Connection, session: StoredSession, sources: frozenset[Source], tally: _Tally
) -> CopiedParts:
    """Return the copies of a session from sources, its evidence deleted."""
    copies = _read_copies(connection, session, sources)
    for evidence_id in sorted(copies.evidence_ids):
        connection.execute("DELETE FROM evidences WHERE session = ? AND evidence_id = ?", (session.key, evidence_id))
    tally.count("evidences", len(copies.evidence_ids))
    return copies


def _erase_copies(
    connection: Connection, session_ids: Sequence[str], sources: frozenset[Source], tally: _Tally
) -> None:
    """Erase the copies from sources in sessions, with their text."""
    for session_id in session_ids:
        session = load_session(connection, session_id)
        copies = _take_copies(connection, session, sources, tally)
        if copies.number:
            tally.texts.update(dict.fromkeys(copies.texts))
            scrubber = scrubber_of_evidence(copies.evidence_ids, copies.texts, sources)
            _rewrite(connection, _Task(session=session, scrubber=scrubber, tally=tally))


def _rewrite(connection: Connection, task: _Task) -> None:
    """Clean everything of a session that stays, and increment its version."""
    task.tally.touched.append(task.session.session_id)
    _messages(connection, task)
    connection.post("UPDATE messages SET exchange = NULL WHERE session = ?", (task.session.key,))
    _entries(connection, task)
    # An erased text may lie in several chunks.
    task.tally.count("chunks", drop_all_unfinished(connection, task.session.key))
    for table in OF_A_SESSION:
        if table.bodies and table.table != "messages":
            _clean_table(connection, task, table)
    _clean_papers(connection, task)
    bump(connection, task.session)


def _rows(connection: Connection, source: str, key: int) -> list[Any]:
    return connection.execute(f"SELECT {source} WHERE session = ?", (key,)).fetchall()


def _clean(task: _Task, content: str, body: bytes | None, place: str, turn_id: str = "") -> bytes | None:
    """Return a body, with its checksum, after the erasure; the same bytes if nothing changes."""
    if body is None:
        return None
    kind = CONTENTS[content].kind
    value = decode(body, object if kind is None else tuple[Message, ...] if content == "draft" else kind)
    done = task.scrubber.clean(content, value, turn_id)
    return body if done is value else reseal(encode(done), body, place)


def _clean_table(connection: Connection, task: _Task, table: TextTable) -> None:
    """Rewrite the rows of a table that an erasure changes; a block that refers only to erased evidence is deleted."""
    placed = PLACED_BY[table.table]
    listed = ", ".join((*table.row, *placed, *table.bodies))
    where = "".join(f" AND {name} = ?" for name in table.row)
    for cells in _rows(connection, f"{listed} FROM {table.table}", task.session.key):
        row = dict(zip(table.row, cells[: len(table.row)], strict=True))
        names, olds = cells[len(table.row) :][: len(placed)], cells[len(table.row) + len(placed) :]
        places = [place_of_row(table.table, column, task.session.key, names) for column in table.bodies]
        contents = [row["kind"] if content == PART else content for content in table.bodies.values()]
        at = (task.session.key, *row.values())
        if table.bodies == {"body": PART} and task.scrubber.rests_on_erased(decode(olds[0], PARTS[row["kind"]][0])):
            connection.execute(f"DELETE FROM {table.table} WHERE session = ?{where}", at)
            task.tally.count(PARTS[row["kind"]][1])
            continue
        pairs = list(zip(contents, olds, strict=True))
        news = [
            _clean(task, content, old, place, row.get("turn_id", ""))
            for (content, old), place in zip(pairs, places, strict=True)
        ]
        if all(new is old for new, old in zip(news, olds, strict=True)):
            continue
        columns: dict[str, Any] = dict(zip(table.bodies, news, strict=True))
        if table.table == "evidences" and news[0] is not None:
            columns |= columns_made_of(decode(news[0], Evidence))
        changes = ", ".join(f"{column} = ?" for column in columns)
        connection.execute(f"UPDATE {table.table} SET {changes} WHERE session = ?{where}", (*columns.values(), *at))
        for (content, old), new in zip(pairs, news, strict=True):
            task.tally.count(CONTENTS[content].counted, int(new is not old))


def _messages(connection: Connection, task: _Task) -> None:
    columns = "seq, branch_id, depth, ord, turn_id, message_id, recalled, body"
    for seq, *place, recalled, body in _rows(connection, f"{columns} FROM messages", task.session.key):
        message = decode(body, Message)
        done = task.scrubber.message(message)
        if done is message:
            continue
        task.tally.count("messages")
        if recalled:
            _mark_removed(task, place[-1])
        if recalled and task.scrubber.is_theirs(message):
            recalled = RECALLED_NO_MORE
        branch_id, depth, order, turn_id, _ = place
        data = reseal(encode(done), body, message_place(task.session.key, turn_id, order, branch_id, depth))
        connection.execute("DELETE FROM messages WHERE seq = ?", (seq,))
        connection.insert("messages", MESSAGE_COLUMNS, [(task.session.key, *place, recalled, data)])


def _mark_removed(task: _Task, entry_id: str) -> None:
    task.tally.entry_ids.setdefault(session_scope(task.session.session_id), []).append(entry_id)


def _entries(connection: Connection, task: _Task) -> None:
    rows = connection.execute(
        "SELECT seq, deleted, body FROM entries WHERE tenant = ? AND scope = ? ORDER BY seq",
        (connection.tenant, session_scope(task.session.session_id)),
    ).fetchall()
    for seq, deleted, body in rows:
        entry = decode(body, MemoryEntry)
        if task.scrubber.rests_on_erased(entry):
            connection.execute("DELETE FROM entries WHERE seq = ?", (seq,))
            task.tally.count("entries")
            _mark_removed(task, entry.entry_id)
            continue
        done = task.scrubber.derived.value(entry)
        if done is not entry:
            replace_entry(connection, done, seq, deleted=bool(deleted), former=body)
            task.tally.count("entries")
            _mark_removed(task, entry.entry_id)


def _clean_papers(connection: Connection, task: _Task) -> None:
    """Rewrite the large parts of turns, which are compressed."""
    columns = ", ".join(f"p.{column}" for column in OF_A_TURN.bodies)
    rows = connection.execute(
        f"SELECT p.turn, t.turn_id, {columns} FROM papers AS p JOIN turns AS t ON t.number = p.turn WHERE t.session = ?",
        (task.session.key,),
    ).fetchall()
    for turn, turn_id, *olds in rows:
        contents = OF_A_TURN.bodies.values()
        news = [
            None if old is None else change_blob(old, partial(_clean_blob, task, column, turn_id))
            for column, old in zip(OF_A_TURN.bodies, olds, strict=True)
        ]
        if news != olds:
            changes = ", ".join(f"{column} = ?" for column in OF_A_TURN.bodies)
            connection.execute(f"UPDATE papers SET {changes} WHERE turn = ?", (*news, turn))
            for content, old, new in zip(contents, olds, news, strict=True):
                task.tally.count(CONTENTS[content].counted, int(new != old))


def _clean_blob(task: _Task, column: str, turn_id: str, body: bytes) -> bytes:
    place = blob_place(column, task.session.key, turn_id)
    return _clean(task, OF_A_TURN.bodies[column], body, place, turn_id) or body
