"""Converts stores and documents of earlier releases to their present form. No other module knows an earlier form.

All other code reads and writes stores of exactly one revision (`mnemosyne.stores.sql.schema.REVISION`). To change the
stored form, raise that number by one and add one `Conversion` to CONVERSIONS, with a test that begins with a store of
the old form (`docs/decisions/0058-one-form.md`). BASELINE is the oldest revision that can be converted. Session
documents have had only one version since BASELINE, so nothing in them is converted yet.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from jacquard.config.sections import RuntimeConfig, drop_config_secrets
from jacquard.core.block_kinds import DIRECTIVE_SLOT, KINDS, BlockKind
from jacquard.core.blocks import FRAME
from jacquard.core.receipt import Action, BlockSpan
from jacquard.pipeline.record.prepared_turn import RECORD_VERSION, request_fingerprint
from jacquard.pipeline.weaving.assemble import PromptMessage
from jacquard.pipeline.weaving.pieces import CONTENT, point_at_pieces, split_messages
from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.core.codec import decode, encode, from_plain, to_plain
from mnemosyne.core.errors import CodecError, DamagedRecordError, MigrationError, StoreUnavailableError, UnreadableError
from mnemosyne.documents.archive import TREE
from mnemosyne.documents.session_json import document_faults, document_from_json
from mnemosyne.files import place_draft
from mnemosyne.schema.document import SCHEMA_VERSION, SessionDocument
from mnemosyne.schema.evidence import EvidenceType, SourceKind, is_memory
from mnemosyne.schema.memory import DOCUMENT, Chain
from mnemosyne.schema.session import Message
from mnemosyne.schema.world import BARE_DIGEST
from mnemosyne.stores.file.conversion import convert_folder
from mnemosyne.stores.file.lines import FORMAT
from mnemosyne.stores.locate import StoreLocation, locate_store
from mnemosyne.stores.maintenance.copies import seal_backup
from mnemosyne.stores.maintenance.digest import check_digest, has_digest
from mnemosyne.stores.maintenance.rows import OpenRows, converting, find_revision
from mnemosyne.stores.sql import blobs
from mnemosyne.stores.sql.reading.archives import delete_session_rows, pack_rows, read_archived_rows, read_session_rows
from mnemosyne.stores.sql.schema import (
    COLUMNS,
    MARK_STATEMENT,
    OF_A_SESSION,
    REVISION,
    UNFINISHED_REPLIES,
    WORDS,
    check_revision,
)
from mnemosyne.stores.sqlite.file import SqliteConnection
from mnemosyne.values import dataclass

BASELINE = 8
"""Oldest revision that can be converted: that of November 2026, before the first release."""

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Migration:
    """Result of a conversion."""

    shown: str
    """Address of the store, without credentials."""
    before: int
    """Revision before the conversion."""
    after: int
    """Revision after the conversion."""
    changes: tuple[str, ...] = ()
    """Each change with its count."""
    left: tuple[str, ...] = ()
    """Items that could not be read and were left unchanged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSession:
    """All rows of one session, by table, in the form of the tables or of an archive; a conversion changes them in place."""

    key: int
    session_id: str
    world_digest: str
    rows: Mapping[str, list[Row]]

    def read(self, table: str, row: Row, column: str) -> Any:
        """Return the JSON value in the body (`column`) of a row. Return None if there is no value, or if the body is
        damaged; a damaged body stays unchanged.
        """
        try:
            return None if row[column] is None else decode(self._open(table, row, column), Any)
        except UnreadableError:
            return None

    def write(self, table: str, row: Row, column: str, value: Any) -> None:
        """Replace the body (`column`) of a row by the JSON value `value`."""
        self._close(table, row, column, encode(value))

    def place(self, table: str, row: Row, **columns: Any) -> None:
        """Change the columns of a row that name the place of its bodies, and renew the checksums of the bodies. The
        checksum of a damaged body stays unchanged.
        """
        bodies: dict[str, bytes] = {}
        for column in _BODIES[table]:
            if row[column] is not None:
                try:
                    bodies[column] = self._open(table, row, column)
                except UnreadableError:
                    continue
        row.update(columns)
        for column, body in bodies.items():
            self._close(table, row, column, body)

    def _open(self, table: str, row: Row, column: str) -> bytes:
        return blobs.unseal(blobs.unpack_blob(row[column]), self._place(table, row, column))

    def _close(self, table: str, row: Row, column: str, body: bytes) -> None:
        sealed = blobs.seal(body, self._place(table, row, column))
        row[column] = blobs.pack_blob(sealed) if table == "papers" else sealed

    def _place(self, table: str, row: Row, column: str) -> str:
        if table == "papers":
            turn_id = next(turn["turn_id"] for turn in self.rows["turns"] if turn["number"] == row["turn"])
            return blobs.blob_place(column, self.key, turn_id)
        if table == "messages":
            return blobs.message_place(self.key, row["turn_id"], row["ord"], row["branch_id"], row["depth"])
        if table == "entries":
            flags = row["restricted"], row["deleted"]
            return blobs.entry_place(row["entry_id"], row["scope"], row["chain"], *flags)
        return blobs.place_of_row(table, column, self.key, [row[name] for name in blobs.PLACED_BY[table]])


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversion:
    """One change of form. Both steps run again if a migration was stopped."""

    to: int
    """Revision that the conversion makes."""
    does: str
    """Description for people."""
    tables: Callable[[OpenRows], None] | None = None
    """Changes the tables."""
    session: Callable[[StoredSession], int] | None = None
    """Changes the rows of one session, archived ones too, when the tables have their present form; returns the number of
    changes.
    """


