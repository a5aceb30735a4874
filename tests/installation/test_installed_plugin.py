"""A plugin package that is really installed: the command line and the engine use every part of it by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLUGIN = Path(__file__).parent / "sample_plugin"
WORLD = ROOT / "examples" / "whispering_forest" / "en"
STORE = ["--store", "sample:store"]
TALK = """\
Mara: I found a jade key under the altar.
Finn: Keep it dry. The temple door is rusty.

(They walk on.)
Mara: The ferryman asked for two coins.
"""
CONFIG = """\
planner: {name: "sample:chat"}
selector: {name: sample}
prune: {policy: sample}
redaction: {redactor: sample}
token_estimator: "sample:3"
"""
LONG_SUITES = "any_run_of_moves or any_text_comes_back or rule_7"
"""Tests of the store's contract that take some seconds each and test SQLite, which this plugin's store only wraps."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a session that the plugin imported into its store, and a configuration that names its parts."""
    home = tmp_path_factory.mktemp("plugin")
    shutil.copytree(PLUGIN, home / "src", ignore=shutil.ignore_patterns("__pycache__"))
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    options = ["--no-deps", "--no-build-isolation", "--target", str(home / "lib")]
    subprocess.run([*install, *options, str(home / "src")], check=True, capture_output=True)
    (home / "talk.txt").write_text(TALK, encoding="utf-8")
    (home / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return home


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(home / "lib"), str(ROOT))), "PYTHONDONTWRITEBYTECODE": "1"}


def jacquard(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jacquard", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=home, env=environment(home))


def answer_of(done: subprocess.CompletedProcess[str]):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def turn(folder):
    """Return the turn that was prepared after an import, by the plugin's store, importer and embedder and by its other parts."""
    world = ["--world", str(WORLD), "--embedder", "sample"]
    imported = jacquard(folder, "memory", "import", "talk.txt", "--format", "sample", *STORE, *world, "--json")
    assert answer_of(imported) == {"sessions": {"talk": 3}}
    assert "talk.txt: 1 lines that nobody speaks were left out" in imported.stderr
    named = ["--config", "config.yaml", "--embedder", "sample:64", "--json"]
    done = jacquard(
        folder, "play", "weave", "--session", "talk", *STORE, *named, "--input", "Does the temple key open the temple?"
    )
    return answer_of(done)


def test_a_turn_is_made_by_the_parts_of_the_plugin(turn, folder):
    report = turn["report"]
    assert (folder / "store" / "sample.db").is_file()
    assert report["budget"]["counter"] == "sample:3"
    assert report["plan"]["reasons"][-1] == "sample: always chat"
    assert report["stream_b"]["path"] == "selected"
    assert report["stream_b"]["rationale"] == "sample: what shares a word with the input"
    chosen = [each["reason"] for each in report["stream_b"]["candidates"] if each["chosen"]]
    assert chosen
    assert all("shares " in reason for reason in chosen)
    assert any(each["signals"]["vector"] is not None for each in report["stream_b"]["candidates"])
    assert all(each["reason"].startswith("sample: ") for each in report["decisions"])
    assert "I found a jade key under the altar." in turn["text"]


def test_tokens_are_those_of_the_plugins_counter(turn):
    persona = next(each for each in turn["report"]["decisions"] if each["block_id"] == "persona")
    span = next(each for each in turn["report"]["spans"] if each["block_id"] == "persona")
    text = turn["messages"][span["message"]]["content"][span["start"] : span["end"]]
    assert persona["tokens"] == pytest.approx(len(text) / 3, abs=2)


def test_a_commit_and_a_replay_go_on_with_the_recorded_counter(turn, folder):
    committed = jacquard(folder, "play", "commit", "--session", "talk", *STORE, "--text", "<content>It does.</content>")
    assert committed.returncode == 0, committed.stderr
    replayed = answer_of(jacquard(folder, "author", "replay", "--session", "talk", *STORE, "--json"))
    assert [each["turn_id"] for each in replayed["turns"]] == [turn["turn_id"]]
    assert all(not each.get("faults") for each in replayed["turns"])


def test_an_evaluation_uses_the_retriever_of_the_plugin(folder):
    lines = [
        {"id": f"t:{number}", "chain": "history", "session": "t", "turn": number, "text": f"Line {number}."}
        for number in range(9)
    ]
    query = {"id": "q", "session": "t", "query": "Which line is the last?", "history": [], "relevant": {"t:8": 1}}
    (folder / "set").mkdir()
    for name, rows in (("corpus", lines), ("queries", [query])):
        (folder / "set" / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = [sys.executable, "-m", "evals", "run", "--data", "set", "--retriever", "sample", "--json", "run.json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment(folder))
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "run.json").read_text())["queries"][0]["retrieved"][:2] == ["t:8", "t:7"]


REDACT = """
import anyio
from jacquard import load_config, open_runtime
from mnemosyne import ToolCall

async def main():
    async with open_runtime("sample:store", embedder="sample", config=load_config("config.yaml")) as runtime:
        call = ToolCall(tool_call_id="c1", tool="gate")
        result = "The guard wears badge-4711 on his coat."
        await runtime.engine.record_tool_call("talk", call, result=result)
        for evidence in await runtime.store.list_evidences("talk"):
            print(evidence.content)

anyio.run(main)
"""


def test_evidence_is_redacted_by_the_plugin(turn, folder):
    done = subprocess.run(
        [sys.executable, "-c", REDACT], capture_output=True, text=True, cwd=folder, env=environment(folder)
    )
    assert done.returncode == 0, done.stderr
    assert "The guard wears [redacted" in done.stdout
    assert "4711" not in done.stdout


def test_what_is_installed_is_listed_and_an_unknown_name_is_told(folder):
    points = answer_of(jacquard(folder, "operate", "plugins", "--json"))
    assert [[each["name"] for each in point["plugins"]] for point in points] == [["sample"]] * 9
    assert {each["distribution"] for point in points for each in point["plugins"]} == {"jacquard-sample"}
    done = jacquard(folder, "play", "weave", "--session", "s", "--input", "Hi", "--store", "samples:x")
    assert done.returncode == 1
    assert "Plugins add other forms (see docs/en/plugins.md): sample:…" in done.stderr
    assert "Traceback" not in done.stderr


def run_suites(home: Path, *options: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(home / "src"), *options]
    done = subprocess.run(
        [*command, str(home / "src" / "contracts.py")],
        capture_output=True,
        text=True,
        cwd=home,
        env=environment(home),
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_contract_suites_hold_for_the_parts_of_the_plugin(folder):
    assert " passed" in run_suites(folder, "-k", f"not ({LONG_SUITES})")


@pytest.mark.full
def test_the_long_contract_suites_hold_too(folder):
    assert " passed" in run_suites(folder, "-k", LONG_SUITES)


def test_a_plugin_may_read_books_of_lore(folder):
    (folder / "ferries.txt").write_text("heron = The Heron is a ferry that leaks.\n", encoding="utf-8")
    told = answer_of(
        jacquard(
            folder, "memory", "import", "ferries.txt", "--format", "sample:lore", "--session", "lore", *STORE, "--json"
        )
    )
    assert told["files"][0]["books"] == {"ferries": 1}
    woven = answer_of(
        jacquard(folder, "play", "weave", "--session", "lore", *STORE, "--input", "Is the heron safe?", "--json")
    )
    assert "The Heron is a ferry that leaks." in woven["text"]
