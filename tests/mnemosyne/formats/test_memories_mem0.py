"""Memories of mem0: exports, history.db, local Qdrant folders."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_files import HISTORY, database, pickled, pickled_point, qdrant_folder, write_json

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.memories.mem0 import is_mem0, read_mem0
from mnemosyne.formats.memories.qdrant import read_plain_pickle
from mnemosyne.schema.imported_files import Fate

TEA = {
    "id": "m1",
    "memory": "Likes green tea",
    "hash": "h1",
    "metadata": {"mood": "calm"},
    "created_at": "2025-01-02T03:04:05+00:00",
    "updated_at": "2025-02-02T03:04:05+00:00",
    "user_id": "alice",
    "agent_id": "guide",
    "categories": ["food"],
    "expiration_date": "2026-01-01",
    "score": 0.5,
}
CHINESE = {"id": "m2", "memory": "喜欢绿茶", "user_id": "alice", "created_at": "soon", "updated_at": None}


def fate_of(file, field):
    return [(each.fate, each.count) for each in file.fates if each.field == field]


@pytest.mark.parametrize("value", [{"results": [TEA, CHINESE]}, [TEA, CHINESE], {"memories": [TEA, CHINESE]}])
def test_what_get_all_returns(tmp_path, value):
    assert is_mem0(value)
    file = read_mem0(write_json(tmp_path / "memories.json", value))
    tea, chinese = file.memories
    assert (tea.memory_id, tea.text, tea.user_id, tea.tags) == ("m1", "Likes green tea", "alice", ("food",))
    assert tea.at == datetime(2025, 2, 2, 3, 4, 5, tzinfo=UTC)
    assert tea.metadata == {
        "mood": "calm", "hash": "h1", "created_at": TEA["created_at"], "updated_at": TEA["updated_at"],
        "agent_id": "guide", "expiration_date": "2026-01-01", "score": 0.5,
    }  # fmt: skip
    assert (chinese.text, chinese.at) == ("喜欢绿茶", None)
    assert fate_of(file, "memories.*.expiration_date") == [(Fate.NOT_SUPPORTED, 1)]
    assert fate_of(file, "memories.*.created_at") == [(Fate.KEPT, 1), (Fate.CHANGED, 1)]
    assert file.notes == ()


def test_several_users_relations_and_pages_are_named(tmp_path):
    value = {"results": [TEA, {**CHINESE, "user_id": "bob"}], "relations": [{"source": "a"}], "next": "page=2"}
    file = read_mem0(write_json(tmp_path / "memories.json", value))
    assert any("of 2 users (alice, bob)" in note for note in file.notes)
    assert any("one page of several" in note for note in file.notes)
    assert fate_of(file, "relations.*") == [(Fate.NOT_SUPPORTED, 1)]


def test_ids_are_unique_and_what_says_nothing_is_passed_by(tmp_path):
    rows = [
        TEA,
        TEA,
        {**TEA, "memory": "other"},
        {**TEA, "memory": "other"},
        {"id": "e", "memory": " "},
        7,
        {"memory": "bare"},
    ]
    file = read_mem0(write_json(tmp_path / "memories.json", rows))
    ids = [memory.memory_id for memory in file.memories]
    assert len(set(ids)) == len(ids) == 4
    assert sum(count for fate, count in fate_of(file, "memories.*")) == 3


def test_the_history_gives_the_last_text_of_each_memory(tmp_path):
    path = database(
        tmp_path / "history.db",
        HISTORY,
        [
            ("history", ("1", "m1", None, "Likes tea", "ADD", "2025-01-02T03:04:05+00:00", None, 0, None, None)),
            ("history", ("2", "m2", None, "住在罗马", "ADD", "2025-01-02T03:04:05+00:00", None, 0, "bob", "user")),
            (
                "history",
                ("3", "m2", "住在罗马", "住在奥斯陆", "UPDATE", None, "2025-02-02T03:04:05+00:00", 0, None, None),
            ),
            ("history", ("4", "m1", "Likes tea", None, "DELETE", None, None, 1, None, None)),
            ("messages", ("1", "user_id=bob", "user", "hello", "Bob", "2025-01-01T00:00:00+00:00")),
            ("messages", ("2", "user_id=eve", "user", "hi", None, None)),
            ("messages", ("3", "user_id=bob", "assistant", "welcome", None, None)),
        ],
    )
    assert is_mem0(path)
    assert is_mem0(tmp_path)
    file = read_mem0(path)
    (memory,) = file.memories
    assert (memory.memory_id, memory.text, memory.metadata["actor_id"]) == ("m2", "住在奥斯陆", "bob")
    assert memory.at == datetime(2025, 2, 2, 3, 4, 5, tzinfo=UTC)
    assert fate_of(file, "history.*: DELETE") == [(Fate.NOT_SUPPORTED, 1)]
    bob, eve = file.chats
    assert (bob.name, bob.user_name, bob.turn_count, eve.name) == ("user_id=bob", "Bob", 1, "user_id=eve")
    (turn,) = bob.read_turns()
    assert [(each.role, each.content) for each in turn.messages] == [("user", "hello"), ("assistant", "welcome")]
    assert list(bob.read_turns()) == [turn]
    assert any("does not say whose" in note for note in file.notes)


def test_a_local_qdrant_folder(tmp_path):
    at = "2025-01-02T03:04:05+00:00"
    payload = {"data": "喜欢绿茶", "user_id": "alice", "created_at": at, "text_lemmatized": "茶", "place": ["Rome", 1]}
    folder = qdrant_folder(tmp_path, pickled_point("p1", payload), b"\x80\x04N.", pickle.dumps(print), None)
    assert is_mem0(folder)
    file = read_mem0(folder)
    (memory,) = file.memories
    assert (memory.memory_id, memory.text, memory.user_id) == ("p1", "喜欢绿茶", "alice")
    assert memory.metadata == {"place": ["Rome", 1], "created_at": at}
    assert fate_of(file, "points.*") == [(Fate.NOT_SUPPORTED, 3)]
    assert any("3 points" in note and "get_all()" in note for note in file.notes)


class Runs:
    """An object whose pickle calls a function when it is loaded."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(Runs()),
        pickle.dumps([Runs()], protocol=0),
        b"",
        b"\x80\x04",
        b"\x80\x04]\x94(h\x00h\x00e.",
        b"\x80\x04X\xe8\x03\x00\x00" + b"a" * 1000 + b"\x94(" + b"h\x00" * 10_000 + b"t.",
        b"\x80\x04" + b"(" * 100_000 + b"l" * 50_000 + b".",
        b"\x80\x04r\xff\xff\xff\xff.",
        b"\x80\x04}\x94}b\x94K\x01K\x02s.",
    ],
)
def test_pickles_that_call_or_repeat_are_unreadable(data):
    with pytest.raises(ValueError, match=r"."):
        read_plain_pickle(data)


