"""The benchmarks run and print; nothing is said here about how long anything takes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.conversation import questions, session_of, utterances
from mnemosyne.retrieval.text.words import has_cjk


def bench(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_talk_is_the_same_for_the_same_seed_and_in_both_languages():
    said = list(utterances(400, 7))
    assert said == list(utterances(400, 7))
    assert said != list(utterances(400, 8))
    assert said[:100] == list(utterances(100, 7)), "a longer talk begins like a shorter one"
    assert 100 < sum(map(has_cjk, said)) < 300
    assert len(set(said)) > 390
    assert list(questions(20, 7)) == list(questions(20, 7))


@pytest.mark.parametrize("messages", [2, 7, 100])
def test_a_session_holds_so_many_messages(messages):
    start = session_of(messages)
    assert sum(len(turn.messages) for turn in start.turns) == messages
    assert len({turn.turn_id for turn in start.turns}) == len(start.turns)


def test_the_list_names_every_benchmark():
    done = bench("--list")
    assert done.exit_code == 0
    assert "turn_length" in done.stdout
    assert "deadline" in done.stdout
    assert "stores" in done.stdout
    assert "recall" in done.stdout


def test_turn_length_prints_both_sides_and_their_ratio(tmp_path):
    file = tmp_path / "figures.json"
    done = bench("turn_length", "--sizes", "20,40", "--turns", 2, "--json", file)
    assert done.exit_code == 0, done.output
    assert "40 messages" in done.stdout
    assert "times a turn on 20" in done.stdout
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert figures["sizes"] == [20, 40]
    assert {"turn", "prepare", "commit", "· stream_b"} <= set(figures["steps"])
    assert figures["machine"]["cores"] >= 1


@pytest.mark.parametrize("sizes", ["many", "100", "1,100"])
def test_sizes_that_cannot_be_compared_are_refused(sizes):
    done = bench("turn_length", "--sizes", sizes)
    assert done.exit_code == 2
    assert "--sizes" in done.stderr


def test_proxy_prints_what_each_stage_adds(tmp_path):
    file = tmp_path / "figures.json"
    done = bench("proxy", "--sizes", "6,40", "--calls", 2, "--sessions", 20, "--json", file)
    assert done.exit_code == 0, done.output
    assert "40 messages shown" in done.stdout
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert {"added", "parse", "forms", "session", "place", "prepare", "render", "keep"} <= set(figures["stages"])
    assert figures["restarts"]["session"]["wall_ms"] > 0


def test_stores_prints_every_store_beside_its_driver(tmp_path):
    file = tmp_path / "figures.json"
    done = bench("stores", "--sizes", "10,30", "--rounds", 3, "--json", file)
    assert done.exit_code == 0, done.output
    assert "by hand" in done.stdout
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert list(figures["stores"]) == ["memory", "file", "sqlite", "postgresql"]
    for found in figures["stores"].values():
        for step in found["steps"].values():
            assert min(*step["median_ms"], *step["plain_median_ms"], step["growth"], *step["times_plain"]) > 0
        assert len(found["memory_mb"]) == len(found["open_seconds"]) == 2


def test_stores_can_be_chosen(tmp_path):
    done = bench("stores", "--sizes", "10,30", "--rounds", 2, "--only", "sqlite")
    assert done.exit_code == 0, done.output
    assert "postgresql" not in done.stdout
    assert bench("stores", "--only", "stone").exit_code == 2


def test_it_is_run_as_a_module():
    done = subprocess.run([sys.executable, "-m", "benchmarks", "--list"], capture_output=True, text=True, check=True)
    assert "turn_length" in done.stdout


@pytest.mark.parametrize(("memory_rows", "engine"), [(200_000, "memory"), (0, "disk")])
def test_recall_prints_what_it_costs_and_loses(tmp_path, memory_rows, engine):
    file = tmp_path / "figures.json"
    done = bench("recall", "--sizes", "100,300", "--queries", 2, "--memory-rows", memory_rows, "--json", file)
    assert done.exit_code == 0, done.output
    figures = json.loads(file.read_text(encoding="utf-8"))
    assert [row["rows"] for row in figures["sizes"]] == [100, 300]
    assert all(row["engine"] == engine and row["vector_found"] == 1.0 for row in figures["sizes"])


@pytest.mark.full
def test_snapshots_prints_what_a_published_index_saves(tmp_path):
    file = tmp_path / "figures.json"
    done = bench("snapshots", "--entries", 300, "--queries", 3, "--json", file)
    assert done.exit_code == 0, done.output
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert {name: row["embedded"] for name, row in rows.items()} == {
        "own index": 300,
        "published": 0,
        "again": 0,
        "changed": 3,
    }
    assert all(row["found"] == 1.0 for row in rows.values())
    assert [bool(row["snapshot"]) for row in rows.values()] == [False, True, True, True]
