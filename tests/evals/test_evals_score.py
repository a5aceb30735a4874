"""Rankings of other systems: run files in, run files and qrels out, tables as CSV; typed as a user types them."""

from __future__ import annotations

import csv
import json

import ir_measures
import pytest
from ir_measures import R, nDCG
from typer.testing import CliRunner

from evals.app import app

TEXTS = [
    "The temple key is under the third stone, left of the gate.",
    "I never liked the temple. The priests there count every coin.",
    "My brother sails to Port Callow on the ninth of May.",
    "Bring me the blue lantern when you come back from the mill.",
    "The miller owes us four sacks of flour since last autumn.",
]
QUERIES = [
    ("q1", "Where is the temple key?", {"t:0": 2, "t:1": 1}),
    ("q2", "What does the miller owe us?", {"t:4": 1}),
    ("q3", "Who sang?", {}),
]
RUN = """\
q1 Q0 t:3 1 9.5 other
q1 Q0 t:0 2 9.0 other
q1 Q0 t:1 3 1.0 other
q9 Q0 t:1 1 1.0 other
"""


@pytest.fixture
def folder(tmp_path):
    documents = [
        {"id": f"t:{n}", "chain": "history", "session": "t", "turn": n, "speaker": "Ann", "text": text}
        for n, text in enumerate(TEXTS)
    ]
    queries = [
        {"id": name, "session": "t", "query": text, "relevant": relevant, "category": "c"}
        for name, text, relevant in QUERIES
    ]
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", queries)):
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "other.run").write_text(RUN, encoding="utf-8")
    return tmp_path


def evals(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def load(file):
    return json.loads(file.read_text(encoding="utf-8"))


def test_a_run_file_is_scored_as_a_run_of_ours(folder):
    done = evals("score", folder / "other.run", "--data", folder, "--json", folder / "other.json")
    assert done.exit_code == 0, done.output
    found = load(folder / "other.json")
    rows = {row["id"]: row for row in found["queries"]}
    assert rows["q1"]["retrieved"] == rows["q1"]["selected"] == ["t:3", "t:0", "t:1"]
    assert rows["q1"]["retrieved_scores"] == [9.5, 9.0, 1.0]
    assert rows["q1"]["metrics"]["recall@5"] == 1
    assert rows["q1"]["retrieved_tokens"][0] > 0
    assert rows["q2"]["metrics"]["recall@5"] == 0
    assert rows["q3"]["metrics"] is None
    assert found["config"]["retriever"] == "other"
    assert found["problems"]["not_in_run"] == ["q2", "q3"]
    assert found["problems"]["not_in_set"] == ["q9"]
    assert "2 queries without a ranking in the run" in done.stdout
    assert "ms p50" not in done.stdout, "a run file has no times"


def test_a_run_written_and_read_again_has_the_same_scores(folder):
    options = ("--data", folder, "--cache", folder / "cache", "--embedder", "none", "--json", folder / "ours.json")
    done = evals("run", *options, "--run", folder / "ours.run", "--qrels", folder / "set.qrels")
    assert done.exit_code == 0, done.output
    again = evals("score", folder / "ours.run", "--data", folder, "--json", folder / "again.json")
    assert again.exit_code == 0, again.output
    ours, scored = load(folder / "ours.json"), load(folder / "again.json")
    ranked = [name for name in ours["metrics"] if name != "precision@5"]
    assert [scored["metrics"][name] for name in ranked] == [ours["metrics"][name] for name in ranked]
    assert [row["retrieved"] for row in scored["queries"]] == [row["retrieved"] for row in ours["queries"]]
    assert scored["config"]["retriever"] == "hybrid-none"
    compared = evals("compare", folder / "ours.json", folder / "again.json")
    assert compared.exit_code == 0, compared.output
    page = evals("report", folder / "ours.json", folder / "again.json", "--out", folder / "page.html")
    assert page.exit_code == 0, page.output


def test_other_programs_read_the_files(folder):
    options = ("--data", folder, "--cache", folder / "cache", "--embedder", "none", "--json", folder / "ours.json")
    assert evals("run", *options, "--run", folder / "o.run", "--qrels", folder / "o.qrels").exit_code == 0
    qrels = list(ir_measures.read_trec_qrels(str(folder / "o.qrels")))
    run = list(ir_measures.read_trec_run(str(folder / "o.run")))
    assert {(each.query_id, each.doc_id, each.relevance) for each in qrels} == {
        ("q1", "t:0", 2),
        ("q1", "t:1", 1),
        ("q2", "t:4", 1),
    }
    theirs = ir_measures.calc_aggregate([R @ 5, nDCG @ 5], qrels, run)
    ours = load(folder / "ours.json")["metrics"]
    assert theirs[R @ 5] == pytest.approx(ours["recall@5"])
    assert theirs[nDCG @ 5] == pytest.approx(ours["ndcg@5"])


def test_equal_scores_keep_the_order_of_the_ranks(folder):
    (folder / "even.run").write_text("q1 Q0 t:1 2 1 x\nq1 Q0 t:0 1 1 x\n", encoding="utf-8")
    assert evals("score", folder / "even.run", "--data", folder, "--json", folder / "even.json").exit_code == 0
    assert load(folder / "even.json")["queries"][0]["retrieved"] == ["t:0", "t:1"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("q1 t:0 1 0.5\n", "bad.run:1: has 4 fields; a line of a run has six"),
        ("q1 Q0 t:0 1 high x\n", "bad.run:1: the score is 'high'; it must be a number"),
        ("q1 Q0 t:0 1 nan x\n", "the score is 'nan'"),
        ("q1 Q0 t:0 1 1 x\nq1 Q0 t:0 2 0 x\n", "bad.run:2: 't:0' is twice in the ranking of query 'q1'"),
        ("\n", "holds no ranking"),
        ("x Q0 t:0 1 1 x\n", "none of its 1 queries (x…) is in the set"),
    ],
)
def test_a_file_that_is_no_run_is_refused(folder, text, told):
    (folder / "bad.run").write_text(text, encoding="utf-8")
    done = evals("score", folder / "bad.run", "--data", folder, "--json", folder / "bad.json")
    assert done.exit_code == 1
    assert told in done.stderr
    assert not (folder / "bad.json").exists()


