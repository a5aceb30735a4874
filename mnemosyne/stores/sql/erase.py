"""Erasure: deletes and rewrites rows, and writes the audit record (seed 002 section 13; spec 3.6).

One pass covers every table of a session. It runs inside one write transaction that its caller has opened; each session
is locked before any of its rows is changed, in the order of their numbers.

Rows that are erased entirely are deleted. Others are rewritten in place, except messages and entries: they get a new
number, so that every index that follows the order of writing notices them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from mnemosyne.core.codec import decode, encode, format_time
from mnemosyne.privacy.scrub import WORTH_SEEKING, Scrubber, is_distinctive, subject_of, weight
from mnemosyne.privacy.session_scrubber import (
    PARTS,
    SessionScrubber,
    scrubber_of_evidence,
    scrubber_of_user,
    texts_written_by,
)
from mnemosyne.schema.document import SessionDocument, Summary
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.memory import MemoryEntry, session_scope
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import Message
from mnemosyne.stores.sql.blobs import change_blob
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import bump
from mnemosyne.stores.sql.reading.entries import RECALLED_NO_MORE
from mnemosyne.stores.sql.reading.search import find_in_packs, find_remaining
from mnemosyne.stores.sql.schema import OF_A_SESSION
from mnemosyne.stores.sql.sessions import StoredSession, find_session, load_session
from mnemosyne.stores.sql.writing.entries import replace_entry
from mnemosyne.stores.sql.writing.messages import MESSAGE_COLUMNS


@dataclass(kw_only=True, slots=True)
class _Tally:
    """The outcome of an erasure so far."""

    counts: dict[str, int] = field(default_factory=dict)
    sessions: list[str] = field(default_factory=list)
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
    """Erase a user, a session or evidence items, and write the audit record; ValueError unless the erasure names
    exactly one subject.
    """
    kind, subject_hash = subject_of(erasure)
    tally = _Tally()
    if kind == "session":
        session = find_session(connection, str(erasure.session_id))
        if session is not None:
            _drop(connection, session, tally)
    elif kind == "user":
        _erase_user(connection, str(erasure.user_id), tally)
    else:
        _erase_evidence(connection, str(erasure.session_id), frozenset(erasure.evidence_ids), tally)
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
    doubtful = [text for text in tally.texts if not is_distinctive(text)]
    common = find_remaining(connection, doubtful) if doubtful else frozenset()
    common |= find_in_packs(connection, [*tally.texts])
    return ErasureOutcome(
        audit_id=audit_id,
        counts=tally.counts,
        sessions=tuple(tally.sessions),
        entry_ids={scope: tuple(ids) for scope, ids in tally.entry_ids.items() if ids},
        texts=tuple(text for text in tally.texts if weight(text) >= WORTH_SEEKING and text not in common),
    )


def _drop(connection: Connection, session: StoredSession, tally: _Tally) -> None:
    """Delete every row of a session."""
    here, scope = (session.key,), session_scope(session.session_id)
    for kind, table in (
        ("messages", "messages"),
        ("turns", "turns"),
        ("evidences", "evidences"),
        ("summaries", "summaries"),
        ("prefetches", "prefetches"),
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


def _number(connection: Connection, where: str, values: tuple[Any, ...]) -> int:
    (number,) = connection.execute(f"SELECT count(*) FROM {where}", values).fetchone()
    return int(number)


def _erase_user(connection: Connection, user_id: str, tally: _Tally) -> None:
    """Delete the sessions of a user, and erase what the user wrote in all others."""
    rows = connection.execute(
        "SELECT key, session_id, user_id FROM sessions WHERE tenant = ? ORDER BY key" + connection.lock,
        (connection.tenant,),
    ).fetchall()
    for _, session_id, owner in rows:
        if owner == user_id:
            _drop(connection, load_session(connection, session_id), tally)
    needle = encode(user_id)
    wrote = {
        key
        for table, column in (("messages", "body"), ("turns", "draft"))
        for (key,) in connection.execute(
            f"""SELECT DISTINCT t.session FROM {table} AS t JOIN sessions AS s ON s.key = t.session
                WHERE s.tenant = ? AND t.{column} IS NOT NULL AND {connection.contains(f"t.{column}")}""",
            (connection.tenant, needle),
        )
    }
    for key, session_id, owner in rows:
        if key in wrote and owner != user_id:
            session = load_session(connection, session_id)
            texts = texts_written_by(user_id, _read_messages(connection, key))
            if texts is not None:
                tally.texts.update(dict.fromkeys(texts))
                _rewrite(connection, _Task(session=session, scrubber=scrubber_of_user(user_id, texts), tally=tally))


def _read_messages(connection: Connection, key: int) -> Iterator[Message]:
    """Yield all messages of a session, including those of pending turns."""
    for (body,) in _rows(connection, "body FROM messages", key):
        yield decode(body, Message)
    for (draft,) in _rows(connection, "draft FROM turns", key):
        yield from decode(draft, tuple[Message, ...]) if draft is not None else ()


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


def _rewrite(connection: Connection, task: _Task) -> None:
    """Clean everything of a session that stays, and increment its version."""
    _messages(connection, task)
    _entries(connection, task)
    _turns(connection, task)
    _erase_blobs(connection, task)
    _evidences(connection, task)
    _parts(connection, task)
    key, tally = task.session.key, task.tally
    for table, columns, kind, clean in (
        ("branch_states", ("branch_id",), "states", _tree(task.scrubber.others)),
        ("snapshots", ("branch_id", "depth"), "states", _tree(task.scrubber.others)),
        ("prefetches", ("branch_id",), "prefetches", _value(task.scrubber.derived, Prefetch)),
        ("summaries", ("branch_id", "depth"), "summaries", _value(task.scrubber.derived, Summary)),
        ("documents", (), "documents", _value(task.scrubber.derived, SessionDocument)),
    ):
        column = {"documents": "frame", "branch_states": "state", "snapshots": "state"}.get(table, "body")
        listed = ", ".join((column, *columns))
        for body, *place in _rows(connection, f"{listed} FROM {table}", key):
            new = None if body is None else clean(body)
            if new is not None and new != body:
                where = "".join(f" AND {name} = ?" for name in columns)
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE session = ?{where}", (new, key, *place))
                tally.count(kind)
    bump(connection, task.session)


def _rows(connection: Connection, source: str, key: int) -> list[Any]:
    return connection.execute(f"SELECT {source} WHERE session = ?", (key,)).fetchall()


def _tree(scrubber: Scrubber) -> Callable[[bytes], bytes]:
    def clean(body: bytes) -> bytes:
        tree = decode(body, object)
        done = scrubber.tree(tree)
        return body if done is tree else encode(done)

    return clean


def _value(scrubber: Scrubber, kind: type[Any]) -> Callable[[bytes], bytes]:
    def clean(body: bytes) -> bytes:
        value = decode(body, kind)
        done = scrubber.value(value)
        return body if done is value else encode(done)

    return clean


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
        connection.execute("DELETE FROM messages WHERE seq = ?", (seq,))
        connection.insert("messages", MESSAGE_COLUMNS, [(task.session.key, *place, recalled, encode(done))])


def _mark_removed(task: _Task, entry_id: str) -> None:
    task.tally.entry_ids.setdefault(session_scope(task.session.session_id), []).append(entry_id)


def _entries(connection: Connection, task: _Task) -> None:
    rows = connection.execute(
        "SELECT seq, deleted, body FROM entries WHERE tenant = ? AND scope = ? ORDER BY seq",
        (connection.tenant, session_scope(task.session.session_id)),
    ).fetchall()
    for seq, deleted, body in rows:
        entry = decode(body, MemoryEntry)
        done = task.scrubber.derived.value(entry)
        if done is not entry:
            replace_entry(connection, done, seq, deleted=bool(deleted))
            task.tally.count("entries")
            _mark_removed(task, entry.entry_id)


def _turns(connection: Connection, task: _Task) -> None:
    derived, others = _tree(task.scrubber.derived), _tree(task.scrubber.others)
    for number, anchors, ops, draft, plan in _rows(
        connection, "number, anchors, ops, draft, plan FROM turns", task.session.key
    ):
        new = (
            None if anchors is None else others(anchors),
            None if ops is None else others(ops),
            None if draft is None else _clean_draft(task, draft),
            None if plan is None else derived(plan),
        )
        if new != (anchors, ops, draft, plan):
            connection.execute(
                "UPDATE turns SET anchors = ?, ops = ?, draft = ?, plan = ? WHERE number = ?", (*new, number)
            )
            task.tally.count("plans", int(new[3] != plan))
            task.tally.count("drafts", int(new[2] != draft))


def _clean_draft(task: _Task, draft: bytes) -> bytes:
    messages = decode(draft, tuple[Message, ...])
    done = task.scrubber.messages(messages)
    return draft if done is messages else encode(done)


def _erase_blobs(connection: Connection, task: _Task) -> None:
    clean = _tree(task.scrubber.derived)
    rows = connection.execute(
        """SELECT p.turn, p.receipt, p.prompt, p.report FROM papers AS p JOIN turns AS t ON t.number = p.turn
            WHERE t.session = ?""",
        (task.session.key,),
    ).fetchall()
    for turn, *blobs in rows:
        new = [None if blob is None else change_blob(blob, clean) for blob in blobs]
        if new != blobs:
            connection.execute("UPDATE papers SET receipt = ?, prompt = ?, report = ? WHERE turn = ?", (*new, turn))
            for kind, before, after in zip(("receipts", "prompts", "reports"), blobs, new, strict=True):
                task.tally.count(kind, int(before != after))


def _evidences(connection: Connection, task: _Task) -> None:
    for evidence_id, body in _rows(connection, "evidence_id, body FROM evidences", task.session.key):
        evidence = decode(body, Evidence)
        done = task.scrubber.evidence(evidence)
        if done is not evidence:
            connection.execute(
                "UPDATE evidences SET body = ? WHERE session = ? AND evidence_id = ?",
                (encode(done), task.session.key, evidence_id),
            )
            task.tally.count("evidences")


def _parts(connection: Connection, task: _Task) -> None:
    key = task.session.key
    for part, part_id, body in _rows(connection, "kind, part_id, body FROM parts", key):
        what, kind = PARTS[part]
        item = decode(body, what)
        done = task.scrubber.derived.value(item)
        if task.scrubber.rests_on_erased(item):
            connection.execute("DELETE FROM parts WHERE session = ? AND kind = ? AND part_id = ?", (key, part, part_id))
            task.tally.count(kind)
        elif done is not item:
            connection.execute(
                "UPDATE parts SET body = ? WHERE session = ? AND kind = ? AND part_id = ?",
                (encode(done), key, part, part_id),
            )
            task.tally.count(kind)
