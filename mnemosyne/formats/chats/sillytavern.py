"""Chats of SillyTavern: one JSON object a line, alone or in a group, with swipes. Read by lines, so that any length fits.

The first line describes the whole chat; older chats of groups have none. Everything that a line says beyond its text
is kept with the message, for an export that gives it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.formats.chats.times import read_time
from mnemosyne.formats.chats.turns import SpokenLine, group_turns
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.safe_files import MOST_LINE_BYTES
from mnemosyne.formats.values import AuthorsNote, Chat, ImportedFile
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.schema.session import Author, AuthorKind, Message, Role

FORMAT = "chat"
LINE, HEADER, HIDDEN = "sillytavern", "sillytavern_header", "hidden"
"""Fields of `Message.extra`: what its line says beyond the text; the first line of the file; whether no prompt shows it."""
_OWN = ("mes", "name", "is_user", "is_system", "send_date")
_MOST_SKIPPED = 5
_ROLES = {0: "system", 1: "user", 2: "assistant"}
_FOR_EXPORT = "kept for export"
_NOTES = {
    "swipe_id": "which of the other replies is shown",
    "swipes": "other replies become branches",
    "swipe_info": "times of the other replies; the rest is kept for export",
    "is_system": "hidden messages are shown to no model",
}


def is_chat_line(value: Any) -> bool:
    """Return whether the first line of a file is that of a chat."""
    if not isinstance(value, Mapping):
        return False
    return "mes" in value or ("chat_metadata" in value and ("user_name" in value or "character_name" in value))


def read_chat(path: Path) -> ImportedFile:
    """Return the chat in a file. Lines that are no JSON are passed by and named, as SillyTavern does.

    CorpusError for a file that cannot be read or holds no message.
    """
    scan = _Scan()
    for _ in group_turns(_walk(path, scan)):
        scan.turns += 1
    if not scan.messages:
        raise CorpusError(f"{path}: holds no message of a chat; each line is a JSON object with `mes`.")
    header = scan.header
    metadata = header.get("chat_metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    for name, value in header.items():
        if name != "chat_metadata":
            scan.counter.keep(name, value, "" if name in ("user_name", "character_name") else _FOR_EXPORT)
    _count_metadata(metadata, scan.counter)
    main = metadata.get("main_chat")
    chat = Chat(
        name=path.stem,
        read_turns=partial(_read_turns, path),
        turn_count=scan.turns,
        user_name=_name(header.get("user_name")) or scan.user,
        character_names=tuple(scan.characters),
        started_at=scan.first_at,
        header=header,
        authors_note=_authors_note(metadata),
        branch_of=main if isinstance(main, str) else "",
    )
    return ImportedFile(
        path=str(path), format=FORMAT, chats=(chat,), fates=scan.counter.fates(), notes=tuple(scan.notes(path))
    )


@dataclass(kw_only=True, slots=True)
class _Scan:
    """What is learned of a chat while it is read."""

    counter: FieldCounter = field(default_factory=FieldCounter)
    header: Mapping[str, Any] = field(default_factory=dict)
    messages: int = 0
    turns: int = 0
    user: str = ""
    characters: dict[str, None] = field(default_factory=dict)
    first_at: Any = None
    skipped: list[int] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    def notes(self, path: Path) -> Iterator[str]:
        if self.skipped:
            shown = ", ".join(map(str, self.skipped[:_MOST_SKIPPED]))
            more = len(self.skipped) - _MOST_SKIPPED
            yield f"{path.name}: {len(self.skipped)} lines are no messages and were passed by: {shown}" + (
                f" and {more} more" if more > 0 else ""
            )


def _read_turns(path: Path) -> Iterator[ImportedTurn]:
    yield from group_turns(_walk(path, _Scan()))


def _walk(path: Path, scan: _Scan) -> Iterator[SpokenLine]:
    """Yield the messages of a file in order."""
    try:
        with path.open("rb") as stream:
            number = 0
            while raw := stream.readline(MOST_LINE_BYTES + 1):
                number += 1
                if len(raw) > MOST_LINE_BYTES:
                    raise CorpusError(f"{path}:{number}: is longer than {MOST_LINE_BYTES:,} bytes; shorten the line.")
                if not raw.strip():
                    continue
                row = _parse(path, number, raw)
                if isinstance(row, Mapping) and number == 1 and "mes" not in row:
                    scan.header = row
                elif not isinstance(row, Mapping) or not isinstance(row.get("mes"), str):
                    scan.skipped.append(number)
                else:
                    yield _to_line(row, scan)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _parse(path: Path, number: int, raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path}:{number}: is no UTF-8 text at byte {error.start + 1}; save it as UTF-8.") from None
    try:
        row = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if any(plain_faults(row)) else row


def _to_line(row: Mapping[str, Any], scan: _Scan) -> SpokenLine:
    """Return a message with its swipes; `mes` counts where it is not the swipe that is chosen."""
    name, is_user = _name(row.get("name")), row.get("is_user") is True
    is_narrator = _extra_of(row).get("type") in ("narrator", "comment")
    at = read_time(row.get("send_date"))
    _count(row, scan.counter)
    if is_user and not scan.user:
        scan.user = name
    if not is_user and name and not is_narrator and row.get("is_system") is not True:
        scan.characters.setdefault(name)
    if scan.first_at is None:
        scan.first_at = at
    kind = AuthorKind.USER if is_user else AuthorKind.AGENT
    kept = {key: value for key, value in row.items() if key not in ("mes", "swipes")}
    extra: dict[str, Any] = {LINE: kept}
    if not scan.messages and scan.header:
        extra[HEADER] = dict(scan.header)
    if row.get("is_system") is True:
        extra[HIDDEN] = True
    scan.messages += 1
    message = Message(
        role=Role.USER if is_user else Role.ASSISTANT,
        content=str(row["mes"]),
        author=Author(kind=kind, id=name) if name else None,
        at=at,
        extra=extra,
    )
    return SpokenLine(message=message, others=tuple(_swipes(row, message)))


def _swipes(row: Mapping[str, Any], message: Message) -> Iterator[Message]:
    """Yield the other texts of a message, each with the time at which it was made."""
    swipes = row.get("swipes")
    if not isinstance(swipes, list) or len(swipes) < 2:
        return
    chosen = row.get("swipe_id")
    infos = row.get("swipe_info")
    seen = {message.content}
    for place, text in enumerate(swipes):
        if not isinstance(text, str) or place == chosen or text in seen:
            continue
        seen.add(text)
        info = infos[place] if isinstance(infos, list) and place < len(infos) else None
        at = read_time(info.get("send_date")) if isinstance(info, Mapping) else None
        kept = {"swipe_id": place, **({"swipe_info": info} if isinstance(info, Mapping) else {})}
        yield replace(message, content=text, at=at or message.at, extra={LINE: kept})


def _count(row: Mapping[str, Any], counter: FieldCounter) -> None:
    for name, value in row.items():
        if name == "swipes":
            counter.keep(
                "swipes.*",
                [each for each in value if each != row.get("mes")] if isinstance(value, list) else value,
                _NOTES[name],
            )
        elif name == "is_system":
            counter.keep(name, value or None, _NOTES[name])
        elif name == "extra" and isinstance(value, Mapping):
            for key, each in value.items():
                counter.keep(f"extra.{key}", each, _FOR_EXPORT)
        elif name == "send_date" and read_time(value) is None:
            counter.change(name, value, "names no time that is known; kept for export")
        else:
            counter.keep(name, value, "" if name in _OWN else _NOTES.get(name, _FOR_EXPORT))


def _count_metadata(metadata: Mapping[str, Any], counter: FieldCounter) -> None:
    for name, value in metadata.items():
        if name in ("note_prompt", "note_interval"):
            counter.keep(f"chat_metadata.{name}", value)
        elif name in ("note_depth", "note_position", "note_role"):
            counter.change(f"chat_metadata.{name}", value, "the author's note stands right before the input")
        elif name == "variables":
            counter.refuse(f"chat_metadata.{name}", value, "variables of scripts are not run; kept for export")
        else:
            counter.keep(f"chat_metadata.{name}", value, "" if name == "main_chat" else _FOR_EXPORT)


def _authors_note(metadata: Mapping[str, Any]) -> AuthorsNote | None:
    text, interval = metadata.get("note_prompt"), metadata.get("note_interval", 1)
    if not isinstance(text, str) or not text.strip():
        return None
    depth, role = metadata.get("note_depth", 4), metadata.get("note_role", 0)
    return AuthorsNote(
        text=text,
        interval=max(0, interval) if isinstance(interval, int) else 1,
        depth=depth if isinstance(depth, int) else 4,
        role=_ROLES.get(role, "system") if isinstance(role, int) else "system",
    )


def _extra_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    extra = row.get("extra")
    return extra if isinstance(extra, Mapping) else {}


def _name(value: Any) -> str:
    return " ".join(value.split())[:200] if isinstance(value, str) else ""
