"""Reads files that LlamaIndex writes with `persist()`: documents and their parts (docstore.json), and conversations
(chat_store.json).

The module reads the format of llama-index-core 0.14 and of earlier versions. Earlier versions write `content` for `blocks`,
`text` for `text_resource`, and some values as JSON within a text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import plain_or_none
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.memories.messages import FOR_EXPORT, SpokenMessage, build_chat, text_of_content
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.schema.imported_files import Chat, ImportedFile, ImportedMemory

FORMAT = "llamaindex"
DOCUMENTS_FILE, CHATS_FILE = "docstore.json", "chat_store.json"
_DATA = "docstore/data"
_NOT_NEEDED = ("index_store.json", "graph_store.json", "property_graph_store.json")
_SOURCE = "1"
"""Name of the relationship between a node and its document."""
_TITLES = ("title", "file_name", "filename", "name")
_KEPT = ("metadata", "extra_info")


def is_llamaindex(source: Any) -> bool:
    """Return whether `source` comes from LlamaIndex. `source` is the path of a folder, or the JSON value of a file."""
    if isinstance(source, Path):
        return any((source / name).is_file() for name in (DOCUMENTS_FILE, CHATS_FILE))
    value = _unwrapped(source)
    return isinstance(value, Mapping) and (isinstance(value.get(_DATA), Mapping) or _is_chat_store(value))


def read_llamaindex(path: Path) -> ImportedFile:
    """Return the contents of a folder of LlamaIndex, or of one of its two files. A part of a document becomes a memory.

    A document whose parts are in the file is skipped, because they contain its text. Raises CorpusError if a file cannot
    be read or does not come from LlamaIndex.
    """
    files = [path]
    notes = []
    if path.is_dir():
        files = [path / name for name in (DOCUMENTS_FILE, CHATS_FILE) if (path / name).is_file()]
        if not files:
            raise CorpusError(
                f"{path}: is not a folder of LlamaIndex: neither {DOCUMENTS_FILE} nor {CHATS_FILE} is in it."
            )
        others = [name for name in _NOT_NEEDED if (path / name).is_file()]
        if others or any(path.glob("*vector_store.json")):
            notes.append("Vectors and indexes of LlamaIndex are not read; they are made again.")
    counter = FieldCounter()
    memories: list[ImportedMemory] = []
    chats: list[Chat] = []
    for file in files:
        value = _unwrapped(read_json_file(file))
        if isinstance(value, Mapping) and isinstance(value.get(_DATA), Mapping):
            memories += _read_documents(value[_DATA], counter)
        elif isinstance(value, Mapping) and _is_chat_store(value):
            chats += _read_chats(file, value, counter)
        elif value != {}:
            raise CorpusError(
                f"{file}: is not a file of LlamaIndex: it must have `{_DATA}`, or `store` with lists of messages."
            )
    return ImportedFile(
        path=str(path),
        format=FORMAT,
        memories=tuple(memories),
        chats=tuple(chats),
        fates=counter.fates(),
        notes=tuple(notes),
    )


def _unwrapped(value: Any) -> Any:
    """Return `value`. If `value` is a text with JSON, return the value of that JSON instead."""
    if not isinstance(value, str):
        return value
    try:
        inner = json.loads(value)
    except (ValueError, RecursionError):
        return value
    plain = plain_or_none(inner)
    return value if plain is None else plain


def _is_chat_store(value: Mapping[str, Any]) -> bool:
    store = value.get("store")
    if not isinstance(store, Mapping) or not all(isinstance(each, list) for each in store.values()):
        return False
    messages = [message for each in store.values() for message in each[:2]]
    return value.get("class_name") == "SimpleChatStore" or any(
        isinstance(each, Mapping) and "role" in each for each in messages
    )


def _read_documents(data: Mapping[str, Any], counter: FieldCounter) -> Iterator[ImportedMemory]:
    nodes = {node_id: _node_of(row) for node_id, row in data.items()}
    divided = {source for node_id, node in nodes.items() if node and (source := _source_of(node)) != node_id}
    for node_id, node in nodes.items():
        text = _text_of(node) if node else ""
        if not text.strip():
            counter.refuse("docstore.*", note="a node without text; passed by")
        elif node_id in divided:
            counter.refuse("docstore.*", note="a document whose parts are there too; passed by")
        elif node is not None:
            yield _to_memory(node_id, node, text, counter)


def _node_of(row: Any) -> Mapping[str, Any] | None:
    data = _unwrapped(row.get("__data__")) if isinstance(row, Mapping) else None
    return data if isinstance(data, Mapping) else None


def _source_of(node: Mapping[str, Any]) -> str:
    relationships = node.get("relationships")
    source = relationships.get(_SOURCE) if isinstance(relationships, Mapping) else None
    if isinstance(source, Mapping):
        source = source.get("node_id")
    return source if isinstance(source, str) else ""


def _text_of(node: Mapping[str, Any]) -> str:
    resource = node.get("text_resource")
    text = resource.get("text") if isinstance(resource, Mapping) else None
    text = node.get("text") if text is None else text
    return text if isinstance(text, str) else ""


def _to_memory(node_id: str, node: Mapping[str, Any], text: str, counter: FieldCounter) -> ImportedMemory:
    metadata: Mapping[str, Any] = next((node[name] for name in _KEPT if isinstance(node.get(name), Mapping)), {})
    counter.keep("docstore.*.id", node_id)
    counter.keep("docstore.*.text", text)
    counter.keep("docstore.*.metadata", metadata)
    counter.refuse("docstore.*.embedding", node.get("embedding"), "vectors are made again")
    counter.keep(
        "docstore.*.relationships",
        node.get("relationships"),
        "the document that it is a part of is kept; others are not",
    )
    for name in ("image_resource", "audio_resource", "video_resource", "image"):
        counter.refuse(f"docstore.*.{name}", node.get(name), "only texts are read")
    source = _source_of(node)
    title = next((metadata[name] for name in _TITLES if isinstance(metadata.get(name), str)), "")
    return ImportedMemory(
        memory_id=node_id,
        text=text,
        title=" ".join(title.split())[:200],
        metadata=dict(metadata) | ({"document": source} if source and source != node_id else {}),
    )


def _read_chats(file: Path, value: Mapping[str, Any], counter: FieldCounter) -> Iterator[Chat]:
    for key, rows in value["store"].items():
        # All conversations are in one JSON value: reading it once more for each of them would cost the square of their number.
        chat = build_chat(key or file.stem, partial(_read_messages, rows), counter, FORMAT)
        if chat is not None:
            yield chat


def _read_messages(rows: Sequence[Any], counter: FieldCounter) -> Iterator[SpokenMessage]:
    for row in rows:
        if not isinstance(row, Mapping):
            counter.refuse("messages.*", note="no message; passed by")
            continue
        counter.keep("messages.*.role", row.get("role"))
        name = "blocks" if row.get("blocks") is not None else "content"
        text = text_of_content(row.get(name), counter, f"messages.*.{name}")
        kept = row.get("additional_kwargs")
        counter.keep("messages.*.additional_kwargs", kept, FOR_EXPORT)
        role = row.get("role")
        yield SpokenMessage(
            role=role if isinstance(role, str) else "assistant",
            text=text,
            kept=kept if isinstance(kept, Mapping) else {},
        )
