"""Reads data that LangChain and LangGraph store: message histories (JSON files, SQLite) and the items of a SqliteStore.

The module reads the formats of langchain-community 0.4, langchain-core 1.7 and langgraph-checkpoint-sqlite 3.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_or_none
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.memories.databases import has_columns, is_database, open_database, tables_of
from mnemosyne.formats.memories.messages import FOR_EXPORT, TOOL_CALLS, SpokenMessage, build_chat, text_of_content
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.schema.imported_files import Chat, ImportedFile, ImportedMemory

FORMAT = "langchain"
_HISTORY, _HISTORY_COLUMNS = "message_store", ("session_id", "message")
_STORE, _STORE_COLUMNS = "store", ("prefix", "key", "value", "created_at", "updated_at", "expires_at", "ttl_minutes")
_CHECKPOINTS, _CHECKPOINT_COLUMNS = "checkpoints", ("thread_id", "checkpoint_id", "checkpoint")
_HOW_TO_EXPORT = (
    "checkpoints hold Python objects, which are never loaded here. Where LangGraph is installed, write "
    "messages_to_dict(graph.get_state(config).values['messages']) as JSON, and import that file"
)
_TYPES = frozenset({"human", "ai", "system", "tool", "function", "chat", "remove", "developer"})
_CLASSES = {kind.capitalize(): kind for kind in _TYPES} | {"AI": "ai"}
_TEXTS = ("text", "content", "memory", "data", "value", "fact", "summary")
_TOOL_CALLS = "calls of tools are kept with the message, and shown to no model"
_TOOL_RESULTS = "results of tools are kept, and shown to no model"
_NO_MESSAGE = "no message; passed by"


def is_langchain(source: Any) -> bool:
    """Return whether `source`, a path or a JSON value, comes from LangChain.

    A JSON value must have a list of LangChain messages. A path must lead to a database with one of LangChain's tables.
    """
    if isinstance(source, Path):
        try:
            return is_database(source) and bool(_kinds_of(tables_of(source)))
        except CorpusError:
            return False
    rows = _rows_of(source)
    return rows is not None and any(_parts_of(row) is not None for row in rows[:20])


def read_langchain(path: Path) -> ImportedFile:
    """Return the contents of a file of LangChain. Each history becomes a conversation, each item of a store a memory.

    Raises CorpusError if the file cannot be read, does not come from LangChain, or has only checkpoints (pickled Python
    objects).
    """
    counter = FieldCounter()
    if is_database(path):
        return _read_database(path, counter)
    rows = _rows_of(read_json_file(path))
    if rows is None or not any(_parts_of(row) is not None for row in rows):
        raise CorpusError(
            f'{path}: holds no message of LangChain; it must be a list of {{"type": "human", "data": {{…}}}}.'
        )
    chat = build_chat(path.stem, partial(_read_file, path), counter, FORMAT)
    if chat is None:
        raise CorpusError(f"{path}: its messages have no text.")
    return ImportedFile(path=str(path), format=FORMAT, chats=(chat,), fates=counter.fates())


def _rows_of(value: Any) -> Sequence[Any] | None:
    if isinstance(value, Mapping):
        value = value.get("messages")
    return value if isinstance(value, list) else None


def _parts_of(row: Any) -> tuple[str, Mapping[str, Any]] | None:
    """Return (type, fields) of a stored message, or None if the row is not a message."""
    if not isinstance(row, Mapping):
        return None
    kind, data = row.get("type"), row.get("data")
    if row.get("lc") and kind == "constructor" and isinstance(row.get("id"), list):
        kind, data = next((each for each in reversed(row["id"]) if isinstance(each, str)), ""), row.get("kwargs")
    if not isinstance(kind, str) or not isinstance(data, Mapping) or "content" not in data:
        return None
    known = kind if kind in _TYPES else _CLASSES.get(kind.split("Message", 1)[0]) if "Message" in kind else None
    return None if known is None else (known, data)


def _read_file(path: Path, counter: FieldCounter) -> Iterator[SpokenMessage]:
    for row in _rows_of(read_json_file(path)) or ():
        yield from _to_message(row, counter)


def _to_message(row: Any, counter: FieldCounter) -> Iterator[SpokenMessage]:
    parts = _parts_of(row)
    if parts is None or parts[0] == "remove":
        counter.refuse("messages.*", note=_NO_MESSAGE)
        return
    kind, data = parts
    counter.keep("messages.*.type", note=_TOOL_RESULTS if kind in ("tool", "function") else "")
    text = text_of_content(data["content"], counter, "messages.*.content")
    role = data.get("role") if kind == "chat" else kind
    name = data.get("name")
    kept = {}
    for field, value in data.items():
        if field in ("content", "type", "role"):
            continue
        if field == "name":
            counter.keep("messages.*.name", value)
        elif value not in (None, "", [], {}):
            kept[field] = value
            counter.keep(f"messages.*.{field[:80]}", value, _TOOL_CALLS if field == TOOL_CALLS else FOR_EXPORT)
    if not text.strip() and TOOL_CALLS not in kept:
        counter.refuse("messages.*", note="a message without text; passed by")
    yield SpokenMessage(
        role=role if isinstance(role, str) and role else "ai",
        text=text,
        name=name if isinstance(name, str) else "",
        kept=kept,
    )


def _kinds_of(tables: Mapping[str, Sequence[str]]) -> set[str]:
    columns = ((_HISTORY, _HISTORY_COLUMNS), (_STORE, _STORE_COLUMNS[:3]), (_CHECKPOINTS, _CHECKPOINT_COLUMNS))
    return {table for table, named in columns if has_columns(tables, table, named)}


def _read_database(path: Path, counter: FieldCounter) -> ImportedFile:
    chats: list[Chat] = []
    memories: list[ImportedMemory] = []
    with open_database(path) as database:
        kinds = _kinds_of(database.tables)
        if not kinds:
            raise CorpusError(
                f"{path}: is not a database of LangChain: it has none of the tables {_HISTORY}, {_STORE}, {_CHECKPOINTS}."
            )
        if kinds == {_CHECKPOINTS}:
            raise CorpusError(f"{path}: {_HOW_TO_EXPORT}.")
        sessions = database.numbers_by(_HISTORY, "session_id") if _HISTORY in kinds else {}
        if _STORE in kinds:
            memories = [memory for row in database.rows(_STORE, _STORE_COLUMNS) for memory in _to_memory(row, counter)]
    for session, numbers in sessions.items():
        chat = build_chat(session or path.stem, partial(_read_history, path, numbers), counter, FORMAT)
        if chat is not None:
            chats.append(chat)
    notes = (f"The checkpoints in it were not read: {_HOW_TO_EXPORT}.",) if _CHECKPOINTS in kinds else ()
    return ImportedFile(
        path=str(path), format=FORMAT, chats=tuple(chats), memories=tuple(memories), fates=counter.fates(), notes=notes
    )


def _read_history(path: Path, numbers: Sequence[int], counter: FieldCounter) -> Iterator[SpokenMessage]:
    with open_database(path) as database:
        for row in database.rows_at(_HISTORY, _HISTORY_COLUMNS, numbers):
            yield from _to_message(_parse(row.get("message")), counter)


def _parse(text: Any) -> Any:
    """Return the JSON value of a text or of bytes in a database, or None if it is not JSON."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return plain_or_none(value)


