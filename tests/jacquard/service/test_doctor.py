"""`jacquard operate doctor` says what is where and what is stale or wrong; it writes nothing, and works if the database is away."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from jacquard import open_runtime
from jacquard.cli.app import app
from mnemosyne import PostgresStore, SqliteStore
from mnemosyne.stores.sql.schema import REVISION
from mnemosyne.testing.stores.samples import imported_turn, start

WORLD = Path(__file__).parents[3] / "examples" / "whispering_forest" / "en"
COMMANDS = CliRunner()


def examine(store: object, *options: str) -> dict:
    shown = COMMANDS.invoke(app, ["operate", "doctor", "--store", str(store), "--embedder", "none", "--json", *options])
    told = json.loads(shown.stdout)
    assert shown.exit_code == (0 if told["ok"] else 1), shown.output
    return told


def codes(told: dict) -> set[str]:
    return {each["code"] for each in told["findings"]}


async def make_store(folder: Path) -> None:
    async with open_runtime(folder, world=WORLD, embedder="none") as runtime:
        await runtime.ensure_session("s")
        await runtime.engine.prepare_turn("s", "Where is the key?", turn_id="t1")
        await runtime.engine.commit_assistant_message("s", "In the well.")
        await runtime.sync("s")


@pytest.fixture
def folder(tmp_path):
    anyio.run(make_store, tmp_path / "store")
    return tmp_path / "store"


def files_of(folder: Path) -> dict[str, bytes]:
    names = [each for each in folder.rglob("*") if each.is_file() and not each.name.endswith(("-shm", "-wal"))]
    return {str(each): each.read_bytes() for each in names}


def test_a_sound_store_is_well_and_nothing_is_written(folder):
    before = files_of(folder)
    told = examine(folder, "--deep")
    assert (told["ok"], told["findings"]) == (True, [])
    assert told["tenants"] == [
        {"tenant": "default", "sessions": 1, "archived": 0, "worlds": 1}
        | {name: told["tenants"][0][name] for name in ("entries", "stored_bytes")}
    ]
    assert told["revisions"] == [REVISION, REVISION]
    assert told["indexes"][0]["tables"] > 0
    assert told["packages"]["numpy"]
    assert files_of(folder) == before
    shown = COMMANDS.invoke(app, ["operate", "doctor", "--store", str(folder), "--embedder", "none"])
    assert "Nothing is stale or wrong." in shown.output


def test_settings_are_shown_with_their_source_and_without_secrets(folder, tmp_path, monkeypatch):
    file = tmp_path / "settings.yaml"
    file.write_text("budget:\n  max_input_tokens: 5000\nselector:\n  api_key: sk-file-secret-123456\n")
    monkeypatch.setenv("JACQUARD_SERVICE__PROXY__KEY", "sk-env-secret-123456")
    shown = COMMANDS.invoke(app, ["operate", "doctor", "--store", str(folder), "--config", str(file), "--json"])
    assert "secret-123456" not in shown.stdout
    told = {each["name"]: (each["value"], each["source"]) for each in json.loads(shown.stdout)["settings"]}
    assert told["budget.max_input_tokens"] == (5000, f"{file}:2")
    assert told["selector.api_key"] == ("***", f"{file}:4")
    assert told["service.proxy.key"] == ("***", "JACQUARD_SERVICE__PROXY__KEY")
    assert told["service.port"] == (8321, "default")


def test_what_lies_around_is_found(folder, tmp_path):
    (folder / "index" / "session_gone_0123456789abcdef.lance").mkdir()
    (folder / "originals" / ("0" * 32)).mkdir(parents=True)
    (folder / "index").chmod(0o755)
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("INSERT INTO leases (name, holder, token, until_us) VALUES ('housekeeping', 'dead', 1, 1)")
        connection.commit()
    told = examine(folder)
    assert codes(told) == {"index_leftovers", "originals_leftovers", "open_to_others", "lease_over"}
    assert all(each["do"] for each in told["findings"])


def test_packs_that_differ_or_are_gone(folder, tmp_path):
    pack = tmp_path / "pack"
    shutil.copytree(WORLD, pack)
    (pack / "lore" / "new.md").write_text(
        "---\nid: new\nname: New\ncategory: encyclopedia\n---\nRain is counted here.\n"
    )
    notes = folder / "worlds.json"
    notes.write_text(json.dumps(dict.fromkeys(json.loads(notes.read_text()), str(pack))))
    assert codes(examine(folder)) == {"pack_differs"}
    shutil.rmtree(pack)
    assert codes(examine(folder)) == set()
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("UPDATE worlds SET digest = 'other'")
        connection.commit()
    assert "pack_missing" in codes(examine(folder))


async def write_behind(folder: Path) -> None:
    store = SqliteStore(folder / "store.db")
    await store.append_turns("s", [imported_turn("p1", "written by another host")])
    await store.close()


def test_an_index_behind_its_store(folder):
    anyio.run(write_behind, folder)
    assert "index_behind" in codes(examine(folder))


async def damage(folder: Path) -> None:
    store = SqliteStore(folder / "store.db")
    await store.create_session(start(imported_turn("p1"), session_id="rests"))
    await store.archive("rests", at=datetime.now(UTC) - timedelta(days=1))
    await store.close()


def test_damaged_rows_and_archives_are_named_by_a_deep_look(folder):
    anyio.run(damage, folder)
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        connection.execute("UPDATE archive_parts SET body = x'00'")
        connection.execute("UPDATE messages SET body = x'7b7d' || body")
        connection.commit()
    assert {"archive_damaged", "record_damaged"} <= codes(examine(folder, "--deep"))


def test_a_database_that_is_away_takes_nothing_from_the_rest():
    told = examine("postgresql://u:geheim@127.0.0.1:1/none")
    assert (told["ok"], told["reachable"]) == (False, False)
    assert codes(told) == {"store_unavailable"}
    assert "geheim" not in json.dumps(told)
    assert told["packages"]["numpy"]
    assert told["settings"]


async def make_postgres(url: str) -> None:
    store = PostgresStore(url)
    await store.create_session(start(imported_turn("p1")))
    await store.close()


def test_a_store_in_postgresql(postgres_url):
    anyio.run(make_postgres, postgres_url)
    told = examine(postgres_url)
    assert (told["reachable"], told["kind"], told["tenants"][0]["sessions"]) == (True, "postgresql", 1)