def migrate_store(address: str, tenants: Sequence[str] = ()) -> Migration:
    """Convert a store to the present revision in one transaction. The call blocks. A store of the present revision is
    not changed.

    Raises StoreUnavailableError if the store cannot be used, is newer, or is older than BASELINE.
    """
    location = locate_store(f"sqlite:///{address}" if os.path.isfile(address) else address)  # noqa: PTH113 (an address may be no path at all)
    if location.kind == "file" and location.database is not None:
        return _convert_folder(location, location.database, tenants)
    before = find_revision(location)
    if before == REVISION:
        return Migration(shown=location.shown, before=before, after=before)
    if before == 0:
        raise StoreUnavailableError(location.shown, "there is no store in it; start a session there first")
    if before > REVISION:
        check_revision(before, location.shown, address)
    if before < BASELINE:
        raise StoreUnavailableError(
            location.shown, f"it is of revision {before}, and the oldest that can be converted is revision {BASELINE}"
        )
    if location.database is not None and has_digest(location.database):
        return _convert_backup(location, location.database)
    return _convert(location)


def migrate_document(data: Any) -> SessionDocument:
    """Return a session document in the present version.

    Raises MigrationError if the document has a version that cannot be converted. Raises SchemaValidationError, with
    every fault, if the document is not valid.
    """
    version = data.get("schema_version", SCHEMA_VERSION) if isinstance(data, Mapping) else SCHEMA_VERSION
    faults = [str(fault) for fault in document_faults(data) if fault.code == "version"]
    if faults:
        raise MigrationError(str(version), SCHEMA_VERSION, "there is no conversion from it", tuple(faults))
    if (
        isinstance(data, Mapping)
        and isinstance(tree := data.get(TREE), Mapping)
        and isinstance(tree.get("turns"), list)
    ):
        data = {**data, TREE: {**tree, "turns": [_convert_turn(turn) for turn in tree["turns"]]}}
    return document_from_json(data)


def _convert_turn(turn: Any) -> Any:
    """Return a turn of a document in the present form; one that cannot be read stays unchanged, and the import reports it."""
    with suppress(CodecError, LookupError, TypeError, AttributeError):
        if "package" in turn["prompt"] and turn["prompt"].get("tape"):
            turn = deepcopy(turn)
            receipt = turn.get("receipt") or {}
            _name_kinds(turn["prompt"]["tape"], receipt)
            return {**turn, "prompt": _shorten_prompt(turn["prompt"], receipt)}
    return turn


def _convert(location: StoreLocation) -> Migration:
    with converting(location) as rows:
        (before,) = rows.connection.execute("SELECT max(revision) FROM store_revision").fetchone()
        wanted = [each for each in CONVERSIONS if each.to > before]
        for each in wanted:
            if each.tables is not None:
                each.tables(rows)
        counts, left = convert_sessions(rows, wanted)
        rows.connection.execute("UPDATE store_revision SET revision = ?", (REVISION,))
    changes = (f"{each.does}: {counts[each.does]}" if each.session else each.does for each in wanted)
    return Migration(shown=location.shown, before=before, after=REVISION, changes=tuple(changes), left=tuple(left))


