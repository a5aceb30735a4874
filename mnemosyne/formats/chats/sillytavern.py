"""Reads chats of SillyTavern: one JSON mapping per line. The first line may be a header; older group chats have none.

The file is read as a stream, first to count and check it, and then again for each reading of its turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.chats.json_lines import JsonLine, read_json_lines
from mnemosyne.formats.chats.jsonl_messages import HEADER, header_name, is_message, read_message
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.chats.turns import SaidMessage, chat_key, group_turns
from mnemosyne.formats.losses import AT_INPUT, FOR_EXPORT, FieldCounter
from mnemosyne.schema.imported_files import AuthorsNote, Chat, ImportedFile
from mnemosyne.schema.memory import EMPTY, VIEWERS
from mnemosyne.schema.record import ImportedTurn, ImportRequest
from mnemosyne.schema.session import AuthorKind
from mnemosyne.values import dataclass

FORMAT = "sillytavern-chat"
_HEADER_FIELDS = frozenset(("user_name", "character_name", "chat_metadata", "create_date", "name"))
_MOST_NAMES = 64
_MOST_TOLD = 12
_ROLES = {0: "system", 1: "user", 2: "assistant"}
_USED_METADATA = ("note_prompt", "note_interval", "main_chat")
_NOTE_PLACE = ("note_depth", "note_role", "note_position")
_REFUSED_METADATA = {
    "world_info": f"the name of a book in a file of its own: import that file too; {FOR_EXPORT}",
    **dict.fromkeys(
        ("scenario", "mes_example", "system_prompt"), f"replaces the text of the card in this chat alone; {FOR_EXPORT}"
    ),
}
NO_REQUEST = ImportRequest()


def is_chat_line(value: object) -> bool:
    """Return whether a JSON value is the first line of a chat, which is a header or a message."""
    if not isinstance(value, Mapping):
        return False
    if is_message(value):
        return "name" in value or "is_user" in value
    return "chat_metadata" in value or ("user_name" in value and ("character_name" in value or "create_date" in value))


def read_chat(path: Path, request: ImportRequest = NO_REQUEST, *, dialect: str = FORMAT) -> ImportedFile:
    """Return the chat of a file. The turns of the chat are read from the file again when they are requested. `dialect` is the
    name of the format in the result.

    Lines that are not messages are skipped, and a note names them. `request` has no effect, because the file states the
    roles. Raises CorpusError if the file cannot be read or contains no message.
    """
    counter = FieldCounter()
    seen = _Survey()
    said = _read_said(path, counter, seen, None)
    turn_count = sum(1 for _ in group_turns("", said))
    if not turn_count:
        first = f" {seen.faults[0]}" if seen.faults else ""
        raise CorpusError(f"{path}: no line of it is a message of a chat.{first} Export the chat as JSONL once more.")
    _count_header(seen.header, counter)
    metadata = _metadata(seen.header)
    key = chat_key(*_identity(path, seen))
    chat = Chat(
        name=path.stem,
        read_turns=partial(_read_turns, path, key, seen.header, seen.last_line),
        turn_count=turn_count,
        user_name=header_name(seen.header, "user_name") or seen.user_name,
        character_names=tuple(seen.characters),
        started_at=seen.started_at or read_date(seen.header.get("create_date")),
        header=seen.header,
        authors_note=_read_note(metadata),
        branch_of=metadata["main_chat"] if isinstance(metadata.get("main_chat"), str) else "",
    )
    return ImportedFile(path=str(path), format=dialect, chats=(chat,), fates=counter.fates(), notes=seen.notes())


@dataclass(kw_only=True, slots=True)
class _Survey:
    """Findings of the first reading of a file."""

    header: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    first_date: Any = None
    started_at: datetime | None = None
    user_name: str = ""
    characters: dict[str, None] = field(default_factory=dict)
    last_line: int = 0
    repaired: int = 0
    skipped: int = 0
    faults: list[str] = field(default_factory=list)
    has_message: bool = False

    def skip(self, line: JsonLine, fault: str) -> None:
        self.skipped += 1
        if len(self.faults) < _MOST_TOLD:
            self.faults.append(f"Line {line.number} {fault}.")

    def add(self, line: JsonLine, said: SaidMessage, value: Mapping[str, Any]) -> None:
        if not self.has_message:
            self.first_date = value.get("send_date")
            self.has_message = True
        self.repaired += line.is_repaired
        message = said.message
        self.started_at = self.started_at or message.at
        if message.author is None:
            return
        if message.author.kind is AuthorKind.USER:
            self.user_name = self.user_name or message.author.id
        elif message.author.kind is AuthorKind.AGENT and VIEWERS not in message.extra:
            self.characters |= {message.author.id: None} if len(self.characters) < _MOST_NAMES else {}

    def notes(self) -> tuple[str, ...]:
        told: list[str] = []
        if self.skipped:
            more = f" … and {self.skipped - len(self.faults)} more" if self.skipped > len(self.faults) else ""
            told.append(f"Lines that were passed over: {self.skipped}. {' '.join(self.faults)}{more}")
        if self.repaired:
            told.append(
                f"What cannot be stored (half a character, a number too large) was replaced; lines with such: {self.repaired}."
            )
        return tuple(told)


def _read_said(path: Path, counter: FieldCounter, seen: _Survey, most_lines: int | None) -> Iterator[SaidMessage]:
    """Yield the messages of a file, and record its other contents in `seen`."""
    for line in read_json_lines(path, most_lines=most_lines):
        seen.last_line = line.number
        if line.value is None:
            seen.skip(line, line.fault)
        elif is_message(line.value):
            said = read_message(line.value, counter)
            if said is None:
                seen.skip(line, "has no text in mes")
            else:
                seen.add(line, said, line.value)
                yield said
        elif not seen.has_message and not seen.header and not _HEADER_FIELDS.isdisjoint(line.value):
            seen.header = line.value
        else:
            seen.skip(line, "is no message: it has no mes")


def _read_turns(path: Path, key: str, header: Mapping[str, Any], last_line: int) -> Iterator[ImportedTurn]:
    return group_turns(key, _with_header(_read_said(path, FieldCounter(), _Survey(), last_line), header))


def _with_header(said: Iterator[SaidMessage], header: Mapping[str, Any]) -> Iterator[SaidMessage]:
    for number, each in enumerate(said):
        if number or not header:
            yield each
        else:
            extra = {**each.message.extra, HEADER: header}
            yield replace(each, message=replace(each.message, extra=extra))


def _identity(path: Path, seen: _Survey) -> tuple[object, ...]:
    """Return data that identify a chat. Longer versions and branches of the chat have the same; other chats do not."""
    created = seen.header.get("create_date")
    if isinstance(created, str | int) and str(created).strip():
        return ("create_date", created)
    if isinstance(seen.first_date, str | int | float) and str(seen.first_date).strip():
        return ("send_date", seen.first_date)
    return ("file", path.stem)


def _metadata(header: Mapping[str, Any]) -> Mapping[str, Any]:
    found = header.get("chat_metadata")
    return found if isinstance(found, Mapping) else EMPTY


def _read_note(metadata: Mapping[str, Any]) -> AuthorsNote | None:
    text = metadata.get("note_prompt")
    if not isinstance(text, str) or not text.strip():
        return None
    return AuthorsNote(
        text=text,
        interval=_read_number(metadata.get("note_interval"), 1),
        depth=_read_number(metadata.get("note_depth"), 4),
        role=_ROLES.get(_read_number(metadata.get("note_role"), 0), "system"),
    )


def _read_number(value: Any, fallback: int) -> int:
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else fallback


def _count_header(header: Mapping[str, Any], counter: FieldCounter) -> None:
    for name, value in header.items():
        if name == "chat_metadata" and isinstance(value, Mapping):
            has_note = _read_note(value) is not None
            for inner, each in value.items():
                path = f"chat_metadata.{inner}"
                if inner in _REFUSED_METADATA:
                    counter.refuse(path, each, _REFUSED_METADATA[inner])
                elif inner in _NOTE_PLACE and has_note:
                    counter.change(path, each, AT_INPUT)
                else:
                    counter.keep(path, each, "" if inner in _USED_METADATA else FOR_EXPORT)
        elif name in _HEADER_FIELDS:
            counter.keep(name, value)
        else:
            counter.keep(name, value, "unknown; kept for export")
