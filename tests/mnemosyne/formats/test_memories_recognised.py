"""Notes and memory stores are known by what is in them."""

from __future__ import annotations

import pytest
from memory_files import (
    CHECKPOINTS,
    HISTORY,
    MESSAGE_STORE,
    STORE,
    database,
    langchain_message,
    pickled_point,
    qdrant_folder,
    write_json,
)

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.recognise import recognise

MEMORY = {"id": "m1", "memory": "喜欢茶"}
CHATS = {"store": {"a": [{"role": "user", "content": "hi"}]}, "class_name": "SimpleChatStore"}


def vault(folder):
    for name in ("a.md", "b.md"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("---\nkeys: [x]\n---\ntext")
    return folder


def markdown(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# 灯塔\ntext", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda folder: vault(folder / "vault"), "obsidian"),
        (lambda folder: markdown(folder / "a.md"), "markdown"),
        (lambda folder: markdown(folder / "plain" / "a.md").parent, "markdown"),
        (lambda folder: write_json(folder / "all.json", {"results": [MEMORY]}), "mem0"),
        (lambda folder: write_json(folder / "list.json", [MEMORY]), "mem0"),
        (lambda folder: database(folder / "history.db", HISTORY), "mem0"),
        (lambda folder: database(folder / ".mem0" / "history.db", HISTORY).parent, "mem0"),
        (lambda folder: qdrant_folder(folder / "qdrant", pickled_point("p", {"data": "x"})), "mem0"),
        (lambda folder: write_json(folder / "chat.json", [langchain_message("human", "hi")]), "langchain"),
        (lambda folder: database(folder / "a.db", MESSAGE_STORE), "langchain"),
        (lambda folder: database(folder / "b.db", STORE), "langchain"),
        (lambda folder: database(folder / "c.db", CHECKPOINTS), "langchain"),
        (lambda folder: write_json(folder / "chat_store.json", CHATS), "llamaindex"),
        (lambda folder: write_json(folder / "kept" / "docstore.json", {"docstore/data": {}}).parent, "llamaindex"),
    ],
)
def test_what_a_file_is(tmp_path, make, name):
    assert recognise(make(tmp_path)) == name


def test_a_database_that_is_in_use_says_so(tmp_path):
    path = database(tmp_path / "a.db", MESSAGE_STORE)
    (tmp_path / "a.db-journal").write_bytes(b"x")
    with pytest.raises(CorpusError, match="close the program"):
        recognise(path)