def _convert_folder(location: StoreLocation, folder: Path, tenants: Sequence[str]) -> Migration:
    """Convert the journals of a file store; `tenants` as for `convert_folder`."""
    counts: dict[str, int] = {}

    def change(connection: SqliteConnection) -> None:
        rows = OpenRows(connection=connection, dialect="sqlite", shown=location.shown)
        counts.update(convert_sessions(rows, CONVERSIONS)[0])

    done = convert_folder(folder, tenants, change)
    changes = tuple(f"{does}: {number}" for does, number in counts.items())
    return Migration(shown=location.shown, before=done.before, after=FORMAT, changes=changes, left=done.left)


def _convert_backup(location: StoreLocation, file: Path) -> Migration:
    """Convert a copy of a SQL store's backup, with a new digest, and replace the backup by it."""
    check_digest(file)
    draft = file.with_name(f"{file.name}.partial")
    try:
        shutil.copyfile(file, draft)
        draft.chmod(file.stat().st_mode)
        done = _convert(StoreLocation(kind="sqlite", shown=location.shown, database=draft))
        seal_backup(draft)
        place_draft(draft, file)
    finally:
        draft.unlink(missing_ok=True)
    return done


def convert_sessions(rows: OpenRows, wanted: Sequence[Conversion]) -> tuple[dict[str, int], list[str]]:
    """Apply conversions to the sessions of a store whose tables have their present form.

    Return (counts, skipped): description of a conversion -> number of changes, and the archives that could not be read
    and were left unchanged.
    """
    counts, left = {each.does: 0 for each in wanted}, []
    steps = [(each.does, each.session) for each in wanted if each.session is not None]
    found = rows.connection.execute(
        "SELECT s.key, s.session_id, s.tenant, s.active_branch, w.digest FROM sessions AS s LEFT JOIN worlds AS w "
        "ON w.tenant = s.tenant AND w.world_id = s.world_id ORDER BY s.key"
    ).fetchall()
    connection: Any = rows.connection
    for key, session_id, connection.tenant, branch, digest in found if steps else ():
        try:
            kept = _read_rows(rows, key, session_id, is_archived=not branch)
        except DamagedRecordError as error:
            left.append(str(error))
            continue
        session = StoredSession(key=key, session_id=session_id, world_digest=digest or BARE_DIGEST, rows=kept)
        done = {name: change(session) for name, change in steps}
        if any(done.values()):
            _write_rows(rows, session, is_archived=not branch)
        counts = {name: number + done.get(name, 0) for name, number in counts.items()}
    return counts, left


def _read_rows(rows: OpenRows, key: int, session_id: str, *, is_archived: bool) -> dict[str, list[Row]]:
    kept: dict[str, list[Row]] = {table: [] for table in _BODIES}
    if is_archived:
        for table, row in read_archived_rows(rows.connection, key, session_id):
            kept[table].append(row)
    else:
        for table, cells in read_session_rows(rows.connection, key, session_id):
            kept[table].append(dict(zip(COLUMNS[table], cells, strict=True)))
    return kept


def _write_rows(rows: OpenRows, session: StoredSession, *, is_archived: bool) -> None:
    connection, key = rows.connection, session.key
    cells = (
        (table, tuple(row.get(column) for column in COLUMNS[table]))
        for table, kept in session.rows.items()
        for row in kept
    )
    if not is_archived:
        delete_session_rows(connection, key, session.session_id)
        for table, group in groupby(cells, key=lambda each: each[0]):
            connection.insert(table, ", ".join(COLUMNS[table]), [row for _, row in group])
        return
    connection.execute("DELETE FROM archive_parts WHERE session = ?", (key,))
    raw, packed = 0, 0
    for part, (body, _, size) in enumerate(pack_rows(session.session_id, key, cells)):
        connection.insert("archive_parts", "session, part, body", [(key, part, body)])
        raw, packed = raw + size, packed + len(body)
    connection.execute("UPDATE archives SET raw_bytes = ?, packed_bytes = ? WHERE session = ?", (raw, packed, key))


_BODIES: Mapping[str, tuple[str, ...]] = {
    **{each.table: tuple(each.bodies) for each in OF_A_SESSION},
    "papers": ("receipt", "prompt", "report"),
    "entries": ("body",),
}
"""Columns with JSON, by table of a session."""


# The conversions, oldest first.


def drop_alembic(rows: OpenRows) -> None:
    """Make `store_revision` the only place that states the revision of a store."""
    rows.connection.execute("DROP TABLE alembic_version")
    rows.connection.execute(MARK_STATEMENT if rows.dialect == "postgresql" else "PRAGMA user_version = 0")


def hold_chunks(rows: OpenRows) -> None:
    """Create the tables for replies that arrive in chunks. Earlier revisions held such replies in memory."""
    for statement in UNFINISHED_REPLIES:
        rows.connection.execute(statement.format_map(WORDS[rows.dialect]))


