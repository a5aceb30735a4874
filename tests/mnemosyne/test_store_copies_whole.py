"""Backup and restore: what is restored is the same, row by row and document by document; nothing is half written."""

from __future__ import annotations

import sqlite3
import zipfile
from contextlib import closing
from datetime import UTC, datetime

import anyio
import pytest
from typer.testing import CliRunner

from jacquard import CurationConfig, RuntimeConfig, open_runtime
from jacquard.cli.app import app
from jacquard.service.access.records import using_records
from jacquard.service.values import Scope
from mnemosyne import StoreUnavailableError, export_session, open_store
from mnemosyne.evidence import FolderVault
from mnemosyne.stores.locate import locate_store
from mnemosyne.stores.maintenance.copies import backup_store, restore_store
from mnemosyne.stores.maintenance.digest import write_digest
from mnemosyne.stores.maintenance.rows import NAMES, reading
from mnemosyne.stores.sql.schema import REVISION

WORLD = "examples/whispering_forest/en"
COMMANDS = CliRunner()


def play(store: str, tenant: str, turns: int = 2) -> None:
    for number in range(turns):
        given = ["--world", WORLD, "--session", f"{tenant}-s", "--store", store, "--tenant", tenant]
        shown = COMMANDS.invoke(
            app, ["play", "weave", *given, "--input", f"Where is the key? {number}", "--embedder", "none"]
        )
        assert shown.exit_code == 0, shown.output
        reply = [
            "play",
            "commit",
            "--session",
            f"{tenant}-s",
            "--store",
            store,
            "--tenant",
            tenant,
            "--text",
            "In the well.",
        ]
        shown = COMMANDS.invoke(app, reply)
        assert shown.exit_code == 0, shown.output


def rows_of(store: str) -> dict[str, list[tuple]]:
    with reading(locate_store(store)) as rows:
        return {
            table: sorted((tuple(row) for row in rows.connection.execute(f"SELECT * FROM {table}")), key=repr)
            for table in NAMES
        }


async def make_token(store: str) -> str:
    async with using_records(store) as records:
        return (await records.tokens.create("north", Scope.PLAY))[0]


async def find_token(store: str, token: str):
    async with using_records(store) as records:
        return await records.tokens.find(token)


async def documents_of(store: str, tenants) -> dict:
    found = {}
    for tenant in tenants:
        opened = open_store(store, tenant=tenant)
        for session in await opened.sessions():
            found[tenant, session] = await export_session(opened, session)
        await opened.close()
    return found


def test_a_sqlite_store_goes_to_postgresql_and_back_as_it_is(tmp_path, postgres_url):
    first, third = str(tmp_path / "first"), str(tmp_path / "third")
    for tenant in ("default", "north"):
        play(first, tenant)
    token = anyio.run(make_token, first)
    backup_store(first, tmp_path / "one.backup")
    restore_store(tmp_path / "one.backup", postgres_url)
    backup_store(postgres_url, tmp_path / "two.backup")
    restore_store(tmp_path / "two.backup", third)
    assert rows_of(first) == rows_of(postgres_url) == rows_of(third)
    tenants = ("default", "north")
    assert anyio.run(documents_of, first, tenants) == anyio.run(documents_of, third, tenants)
    assert anyio.run(find_token, postgres_url, token).tenant == "north"
    play(postgres_url, "north", 1)
    play(third, "north", 1)


def test_a_file_store_is_packed_and_unpacked_as_it_is(tmp_path):
    first, second = f"file:{tmp_path / 'first'}", f"file:{tmp_path / 'second'}"
    for tenant in ("default", "north"):
        play(first, tenant)
    backup_store(first, tmp_path / "files.backup")
    restore_store(tmp_path / "files.backup", second)
    tenants = ("default", "north")
    assert anyio.run(documents_of, first, tenants) == anyio.run(documents_of, second, tenants)
    play(second, "north", 1)


@pytest.mark.parametrize("kind", ["", "file:"])
def test_a_backup_of_a_tenant_holds_that_tenant_alone(tmp_path, kind):
    first, second = f"{kind}{tmp_path / 'first'}", f"{kind}{tmp_path / 'second'}"
    for tenant in ("default", "north"):
        play(first, tenant, 1)
    backup_store(first, tmp_path / "north.backup", "north")
    assert b"default-s" not in (tmp_path / "north.backup").read_bytes()
    restore_store(tmp_path / "north.backup", second)
    assert set(anyio.run(documents_of, second, ("default", "north"))) == {("north", "north-s")}


