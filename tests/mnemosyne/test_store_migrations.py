"""A database of an older release comes up to date in place, with all it holds, and is then like a new one.

`store_version_1.sql` was written by the release whose files are version 1 (`.dump` of a file with two sessions, a fork, a
waiting turn, lore that changed, and fifty-five turns that change the state).
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mnemosyne import Author, AuthorKind, Chain, Ref, SqliteStore, StoreUnavailableError, TurnStatus
from mnemosyne.stores.maintenance.revision import migrate_store
from mnemosyne.stores.migrations.migrate import migrate_sqlite
from mnemosyne.stores.sql.schema import NEEDED, REVISION, TEXT_TABLES
from mnemosyne.stores.sqlite.file import APPLICATION_ID, SqliteOptions, open_database
from mnemosyne.testing.stores.samples import AT, SCOPE, SESSION, STATE, WORLD_SCOPE, gold_state, play

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
VERSION_1 = Path(__file__).with_name("store_version_1.sql")


@pytest.fixture
def old_file(tmp_path):
    path = tmp_path / "store.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    connection.close()
    return path


def tables_of(path: Path) -> dict[str, str]:
    """Return the SQL of every table and index, without its white space and the quotes that tools add."""
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: re.sub(r"[\s\"]+", "", sql).lower() for name, sql in rows}


async def test_a_file_of_version_1_keeps_all_it_holds(old_file):
    store = SqliteStore(old_file)
    assert await store.sessions() == ("s0", SESSION)
    main = await store.window(SESSION, message_limit=1000, branch_id="main")
    assert main.head.depth == 57
    assert len(main.messages) == 114
    first = main.messages[0].message
    assert first.content == "那把<钥匙>在哪里？"
    assert (first.author, first.at) == (Author(kind=AuthorKind.USER, id="Lin"), AT)
    assert first.refs == (Ref(evidence_id="ev1"),)
    assert main.state == gold_state(55)
    side = await store.window(SESSION, message_limit=4)
    assert [placed.message.content for placed in side.messages] == ["hello", "reply t3", "on the side", "reply b1"]
    assert side.prefetch is not None
    assert side.prefetch.keywords == ("钥匙",)
    assert side.pending is not None
    assert side.pending.turn_id == "w1"
    assert (side.pending.prompt, side.pending.anchors) == ({"text": "…"}, {"hero": "/hero"})
    assert (await store.turn(SESSION, "old")).status is TurnStatus.ABANDONED
    for turn_id, amount in (("t1", 1), ("t49", 49), ("t50", 50), ("t55", 55), ("b1", 100)):
        assert await store.state_at(SESSION, turn_id) == gold_state(amount)
    assert await store.state_at(SESSION, None) == STATE
    assert [entry.entry_id for entry in await store.gated_entries((SCOPE,))] == ["e1"]
    (summary,) = await store.entries_after(SCOPE, Chain.NARRATIVE, 0, 9)
    assert summary.entry.text == "They ask for the key."
    lore = await store.entries_after(WORLD_SCOPE, Chain.LORE, 0, 9)
    assert {(found.entry.entry_id, found.deleted) for found in lore} == {("a", False), ("b", False), ("gone", True)}
    assert await store.replace_world("w1", "d2", ()) == 0
    assert (await store.turn("s0", "p001")).messages[0].content == "ask two"
    await store.close()


async def test_play_goes_on_where_it_stood(old_file):
    store = SqliteStore(old_file)
    seen = (await store.entries_after(SCOPE, Chain.HISTORY, 0, 999))[-1].sequence
    head = await store.switch(SESSION, "main")
    assert head.version > 57
    after = await play(store, "t56", 56)
    assert (after.depth, after.turn_id) == (58, "t56")
    assert await store.state_at(SESSION, "t56") == gold_state(56)
    later = await store.entries_after(SCOPE, Chain.HISTORY, seen, 9)
    assert [found.entry.entry_id for found in later] == ["t56.u", "t56.a"]
    document = await store.get_session(SESSION)
    assert document is not None
    assert len(document.session.messages) == 116
    assert document.meta is not None
    assert (document.meta.locale, document.meta.created_at) == ("en", AT)
    await store.close()


async def test_what_was_there_before_belongs_to_the_default_tenant(old_file):
    other = SqliteStore(old_file, tenant="other")
    assert await other.sessions() == ()
    await other.close()


def test_a_migrated_file_is_like_a_new_one(old_file, tmp_path):
    new = tmp_path / "new.db"
    open_database(SqliteOptions(path=new)).close()
    connection = open_database(SqliteOptions(path=old_file))
    assert connection.execute("PRAGMA user_version").fetchone() == (NEEDED,)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(f"{NEEDED:04}",)]
    assert connection.execute("SELECT revision FROM store_revision").fetchall() == [(REVISION,)]
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert tables_of(old_file) == tables_of(new)


def test_numbers_that_were_given_once_are_not_given_again(old_file):
    connection = sqlite3.connect(old_file)
    connection.execute("DELETE FROM entries WHERE seq >= 7")
    connection.commit()
    connection.close()
    connection = open_database(SqliteOptions(path=old_file))
    assert connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone() == (8,)
    connection.close()


def test_a_migration_that_fails_changes_nothing(old_file):
    connection = sqlite3.connect(old_file)
    connection.execute("CREATE TABLE audits (in_the_way TEXT)")
    connection.commit()
    before = tables_of(old_file)
    rows = list(connection.iterdump())
    connection.close()
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        open_database(SqliteOptions(path=old_file))
    assert tables_of(old_file) == before
    connection = sqlite3.connect(old_file)
    assert list(connection.iterdump()) == rows
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()


def test_several_processes_migrate_one_file(old_file):
    script = f"""