def renew_fingerprints(session: StoredSession) -> int:
    """Renew the fingerprints of turns that wait for their reply, so that the same request is answered from the record.

    If a fingerprint depended on more than the record (a world that has changed since, facts about a user), it stays
    unchanged, and a repeated request is prepared again.
    """
    number = 0
    prompts = {row["turn"]: row for row in session.rows["papers"]}
    for turn in session.rows["turns"]:
        draft = session.read("turns", turn, "draft")
        prompt = session.read("papers", prompts[turn["number"]], "prompt") if turn["number"] in prompts else None
        if turn["status"] != "prepared" or not draft or not prompt or not prompt.get("tape"):
            continue
        text, plain = draft[0].get("content", ""), prompt["tape"].get("config") or {}
        try:
            config = from_plain(plain, RuntimeConfig)
        except CodecError:
            continue
        if turn["fingerprint"] == _fingerprint_of_revision_8(text, config, session.world_digest):
            session.place("turns", turn, fingerprint=request_fingerprint(text, config, session.world_digest))
            number += 1
    return number


def mark_memories(session: StoredSession) -> int:
    """Mark recalled evidence whose row has no mark, because revisions before 6 did not write it."""
    number = 0
    for row in session.rows["evidences"]:
        body = session.read("evidences", row, "body") if row["is_memory"] is None else None
        if body and is_memory(body["source"]["uri"]):
            row["is_memory"] = 1
            number += 1
    return number


def renew_exchanges(session: StoredSession) -> int:
    """Renew the digests that identify unnamed conversations, because a long user message now has a digest of its own."""
    number = 0
    rows_of = itemgetter("branch_id", "turn_id", "ord")
    turns = groupby(sorted(session.rows["messages"], key=rows_of), key=lambda row: rows_of(row)[:2])
    for rows in [list(group) for _, group in turns]:
        bodies = [session.read("messages", row, "body") for row in rows]
        if None in bodies:
            continue
        digests = dict(exchange_digests([from_plain(body, Message) for body in bodies]))
        for place, row in enumerate(rows):
            number += row["exchange"] != digests.get(place)
            row["exchange"] = digests.get(place)
    return number


def shorten_prompts(session: StoredSession) -> int:
    """Store each text of a prompt once."""
    number = 0
    for row in session.rows["papers"]:
        prompt = session.read("papers", row, "prompt")
        if prompt and "package" in prompt and prompt.get("tape"):
            receipt = session.read("papers", row, "receipt") or {}
            if _name_kinds(prompt["tape"], receipt):
                session.write("papers", row, "receipt", receipt)
            session.write("papers", row, "prompt", _shorten_prompt(prompt, receipt))
            number += 1
    return number


def _name_kinds(tape: dict[str, Any], receipt: dict[str, Any]) -> bool:
    """Give each block, decision and span a kind, and return whether they had none.

    The ids of all kinds of blocks shared one namespace then. Blocks that were dropped for it leave the record, because they are
    not duplicates any more.
    """
    if all("kind" in each for each in tape["blocks"]):
        return False
    decisions = receipt.get("decisions") or []
    gone = {(each["block_id"], each["source"]) for each in decisions if each["code"] == "duplicate"}
    for name in ("blocks", "history"):
        tape[name] = [each for each in tape[name] if (each["block_id"], each["source"]) not in gone]
    kinds = {}
    for each in (*tape["blocks"], *tape["history"], tape["user_input"], *tape.get("carried", ())):
        each["kind"] = kinds[each["block_id"]] = _kind_of(each)
    receipt["decisions"] = [each for each in decisions if each["code"] != "duplicate"]
    for each in (*receipt["decisions"], *(receipt.get("spans") or ())):
        each["kind"] = kinds.get(each["block_id"], "")
    return True


def _kind_of(block: Mapping[str, Any]) -> BlockKind:
    slot, source = block["slot"], block["source"]
    if slot == DIRECTIVE_SLOT:
        return BlockKind.DIRECTIVE
    kinds = [kind for kind, each in KINDS.items() if each.slot in (None, slot) and source.startswith(each.source)]
    return BlockKind.MEMORY if kinds[0] is BlockKind.RATIONALE and block.get("refs") else kinds[0]


