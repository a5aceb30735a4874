"""Reads the normalised corpus (`corpus.jsonl`) and converts it to sessions. A corpus has one document per line.

Labelled data sets and a host's own exports are imported in this format. A line has `id`, `chain` (the kind of memory that
the document becomes) and `text`, and optionally `session`, `turn`, `at`, `speaker`, `role` and `meta`. This module does
not depend on stores or indexes, and must not import another importer.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import ImportedTurn, SessionStart
from mnemosyne.schema.session import Author, AuthorKind, Message, Role
from mnemosyne.values import dataclass

CORPUS_FILE = "corpus.jsonl"
MAX_LINE_BYTES = 4_000_000
MAIN_BRANCH = "main"

_FIELDS = ("id", "chain", "session", "turn", "at", "speaker", "role", "text", "meta")
_CHAINS = {chain.value: chain for chain in (Chain.NARRATIVE, Chain.EVENT, Chain.LORE, Chain.HISTORY)}
_ROLES = (Role.USER.value, Role.ASSISTANT.value)
_USER_NAMES = frozenset({"user", "human", "player", "用户", "玩家"})
_ASSISTANT_NAMES = frozenset({"assistant", "agent", "ai", "bot", "model", "narrator", "助手", "旁白"})
_KINDS = {Chain.NARRATIVE: "macro", Chain.EVENT: "fact", Chain.LORE: "encyclopedia"}


@dataclass(frozen=True, kw_only=True, slots=True)
class CorpusDocument:
    """One line of a corpus. `line` counts from 1. `at` has a time zone. `metadata` has `meta` and the unknown fields.

    `role` is the role that a history line states for its speaker (user or assistant), or None if it states none.
    """

    document_id: str
    chain: Chain
    text: str
    line: int
    session: str | None = None
    turn: int | None = None
    at: datetime | None = None
    speaker: str | None = None
    role: Role | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """All documents of a corpus in the order of the file. `sessions` are the names of its sessions, in order of first
    appearance.
    """

    path: str
    documents: tuple[CorpusDocument, ...]
    sessions: tuple[str, ...]

    def entries_for(self, session: str | None) -> tuple[CorpusDocument, ...]:
        """Return the documents of `session` and the documents without a session, in file order.

        If `session` is None, return only the documents without a session. Raises CorpusError if the corpus does not
        contain `session`.
        """
        if session is not None and session not in self.sessions:
            near = difflib.get_close_matches(session, self.sessions, n=1)
            raise CorpusError(f"{self.path}: there is no session {session!r}{_suggest_name(near)}. {self._choices()}")
        return tuple(each for each in self.documents if each.session is None or each.session == session)

    def _choices(self) -> str:
        if not self.sessions:
            return "Its lines name no session: pass None."
        shown = ", ".join(repr(name) for name in self.sessions[:8])
        return f"It holds {len(self.sessions)}: {shown}{', …' if len(self.sessions) > 8 else ''}."


def read_corpus(path: Path) -> Corpus:
    """Return all documents of a `.jsonl` file, or of `corpus.jsonl` in a folder.

    Raises CorpusError at the first fault, with file, line and field. A repeated id is a fault, and so is a file without
    documents.
    """
    file = corpus_file(path)
    first_lines: dict[str, int] = {}
    sessions: dict[str, None] = {}
    documents = []
    for document in iter_corpus(file):
        if document.document_id in first_lines:
            _fail(
                file,
                document.line,
                "id",
                f"{document.document_id!r} is used already on line {first_lines[document.document_id]}; "
                "give each document its own id",
            )
        first_lines[document.document_id] = document.line
        if document.session is not None:
            sessions[document.session] = None
        documents.append(document)
    if not documents:
        raise CorpusError(f"{file}: holds no document. Write one JSON object per line.")
    return Corpus(path=str(file), documents=tuple(documents), sessions=tuple(sessions))


def corpus_file(path: Path) -> Path:
    """Return the corpus file at `path`: `path` itself, or `corpus.jsonl` if `path` is a folder. Raises CorpusError if it
    is missing.
    """
    file = path / CORPUS_FILE if path.is_dir() else path
    if not file.is_file():
        raise CorpusError(f"{file}: there is no such file. Name a .jsonl file or a folder that holds {CORPUS_FILE}.")
    return file


def iter_corpus(path: Path) -> Iterator[CorpusDocument]:
    """Yield the documents of a file, with one line at a time in memory. Repeated ids are not checked.

    Raises CorpusError at the first bad line, or if the file cannot be read.
    """
    file = corpus_file(path)
    try:
        with file.open("rb") as stream:
            number = 0
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    _fail(file, number, "", f"is longer than {MAX_LINE_BYTES:,} bytes; split the document")
                if raw.strip(b"\xef\xbb\xbf \t\r\n" if number == 1 else None):
                    yield _map_document(file, number, raw)
    except OSError as error:
        raise CorpusError(
            f"{file}: cannot be read ({error.strerror or error}). Check the file and its rights."
        ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Speakers:
    """Users and assistants among the speakers of a conversation, each in order of first appearance.

    None in a tuple means the lines that state no speaker.
    """

    users: tuple[str | None, ...] = ()
    assistants: tuple[str | None, ...] = ()
    reason: str = ""
    """Rule that decided. `role`: the file states the roles. `asked`: the caller named the speakers. `name`: a speaker has
    a usual name of a user or an assistant. `first`: the first speaker is the user. Empty if there are no speakers.
    """


def speakers_of(
    documents: Sequence[CorpusDocument], *, user: Collection[str] = (), assistant: Collection[str] = ()
) -> Speakers:
    """Return the users and assistants among the speakers of a conversation. The first rule that applies decides:

    1. `user` and `assistant` are names that the caller knows. If a user is named, all speakers who are not named are
    assistants. If only an assistant is named, all others are users. Names that do not occur are ignored.

    2. A speaker has the role that the first of its lines with a role states. Speakers without such a line get roles as in
    rule 1.

    3. The user is the speaker with a user's name (`user`, `human`, `player`, 用户, 玩家). If there is none, the user is the
    first speaker without an assistant's name (`assistant`, `agent`, `ai`, `bot`, `model`, `narrator`, 助手, 旁白).

    A role that a line states takes precedence for that line.
    """
    spoken = [document for document in documents if document.chain is Chain.HISTORY]
    names = list(dict.fromkeys(document.speaker for document in spoken))
    said = {document.speaker: document.role for document in reversed(spoken) if document.role is not None}
    return tell_speakers(names, user=user, assistant=assistant, said=said)


def tell_speakers(
    names: Sequence[str | None],
    *,
    user: Collection[str] = (),
    assistant: Collection[str] = (),
    said: Mapping[str | None, Role] | None = None,
) -> Speakers:
    """Return the users and assistants among the speakers `names`, which are in order of first appearance.

    `speakers_of` explains the rules. `said` has the roles that the file states, by speaker.
    """
    asked = {name: Role.USER for name in names if name in user}
    asked |= {name: Role.ASSISTANT for name in names if name in assistant and name not in asked}
    if known := asked or dict(said or {}):
        other = Role.ASSISTANT if Role.USER in known.values() else Role.USER
        reason = "asked" if asked else "role"
    else:
        called = [name for name in names if (name or "").casefold() in _USER_NAMES]
        others = [name for name in names if (name or "").casefold() not in _ASSISTANT_NAMES]
        known, other = dict.fromkeys((called or others)[:1], Role.USER), Role.ASSISTANT
        reason = "first" if names and not called and others == names else "name" if names else ""
    roles = {name: known.get(name) or other for name in names}
    return Speakers(
        users=tuple(name for name, role in roles.items() if role is Role.USER),
        assistants=tuple(name for name, role in roles.items() if role is Role.ASSISTANT),
        reason=reason,
    )


def check_speakers(corpus: Corpus, sessions: Sequence[str | None], names: Collection[str]) -> None:
    """Check that each of `names` speaks in one of the `sessions`. Raises CorpusError for the first name that does not."""
    spoken = [each for name in sessions for each in corpus.entries_for(name) if each.chain is Chain.HISTORY]
    known = list(dict.fromkeys(each.speaker for each in spoken if each.speaker is not None))
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            shown = ", ".join(repr(each) for each in known[:8]) or "nobody by name"
            raise CorpusError(
                f"{corpus.path}: {name!r} is not a speaker in it{_suggest_name(near) or '.'} Its speakers: {shown}."
            )


def to_session(
    corpus: Corpus,
    session: str | None,
    *,
    session_id: str | None = None,
    world_id: str = "",
    locale: str = "en",
    state: Mapping[str, Any] = EMPTY,
    user: Collection[str] = (),
    assistant: Collection[str] = (),
) -> SessionStart:
    """Return the session that `corpus.entries_for(session)` describes, ready for `Store.create_session`.

    Each history line becomes a committed turn with one message, in file order; the turn and the message have the id of
    the line. The role of the message is the role that the line states, or else the role of its speaker (`speakers_of`).
    The speaker becomes the author.

    Every other line becomes a memory entry of the session itself (lore too, so that each session has its own index). The
    entry is on the branch `main` at the depth of the turns before it in the file, so that it is visible from every later
    turn.

    `session_id` defaults to `session`. Raises CorpusError if the corpus does not contain `session`.
    """
    documents = corpus.entries_for(session)
    name = session_id or session or "corpus"
    turns: list[ImportedTurn] = []
    entries: list[MemoryEntry] = []
    users = frozenset(speakers_of(documents, user=user, assistant=assistant).users)
    for document in documents:
        if document.chain is Chain.HISTORY:
            turns.append(ImportedTurn(turn_id=document.document_id, messages=(_map_message(document, users),)))
        else:
            entries.append(_map_entry(document, session_scope(name), len(turns)))
    return SessionStart(
        session_id=name,
        world_id=world_id,
        locale=locale,
        state=state,
        turns=tuple(turns),
        entries=tuple(entries),
        at=next((each.at for each in documents if each.at is not None), None),
    )


def _map_message(document: CorpusDocument, users: Collection[str | None]) -> Message:
    speaks_as_user = document.role is Role.USER or (document.role is None and document.speaker in users)
    author = None
    if document.speaker is not None:
        author = Author(kind=AuthorKind.USER if speaks_as_user else AuthorKind.AGENT, id=document.speaker)
    return Message(
        role=Role.USER if speaks_as_user else Role.ASSISTANT,
        content=document.text,
        message_id=document.document_id,
        author=author,
        at=document.at,
    )


def _map_entry(document: CorpusDocument, scope: str, depth: int) -> MemoryEntry:
    title = document.metadata.get("title")
    metadata = dict(document.metadata)
    if document.turn is not None:
        metadata.setdefault("turn", document.turn)
    return MemoryEntry(
        entry_id=document.document_id,
        scope=scope,
        chain=document.chain,
        kind=_KINDS[document.chain],
        text=document.text,
        title=title if isinstance(title, str) else "",
        speaker=document.speaker,
        at=document.at,
        branch_id=MAIN_BRANCH,
        depth=0 if document.chain is Chain.LORE else depth,
        trust=Trust.AUTHORED,
        metadata=metadata,
    )


def _map_document(file: Path, number: int, raw: bytes) -> CorpusDocument:
    row = _read_row(file, number, raw)
    known = {name: row.pop(name) for name in _FIELDS if name in row}
    for name in row:
        near = difflib.get_close_matches(name, [each for each in _FIELDS if each not in known], n=1, cutoff=0.75)
        if near:
            _fail(file, number, name, f"is not a field of a corpus line{_suggest_name(near)}")
    meta = known.get("meta")
    if meta is not None and not isinstance(meta, dict):
        _fail(file, number, "meta", f"is {_kind_name(meta)}; it must be a mapping or null")
    turn = known.get("turn")
    if turn is not None and (not isinstance(turn, int) or isinstance(turn, bool)):
        _fail(file, number, "turn", f"is {_kind_name(turn)}; it must be a whole number or null")
    chain = _chain(file, number, known)
    if chain is not Chain.HISTORY and "role" in known:
        row["role"] = known.pop("role")
    return CorpusDocument(
        document_id=_read_text(file, number, known, "id"),
        chain=chain,
        text=_read_text(file, number, known, "text", may_be_empty=True),
        line=number,
        session=_optional_text(file, number, known, "session"),
        turn=turn,
        at=_moment(file, number, known),
        speaker=_optional_text(file, number, known, "speaker"),
        role=_role(file, number, known),
        metadata={**row, **(meta or {})},
    )


def _read_row(file: Path, number: int, raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        _fail(file, number, "", f"is not UTF-8 at byte {error.start + 1}; save the file as UTF-8")
    try:
        row = json.loads(text)
    except json.JSONDecodeError as error:
        _fail(
            file, number, "", f"is not JSON at character {error.pos + 1} ({error.msg}); write one JSON object per line"
        )
    except (RecursionError, ValueError) as error:
        _fail(file, number, "", f"cannot be read as JSON ({error}); flatten or shorten it")
    if not isinstance(row, dict):
        _fail(file, number, "", f"is {_kind_name(row)}; write one JSON object per line")
    for path, reason in plain_faults(row):
        _fail(file, number, ".".join(str(each) for each in path), reason)
    return row


def _read_text(file: Path, number: int, row: Mapping[str, Any], name: str, *, may_be_empty: bool = False) -> str:
    if name not in row:
        _fail(file, number, name, "is missing; every line needs id, chain and text")
    value = row[name]
    if not isinstance(value, str):
        _fail(file, number, name, f"is {_kind_name(value)}; it must be text")
    if not value.strip() and not may_be_empty:
        _fail(file, number, name, "is empty; give every document an id")
    return value


def _optional_text(file: Path, number: int, row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        _fail(file, number, name, f"is {_kind_name(value)}; it must be text or null")
    return value


def _chain(file: Path, number: int, row: Mapping[str, Any]) -> Chain:
    name = _read_text(file, number, row, "chain")
    if name not in _CHAINS:
        near = difflib.get_close_matches(name, _CHAINS, n=1)
        _fail(file, number, "chain", f"is {name!r}; it must be one of {', '.join(_CHAINS)}{_suggest_name(near)}")
    return _CHAINS[name]


def _role(file: Path, number: int, row: Mapping[str, Any]) -> Role | None:
    name = _optional_text(file, number, row, "role")
    if name is None:
        return None
    if name not in _ROLES:
        _fail(file, number, "role", f"is {name!r}; it must be user or assistant, or left out")
    return Role(name)


def _moment(file: Path, number: int, row: Mapping[str, Any]) -> datetime | None:
    value = _optional_text(file, number, row, "at")
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        _fail(file, number, "at", f"is {value!r}; write an ISO date or time, such as 2024-05-31T18:00:00, or null")


def _kind_name(value: Any) -> str:
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _suggest_name(near: list[str]) -> str:
    return f"; did you mean {near[0]!r}?" if near else ""


def _fail(file: Path, number: int, name: str, what: str) -> NoReturn:
    raise CorpusError(f"{file}:{number}: {name}: {what}" if name else f"{file}:{number}: {what}")
