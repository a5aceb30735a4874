"""Reads memories of mem0: the result of `get_all()`, its database of changes (history.db), and its local Qdrant folder.

The module reads the formats of mem0ai 2.2 with qdrant-client 1.20. Earlier versions write fewer fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.chats.send_dates import read_date
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.memories.databases import Database, has_columns, is_database, open_database, tables_of
from mnemosyne.formats.memories.messages import SpokenMessage, build_chat
from mnemosyne.formats.memories.qdrant import COLLECTIONS, is_qdrant_folder, read_points
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.schema.imported_files import Chat, ImportedFile, ImportedMemory

FORMAT = "mem0"
HISTORY_FILE = "history.db"
_LISTS = ("results", "memories")
_HISTORY, _MESSAGES = "history", "messages"
_HISTORY_COLUMNS = (
    "memory_id",
    "old_memory",
    "new_memory",
    "event",
    "created_at",
    "updated_at",
    "is_deleted",
    "actor_id",
    "role",
)
_MESSAGE_COLUMNS = ("session_scope", "role", "content", "name", "created_at")
_TEXTS = ("memory", "data", "text")
_OF_TIME = ("created_at", "updated_at")
_BY_OTHERS = frozenset({"agent_id", "run_id", "actor_id", "role", "attributed_to", "app_id"})
_LOOKED_AT = 20
_MOST_NAMED = 8
_MOST_FIELDS = 200


def is_mem0(source: Any) -> bool:
    """Return whether `source`, a path or a JSON value, comes from mem0.

    A JSON value must have a list of memories. A path must be a history.db, or a folder with a history.db or a local
    Qdrant store.
    """
    if isinstance(source, Path):
        if source.is_dir():
            return is_qdrant_folder(source) or is_mem0(source / HISTORY_FILE)
        try:
            return is_database(source) and has_columns(tables_of(source), _HISTORY, _HISTORY_COLUMNS[:4])
        except CorpusError:
            return False
    rows = _rows_of(source)
    seen = [row for row in rows[:_LOOKED_AT] if isinstance(row, Mapping)] if rows is not None else []
    return any(isinstance(row.get("memory"), str) and "id" in row for row in seen)


def read_mem0(path: Path) -> ImportedFile:
    """Return the memories of a file or folder of mem0, in its order. The messages in a history.db become conversations.

    Deleted memories and memories without text are skipped. Raises CorpusError if the file cannot be read or does not come
    from mem0.
    """
    counter = FieldCounter()
    if path.is_dir():
        return _read_folder(path, counter)
    if is_database(path):
        return _read_history(path, counter)
    value = read_json_file(path)
    rows = _rows_of(value)
    if rows is None or (rows and not is_mem0(value)):
        form = '{"results": [{"id": …, "memory": …}]}'
        raise CorpusError(f"{path}: is not a list of memories; it must be {form}, as get_all() returns.")
    notes = []
    if isinstance(value, Mapping):
        counter.refuse("relations.*", value.get("relations"), "relations of a graph have no use here; left out")
        if value.get("next"):
            notes.append("The file is one page of several; export and import the others too.")
    return _file(path, rows, counter, notes)


def _rows_of(value: Any) -> Sequence[Any] | None:
    if isinstance(value, Mapping):
        value = next((value[name] for name in _LISTS if isinstance(value.get(name), list)), None)
    return value if isinstance(value, list) else None


def _file(
    path: Path, rows: Iterable[Any], counter: FieldCounter, notes: Iterable[str], chats: tuple[Chat, ...] = ()
) -> ImportedFile:
    memories = tuple(_read_memories(rows, counter))
    users = list(dict.fromkeys(memory.user_id for memory in memories if memory.user_id))
    if len(users) > 1:
        named = ", ".join(users[:_MOST_NAMED]) + (", …" if len(users) > _MOST_NAMED else "")
        notes = [*notes, f"The memories are of {len(users)} users ({named}); all of them come into one session."]
    return ImportedFile(
        path=str(path), format=FORMAT, memories=memories, chats=chats, fates=counter.fates(), notes=tuple(notes)
    )


def _read_memories(rows: Iterable[Any], counter: FieldCounter) -> Iterator[ImportedMemory]:
    used: set[str] = set()
    named: set[str] = set()
    for row in rows:
        text = (
            next((row[name] for name in _TEXTS if isinstance(row.get(name), str)), "")
            if isinstance(row, Mapping)
            else ""
        )
        if not text.strip():
            counter.refuse("memories.*", note="no memory with text; passed by")
            continue
        own = row.get("id")
        digest = sha256(text.encode("utf-8", "replace")).hexdigest()[:20]
        memory_id = str(own) if isinstance(own, str | int) and str(own).strip() else digest
        if memory_id in used:
            memory_id = f"{memory_id}-{digest}"
            if memory_id in used:
                counter.refuse("memories.*", note="it is there a second time; passed by")
                continue
            counter.change("memories.*.id", note="another memory has it; a hash was added")
        else:
            counter.keep("memories.*.id", own)
        used.add(memory_id)
        yield _to_memory(row, memory_id, text, counter, named)


def _to_memory(
    row: Mapping[str, Any], memory_id: str, text: str, counter: FieldCounter, named: set[str]
) -> ImportedMemory:
    counter.keep("memories.*.memory", text)
    kept = {name: value for name, value in row.items() if name not in ("id", "user_id", "categories", *_TEXTS)}
    metadata = kept.pop("metadata", None)
    if isinstance(metadata, Mapping):
        kept = dict(metadata) | kept
        counter.keep("memories.*.metadata", metadata)
    else:
        counter.refuse("memories.*.metadata", metadata, "no object; left out")
    user, categories = row.get("user_id"), row.get("categories")
    counter.keep("memories.*.user_id", user)
    tags = tuple(each for each in categories if isinstance(each, str)) if isinstance(categories, list) else ()
    counter.keep("memories.*.categories", categories, "tags of the memory")
    for name, value in row.items():
        path = f"memories.*.{name[:80]}"
        if name in _OF_TIME and value and read_date(value) is None:
            counter.change(path, value, "names no time that is known; kept with the memory")
        elif name in _OF_TIME:
            counter.keep(path, value)
        elif name in _BY_OTHERS:
            counter.change(path, value, "kept with the memory; who may see it does not follow from it")
        elif name == "expiration_date":
            counter.refuse(path, value, "a memory does not expire here; kept with the memory")
        elif name not in ("id", "metadata", "user_id", "categories", *_TEXTS):
            named.add(name)
            counter.keep(path if len(named) <= _MOST_FIELDS else "memories.*.…", value, "kept with the memory")
    at = read_date(row.get("updated_at")) or read_date(row.get("created_at"))
    return ImportedMemory(
        memory_id=memory_id,
        text=text,
        tags=tags,
        at=at,
        user_id=str(user) if isinstance(user, str | int) else "",
        metadata={name: value for name, value in kept.items() if value is not None},
    )


def _read_folder(folder: Path, counter: FieldCounter) -> ImportedFile:
    """Return the memories of a Qdrant folder, or of the history that is in a folder of mem0."""
    history = folder / HISTORY_FILE
    if is_qdrant_folder(folder):
        notes: list[str] = []
        rows = [_row_of_point(point) for point in read_points(folder, counter, notes)]
        if history.is_file():
            notes.append(
                f"{history.name} was not read, because {COLLECTIONS} has the memories; import it too for its messages."
            )
        return _file(folder, rows, counter, notes)
    if history.is_file():
        return _read_history(history, counter)
    raise CorpusError(f"{folder}: is not a folder of mem0: neither {HISTORY_FILE} nor a local Qdrant store is in it.")


def _row_of_point(point: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stored memory in the form of `get_all`. Forms of its text that serve only the search are left out."""
    known = ("data", "hash", "user_id", "expiration_date", "categories", *_OF_TIME, *_BY_OTHERS)
    payload = point["payload"]
    row = {name: payload[name] for name in known if name in payload}
    rest = {name: value for name, value in payload.items() if name not in known and name != "text_lemmatized"}
    return {"id": point["id"], **row, **({"metadata": rest} if rest else {})}


