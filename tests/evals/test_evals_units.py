"""Recall by turn, by session (any) and by session (all), on a small set made by hand."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.running.units import score_units

GROUPS = {f"d{number}": f"g{number // 3}" for number in range(12)}
"""Three documents a group: d0 to d2 are in g0, d3 to d5 in g1, and so on."""


@pytest.mark.parametrize(
    ("relevant", "retrieved", "expected"),
    [
        # One of two evidence turns first: half of the turns, its session is there, the other is not.
        (
            {"d0": 1, "d9": 1},
            ["d0", "d1", "d4"],
            {"document@5": 0.5, "group_any@1": 1, "group_all@1": 0, "group_any@10": 1, "group_all@10": 0},
        ),
        # A neighbour of the evidence finds the session but not the turn.
        ({"d0": 1}, ["d2", "d5"], {"document@5": 0, "group_any@1": 1, "group_all@1": 1}),
        # Both turns in one session: one of them is enough for `all`, not for the turns.
        ({"d0": 1, "d1": 1}, ["d1"], {"document@5": 0.5, "group_all@1": 1}),
        # Sessions are counted once each: d3, d4, d5 are one session, so the second session is d9's.
        (
            {"d9": 1, "d3": 1},
            ["d3", "d4", "d5", "d9"],
            {"group_all@1": 0, "group_any@1": 1, "group_all@3": 1, "document@5": 1},
        ),
        # Nothing is found.
        ({"d9": 1}, ["d0", "d3", "d6"], {"document@5": 0, "document@50": 0, "group_any@10": 0, "group_all@10": 0}),
        # An evidence turn that the corpus does not have is a session that is never found.
        ({"d0": 1, "lost": 1}, ["d0"], {"document@5": 0.5, "group_any@1": 1, "group_all@10": 0}),
        # A grade of 0 is judged and not relevant.
        ({"d0": 1, "d9": 0}, ["d0"], {"document@5": 1, "group_all@1": 1}),
    ],
)
def test_a_query_in_three_units(relevant, retrieved, expected):
    scores = score_units(relevant, retrieved, GROUPS)
    assert {name: scores[name] for name in expected} == expected


def test_cuts_of_turns_and_of_sessions_count_their_own_kind():
    """The sixth turn is outside of document@5, but its session is the second: group_any@3 has it."""
    scores = score_units({"d3": 1}, ["d0", "d1", "d2", "d0", "d1", "d3"], GROUPS)
    assert (scores["document@5"], scores["document@10"], scores["group_any@1"], scores["group_any@3"]) == (0, 1, 0, 1)


def test_without_labels_there_is_no_score():
    assert score_units({"d0": 0}, ["d0"], GROUPS) == {}


def test_any_is_never_below_all():
    for found in ([], ["d0"], ["d9", "d0"], ["d3", "d6", "d9", "d0"]):
        scores = score_units({"d0": 1, "d9": 1}, found, GROUPS)
        assert all(scores[f"group_any@{k}"] >= scores[f"group_all@{k}"] for k in (1, 3, 5, 10))


TALK = [
    (1, "The temple key is under the third stone, left of the gate."),
    (1, "I never liked the temple. The priests there count every coin."),
    (2, "My brother sails to Port Callow on the ninth of May."),
    (2, "Bring me the blue lantern when you come back from the mill."),
    (3, "The miller owes us four sacks of flour since last autumn."),
    (3, "A wolf took two lambs from the northern pasture."),
]
QUERIES = [
    ("Where is the temple key?", [0], "one"),
    ("When does my brother sail, and who owes us flour?", [2, 4], "two"),
    ("Who sang?", [], "one"),
]


@pytest.fixture
def folder(tmp_path):
    documents = [
        {
            "id": f"t:{n}",
            "chain": "history",
            "session": "t",
            "turn": n,
            "speaker": "Ann",
            "text": text,
            "meta": {"sitting": at},
        }
        for n, (at, text) in enumerate(TALK)
    ]
    queries = [
        {
            "id": f"q{n}",
            "session": "t",
            "query": text,
            "relevant": {f"t:{each}": 1 for each in wanted},
            "category": kind,
        }
        for n, (text, wanted, kind) in enumerate(QUERIES)
    ]
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return tmp_path


def units(folder, *arguments):
    options = ["--data", folder, "--cache", folder / "cache", "--embedder", "none", "--out", folder / "out"]
    return CliRunner().invoke(app, ["units", *map(str, (*options, *arguments))])


def test_ours_beside_bm25_in_one_run(folder):
    done = units(folder, "--json", folder / "units.json")
    assert done.exit_code == 0, done.output
    for row in ("hybrid", "rank-bm25", "hybrid − bm25", "by document", "by group, any", "by group, all", "3 groups"):
        assert row in done.output
    (name,) = found = json.loads((folder / "units.json").read_text(encoding="utf-8"))
    figures = found[name]
    assert list(figures["retrievers"]) == ["hybrid", "bm25", "rank-bm25"]
    assert figures["queries"] == 2
    for each in figures["retrievers"].values():
        assert each["means"]["document@5"] == each["means"]["group_all@3"] == 1
        assert each["means"]["group_all@1"] == 0.5, "the evidence of the second question is in two sessions"
        low, high = each["intervals"]["group_all@1"]
        assert low <= 0.5 <= high
    assert set(figures["differences"]) == {"bm25", "rank-bm25"}
    kept = json.loads((folder / "out" / f"{folder.name}.rank-bm25.json").read_text(encoding="utf-8"))
    assert kept["config"]["retriever"] == "rank-bm25"


def test_one_retriever_alone_has_no_difference(folder):
    done = units(folder, "--retriever", "rank-bm25")
    assert done.exit_code == 0, done.output
    assert "−" not in done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--group", "chapter"), "meta has no chapter, so 't:0' is in no group"),
        (("--retriever", "bm25", "--retriever", "bm25"), "may be named once"),
        (("--retriever", "best"), "no retriever 'best'"),
    ],
)
def test_what_cannot_be_counted_is_said(folder, arguments, told):
    done = units(folder, *arguments)
    assert done.exit_code == 1
    assert told in done.stderr


def test_another_field_may_name_the_groups(folder):
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    for row in rows:
        row["meta"] = {"chapter": "whole"}
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    done = units(folder, "--group", "chapter", "--retriever", "rank-bm25")
    assert done.exit_code == 0, done.output
    assert "1 groups" in done.output


def test_rankings_of_another_system_are_counted_in_the_same_units(folder):
    (folder / "other.run").write_text("q0 Q0 t:1 1 1 other\nq1 Q0 t:2 1 1 other\n", encoding="utf-8")
    scored = ["score", str(folder / "other.run"), "--data", str(folder), "--json", str(folder / "other.json")]
    assert CliRunner().invoke(app, scored).exit_code == 0
    json_file = folder / "units.json"
    done = units(folder, "--report", folder / "other.json", "--retriever", "rank-bm25", "--json", json_file)
    assert done.exit_code == 0, done.output
    (figures,) = json.loads(json_file.read_text(encoding="utf-8")).values()
    assert list(figures["retrievers"]) == ["rank-bm25", "other"]
    other = figures["retrievers"]["other"]["means"]
    assert (other["document@5"], other["group_any@1"], other["group_all@10"]) == (0.25, 1, 0.5)
    alone = units(folder, "--report", folder / "other.json")
    assert alone.exit_code == 0, alone.output
