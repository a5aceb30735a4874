"""Paired comparison of two runs: intervals hold what they should, and unlike runs are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from evals.app import app
from evals.compare import compare, comparison_json
from evals.errors import DatasetError
from jacquard.authoring.reports import interval


def report(values, *, category=lambda number: "c", relevant=None, session=lambda number: "s"):
    return {
        "queries": [
            {
                "id": f"q{number}",
                "session": session(number),
                "category": category(number),
                "relevant": relevant or {"d": 1},
                "metrics": {"recall@5": value},
            }
            for number, value in enumerate(values)
        ]
    }


def one(a, b, **options):
    return compare(a, b, metrics=["recall@5"], **options)


def test_a_run_against_itself_is_open_with_nothing_between():
    (difference,) = one(report([0.0, 0.5, 1.0]), report([0.0, 0.5, 1.0])).differences[""]
    assert (difference.delta, difference.low, difference.high, difference.verdict) == (0, 0, 0, "open")


def test_what_a_baseline_rounded_is_no_difference():
    (difference,) = one(report([0.333333] * 20), report([1 / 3] * 20)).differences[""]
    assert (difference.better, difference.worse, difference.verdict) == (0, 0, "open")


def test_a_clear_gain_is_better_and_turned_round_worse():
    low, high = report([0.0] * 40 + [1.0] * 10), report([1.0] * 40 + [0.5] * 10)
    (gain,) = one(low, high).differences[""]
    (loss,) = one(high, low).differences[""]
    assert (gain.verdict, gain.better, gain.worse) == ("better", 40, 10)
    assert (loss.verdict, loss.better, loss.worse) == ("worse", 10, 40)
    assert (gain.low, gain.high) == pytest.approx((-loss.high, -loss.low))


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_the_interval_holds_the_difference_or_nearly(pairs):
    a, b = report([first for first, _ in pairs]), report([second for _, second in pairs])
    (found,) = one(a, b, resamples=500).differences[""]
    assert -1 <= found.low <= found.high <= 1
    assert found.delta == pytest.approx(np.mean([second - first for first, second in pairs]))
    assert found.better + found.worse <= len(pairs)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    chance = np.random.default_rng(1)
    samples = (chance.random(80) < 0.6 for _ in range(300))
    held = [low <= 0.6 <= high for low, high in (interval(list(map(float, each)), resamples=400) for each in samples)]
    assert 0.90 <= np.mean(held) <= 0.98


def test_sessions_that_hang_together_widen_the_interval():
    values = [float(number // 10 % 2) for number in range(100)]
    a, b = report([0.0] * 100, session=lambda n: str(n // 10)), report(values, session=lambda n: str(n // 10))
    (apart,) = one(a, b).differences[""]
    (together,) = one(a, b, by_session=True).differences[""]
    assert together.high - together.low > 2 * (apart.high - apart.low)


def test_categories_stand_apart():
    found = one(
        report([0.0, 0.0, 1.0], category=lambda n: "x" if n < 2 else ""),
        report([1.0, 1.0, 0.0], category=lambda n: "x" if n < 2 else ""),
    )
    assert dict(found.queries) == {"": 3, "x": 2, "(none)": 1}
    assert comparison_json(found)["x"]["metrics"]["recall@5"]["verdict"] == "better"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (report([1.0]), "not of the same queries"),
        (report([1.0, 1.0], relevant={"e": 1}), "labels of 2 queries differ"),
    ],
)
def test_runs_of_other_queries_or_labels_are_refused(other, said):
    with pytest.raises(DatasetError, match=said):
        one(report([1.0, 0.0]), other)


def test_the_command_prints_a_table_and_writes_json(tmp_path):
    metrics = ["recall@5", "recall@10", "recall@25", "recall@50", "all@10", "ndcg@5", "precision@5"]
    for name, value in (("a", 0.2), ("b", 0.9)):
        value_report = report([value] * 30)
        for row in value_report["queries"]:
            row["metrics"] = dict.fromkeys(metrics, value)
        (tmp_path / f"{name}.json").write_text(json.dumps(value_report))
    done = CliRunner().invoke(
        app, ["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json", str(tmp_path / "c.json")]
    )
    assert done.exit_code == 0, done.output
    assert "+70.0" in done.output
    assert json.loads((tmp_path / "c.json").read_text())["all"]["metrics"]["ndcg@5"]["verdict"] == "better"


def test_the_command_names_a_file_that_is_no_report(tmp_path):
    (tmp_path / "a.json").write_text("[]")
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")])
    assert done.exit_code == 1
    assert "a.json: holds no report" in done.output


@pytest.mark.parametrize("session", [lambda number: "s", lambda number: None])
def test_where_there_are_no_sessions_to_draw_each_query_is_drawn(session):
    a, b = report([0.0] * 20, session=session), report([0.0, 1.0] * 10, session=session)
    assert one(a, b, by_session=True) == one(a, b)


def test_p_values_are_corrected_for_how_many_there_are():
    """Holm: the smallest of m p-values times m, the next times m − 1, never below the one before, at most 1."""
    clear, none = [1.0] * 30 + [0.0] * 2, [0.0, 1.0] * 16
    a, b = report([0.0] * 32), report(clear)
    for row, low, high in zip(a["queries"], none, none[::-1], strict=True):
        row["metrics"]["recall@10"] = low
        b["queries"][int(row["id"][1:])]["metrics"]["recall@10"] = high
    found = {each.metric: each for each in compare(a, b, metrics=["recall@5", "recall@10"]).differences[""]}
    assert found["recall@5"].p_holm == pytest.approx(2 * found["recall@5"].p)
    assert found["recall@10"].p_holm == pytest.approx(max(found["recall@10"].p, found["recall@5"].p_holm))
    assert all(each.p <= each.p_holm <= 1 for each in found.values())
    assert comparison_json(compare(a, b, metrics=["recall@5"]))["all"]["metrics"]["recall@5"][
        "p_holm"
    ] == pytest.approx(found["recall@5"].p), "one p-value needs no correction"


def test_categories_belong_to_the_same_family():
    a = report([0.0] * 40, category=lambda n: "x" if n < 20 else "y")
    b = report([1.0] * 40, category=lambda n: "x" if n < 20 else "y")
    found = one(a, b).differences
    smallest = min(each.p for (each,) in found.values())
    assert min(each.p_holm for (each,) in found.values()) == pytest.approx(3 * smallest)