def _read_history(path: Path, counter: FieldCounter) -> ImportedFile:
    with open_database(path) as database:
        if not has_columns(database.tables, _HISTORY, _HISTORY_COLUMNS[:4]):
            raise CorpusError(f"{path}: is not a database of mem0: it has no table `{_HISTORY}` of memories.")
        rows = _newest_texts(database, counter)
        has_messages = has_columns(database.tables, _MESSAGES, _MESSAGE_COLUMNS[:3])
        scopes = database.numbers_by(_MESSAGES, "session_scope") if has_messages else {}
    built = [
        build_chat(scope, partial(_read_messages, path, numbers), counter, FORMAT) for scope, numbers in scopes.items()
    ]
    notes = ["history.db does not say whose a memory is. An export of get_all() does."] if rows else []
    if scopes:
        notes.append("mem0 keeps the last messages of a conversation alone.")
    return _file(path, rows, counter, notes, tuple(chat for chat in built if chat is not None))


def _newest_texts(database: Database, counter: FieldCounter) -> list[dict[str, Any]]:
    """Return the memories that exist at the end of a history, in the order in which they were first added."""
    memories: dict[str, dict[str, Any] | None] = {}
    for row in database.rows(_HISTORY, _HISTORY_COLUMNS):
        memory_id, text = str(row.get("memory_id")), row.get("new_memory")
        before = memories.get(memory_id)
        if row.get("event") == "DELETE" or row.get("is_deleted"):
            counter.refuse("history.*: DELETE", note="a deleted memory; left out")
            memories[memory_id] = None
        elif isinstance(text, str):
            if before is not None:
                counter.refuse("history.*: UPDATE", note="the text before a change; left out")
            kept = {name: row.get(name) for name in (*_OF_TIME, "actor_id", "role") if row.get(name) is not None}
            memories[memory_id] = (before or {}) | kept | {"id": memory_id, "memory": text}
    return [memory for memory in memories.values() if memory is not None]


def _read_messages(path: Path, numbers: Sequence[int], counter: FieldCounter) -> Iterator[SpokenMessage]:
    with open_database(path) as database:
        for row in database.rows_at(_MESSAGES, _MESSAGE_COLUMNS, numbers):
            text, name = row.get("content"), row.get("name")
            counter.keep("messages.*.content", text)
            counter.keep("messages.*.role", row.get("role"))
            counter.keep("messages.*.name", name)
            counter.keep("messages.*.created_at", row.get("created_at"))
            yield SpokenMessage(
                role=str(row.get("role") or ""),
                text=text if isinstance(text, str) else "",
                name=name if isinstance(name, str) else "",
                at=read_date(row.get("created_at")),
            )
