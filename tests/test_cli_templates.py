"""`jacquard author template …` as an author types it: write, check, look, compare, hold golden prompts, watch."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app
from mnemosyne.world.scaffold import write_scaffold

QUESTION = "Is there a brass key to the cellar of the lighthouse?"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_scaffold(tmp_path / "pack", "en")

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture
def played(run):
    """A session of the pack with two turns of its own, the second in the other layout."""
    run("play", "weave", "--world", "pack", "--session", "s", "--input", QUESTION, "--embedder", "none")
    run("play", "commit", "--session", "s", "--text", "<content>It is.</content>")
    more = ("--layout", "cache_first", "--embedder", "none")
    run("play", "weave", "--session", "s", "--input", "I attack the wolf", *more)
    run(
        "play",
        "commit",
        "--session",
        "s",
        "--text",
        '<content>Hit.</content><state_update>[["SUB","hero.coins",1]]</state_update>',
    )
    return run


def night(run):
    run("author", "template", "new", "night_watch", "--world", "pack")
    return Path("pack/templates/night_watch/guidance.j2")


def test_new_writes_a_template_that_passes_lint_and_renders(run):
    done = run("author", "template", "new", "night_watch", "--world", "pack", "--blocks", "guidance,status")
    assert "night_watch/status.j2" in done.stderr
    linted = json.loads(run("author", "template", "lint", "pack", "--json").stdout)
    assert (linted["errors"], linted["warnings"]) == (0, 0)
    shown = json.loads(run("author", "template", "preview", "night_watch", "--world", "pack", "--json").stdout)
    sources = {block["block_id"]: block["source"] for block in shown["blocks"]}
    assert sources["guidance"] == "automation:night_watch/guidance.j2"
    assert sources["persona"] == "automation:chat/persona.j2"
    kept = sum(block["tokens"] for block in shown["blocks"] if block["kept"])
    assert kept + shown["frame_tokens"] == shown["tokens"]
    again = run("author", "template", "new", "night_watch", "--world", "pack", code=1)
    assert "exists already" in again.stderr
    for name in ("Bad Name", "../up", "layouts"):
        assert "cannot be the name" in run("author", "template", "new", name, "--world", "pack", code=1).stderr
    assert (
        "no block 'mood'" in run("author", "template", "new", "x", "--world", "pack", "--blocks", "mood", code=1).stderr
    )
    assert "not a world pack" in run("author", "template", "new", "x", "--world", "nowhere", code=1).stderr


@pytest.mark.parametrize("name", ["chat", "combat"])
def test_a_pack_overrides_a_shipped_template_by_inheritance(played, name):
    played("author", "template", "new", name, "--world", "pack")
    file = Path(f"pack/templates/{name}/guidance.j2")
    assert f'extends "shipped/{name}/guidance.j2"' in file.read_text()
    assert not (file.parent / "template.yaml").exists()
    file.write_text(file.read_text().replace("{{ super() -}}", "{{ super() -}}\nrule: the pack's own"))
    weave = ("play", "weave", "--session", "s", "--input", "Well", "--embedder", "none", "--template", name, "--json")
    assert "rule: the pack's own" not in json.loads(played(*weave).stdout)["text"], "the store's pack counts"
    turn = json.loads(played(*weave, "--world", "pack").stdout)
    assert "rule: the pack's own" in turn["text"]
    assert "current_goal" in turn["text"]


def test_preview_of_a_recorded_turn_is_the_prompt_that_went_out(played):
    record = json.loads(played("play", "explain", "--session", "s", "--json").stdout)
    newest = json.loads(played("author", "template", "preview", "--session", "s", "--json").stdout)
    assert newest["recorded_same"] is True
    assert newest["layout"] == "cache_first"
    assert record["turn_id"] in newest["turn"]
    turns = json.loads(played("play", "history", "--session", "s", "-n", "2", "--json").stdout)["turns"]
    first = json.loads(
        played("author", "template", "preview", "--session", "s", "--turn", turns[0]["turn_id"], "--json").stdout
    )
    assert first["recorded_same"] is True
    assert first["layout"] == "classic"
    assert any(block["block_id"] == "flesh:lore_lighthouse" for block in first["blocks"])
    other = json.loads(
        played(
            "author",
            "template",
            "preview",
            "--session",
            "s",
            "--turn",
            turns[0]["turn_id"],
            "--layout",
            "cache_first",
            "--json",
        ).stdout
    )
    assert other["recorded_same"] is False
    imported = json.loads(played("author", "template", "preview", "--session", "s", "--turn", "p001", "--json").stdout)
    assert imported["recorded_same"] is None
    fresh = played("author", "template", "preview", "--session", "s", "--input", "What now?").stdout
    assert "tokens by block" in fresh
    assert "What now?" in fresh


def test_previews_that_cannot_be_say_what_is_missing(run):
    assert "--session ID, or --world DIR" in run("author", "template", "preview", code=1).stderr
    assert (
        "--turn needs --session"
        in run("author", "template", "preview", "--world", "pack", "--turn", "p001", code=1).stderr
    )
    assert "nobody" in run("author", "template", "preview", "--session", "nobody", code=1).stderr
    assert "did you mean 'combat'" in run("author", "template", "preview", "combt", "--world", "pack", code=1).stderr
    assert (
        "no layout 'odd'" in run("author", "template", "preview", "--world", "pack", "--layout", "odd", code=1).stderr
    )


def test_lint_fails_with_file_and_line(run):
    file = night(run)
    file.write_text("{% extends 'chat/guidance.j2' %}\n{% block goal %}\n{{ gaol }}\n{% endblock %}\n")
    done = run("author", "template", "lint", "pack", code=1)
    assert "pack/templates/night_watch/guidance.j2:3:4: error [unknown-variable]" in done.stdout
    assert "1 errors, 0 warnings" in done.stdout
    broken = run("author", "template", "preview", "night_watch", "--world", "pack", code=1)
    assert "guidance.j2:3" in broken.stderr
    file.write_text("{{ goal }}\n1 < 2\n")
    run("author", "template", "lint", file)
    run("author", "template", "lint", file, "--strict", code=1)


def test_diff_shows_text_and_tokens_over_recorded_turns(played):
    file = night(played)
    file.write_text(file.read_text().replace("{{ super() -}}", "{{ super() -}}\nhour: night"))
    done = played("author", "template", "diff", "chat", "night_watch", "--session", "s", "--turns", "3")
    assert done.stdout.count("+hour: night") == 3
    assert "3 of 3 turns change" in done.stdout
    told = json.loads(
        played("author", "template", "diff", "chat", "night_watch", "--session", "s", "-n", "3", "--json").stdout
    )
    assert told["new_tokens"] - told["old_tokens"] == sum(
        change["new_tokens"] - change["old_tokens"] for turn in told["turns_changed"] for change in turn["changes"]
    )
    same = json.loads(played("author", "template", "diff", "chat", "shipped/chat", "--session", "s", "--json").stdout)
    assert same["changed"] == 0


def test_golden_prompts_are_written_held_and_told_apart(run):
    file = night(run)
    assert "is missing" in run("author", "template", "test", "pack", code=1).stdout
    run("author", "template", "test", "pack", "--update")
    assert "passed" in run("author", "template", "test", "pack").stdout
    file.write_text(file.read_text().replace("{{ super() -}}", "{{ super() -}}\nhour: night"))
    done = run("author", "template", "test", "pack", code=1)
    assert "changed" in done.stdout
    assert "+hour: night" in done.stdout
    told = json.loads(run("author", "template", "test", "pack", "--case", "night_watch", "--json", code=1).stdout)
    assert told["cases"][0]["verdict"] == "changed"


def test_a_case_can_set_its_scene_and_say_what_must_hold(run):
    night(run)
    case = Path("pack/templates/tests/night_watch.yaml")
    case.write_text(
        "template: night_watch\nlayout: cache_first\ninput: Who is there?\n"
        "state: {hero: {health: 3}}\nmessages: [{user: Hush}, {assistant: A twig snaps.}]\n"
        "memories: [lore_lighthouse]\ncontains: ['health: 3', 'A twig snaps.', '<knowledge_base>']\n"
        "lacks: ['You came,']\nmax_tokens: 3000\n"
    )
    run("author", "template", "test", "pack", "--update")
    prompt = case.with_suffix(".txt").read_text()
    assert prompt.index("A twig snaps.") < prompt.index("health: 3")
    case.write_text(case.read_text().replace("max_tokens: 3000", "max_tokens: 30"))
    assert "more than max_tokens 30" in run("author", "template", "test", "pack", code=1).stdout
    for text, why in (
        ("input: ''\n", "`input`"),
        ("input: a\nstat: {}\n", "did you mean 'state'"),
        ("input: a\nmax_tokens: many\n", "a whole number above 0"),
        ("input: a\nmessages: [{bard: x}]\n", "a list of `user: words`"),
        ("input: a\nmemories: [lore_lighthuose]\n", "did you mean 'lore_lighthouse'"),
        ("input: [", "night_watch.yaml"),
    ):
        case.write_text(text)
        assert why in run("author", "template", "test", "pack", code=1).stderr
    told = run("author", "template", "test", "pack", "--case", "nigt_watch", code=1).stderr
    assert "there is no case 'nigt_watch'; did you mean 'night_watch'?" in told
    case.unlink()
    assert "there are no golden cases" in run("author", "template", "test", "pack", code=1).stderr


def test_watch_renders_again_on_save_and_survives_a_fault(run):
    file = night(run)
    good = file.read_text()
    command = "from jacquard.cli.main import main; main()"
    told = ["author", "template", "watch", "night_watch", "--world", "pack", "--renders", "3"]
    watcher = subprocess.Popen(
        [sys.executable, "-u", "-c", command, *told], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    guard = threading.Timer(60, watcher.kill)
    guard.start()

    def until(words: str) -> str:
        heard = ""
        while words not in heard:
            line = watcher.stdout.readline()
            assert line, f"{words!r} never came:\n{heard}"
            heard += line
        return heard

    try:
        until("  prompt")
        file.write_text(good.replace("{{ super() -}}", "{{ nope }}"))
        until("guidance.j2:3: 'nope' is undefined")
        file.write_text(good.replace("{{ super() -}}", "{{ super() -}}\nlate: yes"))
        until("+late: yes")
        assert watcher.wait(60) == 0
    finally:
        guard.cancel()
        watcher.kill()
        watcher.stdout.close()
        watcher.wait()