from pathlib import Path
from mnemosyne.stores.sqlite.file import SqliteOptions, open_database
connection = open_database(SqliteOptions(path=Path({str(old_file)!r})))
print(connection.execute("SELECT count(*) FROM messages").fetchone()[0])
connection.close()
"""
    command = [sys.executable, "-c", script]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) for _ in range(3)
    ]
    for process in running:
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out.strip()) == (0, "118"), errors


def test_migrating_twice_is_no_work(old_file):
    migrate_sqlite(old_file, 5)
    before = tables_of(old_file)
    migrate_sqlite(old_file, 5)
    assert tables_of(old_file) == before


async def test_a_newer_file_is_refused_and_left_alone(old_file):
    connection = sqlite3.connect(old_file)
    connection.execute(f"PRAGMA user_version = {REVISION + 1}")
    connection.close()
    before = old_file.read_bytes()
    store = SqliteStore(old_file)
    with pytest.raises(StoreUnavailableError, match=f"newer release .store version {REVISION + 1}"):
        await store.sessions()
    await store.close()
    assert old_file.read_bytes() == before


def test_a_new_file_needs_no_migration_tool(tmp_path):
    script = f"""
import sys
from pathlib import Path
from mnemosyne.stores.sqlite.file import SqliteOptions, open_database
open_database(SqliteOptions(path=Path({str(tmp_path / "s.db")!r}))).close()
assert not [name for name in sys.modules if name.split(".")[0] in ("alembic", "sqlalchemy", "psycopg")]
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


def test_the_search_knows_every_column(tmp_path):
    """A column that can hold text and is not searched would let an erased text stand unseen."""
    connection = open_database(SqliteOptions(path=tmp_path / "s.db"))
    known = {kept.table: {*kept.words, *kept.bodies} for kept in TEXT_TABLES}
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'alembic_version'"
    ).fetchall()
    assert {name for (name,) in tables} == {*known, "store_revision"}
    for table, columns in known.items():
        held = {
            name
            for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})")
            if kind != "INTEGER" and name != "tenant"
        }
        assert held == columns, table
    connection.close()


def test_old_indexes_stay_known_to_readers(old_file):
    """The place of a message is what it was, so that an index of the old release goes on."""
    connection = sqlite3.connect(old_file)
    before = connection.execute("SELECT seq, message_id, body FROM messages ORDER BY seq").fetchall()
    connection.close()
    connection = open_database(SqliteOptions(path=old_file))
    assert connection.execute("SELECT seq, message_id, body FROM messages ORDER BY seq").fetchall() == before
    connection.close()


async def test_an_old_entry_can_be_written_again(old_file):
    store = SqliteStore(old_file)
    (entry,) = await store.entries(SCOPE, ("e2",))
    head = await store.head(SESSION)
    assert await store.append_turns(SESSION, (), (entry,)) == head
    assert (await store.append_turns(SESSION, (), (replace(entry, text="new"),))).version == head.version + 1
    await store.close()


def test_the_command_says_from_where_to_where(old_file):
    done = migrate_store(f"sqlite:///{old_file}")
    assert (done.before, done.after) == (1, REVISION)
    assert migrate_store(f"sqlite:///{old_file}").before == REVISION