async def next_prompt(store: str):
    """Return what the next turn prepares, as the main model gets it; nothing of it depends on the clock's pace."""
    config = RuntimeConfig(curation=CurationConfig(deadline_ms=600_000))
    async with open_runtime(store, world=WORLD, embedder="none", config=config) as runtime:
        turn = await runtime.engine.prepare_turn("default-s", "And the old well?", turn_id="next")
        return turn.text, [dict(each) for each in turn.messages]


@pytest.mark.parametrize("kind", ["sqlite", "file", "postgres"])
def test_the_next_prompt_of_a_restored_store_is_the_same(tmp_path, kind, request):
    first, second = f"{tmp_path / 'first'}", f"{tmp_path / 'second'}"
    if kind == "file":
        first, second = f"file:{first}", f"file:{second}"
    elif kind == "postgres":
        server = request.getfixturevalue("postgres_server")
        first, second = server.url(first), server.url(second)
    play(first, "default")
    backup_store(first, tmp_path / "one.backup")
    restore_store(tmp_path / "one.backup", second)
    assert anyio.run(next_prompt, first) == anyio.run(next_prompt, second)


async def archive_all(store: str) -> None:
    opened = open_store(store)
    for session_id in await opened.sessions():
        assert await opened.archive(session_id, at=datetime.now(UTC)) is not None
    await opened.close()


def test_archived_sessions_go_from_one_kind_of_store_to_the_other(tmp_path, postgres_url):
    first, third = str(tmp_path / "first"), str(tmp_path / "third")
    play(first, "default")
    backup_store(first, tmp_path / "open.backup")
    anyio.run(archive_all, first)
    backup_store(first, tmp_path / "one.backup")
    restore_store(tmp_path / "one.backup", postgres_url)
    backup_store(postgres_url, tmp_path / "two.backup")
    restore_store(tmp_path / "two.backup", third)
    assert rows_of(first) == rows_of(postgres_url) == rows_of(third)
    restore_store(tmp_path / "open.backup", str(tmp_path / "never"))
    expected = anyio.run(next_prompt, str(tmp_path / "never"))
    assert anyio.run(next_prompt, postgres_url) == anyio.run(next_prompt, third) == expected


@pytest.mark.parametrize("kind", ["", "file:"])
def test_the_originals_of_redacted_texts_are_in_the_backup(tmp_path, kind):
    first, second = f"{kind}{tmp_path / 'first'}", f"{kind}{tmp_path / 'second'}"
    for tenant in ("default", "north"):
        play(first, tenant, 1)
        location = locate_store(first, tenant)
        vault = FolderVault(location.index.with_name(location.index.name.replace("index", "originals")))
        anyio.run(vault.put, "s", "e1", f"the text of {tenant}")
    backup_store(first, tmp_path / "one.backup")
    backup_store(first, tmp_path / "north.backup", "north")
    assert b"the text of default" not in (tmp_path / "north.backup").read_bytes()
    restore_store(tmp_path / "one.backup", second)
    for tenant in ("default", "north"):
        location = locate_store(second, tenant)
        vault = FolderVault(location.index.with_name(location.index.name.replace("index", "originals")))
        assert anyio.run(vault.get, "s", "e1") == f"the text of {tenant}"


@pytest.mark.parametrize("kind", ["", "file:"])
def test_a_tenant_or_a_store_that_is_not_there_is_said_and_leaves_no_backup(tmp_path, kind):
    store, file = f"{kind}{tmp_path / 'store'}", tmp_path / "one.backup"
    play(store, "default", 1)
    shown = COMMANDS.invoke(app, ["operate", "backup", str(file), "--store", store, "--tenant", "nobody"])
    assert shown.exit_code == 1
    assert "nothing of the tenant 'nobody'" in " ".join(shown.output.split())
    shown = COMMANDS.invoke(app, ["operate", "backup", str(file), "--store", f"{kind}{tmp_path / 'typo'}"])
    assert shown.exit_code == 1
    assert "start a session there first" in " ".join(shown.output.split())
    assert [each.name for each in tmp_path.iterdir()] == ["store"]


