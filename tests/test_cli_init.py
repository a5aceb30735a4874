"""`jacquard author init` writes a pack into a new or an empty folder, and nothing into any other."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app


def init(*args):
    return CliRunner().invoke(app, ["author", "init", *map(str, args)])


@pytest.mark.parametrize("locale", ["en", "zh-CN"])
def test_a_folder_with_files_of_the_user_is_refused_and_left_as_it_is(locale, tmp_path):
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print()")
    (folder / "notes.txt").write_text("mine")
    done = init(folder, "--locale", locale)
    assert done.exit_code == 1
    assert "holds notes.txt, src;" in done.stderr
    assert "empty" in done.stderr
    assert not done.stdout
    assert sorted(path.name for path in folder.rglob("*")) == ["main.py", "notes.txt", "src"]


def test_a_second_init_changes_nothing(tmp_path):
    assert init(tmp_path / "world").exit_code == 0
    (tmp_path / "world" / "world.yaml").write_text("mine")
    assert init(tmp_path / "world").exit_code == 1
    assert (tmp_path / "world" / "world.yaml").read_text() == "mine"


@pytest.mark.parametrize("place", ["", "new", "new/deep"])
def test_a_new_folder_and_an_empty_one_take_the_pack(place, tmp_path):
    assert init(tmp_path / place).exit_code == 0
    assert CliRunner().invoke(app, ["author", "validate", str(tmp_path / place)]).exit_code == 0


def test_a_file_and_a_place_below_a_file_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in ("file", "file/below"):
        done = init(tmp_path / place)
        assert (done.exit_code, str(tmp_path / place) in done.stderr) == (1, True)
    assert (tmp_path / "file").read_text() == "mine"