def test_an_id_with_white_space_is_not_written(folder):
    rows = (folder / "queries.jsonl").read_text(encoding="utf-8").replace('"q1"', '"q 1"')
    (folder / "queries.jsonl").write_text(rows, encoding="utf-8")
    done = evals("run", "--data", folder, "--embedder", "none", "--cache", folder, "--run", folder / "o.run")
    assert done.exit_code == 1
    assert "The id 'q 1' has white space" in done.stderr
    assert not (folder / "o.run").exists()


def test_tables_as_csv(folder):
    options = ("--data", folder, "--cache", folder / "cache", "--embedder", "none", "--json", folder / "ours.json")
    assert evals("run", *options, "--csv", folder / "queries.csv").exit_code == 0
    with (folder / "queries.csv").open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [row["id"] for row in rows] == ["q1", "q2", "q3"]
    report = load(folder / "ours.json")
    assert float(rows[0]["recall@5"]) == report["queries"][0]["metrics"]["recall@5"]
    assert rows[2]["recall@5"] == ""
    assert "temple" not in (folder / "queries.csv").read_text(encoding="utf-8")
    assert evals("score", folder / "other.run", "--data", folder, "--json", folder / "other.json").exit_code == 0
    done = evals("compare", folder / "other.json", folder / "ours.json", "--csv", folder / "differences.csv")
    assert done.exit_code == 0, done.output
    with (folder / "differences.csv").open(encoding="utf-8", newline="") as stream:
        found = {(row["category"], row["metric"]): row for row in csv.DictReader(stream)}
    assert float(found["all", "recall@5"]["delta"]) == 0.5
    assert float(found["all", "recall@5"]["p_holm"]) >= float(found["all", "recall@5"]["p"])
