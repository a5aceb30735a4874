"""Builds messages, chats and files for the readers whose file is one JSON value with all chats."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_or_none
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.chats.turns import SaidMessage, group_turns
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import AuthorsNote, Chat, ImportedFile
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.record import ImportRequest
from mnemosyne.schema.session import Author, AuthorKind, Message, Role

MOST_EXPORT_BYTES = 256_000_000
"""Maximum size of an export with all conversations of a person. The file is read into memory as a whole."""
EXPORT_MEMBER = "conversations.json"
"""Name of the file with the conversations in the archives that ChatGPT and Claude send."""
FOR_EXPORT = "kept beside the message"
_AUTHORS = {Role.USER: AuthorKind.USER, Role.ASSISTANT: AuthorKind.AGENT, Role.TOOL: AuthorKind.TOOL}


def make_message(
    role: Role, text: Any, name: Any = None, *, date: Any = None, source: str = "", rest: Mapping[str, Any] = EMPTY
) -> Message:
    """Return a message. `rest` has further fields of the file, which are kept in `Message.extra` under the name `source`."""
    kept = plain_or_none(dict(rest)) if rest else None
    author = name.strip() if isinstance(name, str) else ""
    return Message(
        role=role,
        content=whole_text(text),
        author=Author(kind=_AUTHORS.get(role, AuthorKind.SYSTEM), id=whole_text(author)) if author else None,
        at=read_date(date),
        extra={source: kept} if kept else EMPTY,
    )


def whole_text(value: Any) -> str:
    """Return `value` with each half character replaced by U+FFFD. Return an empty text if `value` is not a text."""
    return plain_or_none(value) or "" if isinstance(value, str) else ""


def distinct_names(names: Iterable[str]) -> Iterator[str]:
    """Yield the names of chats. If a name occurs for the second time, yield `NAME (2)`."""
    counts: dict[str, int] = {}
    for name in names:
        counts[name] = count = counts.get(name, 0) + 1
        yield name if count == 1 else f"{name} ({count})"


def count_rest(counter: FieldCounter, prefix: str, rest: Mapping[str, Any]) -> None:
    """Count the further fields of a message as kept. `prefix` is put before their names."""
    for name, value in rest.items():
        counter.keep(f"{prefix}{name}", value, FOR_EXPORT)


def listed_chat(
    name: str,
    key: str,
    said: Sequence[SaidMessage],
    *,
    header: Mapping[str, Any] = EMPTY,
    authors_note: AuthorsNote | None = None,
) -> Chat:
    """Return the chat `name` with the messages `said`. All ids in the chat begin with `key`. `header` is the data of the file
    on the whole chat.
    """
    names: dict[Role, dict[str, None]] = {Role.USER: {}, Role.ASSISTANT: {}}
    for each in said:
        if each.message.author is not None and each.message.role in names:
            names[each.message.role][each.message.author.id] = None
    return Chat(
        name=name,
        read_turns=partial(group_turns, key, tuple(said)),
        turn_count=sum(1 for _ in group_turns(key, said)),
        user_name=next(iter(names[Role.USER]), ""),
        character_names=tuple(names[Role.ASSISTANT]),
        started_at=next((each.message.at for each in said if each.message.at is not None), None),
        header=plain_or_none(dict(header)) or EMPTY,
        authors_note=authors_note,
    )


def listed_file(
    path: Path,
    format_name: str,
    chats: Sequence[Chat],
    counter: FieldCounter,
    request: ImportRequest,
    notes: Sequence[str] = (),
) -> ImportedFile:
    """Return the content of the file `path`: those of `chats` that have messages. If `request.only` names a chat, the result has
    only this chat.

    Raises CorpusError if no chat has a message, or if no chat has the requested name.
    """
    full = [chat for chat in chats if chat.turn_count]
    if not full:
        raise CorpusError(f"{path}: holds no message of a chat. Export the chat once more.")
    told = list(notes)
    if len(full) < len(chats):
        told.append(f"Chats without a message, which are left out: {len(chats) - len(full)}.")
    if request.only is not None:
        near = difflib.get_close_matches(request.only, [chat.name for chat in full], n=1)
        full = [chat for chat in full if chat.name == request.only]
        if not full:
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise CorpusError(f"{path}: no chat in it is called {request.only!r}.{hint}")
    return ImportedFile(path=str(path), format=format_name, chats=tuple(full), fates=counter.fates(), notes=tuple(told))
