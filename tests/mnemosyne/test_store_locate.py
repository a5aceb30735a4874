from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from mnemosyne import StoreUnavailableError
from mnemosyne.stores.locate import locate_store, postgres_address


def test_a_folder_holds_database_and_index(tmp_path, monkeypatch):
    assert locate_store(tmp_path / "s").database == tmp_path / "s" / "store.db"
    assert locate_store(str(tmp_path)).index == tmp_path / "index"
    assert locate_store().database == Path(".jacquard/store.db")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate_store("~/games").database == tmp_path / "games" / "store.db"
    assert list(tmp_path.iterdir()) == []


def test_a_url_names_the_file(tmp_path):
    absolute = locate_store(f"sqlite:///{tmp_path}/my games.db")
    assert absolute.database == tmp_path / "my games.db"
    assert absolute.index == tmp_path / "my games.db.index"
    assert locate_store("sqlite:///a/store.db").database == Path("a/store.db")
    assert locate_store("sqlite:///a/store.db").index == Path("a/index")
    whole = locate_store(f"sqlite:///{tmp_path}/.jacquard/store.db")
    assert replace(whole, shown="") == replace(locate_store(tmp_path / ".jacquard"), shown="")


def test_files_memory_and_servers_have_an_index_of_their_own(tmp_path):
    files = locate_store(f"file:///{tmp_path}/games")
    assert (files.kind, files.database, files.index) == ("file", tmp_path / "games", tmp_path / "games" / ".index")
    for form in (f"file://{tmp_path}/games", f"file:{tmp_path}/games", (tmp_path / "games").as_uri()):
        assert replace(locate_store(form), shown="") == replace(files, shown="")
    assert locate_store("file:games").database == Path("games")
    assert locate_store((tmp_path / "my 游戏").as_uri()).database == tmp_path / "my 游戏"
    assert locate_store("memory:").index is None
    one, other = (locate_store(f"postgresql://u:{word}@db/games?schema=s") for word in ("one", "two"))
    assert one.index == other.index
    assert one.index is not None
    assert one.index.parent.name.startswith("games-")
    assert locate_store("postgresql://u:one@db/games").index != one.index
    assert locate_store("postgresql://u:one@db/other?schema=s").index != one.index


@pytest.mark.parametrize("address", ["a/folder", "sqlite:///a.db", "file:a", "postgresql://db/games"])
def test_tenants_have_an_index_each(address):
    kept = [locate_store(address, tenant).index for tenant in ("default", "a", "b")]
    assert len(set(kept)) == 3
    assert locate_store(address).index == kept[0]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:s3cret@db/games", "postgresql://u:***@db/games"),
        ("postgresql://u:s3cret@db:5432/games?sslmode=require", "postgresql://u:***@db:5432/games?sslmode=require"),
        ("postgresql://u:a@s3cret/b@db/games", "postgresql://u:***@db/games"),
        ("postgresql://u@db/games?password=s3cret&schema=x", "postgresql://u@db/games?password=***&schema=x"),
        ("postgresql://db/games?sslpassword=s3cret", "postgresql://db/games?sslpassword=***"),
        ("postgresql://db/games", "postgresql://db/games"),
        ("postgresql://u@[::1]:5432/games", "postgresql://u@[::1]:5432/games"),
    ],
)
def test_passwords_are_not_shown(url, shown):
    location = locate_store(url)
    assert location.shown == shown
    assert "s3cret" not in repr(location)
    assert location.postgres is not None
    assert location.postgres.without_secrets("no entry for s3cret") == (
        "no entry for ***" if shown.count("***") and "a@" not in url else "no entry for s3cret"
    )


@pytest.mark.parametrize(
    "address", ["mysql://u:s3cret@db/games", "mongodb://u:s3cret@db/\0", "http://x/?password=s3cret"]
)
def test_nor_are_those_of_other_addresses(address):
    with pytest.raises(StoreUnavailableError) as caught:
        locate_store(address)
    assert "s3cret" not in str(caught.value)


def test_the_schema_is_ours_to_read():
    address = postgres_address("postgresql://db/games?sslmode=require&schema=my%20games&connect_timeout=3")
    assert address.schema == "my games"
    assert address.conninfo == "postgresql://db/games?sslmode=require&connect_timeout=3"
    assert postgres_address("postgres://db").schema == "mnemosyne"
    assert postgres_address("postgres://db?schema=x").conninfo == "postgres://db"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("mysql://db/games", "not known"),
        ("sqlte:games.db", "not known"),
        ("sqlite://games.db", "not known"),
        ("postgres:games", "not known"),
        ("file://games", "not known"),
        ("memory:games", "not known"),
        ("file:///", "is a folder"),
        ("file:", "is a folder"),
        ("postgresql://db/games?schema=", "not a name for a schema"),
        ("postgresql://db/games?schema=pg_catalog", "not a name for a schema"),
        ("sqlite:games.db", "not known"),
        ("sqlite:///", "is a file"),
        ("sqlite:///:memory:", "is a file"),
        ("sqlite:///games/", "names a folder"),
        ("", "empty"),
        ("  ", "empty"),
        ("bad\0name", "NUL"),
    ],
)
def test_other_addresses_say_what_to_write(address, reason):
    with pytest.raises(StoreUnavailableError, match=reason) as caught:
        locate_store(address)
    if "schema" not in address:
        for form in ("folder", "sqlite:///PATH", "file:///ABSOLUTE", "postgresql://USER", "memory:"):
            assert form in str(caught.value)


def test_a_file_or_a_folder_in_the_other_form(tmp_path):
    file = tmp_path / "games.db"
    file.touch()
    with pytest.raises(StoreUnavailableError, match="sqlite:///"):
        locate_store(file)
    with pytest.raises(StoreUnavailableError, match="names a folder"):
        locate_store(f"sqlite:///{tmp_path}")
