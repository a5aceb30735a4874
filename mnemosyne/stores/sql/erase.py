"""Erasure: deletes and rewrites rows, and writes the audit record (seed 002 section 13; spec 3.6).

One pass covers every table of a session. It runs inside one write transaction that its caller has opened; each session
is locked before any of its rows is changed, in the order of their numbers.

Rows that are erased entirely are deleted. Others are rewritten in place, except messages and entries: they get a new
number, so that every index that follows the order of writing notices them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

from mnemosyne.core.codec import decode, encode, format_time
from mnemosyne.privacy.scrub import (
    WORTH_SEEKING,
    Scrubber,
    erase_message,
    is_distinctive,
    subject_of,
    weight,
    without_refs,
)
from mnemosyne.schema.document import ModelUsage, SessionDocument, Summary, Task, ToolCall
from mnemosyne.schema.erasure import Erasure, ErasureOutcome
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceType, SourceKind
from mnemosyne.schema.memory import MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import Prefetch
from mnemosyne.schema.session import AuthorKind, Message
from mnemosyne.stores.sql.blobs import change_blob
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import bump
from mnemosyne.stores.sql.reading.entries import RECALLED_NO_MORE
from mnemosyne.stores.sql.reading.search import find_in_packs, find_remaining
from mnemosyne.stores.sql.schema import OF_A_SESSION
from mnemosyne.stores.sql.sessions import StoredSession, find_session, load_session
from mnemosyne.stores.sql.writing.entries import replace_entry
from mnemosyne.stores.sql.writing.messages import MESSAGE_COLUMNS

_PARTS: dict[str, tuple[type[Any], str]] = {
    "block": (ContextBlock, "blocks"),
    "task": (Task, "tasks"),
    "tool_call": (ToolCall, "tool_calls"),
    "model_usage": (ModelUsage, "model_usage"),
}


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
    """How to rewrite one session that stays.

    `derived` cleans what was made from the erased texts (receipts, prompts, summaries, …), `others` what others said or
    what belongs to the story: there a short text is not evidence of the erased one.
    """

    session: StoredSession
    derived: Scrubber
    others: Scrubber
    tally: _Tally
    user_id: str | None = None
    evidence_ids: frozenset[str] = frozenset()

    def is_theirs(self, message: Message) -> bool:
        return self.user_id is not None and _is_author(message, self.user_id)


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
    for part, (_, kind) in _PARTS.items():
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
            texts = _texts_written_by(connection, key, user_id)
            if texts is not None:
                tally.texts.update(dict.fromkeys(texts))
                task = _Task(
                    session=session,
                    derived=Scrubber(texts, (user_id,)),
                    others=Scrubber(texts, thorough=False),
                    tally=tally,
                    user_id=user_id,
                )
                _rewrite(connection, task)


def _texts_written_by(connection: Connection, key: int, user_id: str) -> list[str] | None:
    """Return the texts that a user wrote in a session, including pending turns; None if there is no message of the
    user.
    """
    said = [decode(body, Message) for (body,) in _rows(connection, "body FROM messages", key)]
    for (draft,) in _rows(connection, "draft FROM turns", key):
        said += decode(draft, tuple[Message, ...]) if draft is not None else ()
    theirs = [message.content for message in said if _is_author(message, user_id)]
    return [text for text in dict.fromkeys(theirs) if text.strip()] if theirs else None


def _is_author(message: Message, user_id: str) -> bool:
    author = message.author
    return author is not None and author.kind is AuthorKind.USER and author.id == user_id


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
    task = _Task(
        session=session,
        derived=Scrubber(texts, evidence_ids),
        others=Scrubber(texts, thorough=False),
        tally=tally,
        evidence_ids=evidence_ids,
    )
    _rewrite(connection, task)


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
        ("branch_states", ("branch_id",), "states", _tree(task.others)),
        ("snapshots", ("branch_id", "depth"), "states", _tree(task.others)),
        ("prefetches", ("branch_id",), "prefetches", _value(task.derived, Prefetch)),
        ("summaries", ("branch_id", "depth"), "summaries", _value(task.derived, Summary)),
        ("documents", (), "documents", _value(task.derived, SessionDocument)),
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


def _clean_message(task: _Task, message: Message) -> Message:
    if task.is_theirs(message):
        return erase_message(message)
    kept = without_refs(message.refs, task.evidence_ids)
    done = task.others.value(message)
    return done if kept is message.refs else replace(done, refs=kept)


def _messages(connection: Connection, task: _Task) -> None:
    columns = "seq, branch_id, depth, ord, turn_id, message_id, recalled, body"
    for seq, *place, recalled, body in _rows(connection, f"{columns} FROM messages", task.session.key):
        message = decode(body, Message)
        done = _clean_message(task, message)
        if done is message:
            continue
        task.tally.count("messages")
        if recalled:
            _mark_removed(task, place[-1])
        if recalled and task.is_theirs(message):
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
        done = task.derived.value(entry)
        if done is not entry:
            replace_entry(connection, done, seq, deleted=bool(deleted))
            task.tally.count("entries")
            _mark_removed(task, entry.entry_id)


def _turns(connection: Connection, task: _Task) -> None:
    derived, others = _tree(task.derived), _tree(task.others)
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
    done = tuple(_clean_message(task, message) for message in messages)
    return draft if all(new is old for new, old in zip(done, messages, strict=True)) else encode(done)


def _erase_blobs(connection: Connection, task: _Task) -> None:
    clean = _tree(task.derived)
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
        of_users = evidence.type is EvidenceType.USER_INPUT or evidence.source.kind is SourceKind.USER
        # What a turn recalled of a user's messages is a copy of them, however short they are.
        of_users = of_users or evidence.trust is Trust.USER
        scrubber = task.derived if of_users and task.user_id is not None else task.others
        done = scrubber.value(evidence)
        if done is not evidence:
            connection.execute(
                "UPDATE evidences SET body = ? WHERE session = ? AND evidence_id = ?",
                (encode(done), task.session.key, evidence_id),
            )
            task.tally.count("evidences")


def _parts(connection: Connection, task: _Task) -> None:
    key = task.session.key
    for part, part_id, body in _rows(connection, "kind, part_id, body FROM parts", key):
        what, kind = _PARTS[part]
        item = decode(body, what)
        done = task.derived.value(item)
        if isinstance(item, ContextBlock) and item.refs and not without_refs(item.refs, task.evidence_ids):
            connection.execute("DELETE FROM parts WHERE session = ? AND kind = ? AND part_id = ?", (key, part, part_id))
            task.tally.count(kind)
        elif done is not item:
            connection.execute(
                "UPDATE parts SET body = ? WHERE session = ? AND kind = ? AND part_id = ?",
                (encode(done), key, part, part_id),
            )
            task.tally.count(kind)
