"""`explain` and `replay` as a user types them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app

FOREST = Path(__file__).parents[1] / "examples" / "whispering_forest" / "zh"
ASKED = "那把钥匙是不是开启神庙的?我记得之前提到过。"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(FOREST, tmp_path / "world")

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


def test_explain_and_replay(run, tmp_path):
    weave = (
        "play",
        "weave",
        "--world",
        "world",
        "--session",
        "s",
        "--embedder",
        "none",
        "--deadline-ms",
        "60000",
        "--json",
        "--input",
        ASKED,
    )
    turn = json.loads(run(*weave).stdout)
    name = turn["turn_id"]

    whole = json.loads(run("play", "explain", name, "--json").stdout)
    assert sum(whole["tokens_by_block"].values()) == whole["report"]["budget"]["used_tokens"]
    assert "tokens by block" in run("play", "explain", name).stdout
    found = run("play", "explain", name, "--find", "翡翠").stdout
    assert "source mnemosyne://world:whispering_forest/lore/lore_dir_keys" in found
    place = turn["messages"][0]["content"].index("health: 85")
    at = json.loads(run("play", "explain", name, "--at", place, "--json").stdout)["origins"][0]
    assert (at["span"]["block_id"], at["template"], at["line"].strip()) == (
        "status",
        "chat/status.j2",
        "health: 85 (受伤状态)",
    )
    assert "health: 85" in run("play", "explain", name, "--at", place).stdout
    assert "is not in the prompt" in run("play", "explain", name, "--find", "nowhere", code=1).stderr
    assert "give a place from 0" in run("play", "explain", name, "--at", 10**9, code=1).stderr
    run("play", "explain", name, "--at", 1, "--find", "x", code=2)

    assert "byte for byte" in run("author", "replay", name).stdout
    run("play", "commit", "--session", "s", "--text", "<content>好。</content>")
    assert "1 of 1 recorded turns came out byte for byte" in run("author", "replay", "s").stdout
    (one,) = json.loads(run("author", "replay", "s", "--json").stdout)["turns"]
    assert (one["turn_id"], one["same"], one["templates"]["changed"]) == (name, True, [])

    (tmp_path / "other.yaml").write_text(
        "layout: cache_first\nbudget: {max_input_tokens: 4200}\nviewer: witch\ncuration: {deadline_ms: 60000}\n"
    )
    shown = run("author", "replay", "s", "--config", "other.yaml").stdout
    assert "settings that differ: budget, layout" in shown
    assert "viewer" in shown
    done = json.loads(run("author", "replay", name, "--config", "other.yaml", "--json").stdout)
    assert done["settings"] == {"played": ["budget", "layout"], "not_played": ["viewer"]}
    assert done["turns"][0]["after_tokens"] <= 3176 < done["turns"][0]["before_tokens"]
    (tmp_path / "bad.yaml").write_text("layuot: x\n")
    assert "bad.yaml:1: layuot" in run("author", "replay", "s", "--config", "bad.yaml", code=1).stderr

    (tmp_path / "world" / "templates" / "chat").mkdir(parents=True)
    text = (Path(__file__).parents[1] / "templates" / "chat" / "status.j2").read_text(encoding="utf-8")
    (tmp_path / "world" / "templates" / "chat" / "status.j2").write_text(text.replace("<status>", "<status>\nnew: 1"))
    told = run("author", "replay", name).stdout
    assert "byte for byte" in told
    assert "template chat/status.j2: changed since" in told
    assert "+new: 1" in told
    assert "they would change 1 of these prompts" in run("author", "replay", "s").stdout

    run("author", "replay", "p001", "--session", "s", code=1)
    run("author", "replay", "nowhere", "--session", "s", code=1)
