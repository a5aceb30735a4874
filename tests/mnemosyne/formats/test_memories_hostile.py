"""Whatever a file of memories holds, it gives values that can be stored, or a CorpusError; a database is never changed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from memory_files import HISTORY, MESSAGE_STORE, database, langchain_message, write_json

from mnemosyne import (
    CorpusError,
)
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.formats.memories.databases import open_database, tables_of
from mnemosyne.formats.memories.langchain import is_langchain, read_langchain
from mnemosyne.formats.memories.llamaindex import is_llamaindex, read_llamaindex
from mnemosyne.formats.memories.mem0 import is_mem0, read_mem0

READERS = (read_mem0, read_langchain, read_llamaindex)
KNOWN = (is_mem0, is_langchain, is_llamaindex)
NAMES = (
    *(
        "results",
        "memories",
        "id",
        "memory",
        "text",
        "metadata",
        "created_at",
        "user_id",
        "categories",
        "messages",
        "type",
    ),
    *(
        "content",
        "tool_calls",
        "name",
        "lc",
        "kwargs",
        "docstore/data",
        "__data__",
        "relationships",
        "1",
        "store",
        "role",
    ),
    *("data", "blocks"),
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(("human", "ai", "x", " ", "文")),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=25,
)


def try_to_read(path):
    """Read a file with each reader; what it gives can be stored, and an error names the file."""
    for read in READERS:
        try:
            file = read(path)
        except CorpusError as error:
            named = str(error)
        else:
            check(file)
            named = file.path
        assert path.name in named


def check(file):
    for memory in file.memories:
        assert memory.text.strip()
        assert not list(
            plain_faults({**memory.metadata, "id": memory.memory_id, "text": memory.text, "user": memory.user_id})
        )
    assert len({memory.memory_id for memory in file.memories}) == len(file.memories)
    for chat in file.chats:
        turns = list(chat.read_turns())
        assert len(turns) == chat.turn_count
        assert not list(plain_faults([dict(each.extra) for turn in turns for each in turn.messages]))


@given(VALUES)
def test_any_json(value):
    with TemporaryDirectory() as name:
        path = write_json(Path(name) / "file.json", value)
        for known in KNOWN:
            known(value)
        try_to_read(path)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data, is_database):
    with TemporaryDirectory() as name:
        path = Path(name) / "file.db"
        path.write_bytes((b"SQLite format 3\0" if is_database else b"") + data)
        for known in KNOWN:
            assert not known(path)
        try_to_read(path)


@cache
def history_bytes():
    with TemporaryDirectory() as name:
        return history(Path(name)).read_bytes()


def history(folder):
    rows = [("message_store", (number, "s", '{"type": "human", "data": {"content": "hi"}}')) for number in range(100)]
    return database(folder / "chats.db", MESSAGE_STORE, rows)


@given(st.lists(st.tuples(st.integers(16, 12_000), st.binary(min_size=1, max_size=40)), min_size=1, max_size=6))
@example([(4042, b"\x80")])  # in the text of the schema, so that the message of SQLite is not UTF-8
def test_damaged_databases(places):
    with TemporaryDirectory() as name:
        path = Path(name) / "chats.db"
        data = bytearray(history_bytes())
        for place, piece in places:
            start = place % len(data)
            data[start : start + len(piece)] = piece[: len(data) - start]
        path.write_bytes(data)
        try_to_read(path)


def test_a_database_is_not_changed_and_nothing_is_beside_it(tmp_path):
    path = history(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    before = path.read_bytes()
    check(read_langchain(path))
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["chats.db"]


def test_what_another_program_has_just_written_is_read(tmp_path):
    path = history(tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "INSERT INTO message_store VALUES (1000, 'new', ?)", ('{"type": "human", "data": {"content": "new"}}',)
        )
        connection.commit()
        assert [chat.name for chat in read_langchain(path).chats] == ["s", "new"]


@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_a_database_in_the_middle_of_a_change_is_refused(tmp_path, ending):
    path = history(tmp_path)
    (tmp_path / f"chats.db{ending}").write_bytes(b"x")
    with pytest.raises(CorpusError, match="changes that are not finished; close the program"):
        read_langchain(path)


def test_views_and_virtual_tables_are_no_tables(tmp_path):
    script = """
        CREATE VIEW message_store AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
            SELECT i AS id, 's' AS session_id, 'x' AS message FROM n;
        CREATE VIRTUAL TABLE history USING fts5(memory_id, old_memory, new_memory, event);
    """
    path = database(tmp_path / "a.db", script)
    assert not {"message_store", "history"} & set(tables_of(path))
    for read in (read_mem0, read_langchain):
        with pytest.raises(CorpusError):
            read(path)


def test_a_table_without_row_numbers(tmp_path):
    path = database(
        tmp_path / "a.db", "CREATE TABLE message_store (session_id TEXT PRIMARY KEY, message TEXT) WITHOUT ROWID"
    )
    with pytest.raises(CorpusError, match="cannot be read as a SQLite database"):
        read_langchain(path)


def test_texts_that_are_no_utf8_and_values_of_other_types(tmp_path):
    path = database(tmp_path / "history.db", HISTORY)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "INSERT INTO history (memory_id, new_memory, event) VALUES ('m1', CAST(x'68ff69' AS TEXT), 'ADD')"
        )
        connection.execute(
            "INSERT INTO history (memory_id, new_memory, event, created_at) VALUES (7, x'00ff', 'ADD', 1.5)"
        )
        connection.execute("INSERT INTO messages (session_scope, content) VALUES (NULL, 5)")
        connection.commit()
    file = read_mem0(path)
    check(file)
    assert [memory.text for memory in file.memories] == ["h\ufffdi"]


def test_a_value_that_is_too_large_is_refused(tmp_path):
    path = database(tmp_path / "a.db", MESSAGE_STORE + "INSERT INTO message_store VALUES (1, 's', zeroblob(17000000));")
    with pytest.raises(CorpusError, match="cannot be read"):
        read_langchain(path)


def test_names_of_tables_are_quoted(tmp_path):
    path = database(tmp_path / "a.db", 'CREATE TABLE "x""; DROP TABLE y" (a); CREATE TABLE y (b);')
    with open_database(path) as opened:
        assert list(opened.rows('x"; DROP TABLE y', ("a",))) == []
        assert opened.tables["y"] == ("b",)


def test_many_sessions_cost_no_more_than_their_messages(tmp_path):
    rows = [
        ("message_store", (number, f"s{number}", '{"type": "human", "data": {"content": "hi"}}'))
        for number in range(500)
    ]
    file = read_langchain(database(tmp_path / "a.db", MESSAGE_STORE, rows))
    assert len(file.chats) == 500
    chats = {"store": {f"k{number}": [{"role": "user", "content": "hi"}] for number in range(500)}}
    assert len(read_llamaindex(write_json(tmp_path / "a.json", chats)).chats) == 500
    assert len(read_langchain(write_json(tmp_path / "b.json", [langchain_message("human", "hi")] * 5000)).chats) == 1
