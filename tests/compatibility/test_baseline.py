"""What the baseline wrote (November 2026) is converted, opens, replays byte for byte, and goes on.

`baseline/` holds two world packs, a settings file, and the same sessions in each kind of store, as `release_player.py` played them.
`prompts.json` has the SHA-256 of every recorded prompt and state as the baseline read them. The files are never edited.
"""

from __future__ import annotations

import json
import lzma
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing, suppress
from pathlib import Path

import anyio
import psycopg
import pytest
from release_player import digest, read_digests
from typer.testing import CliRunner

from jacquard import load_config, open_runtime
from jacquard.cli.app import app
from jacquard.migrate import BASELINE, migrate_store
from mnemosyne import StoreUnavailableError
from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.stores.maintenance.copies import restore_store
from mnemosyne.stores.maintenance.digest import write_digest
from mnemosyne.stores.sql.schema import COLUMNS, REVISION
from mnemosyne.stores.sqlite.file import SqliteOptions, open_database

DATA = Path(__file__).with_name("baseline")
SCHEMA = "jacquard_before"
EXPECTED = json.loads((DATA / "prompts.json").read_text(encoding="utf-8"))
SESSIONS = {"zh-cache": "我再看看那张地图。", "en-classic": "I look for the brass key once more."}
CONFIGS = {"zh-cache": DATA / "settings.yaml", "en-classic": None}
KINDS = ["sqlite", "file", "postgres"]


def run(*args: object, code: int = 0):
    """Run a command, and return what it printed."""
    done = CliRunner().invoke(app, [str(each) for each in args])
    assert done.exit_code == code, done.output
    return done