def _shorten_prompt(prompt: dict[str, Any], receipt: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded prompt whose texts are pieces of its messages. Package, context blocks and XML text follow from the
    snapshot; what only the package says of recalled passages of documents becomes a memory of the prompt.
    """
    messages = tuple(map(PromptMessage.from_plain, prompt["messages"]))
    spans = from_plain(receipt.get("spans") or _whole_spans(messages), tuple[BlockSpan, ...])
    pieces, places = split_messages(messages, spans)
    tape = dict(prompt["tape"])
    blocks = [*tape["blocks"], *tape["history"], tape["user_input"]]
    known, texts = {each["block_id"]: each for each in blocks}, "\0".join(each.content for each in messages)
    changed = {each["block_id"]: each for each in tape.get("carried", ())}
    for decision in receipt.get("decisions") or ():
        name = decision["block_id"]
        if decision["action"] == Action.DEGRADED and name in known and name not in changed and name in places:
            text = pieces[places[name][0]][CONTENT][places[name][1]]
            changed[name] = {**known[name], CONTENT: text, "tokens": decision["tokens"], "shortened": True}
    tape["carried"] = list(changed.values())
    tape["dropped"] = [name for name, each in known.items() if name not in changed and each[CONTENT] not in texts]
    point_at_pieces(blocks, pieces, places)
    passages = map(_passage_of, filter(_is_passage, prompt["package"].get("evidence", ())))
    gone = {"package", "evidences", "context_blocks", *(() if tape.get("assembler") else ("text",))}
    return {
        **{name: value for name, value in prompt.items() if name not in gone},
        "messages": pieces,
        "memories": [*prompt["evidences"], *passages],
        "tape": tape,
        "record_version": RECORD_VERSION,
    }


def _whole_spans(messages: Sequence[PromptMessage]) -> list[dict[str, Any]]:
    return [
        {"block_id": FRAME, "message": place, "start": 0, "end": len(message.content), "tokens": 0, "kind": ""}
        for place, message in enumerate(messages)
    ]


def _is_passage(item: Mapping[str, Any]) -> bool:
    return "section_id" in item["ref"] and is_memory(item["source_uri"])


def _passage_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item of a package as the memory that it shows."""
    ref = item["ref"]
    return {
        "evidence_id": item["id"],
        "type": EvidenceType.RAG_DOC,
        "source": {"kind": SourceKind.RAG, "name": Chain.LORE, "uri": item["source_uri"]},
        "content": item["snippet"],
        "metadata": {"title": item.get("title", ""), "kind": DOCUMENT, **ref},
        "links": {"turn_id": ref.get("turn_id")},
    }


_FORMER_DEFAULTS = {
    "layout": "classic",
    "curation.select_limit": 5,
    "curation.fallback_limit": 3,
    "history.max_messages": 60,
    "history.max_tokens": 3000,
    "history.low_water": 0.5,
    "summary.max_summary_tokens": 512,
}
_LEFT_OUT = """profile locale limits memory snapshots token_estimator activation world_info untagged_updates budget.state_share
    planner.name selector.name selector.rationale layers.agent redaction.redactor history.shown_turns curation.dates
    curation.flesh_tokens curation.relevance_floor curation.relevance_floor_past evidence.relevance_floor"""
_NO_PART = ("consolidation", "observability", "chunks", "locks", "snapshots", "tags")


def _fingerprint_of_revision_8(text: str, config: RuntimeConfig, world_digest: str) -> str:
    """Return the fingerprint of a request in the form of revision 8.

    It has all settings, except some at their default, and some with an earlier default.
    """
    default = to_plain(RuntimeConfig())
    plain = to_plain(drop_config_secrets(config)) | {name: deepcopy(default[name]) for name in _NO_PART}
    for path in (*_LEFT_OUT.split(), *_FORMER_DEFAULTS):
        *sections, name = path.split(".")
        holder, kept = (plain[sections[0]], default[sections[0]]) if sections else (plain, default)
        if holder[name] == kept[name]:
            if path in _FORMER_DEFAULTS:
                holder[name] = _FORMER_DEFAULTS[path]
            else:
                del holder[name]
    return hashlib.sha256(encode([1, text, plain, world_digest])).hexdigest()


CONVERSIONS: tuple[Conversion, ...] = (
    Conversion(
        to=9,
        does="turns that wait have a fingerprint of their settings as they are",
        tables=drop_alembic,
        session=renew_fingerprints,
    ),
    Conversion(to=9, does="recalled evidence is marked as such", session=mark_memories),
    Conversion(to=9, does="prompts hold each text once", session=shorten_prompts),
    Conversion(to=9, does="messages are found again whose reply was edited", session=renew_exchanges),
    Conversion(to=10, does="chunks of replies have tables", tables=hold_chunks),
)
"""The conversions, oldest first."""
