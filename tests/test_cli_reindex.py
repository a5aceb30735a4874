"""`jacquard operate reindex` as a user meets it: after a loss, after damage, and after being killed half way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from benchmarks.conversation import session_of, utterances
from jacquard import open_runtime
from jacquard.cli.app import app
from mnemosyne import Chain
from mnemosyne.schema.memory import session_scope

ROOT = Path(__file__).parents[1]
PACK = ROOT / "examples" / "whispering_forest" / "en"
MESSAGES = 2_000


def jacquard(*words: object) -> object:
    return CliRunner().invoke(app, [str(word) for word in words])


def report(*words: object) -> dict[str, dict[str, object]]:
    done = jacquard("operate", "reindex", "--embedder", "none", "--json", *words)
    assert done.exit_code == 0, done.output
    return {each["scope"]: each for each in json.loads(done.stdout)["scopes"]}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    done = jacquard("memory", "import", PACK, "--session", "s1", "--store", folder, "--embedder", "none")
    assert done.exit_code == 0, done.output
    return folder


def test_a_lost_index_comes_back_and_a_whole_one_is_kept(store: Path) -> None:
    before = report("--store", store)
    assert set(before) == {"world:whispering_forest_en", "session:s1"}
    assert all(each["added"] == 0 and each["kept"] for each in before.values())
    shutil.rmtree(store / "index")
    again = report("--store", store)
    assert {scope: each["added"] for scope, each in again.items()} == {
        scope: each["kept"] for scope, each in before.items()
    }
    assert report("all", "--store", store) == before


def test_damaged_files_are_made_again_by_the_next_turn_or_by_reindex(store: Path) -> None:
    words = ("--store", store, "--session", "s1", "--embedder", "none")
    whole = report("--store", store)
    for command in (
        ("play", "weave", *words, "--input", "Who lit the lantern at the ferry?"),
        ("operate", "reindex", *words),
    ):
        for file in (store / "index").glob("*.checkpoint"):
            file.write_bytes(b"rubbish")
        done = jacquard(*command)
        assert done.exit_code == 0, done.output
        kept = report("--store", store)
        assert all(not each["rebuilt"] and not each["added"] for each in kept.values())
        assert kept.keys() == whole.keys()


def test_one_world_and_one_session_can_be_named(store: Path, tmp_path: Path) -> None:
    assert set(report("--store", store, "--world", PACK)) == {"world:whispering_forest_en"}
    assert set(report("--store", store, "--session", "s1", "--anew")) == {"world:whispering_forest_en", "session:s1"}
    both = jacquard("operate", "reindex", "all", "--session", "s1", "--store", store)
    assert both.exit_code == 2
    unknown = jacquard("operate", "reindex", "--session", "nobody", "--store", store, "--embedder", "none")
    assert unknown.exit_code == 1
    assert "nobody" in unknown.stderr
    empty = jacquard("operate", "reindex", "--store", tmp_path / "new", "--embedder", "none")
    assert empty.exit_code == 0
    assert "nothing to index" in empty.stdout


def test_a_killed_reindex_is_gone_on_with(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    start = session_of(MESSAGES, session_id="long")

    async def fill() -> None:
        async with open_runtime(folder, embedder="none") as runtime:
            await runtime.import_session(start)

    anyio.run(fill)
    words = [
        sys.executable,
        "-c",
        "from jacquard.cli.main import main; main()",
        "operate",
        "reindex",
        "--store",
        str(folder),
        "--embedder",
        "none",
    ]
    for steps in (2, 5):
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ}
        )
        assert process.stderr is not None
        with process.stderr as said:
            for number, line in enumerate(said, start=1):
                assert "session:long" in line
                if number == steps:
                    process.send_signal(signal.SIGKILL)
                    break
        assert process.wait(timeout=60) == -signal.SIGKILL
    done = report("--store", folder)["session:long"]
    assert done["kept"] >= MESSAGES // 10, "what was done before the kill is not done again"
    assert done["kept"] + done["added"] == MESSAGES
    assert not done["rebuilt"]

    async def look() -> tuple[int, tuple[str, ...]]:
        async with open_runtime(folder, embedder="none") as runtime:
            scope = session_scope("long")
            held = await runtime.index.newest_ids(scope, Chain.HISTORY, MESSAGES)
            texts = {entry.text for entry in await runtime.store.entries(scope, held)}
            assert texts == set(utterances(MESSAGES, 7))
            return await runtime.index.count(scope), runtime.index.faults()

    assert anyio.run(look) == (MESSAGES, ())
