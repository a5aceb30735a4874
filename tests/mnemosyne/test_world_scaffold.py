"""The starter pack: it validates, it plays, and it never overwrites anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from jacquard.pipeline.planning.actions import apply_action, match_action
from mnemosyne import WorldPackError, load_world
from mnemosyne.world import describe
from mnemosyne.world.scaffold import starter_files, write_scaffold

FILES = [
    "actions.yaml",
    "history.yaml",
    "lore/people.md",
    "lore/places.yaml",
    "planner.yaml",
    "quests.yaml",
    "world.yaml",
]


@pytest.mark.parametrize(("locale", "language"), [("en", "en"), ("zh", "zh"), ("zh-CN", "zh"), ("en_GB", "en")])
def test_a_starter_validates(locale: str, language: str, tmp_path: Path) -> None:
    written = write_scaffold(tmp_path / "deep" / "world", locale=locale)
    assert [path.relative_to(tmp_path / "deep" / "world").as_posix() for path in written] == FILES
    assert load_world(tmp_path / "deep" / "world").locale.startswith(language)
    assert not [path for path in (tmp_path / "deep").iterdir() if path.name != "world"]


def test_the_two_languages_have_the_same_bones(tmp_path: Path) -> None:
    shown = []
    for locale in ("en", "zh"):
        write_scaffold(tmp_path / locale, locale=locale)
        shown.append(describe(load_world(tmp_path / locale)))
    for key in ("entities", "lore", "quests", "actions", "prologue_turns", "events", "narratives", "described_values"):
        assert shown[0][key] == shown[1][key]


@pytest.mark.parametrize(
    ("locale", "text", "reply"),
    [
        ("en", "Eat some bread!", "You eat a piece of bread. Health: 100."),
        ("zh", "吃面包。", "你吃了一块面包。生命值：100。"),
    ],
)
def test_a_starter_plays(locale: str, text: str, reply: str, tmp_path: Path) -> None:
    write_scaffold(tmp_path / "w", locale=locale)
    world = load_world(tmp_path / "w")
    found = match_action(text, world)
    assert found is not None
    done = apply_action(*found, world.state)
    assert done.reply == reply
    assert done.state["bag"]["items"][0]["count"] == 1
    full = apply_action(*found, done.state)
    assert full.refused is not None
    assert full.reply == full.refused.message


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_every_reply_of_a_starter_renders(locale: str, tmp_path: Path) -> None:
    write_scaffold(tmp_path / "w", locale=locale)
    world = load_world(tmp_path / "w")
    assert all(apply_action(action, {}, world.state).reply for action in world.actions)


def test_a_folder_that_holds_anything_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / ".git").mkdir()
    with pytest.raises(
        WorldPackError, match=r"holds \.git, README\.md; name a folder that does not exist yet, or an empty"
    ):
        write_scaffold(tmp_path)
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".git", "README.md"]
    assert (tmp_path / "README.md").read_text() == "mine"


def test_much_in_the_way_is_counted(tmp_path: Path) -> None:
    for name in "abcdefgh":
        (tmp_path / name).write_text("mine")
    with pytest.raises(WorldPackError, match="holds a, b, c, d, e and 3 more; name"):
        write_scaffold(tmp_path)


def test_an_empty_folder_takes_the_pack(tmp_path: Path) -> None:
    write_scaffold(tmp_path, locale="zh")
    assert load_world(tmp_path).world_id == "lighthouse-zh"


def test_places_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(WorldPackError, match="is a file; name a folder"):
        write_scaffold(tmp_path / "file")
    with pytest.raises(WorldPackError, match="cannot be written"):
        write_scaffold(tmp_path / "file" / "below")
    with pytest.raises(WorldPackError, match=r"no starter pack for the locale 'fr'; choose one of en, zh"):
        write_scaffold(tmp_path / "w", locale="fr")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_a_starter_is_commented(locale: str) -> None:
    assert all(b"# " in data for data in starter_files(locale).values())
