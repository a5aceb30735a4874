"""Converts the folder of a file store that an earlier release wrote (formats 1 and 2) to the current format.

A journal is a file with the writes of one session or one world. Each line of an old journal is a list of `[table, key,
row]`. All journals are read, written as rows of the SQL tables, and then replaced in one step. So if the conversion is
interrupted, the whole folder has either the old or the current format.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import field
from pathlib import Path
from shutil import rmtree
from typing import Any

from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.core.codec import JsonText, decode, encode, encode_tree, format_time, parse_time
from mnemosyne.core.errors import CodecError, StoreUnavailableError
from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import PathSummary, Prefetch
from mnemosyne.schema.session import Message
from mnemosyne.stores.file.folder import SUFFIX, Folder, file_name
from mnemosyne.stores.file.journals import Journals
from mnemosyne.stores.file.lines import FORMAT
from mnemosyne.stores.file.rows import AUDITS, Owner
from mnemosyne.stores.sql import blobs
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.parts import Kind, refill_evidences, refill_parts
from mnemosyne.stores.sql.reading.turns import rebuild_state
from mnemosyne.stores.sql.sessions import load_session
from mnemosyne.stores.sql.writing.entries import replace_entry
from mnemosyne.stores.sql.writing.turns import put_summary
from mnemosyne.stores.sqlite.file import SqliteConnection, open_memory
from mnemosyne.values import dataclass

_SUM = re.compile(rb',"sum":([0-9]{1,10})\}\n\Z')
_ESCAPED = b'{"$escaped":'
_EMPTY = (b"{}", b"[]", b"null")
_PARTS: Mapping[Kind, tuple[Any, Callable[[Any], str]]] = {
    "block": (ContextBlock, lambda each: each.block_id),
    "task": (Task, lambda each: each.task_id),
    "tool_call": (ToolCall, lambda each: each.tool_call_id),
    "model_usage": (ModelUsage, lambda each: each.model_usage_id),
}

_Rows = dict[str, dict[str, bytes]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvertedFolder:
    """Result of a conversion: the former format (`before`), the number of sessions, and a sentence for each line that could
    not be read (`left`).
    """

    before: int
    sessions: int
    left: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Sign:
    format: int


@dataclass(frozen=True, kw_only=True, slots=True)
class _Header:
    format: int
    scope: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    n: int
    rows: tuple[tuple[str, str, JsonText], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _AuditLine:
    audit: AuditRecord


@dataclass(kw_only=True, slots=True)
class _FolderContents:
    """Rows that were read from a folder."""

    journals: list[tuple[Owner, _Rows]] = field(default_factory=list)
    audits: list[tuple[str, AuditRecord]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def convert_folder(
    root: Path, tenants: Sequence[str] = (), change: Callable[[SqliteConnection], None] | None = None
) -> ConvertedFolder:
    """Convert the folder of a file store to the current format. This blocks. A folder in the current format is not changed.

    The names of the subfolders contain only a readable part and a hash of each tenant's name. So tenants whose names have other
    characters than a-z, 0-9 and single hyphens must be listed in `tenants`. If `change` is given, it may alter the rows before
    they are written.

    Raises StoreUnavailableError if the folder contains no store, or the name of one of its tenants is not known.
    """
    sign = root / "store.json"
    if not sign.is_file():
        raise StoreUnavailableError(str(root), "there is no store in it; start a session there first")
    before = decode(sign.read_bytes(), _Sign).format
    if before >= FORMAT:
        return ConvertedFolder(before=before, sessions=0)
    folder = Folder(root, "", create=False, durable=True, busy_seconds=60.0)
    with folder.hold_lock():
        found = _read_folder(root, tenants)
        with closing(open_memory()) as driver:
            connection = SqliteConnection(driver, "", shown=str(root))
            for owner, rows in found.journals:
                connection.tenant = owner.tenant
                _write_world(connection, owner, rows) if owner.scope.startswith("world:") else _write_session(
                    connection, rows
                )
            for tenant, audit in found.audits:
                _write_audit(connection, tenant, audit)
            if change is not None:
                change(connection)
            audited = dict.fromkeys(Owner(tenant=tenant, scope=AUDITS) for tenant, _ in found.audits)
            Journals(folder, connection, compact_bytes=0).write_all([owner for owner, _ in found.journals] + [*audited])
        folder.remove_cache()
    for each in root.iterdir():
        if each.name.startswith(".index"):
            rmtree(each)  # its rows have the numbers of the earlier journals; the next turn makes it again
    sessions = sum(owner.scope.startswith("session:") for owner, _ in found.journals)
    return ConvertedFolder(before=before, sessions=sessions, left=tuple(found.left))


def _read_folder(root: Path, tenants: Sequence[str]) -> _FolderContents:
    found = _FolderContents()
    for home in sorted(each for each in root.iterdir() if each.is_dir() and not each.name.startswith(".")):
        tenant = _name_tenant(home, ("default", *tenants))
        for path in sorted(home.rglob(f"*{SUFFIX}")):
            lines = path.read_bytes().splitlines(keepends=True)
            if path.parent == home:
                for number, line in enumerate(lines, start=1):
                    if (audit := _read(line, "audits", _AuditLine, path, number, found)) is not None:
                        found.audits.append((tenant, audit.audit))
                continue
            header = decode(lines[0], _Header)
            rows: _Rows = {}
            read = [
                _read(line, header.scope, _Line, path, number, found) for number, line in enumerate(lines[1:], start=2)
            ]
            for each in sorted((line for line in read if line is not None), key=lambda line: line.n):
                for table, key, body in each.rows:
                    kept, data = rows.setdefault(table, {}), bytes(body)
                    if data == b"null":
                        kept.pop(key, None)
                    else:
                        kept[key] = data
            found.journals.append((Owner(tenant=tenant, scope=header.scope), rows))
    return found


def _name_tenant(home: Path, names: Sequence[str]) -> str:
    readable = home.name.rpartition("-")[0]
    for name in (readable, *names):
        if file_name(name) == home.name:
            return name
    raise StoreUnavailableError(str(home), "it is not known to which tenant it belongs; name that with --tenant")


def _read(line: bytes, scope: str, kind: type[Any], path: Path, number: int, found: _FolderContents) -> Any:
    """Return a line, or None for one that is damaged or was never finished."""
    if not line.endswith(b"\n"):
        return None
    try:
        if (sealed := _SUM.search(line)) is not None:
            line = line[: sealed.start()] + b"}"
            if zlib.crc32(line, zlib.crc32(scope.encode("utf-8", "surrogatepass"))) != int(sealed[1]):
                raise CodecError("its checksum does not fit")
        return decode(line, kind)
    except CodecError as error:
        found.left.append(f"Line {number} of {path} was left out: {error}.")
        return None


def _json(body: bytes) -> bytes:
    """Return the JSON of a body, which is text in an object if other JSON could not contain it."""
    return str(decode(body, dict)["$escaped"]).encode() if body.startswith(_ESCAPED) else body


def _write_world(connection: Connection, owner: Owner, rows: _Rows) -> None:
    world_id = owner.scope.partition(":")[2]
    here = (connection.tenant, world_id)
    for digest in map(_text, rows.get("world", {}).values()):
        connection.insert("worlds", "tenant, world_id, digest", [(*here, digest)])
    for digest, body in rows.get("pack", {}).items():
        packed = blobs.pack_blob(blobs.seal(_json(body), blobs.pack_place(world_id, digest)))
        connection.insert("packs", "tenant, world_id, digest, body", [(*here, digest, packed)])
    _write_entries(connection, rows)


def _text(body: bytes) -> str:
    return decode(_json(body), str)


def _write_entries(connection: Connection, rows: _Rows) -> None:
    entries = [decode(body, dict[str, JsonText]) for body in rows.get("entry", {}).values()]
    for row in sorted(entries, key=lambda each: int(bytes(each["sequence"]))):
        entry = decode(_json(bytes(row["body"])), MemoryEntry)
        replace_entry(connection, entry, None, deleted=bytes(row["deleted"]) == b"true")


def _write_session(connection: Connection, rows: _Rows) -> None:
    for body in rows.get("session", {}).values():
        row = decode(body, dict)
        at = row.get("created_at")
        frame = rows.get("document", {}).get("frame")
        meta = None if frame is None else decode(_json(frame), SessionDocument).meta
        connection.insert(
            "sessions",
            "tenant, session_id, world_id, locale, active_branch, version, created_at, user_id",
            [
                (
                    connection.tenant,
                    *(row[name] for name in ("session_id", "world_id", "locale", "active_branch", "version")),
                    None if at is None else format_time(parse_time(at)),
                    None if meta is None or meta.actor is None else meta.actor.user_id or None,
                )
            ],
        )
        session = load_session(connection, row["session_id"])
        if frame is not None:
            sealed = blobs.seal(_json(frame), blobs.frame_place(session.key))
            connection.insert("documents", "session, frame", [(session.key, sealed)])
        turns = {turn_id: decode(each, dict[str, JsonText]) for turn_id, each in rows.get("turn", {}).items()}
        places = {
            turn_id: (decode(bytes(each["branch_id"]), str), decode(bytes(each["depth"]), int))
            for turn_id, each in turns.items()
        }
        _write_turns(connection, session.key, turns, rows)
        _write_messages(connection, session.key, places, rows)
        _write_branches(connection, session.session_id, rows)
        for turn_id, summary in rows.get("summary", {}).items():
            found = None if _json(summary) in _EMPTY else decode(_json(summary), PathSummary).summary
            if turn_id in places:
                put_summary(connection, session.key, (*places[turn_id], turn_id), found)
        for late in rows.get("late", {}).values():
            prefetch = decode(_json(late), Prefetch)
            sealed = blobs.seal(_json(late), blobs.prefetch_place(session.key, prefetch.branch_id))
            cells = (session.key, prefetch.branch_id, prefetch.depth, sealed)
            connection.insert("prefetches", "session, branch_id, depth, body", [cells])
        _write_found(connection, session.key, rows)
        _write_entries(connection, rows)


def _write_turns(connection: Connection, key: int, turns: Mapping[str, Mapping[str, JsonText]], rows: _Rows) -> None:
    for turn_id, row in turns.items():
        words = {name: decode(bytes(cell), object) for name, cell in row.items() if name != "ops"}
        at = words.get("created_at")
        names = (
            turn_id,
            *(words[name] for name in ("branch_id", "depth", "parent_id", "kind", "status", "fingerprint")),
            None if at is None else format_time(parse_time(str(at))),
        )
        bodies = {name: rows.get(name, {}).get(turn_id) for name in ("anchors", "draft", "plan")}
        bodies["ops"] = bytes(row["ops"])
        sealed = [
            None
            if body is None or _json(body) == b"[]"
            else blobs.seal(_json(body), blobs.turn_place(name, key, names))
            for name, body in ((name, bodies[name]) for name in ("anchors", "ops", "draft", "plan"))
        ]
        (number,) = connection.execute(
            "INSERT INTO turns (session, turn_id, branch_id, depth, parent_id, kind, status, fingerprint, created_at, "
            f"anchors, ops, draft, plan, origin_id) VALUES ({', '.join('?' * 14)}) RETURNING number",
            (key, *names, *sealed, words.get("origin_id")),
        ).fetchone()
        papers = [
            None if body is None else blobs.pack_blob(blobs.seal(_json(body), blobs.blob_place(column, key, turn_id)))
            for column, body in ((name, rows.get(name, {}).get(turn_id)) for name in ("receipt", "prompt", "report"))
        ]
        if any(papers):
            connection.insert("papers", "turn, receipt, prompt, report", [(number, *papers)])


def _write_messages(connection: Connection, key: int, places: Mapping[str, tuple[str, int]], rows: _Rows) -> None:
    read = [(name, decode(body, dict[str, JsonText])) for name, body in rows.get("message", {}).items()]
    stored = sorted(((name, _message_cells(row)) for name, row in read), key=lambda each: each[1][0])
    spoken: dict[str, list[Message]] = {}
    for _, (_, turn_id, _, _, body) in stored:
        spoken.setdefault(turn_id, []).append(decode(body, Message))
    exchanges = {turn_id: dict(exchange_digests(messages)) for turn_id, messages in spoken.items()}
    for name, (_, turn_id, place, recalled, body) in stored:
        if turn_id not in places:
            continue
        branch_id, depth = places[turn_id]
        sealed = blobs.seal(body, blobs.message_place(key, turn_id, place, branch_id, depth))
        connection.insert(
            "messages",
            "session, branch_id, depth, ord, turn_id, message_id, recalled, body, exchange",
            [(key, branch_id, depth, place, turn_id, name, recalled, sealed, exchanges[turn_id].get(place))],
        )


def _message_cells(row: Mapping[str, JsonText]) -> tuple[int, str, int, int, bytes]:
    number, place, recalled = (decode(bytes(row[name]), int) for name in ("sequence", "place", "recalled"))
    return number, decode(bytes(row["turn_id"]), str), place, recalled, _json(bytes(row["body"]))


def _write_branches(connection: Connection, session_id: str, rows: _Rows) -> None:
    session = load_session(connection, session_id)
    for body in rows.get("snapshot", {}).values():
        snapshot = decode(body, dict[str, JsonText])
        branch_id, depth = decode(bytes(snapshot["branch_id"]), str), decode(bytes(snapshot["depth"]), int)
        sealed = blobs.seal(_json(bytes(snapshot["state"])), blobs.snapshot_place(session.key, branch_id, depth))
        connection.insert("snapshots", "session, branch_id, depth, state", [(session.key, branch_id, depth, sealed)])
    branches: dict[str, dict[str, Any]] = {name: decode(body, dict) for name, body in rows.get("branch", {}).items()}
    for name, branch in branches.items():
        numbers = [branch.get(column, 0) for column in ("fork_depth", "head_depth", "changes")]
        connection.insert(
            "branches",
            "session, branch_id, ordinal, parent_branch, head_turn, fork_depth, head_depth, changes",
            [(session.key, name, branch["ordinal"], branch.get("parent"), branch.get("head_turn"), *numbers)],
        )
    for name, branch in branches.items():
        state = encode_tree(rebuild_state(connection, session, branch.get("head_turn"))[0])
        sealed = blobs.seal(state, blobs.state_place(session.key, name))
        connection.insert("branch_states", "session, branch_id, state", [(session.key, name, sealed)])


def _write_found(connection: Connection, key: int, rows: _Rows) -> None:
    stored = [decode(body, dict[str, JsonText]) for body in rows.get("evidence", {}).values()]
    stored.sort(key=lambda row: decode(bytes(row["place"]), int))
    items = [decode(_json(bytes(row["body"])), Evidence) for row in stored]
    refill_evidences(connection, key, items)
    for row, item in zip(stored, items, strict=True):
        at = decode(bytes(row.get("written_at", JsonText(b"null"))), object)
        if item.created_at is None and at is not None:
            written_us = round(parse_time(str(at)).timestamp() * 1_000_000)
            connection.post(
                "UPDATE evidences SET created_us = ? WHERE session = ? AND evidence_id = ?",
                (written_us, key, item.evidence_id),
            )
    for kind, (type_of, name_of) in _PARTS.items():
        parts = [decode(_json(body), type_of) for body in rows.get(kind, {}).values()]
        refill_parts(connection, key, kind, parts, name_of)


def _write_audit(connection: Connection, tenant: str, audit: AuditRecord) -> None:
    connection.insert(
        "audits",
        "tenant, audit_id, erased_at, kind, subject_hash, reason, counts",
        [
            (
                *(tenant, audit.audit_id, format_time(audit.at), audit.kind, audit.subject_hash, audit.reason),
                encode(audit.counts),
            )
        ],
    )