NUMBERS = st.integers(-(2**31), 2**31 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=6,
)


@given(PLAIN.filter(lambda value: not isinstance(value, dict) or not {"vector", "__dict__"} & set(value)))
def test_plain_data_is_read_as_it_was_written(value):
    assert read_plain_pickle(pickled(value)) == value
    read = None
    try:
        read = read_plain_pickle(pickle.dumps(value, protocol=4))
    except ValueError:
        return  # the same object in two places
    assert read == value


@given(st.binary(max_size=200))
def test_any_pickle(data):
    for each in (data, b"\x80\x04" + data + b"."):
        try:
            read_plain_pickle(each)
        except ValueError:
            continue


@pytest.mark.parametrize(
    "value", [{}, [], {"results": 1}, {"results": []}, [1], [{"role": "user", "content": "x"}], "memory", None]
)
def test_other_values_are_not_of_mem0(value):
    assert not is_mem0(value)


def test_what_is_none_of_mem0_is_refused(tmp_path):
    with pytest.raises(CorpusError, match="is not a list of memories"):
        read_mem0(write_json(tmp_path / "a.json", {"entries": {}}))
    with pytest.raises(CorpusError, match="no table `history`"):
        read_mem0(database(tmp_path / "a.db", "CREATE TABLE other (x)"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(CorpusError, match="is not a folder of mem0"):
        read_mem0(tmp_path / "empty")
    assert read_mem0(write_json(tmp_path / "none.json", {"results": []})).memories == ()