def _to_memory(row: Mapping[str, Any], counter: FieldCounter) -> Iterator[ImportedMemory]:
    value = _parse(row.get("value"))
    text = text_of_item(value)
    if not text.strip():
        counter.refuse("store.*", note="an item without text; passed by")
        return
    for name in ("prefix", "key", "value", "created_at", "updated_at"):
        counter.keep(f"store.*.{name}", row.get(name))
    for name in ("expires_at", "ttl_minutes"):
        counter.refuse(f"store.*.{name}", row.get(name), "a memory does not expire here")
    prefix, key = str(row.get("prefix")), str(row.get("key"))
    yield ImportedMemory(
        memory_id=f"{prefix}/{key}",
        text=text,
        at=read_date(row.get("updated_at")) or read_date(row.get("created_at")),
        metadata={"namespace": prefix.split("."), "key": key, "value": value},
    )


def text_of_item(value: Any) -> str:
    """Return the text of an item of a store.

    If the item is a mapping, its text is its first field of this list: `text`, `content`, `memory`, `data`, `value`, `fact`,
    `summary`. If this field is a mapping again, its text is found in the same way. If a mapping has none of these fields, its
    text has one line `NAME: VALUE` for each of its fields.
    """
    for _ in range(4):
        if not isinstance(value, Mapping):
            break
        found = next(
            (value[name] for name in _TEXTS if isinstance(value.get(name), str | Mapping) and value[name]), None
        )
        if found is None:
            return "\n".join(
                f"{name}: {_as_line(each)}" for name, each in value.items() if each not in (None, "", [], {})
            )
        value = found
    return value if isinstance(value, str) else "" if value is None else _as_line(value)


def _as_line(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
