"""Memory, state and lore by hand, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

FOREST = Path(__file__).parents[1] / "examples" / "whispering_forest" / "en"
FACT = "The boat key hangs behind the blue clock."


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0, given=None):
        done = CliRunner().invoke(app, [str(arg) for arg in args], input=given)
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.stderr

    call("play", "weave", "--world", FOREST, "--session", "demo", "--input", "Hello.", "--embedder", "none")
    call("play", "commit", "--session", "demo", "--text", "Good day.")
    return call


def test_what_was_done_is_shown_for_people(run):
    edit_id = run("memory", "remember", "-", "-s", "demo", "--author", "ana", given=FACT).split(" ")[0]
    shown = run("memory", "search", "boat key clock", "-s", "demo", "--embedder", "none")
    assert edit_id in shown
    assert "words: boat, key, clock" in shown
    assert "trust user" in run("memory", "show", edit_id, "-s", "demo")
    run("memory", "supersede", edit_id, "-s", "demo", "--author", "ben")
    log = run("memory", "log", "-s", "demo")
    assert f"supersede of {edit_id} · by ben at " in log
    assert f"+ {FACT}" in log
    assert "Undo that first" in run("memory", "pin", edit_id, "-s", "demo", code=1)
    assert "There is no memory 'nothing' in session 'demo'" in run("memory", "pin", "nothing", "-s", "demo", code=1)
    assert "There is no session 'other'" in run("memory", "log", "-s", "other", code=1)


def test_memory_of_a_character_is_its_own(run):
    run("memory", "remember", FACT, "-s", "demo", "--viewer", "elara")
    assert FACT in run("memory", "log", "-s", "demo", "--viewer", "elara")
    assert FACT not in run("memory", "log", "-s", "demo", "--viewer", "tom")
    found = run("memory", "search", "boat key", "-s", "demo", "--embedder", "none", "--viewer", "tom", "--json")
    assert FACT not in found


def test_sessions_are_listed_and_those_of_another_tenant_are_not(run):
    assert run("play", "sessions").startswith("demo · world whispering_forest_en · branch main · ")
    assert run("play", "sessions", "nothing") == ""
    assert [head["session_id"] for head in json.loads(run("play", "sessions", "DE mo", "--json"))] == ["demo"]
    assert json.loads(run("play", "sessions", "--tenant", "other", "--json")) == []


def test_the_state_is_set_all_or_none(run):
    state = json.loads(run("play", "state", "-s", "demo", "--set", "hero.health=42", "--json"))
    assert state["hero"]["health"][0] == 42
    refused = run("play", "state", "-s", "demo", "--set", "hero.health=7", "--set", "nothing.here=1", code=1)
    assert "No op of the turn was applied" in refused
    assert json.loads(run("play", "state", "-s", "demo", "--json")) == state
    assert "write it as hero.health=7" in run("play", "state", "-s", "demo", "--set", "health", code=2)
    refused = run("play", "state", "-s", "demo", "--set", "a=1", "--turn", "x", code=2)
    assert "leave --turn, --as-of-turn and --branch out" in refused


def test_lore_is_listed_added_and_edited(run):
    world = "whispering_forest_en"
    added = json.loads(
        run("memory", "lore", "add", world, "--text", FACT, "--title", "Boat", "--author", "ana", "--json")
    )
    assert added["metadata"]["added_by"] == "ana"
    run("memory", "lore", "edit", world, added["entry_id"], "--title", "Boat key")
    assert f"{added['entry_id']} · encyclopedia · Boat key\n{FACT}\n" in run(
        "memory", "lore", "list", world, "blue clock"
    )
    assert "there are: whispering_forest_en" in run("memory", "lore", "list", "nothing", code=1)
    assert "give --text, --title, or both" in run("memory", "lore", "edit", world, "x", code=2)
