"""Reports: what a program and a person get to see of a run."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from evals.metrics import METRICS, TOKEN_METRICS, Outcome
from evals.reporting.report import Result, Row, print_report, result_json

CONFIG = {
    "retriever": "hybrid",
    "selector": "heuristic",
    "embedder": "none",
    "data": {"name": "keys [bold]", "licence": "MIT"},
    "machine": {"cpu": "a processor", "cores": 2, "memory_gb": 1.0},
}


def row(query_id, category, relevant, retrieved, selected, **more):
    made = Outcome(
        query_id=query_id,
        category=category,
        relevant=relevant,
        retrieved=tuple(retrieved),
        selected=tuple(selected),
    )
    return Row(outcome=made, session="s", recall_ms=more.pop("recall_ms", 10.0), select_ms=1.0, tokens=20, **more)


@pytest.fixture
def result():
    rows = (
        row("q1", "a", {"d1": 1}, ["d1"], ["d1"], recall_ms=10.0),
        row("q2", "a", {"d1": 1, "d2": 1}, ["d3", "d1"], ["d3"], recall_ms=30.0, unreachable=("d2",)),
        row(
            "q3",
            "b [red]",
            {"d3": 2},
            [],
            [],
            recall_ms=20.0,
            error="timeout: no answer",
            degradations=("no_embedder",),
        ),
        row("q4", "b [red]", {}, ["d1"], ["d1"], recall_ms=20.0, counts={"duplicates": 2, "prompt_tokens": 100}),
    )
    return Result(rows=rows, config=CONFIG, counts={"documents": 3, "pools": 1})


def test_the_json_has_what_programs_read(result):
    report = json.loads(json.dumps(result_json(result)))
    assert set(report["metrics"]) == {*METRICS, *TOKEN_METRICS}
    assert report["metrics"]["recall@5"] == pytest.approx((1 + 0.5 + 0) / 3)
    assert report["metrics"]["precision@5"] == pytest.approx(0.2 / 3)
    assert report["by_category"]["a"]["queries"] == 2
    assert report["by_category"]["a"]["recall@5"] == pytest.approx(0.75)
    assert report["latency_ms"] == {"recall_p50": 20.0, "recall_p95": 28.5, "select_p50": 1.0, "select_p95": 1.0}
    assert report["tokens"]["selection_mean"] == 20.0
    assert report["tokens"]["selector_prompt_tokens"] == 100
    assert report["counts"] == {"documents": 3, "pools": 1, "queries": 4, "scored": 3}
    assert report["config"]["data"]["licence"] == "MIT"


def test_what_went_wrong_is_listed_and_not_hidden(result):
    problems = result_json(result)["problems"]
    assert problems == {
        "unreachable": {"q2": ["d2"]},
        "unlabelled": ["q4"],
        "selector_errors": {"timeout": 1},
        "selector_counts": {"duplicates": 2},
        "degradations": {"no_embedder": 1},
    }


def test_each_query_has_its_row(result):
    rows = {each["id"]: each for each in result_json(result)["queries"]}
    assert list(rows) == ["q1", "q2", "q3", "q4"]
    assert rows["q1"]["metrics"]["all@5"] == 1.0
    assert rows["q2"]["unreachable"] == ["d2"]
    assert rows["q3"]["error"] == "timeout: no answer"
    assert rows["q4"]["metrics"] is None


def test_the_table_shows_percent_and_takes_names_as_they_are(result):
    shown = printed(result_json(result))
    assert "keys [bold] (MIT)" in shown
    assert "b [red]" in shown
    assert "50.0" in shown
    assert "1 query with relevant ids that are not in the pool (1; they count as not found): q2" in shown
    assert "1 query without anything relevant (not scored): q4" in shown
    assert "a processor, 2 cores" in shown


def test_a_run_in_which_nothing_can_be_scored_is_shown(result):
    nothing = Result(rows=result.rows[3:], config=CONFIG, counts={"documents": 3, "pools": 1})
    report = result_json(nothing)
    assert report["metrics"] == {}
    assert "without anything relevant" in printed(report)


def printed(report):
    console = Console(file=io.StringIO(), width=140, soft_wrap=True)
    print_report(report, console)
    return console.file.getvalue()