def unpack_database(folder: Path) -> Path:
    """Write the SQLite store of the baseline, and return its file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "store.db").write_bytes(lzma.decompress((DATA / "store.db.xz").read_bytes()))
    return folder / "store.db"


def fill_postgres(uri: str, source: Path) -> str:
    """Make the tables of the baseline with the rows of its SQLite store, and return the address of the store."""
    with psycopg.connect(uri, autocommit=True) as admin, closing(sqlite3.connect(source)) as rows:
        admin.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        admin.execute(f"CREATE SCHEMA {SCHEMA}")
        admin.execute(f"SET search_path = {SCHEMA}")
        admin.execute(lzma.decompress((DATA / "postgres.sql.xz").read_bytes()))
        for table in COLUMNS:
            if table not in ("store_revision", "unfinished_replies", "reply_chunks"):
                found = rows.execute(f"SELECT * FROM {table}")
                columns = ", ".join(each[0] for each in found.description)
                signs = ", ".join(["%s"] * len(found.description))
                with admin.cursor() as cursor:
                    cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({signs})", found.fetchall())
        for table, last in rows.execute("SELECT name, seq FROM sqlite_sequence").fetchall():
            number = {"sessions": "key", "turns": "number", "audits": "number"}.get(table, "seq")
            admin.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{number}'), {last})")
    return f"{uri}&schema={SCHEMA}"


@pytest.fixture(params=KINDS)
def old_address(request, tmp_path, monkeypatch):
    """The address of a store as the baseline left it."""
    monkeypatch.chdir(tmp_path)
    if request.param == "file":
        with tarfile.open(DATA / "files.tar.xz") as archive:
            archive.extractall(tmp_path, filter="data")
        return f"file:{tmp_path / 'files'}"
    database = unpack_database(tmp_path / "sqlite")
    if request.param == "postgres":
        return fill_postgres(request.getfixturevalue("postgres_server").uri, database)
    return str(database.parent)


@pytest.fixture
def address(old_address):
    """The address of a store of the baseline after its conversion."""
    migrate_store(old_address)
    return old_address


def expected_of(address: str, session_id: str) -> dict[str, dict[str, str]]:
    return EXPECTED["file" if address.startswith("file:") else "sqlite"][session_id]


@pytest.mark.parametrize("session_id", SESSIONS)
def test_records_and_states_read_as_they_were_written(address, session_id):
    async def read():
        async with open_runtime(address, embedder="none") as runtime:
            return await read_digests(runtime.store, session_id)

    assert anyio.run(read) == expected_of(address, session_id)


@pytest.mark.parametrize("session_id", [*SESSIONS, "en-rests"])
def test_every_prompt_comes_out_again_byte_for_byte(address, session_id):
    turns = json.loads(run("author", "replay", "--session", session_id, "--store", address, "--json").stdout)["turns"]
    assert turns
    assert all(turn["same"] and not turn["faults"] for turn in turns)


@pytest.mark.parametrize("session_id", SESSIONS)
def test_a_session_goes_on(address, session_id):
    config = load_config(CONFIGS[session_id], {})

    async def go_on():
        async with open_runtime(address, embedder="none", config=config) as runtime:
            before = await runtime.ensure_session(session_id)
            first = await runtime.engine.prepare_turn(session_id, SESSIONS[session_id])
            await runtime.engine.commit_assistant_chunk(session_id, "<content>…", 0)
            await runtime.engine.commit_assistant_chunk(session_id, "</content>", 1)
            done = await runtime.engine.finalize_assistant_message(session_id)
            second = await runtime.engine.prepare_turn(session_id, "……")
            return before, first, done, second

    before, first, done, second = anyio.run(go_on)
    persona = {"zh-cache": "叙述者", "en-classic": "narrator"}[session_id]
    assert persona in first.text.lower()
    assert SESSIONS[session_id] in first.messages[-1].content
    assert done.refused is None
    # The input that waited in the Chinese session stays in the talk, as a turn without a reply.
    waited = {"zh-cache": 1, "en-classic": 0}[session_id]
    assert second.depth == first.depth + 1 == before.depth + 2 + waited


def test_a_turn_that_waits_is_answered_from_its_record(address):
    config = load_config(DATA / "settings.yaml", {})

    async def ask_again():
        async with open_runtime(address, embedder="none", config=config) as runtime:
            return await runtime.engine.prepare_turn("zh-cache", "还有别的路吗?")

    turn = anyio.run(ask_again)
    expected = expected_of(address, "zh-cache")[turn.turn_id]
    assert digest(turn.text) == expected["text"]
    messages = [{"role": message.role, "content": message.content} for message in turn.messages]
    assert digest(messages) == expected["messages"]


@pytest.mark.parametrize("pack", ["zh", "en"])
def test_a_pack_is_still_a_good_pack(pack):
    run("author", "validate", DATA / "packs" / pack)


# The conversion itself


@pytest.mark.parametrize("old_address", ["sqlite", "postgres"], indirect=True)
def test_nothing_is_converted_unless_asked_and_the_refusal_says_how(old_address):
    told = " ".join(run("play", "history", "--session", "en-classic", "--store", old_address, code=1).output.split())
    assert f"revision {BASELINE}, and this release reads revision {REVISION}" in told
    assert "jacquard operate migrate " in told
    told = json.loads(run("operate", "doctor", "--store", old_address, "--embedder", "none", "--json").stdout)
    assert "migration_pending" in [each["code"] for each in told["findings"]]
    assert told["revisions"] == [BASELINE, REVISION]


@pytest.mark.parametrize("old_address", ["sqlite", "postgres"], indirect=True)
def test_the_command_says_what_it_did_and_a_second_time_does_nothing(old_address):
    done = json.loads(run("operate", "migrate", old_address, "--json").stdout)
    assert (done["before"], done["after"], done["left"]) == (BASELINE, REVISION, [])
    assert any("fingerprint" in each and each.endswith(": 1") for each in done["changes"])
    assert "already; nothing was done" in run("operate", "migrate", "--store", old_address).output


def tables_of(file: Path) -> dict[str, str]:
    with closing(sqlite3.connect(file)) as connection:
        return dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())


def test_a_converted_file_is_like_a_new_one(tmp_path):
    file = unpack_database(tmp_path)
    migrate_store(f"sqlite:///{file}")
    open_database(SqliteOptions(path=tmp_path / "new.db")).close()
    assert tables_of(file) == tables_of(tmp_path / "new.db")
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_store_of_revision_9_gets_tables_for_chunks(tmp_path):
    file = tmp_path / "store.db"
    open_database(SqliteOptions(path=file)).close()
    new = tables_of(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "DROP TABLE unfinished_replies; DROP TABLE reply_chunks; UPDATE store_revision SET revision = 9"
        )
    assert migrate_store(str(tmp_path)).changes == ("chunks of replies have tables",)
    assert tables_of(file) == new


def test_converted_messages_are_found_as_new_ones_are(tmp_path):
    """A copy through the present code writes the same digests that the conversion made."""
    file = unpack_database(tmp_path)
    migrate_store(f"sqlite:///{file}")

    async def digests():
        async with open_runtime(str(tmp_path), embedder="none") as runtime:
            for session_id in SESSIONS:
                turns = await runtime.store.turns(session_id, limit=100)
                asked = {digest for turn in turns for _, digest in exchange_digests(turn.messages)}
                assert asked
                found = await runtime.store.find_exchanges(sorted(asked))
                assert {digest for digest, name in found if name == session_id} == asked

    anyio.run(digests)


def open_once(address: str) -> None:
    """Open a store and read of it."""

    async def look():
        async with open_runtime(address, embedder="none") as runtime:
            await runtime.store.sessions()

    anyio.run(look)


STOPPED = """
import os, sys
from jacquard.migrate import CONVERSIONS, migrate_store
object.__setattr__(CONVERSIONS[-1], "session", lambda session: os._exit(9))
migrate_store(sys.argv[1])
"""
SQL = pytest.mark.parametrize("old_address", ["sqlite", "postgres"], indirect=True)


@SQL
def test_a_conversion_that_is_killed_changes_nothing(old_address):
    stopped = subprocess.run([sys.executable, "-c", STOPPED, old_address], check=False)
    assert stopped.returncode == 9
    with pytest.raises(StoreUnavailableError, match="jacquard operate migrate"):
        open_once(old_address)
    assert migrate_store(old_address).before == BASELINE


@SQL
def test_processes_that_convert_one_store_at_once_convert_it_once(old_address):
    code = "import sys; from jacquard.migrate import migrate_store; print(migrate_store(sys.argv[1]).before)"
    running = [
        subprocess.Popen([sys.executable, "-c", code, old_address], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert sorted(process.communicate(timeout=120)[0].strip() for process in running) in (["8", "8"], ["10", "8"])
    open_once(old_address)


def test_a_backup_of_the_baseline_is_converted_and_then_restored(tmp_path):
    backup = unpack_database(tmp_path).rename(tmp_path / "old.backup")
    with closing(sqlite3.connect(backup, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    write_digest(backup)
    with pytest.raises(StoreUnavailableError, match="jacquard operate migrate"):
        restore_store(backup, str(tmp_path / "new"))
    assert json.loads(run("operate", "migrate", backup, "--json").stdout)["after"] == REVISION
    restore_store(backup, str(tmp_path / "newer"))
    turns = json.loads(
        run("author", "replay", "--session", "en-rests", "--store", tmp_path / "newer", "--json").stdout
    )["turns"]
    assert all(turn["same"] for turn in turns)


@pytest.mark.parametrize(("revision", "told"), [(BASELINE - 1, "the oldest"), (REVISION + 1, "newer release")])
def test_what_is_too_old_or_newer_is_refused_and_left_alone(tmp_path, revision, told):
    file = unpack_database(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE store_revision SET revision = ?", (revision,))
        connection.commit()
    before = file.read_bytes()
    assert told in run("operate", "migrate", "--store", tmp_path, code=1).output
    with suppress(FileNotFoundError):
        assert not (tmp_path / "store.db-wal").read_bytes()
    assert file.read_bytes() == before


def test_recalled_evidence_without_a_mark_is_marked(tmp_path):
    file = unpack_database(tmp_path)
    counts = "SELECT count(*) FROM evidences WHERE is_memory = 1"
    with closing(sqlite3.connect(file)) as connection:
        before = connection.execute(counts).fetchone()
        connection.execute("UPDATE evidences SET is_memory = NULL")
        connection.commit()
    assert before[0] > 0
    assert f"recalled evidence is marked as such: {before[0]}" in migrate_store(str(tmp_path)).changes
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(counts).fetchone() == before


def test_a_damaged_archive_is_left_and_named(tmp_path):
    file = unpack_database(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE archive_parts SET body = x'00'")
        connection.commit()
    done = migrate_store(str(tmp_path))
    assert (done.after, len(done.left)) == (REVISION, 1)
    assert "'en-rests'" in done.left[0]
