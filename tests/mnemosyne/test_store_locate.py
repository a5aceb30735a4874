from __future__ import annotations

from pathlib import Path

import pytest

from mnemosyne.errors import StoreUnavailableError
from mnemosyne.stores.locate import locate_store


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
    assert locate_store(f"sqlite:///{tmp_path}/.jacquard/store.db") == locate_store(tmp_path / ".jacquard")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql://db/games", "not known"),
        ("sqlite://games.db", "not known"),
        ("sqlite:games.db", "not known"),
        ("sqlite:///", "lies in a file"),
        ("sqlite:///:memory:", "lies in a file"),
        ("sqlite:///games/", "names a folder"),
        ("", "empty"),
        ("  ", "empty"),
        ("bad\0name", "NUL"),
    ],
)
def test_other_addresses_say_what_to_write(address, reason):
    with pytest.raises(StoreUnavailableError, match=reason):
        locate_store(address)


def test_a_file_or_a_folder_in_the_other_form(tmp_path):
    file = tmp_path / "games.db"
    file.touch()
    with pytest.raises(StoreUnavailableError, match="sqlite:///"):
        locate_store(file)
    with pytest.raises(StoreUnavailableError, match="names a folder"):
        locate_store(f"sqlite:///{tmp_path}")
