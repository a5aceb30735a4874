"""Message histories of LangChain, stores and checkpoints of LangGraph."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from memory_files import CHECKPOINTS, MESSAGE_STORE, STORE, database, langchain_message, write_json

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.memories.langchain import is_langchain, read_langchain, text_of_item
from mnemosyne.schema.imported_files import Fate
from mnemosyne.schema.memory import NOBODY, VIEWERS

CALL = {"name": "look", "args": {"at": "tide"}, "id": "c1", "type": "tool_call"}
PICTURE = {"type": "image_url", "image_url": {"url": "data:x"}}
HISTORY = [
    langchain_message("system", "Be kind."),
    langchain_message("human", "潮水什么时候来？", name="小满"),
    langchain_message("ai", "", tool_calls=[CALL]),
    langchain_message("tool", "at nine", tool_call_id="c1"),
    langchain_message("ai", "九点。", name="Guide", usage_metadata={"input_tokens": 3}),
    langchain_message("human", [{"type": "text", "text": "And this?"}, PICTURE, "Look."]),
    langchain_message("chat", "A boat.", role="narrator"),
    langchain_message("AIMessageChunk", "It drifts."),
    langchain_message("remove", ""),
    {"type": "human"},
    7,
]


def messages_of(chat):
    return [
        (each.role, each.content, each.author.id if each.author else "")
        for turn in chat.read_turns()
        for each in turn.messages
    ]


def fate_of(file, field):
    return [(each.fate, each.count) for each in file.fates if each.field == field]


def test_a_history_in_a_file(tmp_path):
    assert is_langchain(HISTORY)
    file = read_langchain(write_json(tmp_path / "tide.json", HISTORY))
    (chat,) = file.chats
    assert (chat.name, chat.user_name, chat.character_names, chat.turn_count) == ("tide", "小满", ("Guide",), 2)
    assert messages_of(chat) == [
        ("system", "Be kind.", ""),
        ("user", "潮水什么时候来？", "小满"),
        ("assistant", "", ""),
        ("tool", "at nine", ""),
        ("assistant", "九点。", "Guide"),
        ("user", "And this?\nLook.", ""),
        ("assistant", "A boat.", "narrator"),
        ("assistant", "It drifts.", ""),
    ]
    assert fate_of(file, "messages.*.content.*: image_url") == [(Fate.NOT_SUPPORTED, 1)]
    assert fate_of(file, "messages.*") == [(Fate.NOT_SUPPORTED, 3)]


def test_calls_and_results_of_tools_are_kept_and_hidden(tmp_path):
    (chat,) = read_langchain(write_json(tmp_path / "tide.json", HISTORY)).chats
    messages = [each for turn in chat.read_turns() for each in turn.messages]
    assert [place for place, each in enumerate(messages) if each.extra.get(VIEWERS) == list(NOBODY)] == [2, 3]
    assert messages[2].extra["langchain"] == {"tool_calls": [CALL]}
    assert messages[3].extra["langchain"] == {"tool_call_id": "c1"}


def test_turns_are_the_same_each_time(tmp_path):
    (chat,) = read_langchain(write_json(tmp_path / "tide.json", HISTORY)).chats
    assert list(chat.read_turns()) == list(chat.read_turns())
    assert len(list(chat.read_turns())) == chat.turn_count


def test_messages_as_langchain_dumps_them(tmp_path):
    def dumped(name, **kwargs):
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": kwargs}

    value = {"messages": [dumped("HumanMessage", content="hi"), dumped("AIMessage", content="hello")]}
    assert is_langchain(value)
    (chat,) = read_langchain(write_json(tmp_path / "a.json", value)).chats
    assert messages_of(chat) == [("user", "hi", ""), ("assistant", "hello", "")]


def test_histories_in_a_database(tmp_path):
    rows = [
        ("message_store", (number, session, json.dumps(message)))
        for number, (session, message) in enumerate(
            [
                ("alice", langchain_message("human", "hi")),
                ("bob", langchain_message("human", "你好")),
                ("alice", langchain_message("ai", "hello")),
                ("eve", langchain_message("remove", "")),
            ],
            1,
        )
    ]
    path = database(tmp_path / "chats.db", MESSAGE_STORE, [*rows, ("message_store", (9, "bob", "no JSON"))])
    assert is_langchain(path)
    file = read_langchain(path)
    assert {chat.name: messages_of(chat) for chat in file.chats} == {
        "alice": [("user", "hi", ""), ("assistant", "hello", "")],
        "bob": [("user", "你好", "")],
    }
    assert fate_of(file, "messages.*") == [(Fate.NOT_SUPPORTED, 2)]
    assert path.parent.joinpath("chats.db").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["chats.db"]


def test_items_of_a_store(tmp_path):
    at = "2025-01-02 03:04:05"
    value = json.dumps({"text": "住在罗马", "n": 1}).encode()
    rows = [
        ("store", ("users.alice.memories", "k1", value, at, at, None, None)),
        ("store", ("users.alice.memories", "k2", "{}", at, at, None, None)),
        ("store", ("users.bob", "k1", '{"kind": "Memory", "content": {"content": "likes tea"}}', at, at, at, 5.0)),
    ]
    file = read_langchain(database(tmp_path / "store.db", STORE, rows))
    rome, tea = file.memories
    assert (rome.memory_id, rome.text, rome.at) == (
        "users.alice.memories/k1",
        "住在罗马",
        datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC),
    )
    assert rome.metadata["namespace"] == ["users", "alice", "memories"]
    assert rome.metadata["value"] == {"text": "住在罗马", "n": 1}
    assert tea.text == "likes tea"
    assert fate_of(file, "store.*") == [(Fate.NOT_SUPPORTED, 1)]
    assert fate_of(file, "store.*.expires_at") == [(Fate.NOT_SUPPORTED, 1)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (None, ""),
        ({}, ""),
        ({"name": "Ana", "age": 7, "likes": ["tea"], "none": None}, 'name: Ana\nage: 7\nlikes: ["tea"]'),
        ({"content": {"memory": "deep"}}, "deep"),
        ({"content": {"content": {"content": {"content": {"content": "too deep"}}}}}, '{"content": "too deep"}'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_what_an_item_says(value, text):
    assert text_of_item(value) == text


def test_checkpoints_are_refused_with_what_to_do(tmp_path):
    row = ("checkpoints", ("t1", "", "c1", None, "msgpack", b"\x80", b"{}"))
    with pytest.raises(CorpusError, match=r"never loaded here.*messages_to_dict"):
        read_langchain(database(tmp_path / "a.db", CHECKPOINTS, [row]))
    item = ("store", ("users", "k1", '{"text": "x"}', None, None, None, None))
    file = read_langchain(database(tmp_path / "b.db", CHECKPOINTS + STORE, [row, item]))
    assert len(file.memories) == 1
    assert any("checkpoints in it were not read" in note for note in file.notes)


def test_what_is_none_of_langchain_is_refused(tmp_path):
    assert not is_langchain([{"role": "user", "content": "hi"}])
    assert not is_langchain({"messages": 1})
    assert not is_langchain(tmp_path / "nowhere.db")
    with pytest.raises(CorpusError, match="holds no message of LangChain"):
        read_langchain(write_json(tmp_path / "a.json", [{"role": "user", "content": "hi"}]))
    with pytest.raises(CorpusError, match="its messages have no text"):
        read_langchain(write_json(tmp_path / "b.json", [langchain_message("human", "")]))
    with pytest.raises(CorpusError, match="is not a database of LangChain"):
        read_langchain(database(tmp_path / "c.db", "CREATE TABLE store (x)"))
