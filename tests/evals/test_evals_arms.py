"""All arms of recall on the same queries: real store, index and model over a tiny set, typed as a user types it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.running.arms import ORDER, SHOWN, arms_to_json, compare_with_arms
from evals.running.parts import Arm

TALK = [
    "The temple key is under the third stone, left of the gate.",
    "I never liked the temple. The priests there count every coin.",
    "My brother sails to Port Callow on the ninth of May.",
    "The miller owes us four sacks of flour since last autumn.",
    "A wolf took two lambs from the northern pasture.",
]
QUERIES = [("Where is the temple key?", 0), ("When does the ship leave?", 2), ("Who is in debt?", 3)]


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "tales")


def write(folder):
    folder.mkdir(parents=True)
    documents = [
        {"id": f"t:{n}", "chain": "history", "session": "t", "turn": n, "text": text} for n, text in enumerate(TALK)
    ]
    queries = [
        {"id": f"q{n}", "session": "t", "query": text, "relevant": {f"t:{wanted}": 1}}
        for n, (text, wanted) in enumerate(QUERIES)
    ]
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder


def arms(*arguments):
    return CliRunner().invoke(app, ["arms", *map(str, arguments)])


def test_a_table_a_set_with_every_query_of_every_arm_kept(folder, tmp_path):
    out = tmp_path / "out"
    done = arms("--data", folder, "--cache", tmp_path / "cache", "--out", out)
    assert done.exit_code == 0, done.output
    for row in ("bm25", "vector", "rrf", "ours", "to the better", "to plain RRF"):
        assert row in done.output
    assert sorted(each.name for each in out.iterdir()) == ["arms.json", *sorted(f"tales.{arm}.json" for arm in Arm)]
    reports = {arm: json.loads((out / f"tales.{arm}.json").read_text()) for arm in Arm}
    assert {report["config"]["retriever"] for report in reports.values()} == set(Arm)
    kept = json.loads((out / "arms.json").read_text())["tales"]
    assert kept["means"]["hybrid"]["recall@5"] == round(reports[Arm.HYBRID]["metrics"]["recall@5"], 5)
    assert (kept["data"]["name"], kept["queries"], kept["embedder"]) == (
        "tales",
        3,
        reports[Arm.HYBRID]["config"]["embedder"],
    )
    assert set(reports[Arm.RRF]["queries"][0]["retrieved"]) == {
        name for arm in (Arm.BM25, Arm.VECTOR) for name in reports[arm]["queries"][0]["retrieved"]
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--embedder", "none"), "vector needs a model"),
        (("--data", "other/tales"), "Two sets are named tales"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_the_work(folder, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "other" / "tales")
    done = arms("--data", folder, "--out", tmp_path / "out", *arguments)
    assert done.exit_code == 1
    assert said in done.output
    assert not list((tmp_path / "out").glob("*.json"))


def report(values):
    data = dict.fromkeys(("name", "licence", "source", "commit"), "tales")
    return {
        "config": {"data": data, "versions": {}, "embedder": "none"},
        "counts": {"scored": len(values)},
        "metrics": dict.fromkeys(SHOWN, sum(values) / len(values)),
        "queries": [
            {
                "id": f"q{n}",
                "session": f"s{n // 4}",
                "category": "",
                "relevant": {"d": 1},
                "metrics": dict.fromkeys(SHOWN, each),
            }
            for n, each in enumerate(values)
        ],
    }


def test_the_better_arm_is_the_one_with_the_higher_mean():
    given = {Arm.BM25: [0.5] * 8, Arm.VECTOR: [0.4] * 8, Arm.RRF: [0.1] * 8, Arm.HYBRID: [1.0, 0.0, 1.0, 1.0] * 2}
    found = arms_to_json(compare_with_arms("tales", {arm: report(given[arm]) for arm in ORDER}))
    better, rrf = found["to_best"]["recall@5"], found["to_rrf"]["recall@5"]
    assert better["arm"] == "bm25"
    assert better["delta"] == pytest.approx(0.25)
    assert better["verdict"] == "open"
    assert rrf["verdict"] == "better"
    whole = arms_to_json(compare_with_arms("tales", {arm: report(given[arm]) for arm in ORDER}, by_session=True))
    assert whole["intervals"]["recall@5"] == pytest.approx([0.75, 0.75]), "both sessions are alike"
