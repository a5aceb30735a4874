"""A store that may only be read is read: everything but writes works, and a write says that the store cannot be written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import psycopg
import pytest
from cli_calls import call
from store_copies import REFUSED, play_store, read_pieces

from mnemosyne import FileStore, Message, PostgresStore, Role, SqliteStore, StoreUnavailableError, open_store
from mnemosyne.stores.locate import locate_store

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
NOBODY = 65534
READER = f"""
import os, sys
sys.path.insert(0, {str(HERE)!r})
import test_read_only
test_read_only.become_a_reader()
test_read_only.read_and_try(sys.argv[1])
"""


def become_a_reader() -> None:
    """Go on as a user who may write nothing here: file modes do not bind the superuser."""
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def read_and_try(address: str) -> None:
    """Print how many things can be read, what cannot, and what a write says."""

    async def work() -> None:
        store = open_store(address)
        pieces = await read_pieces(store)
        print(len(pieces), [value for value in pieces.values() if isinstance(value, str) and value.startswith(REFUSED)])
        try:
            await store.append_messages("s1", (Message(role=Role.USER, content="x"),))
        except StoreUnavailableError as error:
            print(error)
        await store.close()

    anyio.run(work)


def look_as_a_reader(address: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", READER, address], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def folder():
    """A folder that another user can reach."""
    if not hasattr(os, "setuid"):
        pytest.skip("file modes are those of POSIX")
    place = Path("/tmp") / f"read-only-{os.getpid()}"
    place.mkdir()
    place.chmod(0o755)
    yield place
    for path in (place, *place.rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(place)


def forbid_writes(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.chmod(0o555 if path.is_dir() else 0o444)
    folder.chmod(0o555)


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_a_folder_that_may_only_be_read(folder, kind):
    address = f"sqlite:///{folder}/kept/store.db" if kind == "sqlite" else f"file:{folder}/kept"
    await play_store(address)
    store = open_store(address)
    pieces = await read_pieces(store)
    await store.close()
    forbid_writes(folder)
    read, said = look_as_a_reader(address)
    assert read == f"{len(pieces)} []"
    assert "cannot be used" in said
    assert "can be read" in said
    assert "Nothing was written" in said


@pytest.mark.parametrize("how", ["role", "default"])
async def test_a_database_that_may_only_be_read(postgres_url, how):
    await play_store(postgres_url)
    store = open_store(postgres_url)
    pieces = await read_pieces(store)
    await store.close()
    postgres = locate_store(postgres_url, look=False).postgres
    assert postgres is not None
    if how == "default":
        address = f"{postgres_url}&options=-c%20default_transaction_read_only%3Don"
    else:
        role = f"reader_{postgres.schema}"
        with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {role} LOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA {postgres.schema} TO {role}")
            connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {postgres.schema} TO {role}")
        address = postgres_url.replace("postgres@", f"{role}@")
    reader = PostgresStore(address)
    assert await read_pieces(reader) == pieces
    with pytest.raises(StoreUnavailableError, match=r"takes no writes|may not do that"):
        await reader.append_messages("s1", (Message(role=Role.USER, content="x"),))
    assert await read_pieces(reader) == pieces
    await reader.close()


def test_a_first_turn_creates_folders_for_their_owner_alone(tmp_path):
    mask = os.umask(0)
    try:
        said = ("--session", "s", "--store", tmp_path / "store", "--embedder", "none", "--input", "Hello.")
        call("play", "weave", "--world", Path("examples/whispering_forest/en"), *said)
    finally:
        os.umask(mask)
    folders = [tmp_path / "store", *(each for each in (tmp_path / "store").iterdir() if each.is_dir())]
    modes = {folder.name: oct(folder.stat().st_mode & 0o777) for folder in folders}
    assert modes == {"store": "0o700", "index": "0o700", "locks": "0o700"}


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_what_is_created_is_private_whatever_the_umask(tmp_path, kind):
    mask = os.umask(0)
    try:
        place = tmp_path / "kept"
        address = f"sqlite:///{place}/store.db" if kind == "sqlite" else f"file:{place}"
        await play_store(address)
        store = SqliteStore(place / "store.db") if kind == "sqlite" else FileStore(place)
        await store.append_messages("s1", (Message(role=Role.USER, content="x"),))
        modes = {path.relative_to(tmp_path): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
        await store.close()
    finally:
        os.umask(mask)
    assert len(modes) >= 4
    for path, mode in modes.items():
        assert mode == (0o700 if (tmp_path / path).is_dir() else 0o600), path


async def test_what_exists_keeps_its_mode(tmp_path):
    place = tmp_path / "kept"
    address = f"file:{place}"
    await play_store(address)
    for path in place.rglob("*"):
        path.chmod(0o770 if path.is_dir() else 0o660)
    before = {path: path.stat().st_mode for path in place.rglob("*")}
    store = FileStore(place, compact_bytes=1)
    await store.append_messages("s1", (Message(role=Role.USER, content="x"),))
    await store.close()
    assert {path: path.stat().st_mode for path in place.rglob("*")} == before
