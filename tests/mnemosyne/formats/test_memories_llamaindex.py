"""Folders that LlamaIndex persists: documents and conversations."""

from __future__ import annotations

import json

import pytest
from memory_files import write_json

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.memories.llamaindex import is_llamaindex, read_llamaindex
from mnemosyne.schema.imported_files import Fate


def node(node_id, text, source="", **fields):
    relationships = {"1": {"node_id": source, "node_type": "4", "metadata": {}}} if source else {}
    data = {"id_": node_id, "embedding": None, "metadata": {}, "relationships": relationships, "text": text, **fields}
    return {"__data__": data, "__type__": "1"}


def message(role, text):
    return {"role": role, "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": text}]}


DOCUMENT = {
    "__data__": {
        "id_": "d2",
        "metadata": {"file_name": "harbour.md"},
        "relationships": {},
        "text_resource": {"text": "港口很旧。", "embeddings": None},
        "class_name": "Document",
    },
    "__type__": "4",
}
DOCUMENTS = {
    "docstore/data": {
        "d1": node("d1", "The mill is old. It creaks."),
        "n1": node("n1", "The mill is old.", "d1", embedding=[0.5], metadata={"title": "The Mill"}),
        "n2": node("n2", "It creaks.", "d1"),
        "d2": DOCUMENT,
        "n3": node("n3", "  "),
    },
    "docstore/metadata": {},
}
CHATS = {
    "store": {
        "alice": [message("system", "Be kind."), message("user", "你好"), message("assistant", "hello")],
        "bob": [{"role": "user", "content": "hi", "additional_kwargs": {"k": 1}}, 7],
        "eve": [],
    },
    "class_name": "SimpleChatStore",
}


def fate_of(file, field):
    return [(each.fate, each.count) for each in file.fates if each.field == field]


def test_a_folder(tmp_path):
    write_json(tmp_path / "docstore.json", DOCUMENTS)
    write_json(tmp_path / "chat_store.json", CHATS)
    write_json(tmp_path / "index_store.json", {})
    assert is_llamaindex(tmp_path)
    file = read_llamaindex(tmp_path)
    assert [(each.memory_id, each.title, each.text) for each in file.memories] == [
        ("n1", "The Mill", "The mill is old."),
        ("n2", "", "It creaks."),
        ("d2", "harbour.md", "港口很旧。"),
    ]
    assert file.memories[0].metadata == {"title": "The Mill", "document": "d1"}
    assert [(chat.name, chat.turn_count) for chat in file.chats] == [("alice", 1), ("bob", 1)]
    (turn,) = file.chats[0].read_turns()
    assert [(each.role, each.content) for each in turn.messages] == [
        ("system", "Be kind."),
        ("user", "你好"),
        ("assistant", "hello"),
    ]
    assert list(file.chats[0].read_turns()) == [turn]
    assert fate_of(file, "docstore.*.embedding") == [(Fate.NOT_SUPPORTED, 1)]
    assert fate_of(file, "docstore.*") == [(Fate.NOT_SUPPORTED, 1), (Fate.NOT_SUPPORTED, 1)]
    assert any("made again" in note for note in file.notes)


@pytest.mark.parametrize("value", [CHATS, json.dumps(CHATS)])
def test_a_chat_store_alone_also_as_json_within_json(tmp_path, value):
    assert is_llamaindex(value)
    file = read_llamaindex(write_json(tmp_path / "mine.json", value))
    assert [chat.name for chat in file.chats] == ["alice", "bob"]


def test_data_that_is_json_within_json(tmp_path):
    old = {
        "docstore/data": {
            "x": {"__data__": json.dumps({"text": "old", "extra_info": {"name": "a.txt"}, "relationships": {"1": "d"}})}
        }
    }
    (memory,) = read_llamaindex(write_json(tmp_path / "docstore.json", old)).memories
    assert (memory.text, memory.title, memory.metadata) == ("old", "a.txt", {"name": "a.txt", "document": "d"})


@pytest.mark.parametrize("value", [{}, [], {"store": 1}, {"store": {"a": [1]}}, {"docstore/data": 1}, "x", None])
def test_other_values_are_not_of_llamaindex(value):
    assert not is_llamaindex(value)


def test_what_is_none_of_llamaindex_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="is not a folder of LlamaIndex"):
        read_llamaindex(tmp_path)
    with pytest.raises(CorpusError, match="is not a file of LlamaIndex"):
        read_llamaindex(write_json(tmp_path / "a.json", {"entries": []}))
    write_json(tmp_path / "docstore.json", {})
    assert read_llamaindex(tmp_path).memories == ()