def test_a_backup_of_a_newer_release_is_refused(tmp_path):
    play(str(tmp_path / "store"), "default", 1)
    backup_store(str(tmp_path / "store"), tmp_path / "one.backup")
    with closing(sqlite3.connect(tmp_path / "one.backup")) as backup:
        backup.execute(f"UPDATE store_revision SET revision = {REVISION + 1}")
        backup.commit()
    write_digest(tmp_path / "one.backup")
    with zipfile.ZipFile(tmp_path / "files.backup", "w") as archive:
        archive.writestr("digests.json", b'{"program": "jacquard operate backup of files", "format": 2, "files": {}}')
    for file, place in (("one.backup", "new"), ("files.backup", f"file:{tmp_path / 'new'}")):
        with pytest.raises(StoreUnavailableError, match="newer release"):
            restore_store(tmp_path / file, place if place.startswith("file:") else str(tmp_path / place))
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("work", [["operate", "backup", "FILE"], ["operate", "migrate"]])
def test_a_server_that_cannot_be_reached_is_said(tmp_path, work):
    given = [each.replace("FILE", str(tmp_path / "one.backup")) for each in work]
    shown = COMMANDS.invoke(app, [*given, "--store", "postgresql://127.0.0.1:1/none"])
    assert shown.exit_code == 1
    assert "the server cannot be reached" in " ".join(shown.output.split())
    assert not (tmp_path / "one.backup").exists()


def test_what_exists_is_never_written_over(tmp_path):
    store = str(tmp_path / "store")
    play(store, "default", 1)
    (tmp_path / "kept").write_text("kept")
    with pytest.raises(StoreUnavailableError, match="exists already"):
        backup_store(store, tmp_path / "kept")
    assert (tmp_path / "kept").read_text() == "kept"
    backup_store(store, tmp_path / "one.backup")
    before = rows_of(store)
    with pytest.raises(StoreUnavailableError, match="not empty"):
        restore_store(tmp_path / "one.backup", store)
    assert rows_of(store) == before


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kind", ["", "file:"])
def test_a_damaged_backup_is_refused_before_anything_is_written(tmp_path, kind, place):
    store = f"{kind}{tmp_path / 'store'}"
    play(store, "default", 1)
    backup_store(store, tmp_path / "one.backup")
    data = bytearray((tmp_path / "one.backup").read_bytes())
    begin = int(len(data) * place)
    data[begin : begin + 4096] = bytes(4096)
    (tmp_path / "torn.backup").write_bytes(data[: len(data) - 10_000] if place == 0.9 else data)
    with pytest.raises(StoreUnavailableError):
        restore_store(tmp_path / "torn.backup", f"{kind}{tmp_path / 'new'}")
    assert not (tmp_path / "new").exists()


def test_a_path_out_of_the_store_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bad.backup", "w") as archive:
        archive.writestr("../out.txt", b"x")
        archive.writestr(
            "digests.json",
            b'{"program": "jacquard operate backup of files", "format": 1, "files": {"../out.txt": "0"}}',
        )
    with pytest.raises(StoreUnavailableError, match="outside"):
        restore_store(tmp_path / "bad.backup", f"file:{tmp_path / 'new'}")


def test_a_restore_that_fails_on_its_way_leaves_the_store_empty(tmp_path):
    store = str(tmp_path / "store")
    play(store, "default", 1)
    backup_store(store, tmp_path / "one.backup")
    whole = (tmp_path / "one.backup").read_bytes()
    with closing(sqlite3.connect(tmp_path / "one.backup")) as backup:
        backup.execute("DROP INDEX messages_by_id")
        backup.execute("UPDATE messages SET message_id = 'same'")
        backup.commit()
    write_digest(tmp_path / "one.backup")
    with pytest.raises(StoreUnavailableError, match="do not fit"):
        restore_store(tmp_path / "one.backup", str(tmp_path / "new"))
    (tmp_path / "one.backup").write_bytes(whole)
    restore_store(tmp_path / "one.backup", str(tmp_path / "new"))
    assert rows_of(store) == rows_of(str(tmp_path / "new"))


def test_the_commands_say_what_they_did(tmp_path):
    store = str(tmp_path / "store")
    play(store, "default", 1)
    shown = COMMANDS.invoke(app, ["operate", "migrate", "--store", store])
    assert "already; nothing was done" in shown.output
    shown = COMMANDS.invoke(app, ["operate", "backup", str(tmp_path / "b"), "--store", store])
    assert "sessions: 1, branches: 1" in shown.output
    shown = COMMANDS.invoke(app, ["operate", "restore", str(tmp_path / "b"), "--store", str(tmp_path / "new")])
    assert "sessions: 1, branches: 1" in shown.output
    shown = COMMANDS.invoke(app, ["operate", "restore", str(tmp_path / "none"), "--store", str(tmp_path / "newer")])
    assert shown.exit_code == 1
    assert "no such file" in shown.output
