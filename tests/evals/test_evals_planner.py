"""The planner's rules on the labelled set: all parts are scored, only the misses of `tune` are shown, and the scores that were
recorded are kept.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from typer.testing import CliRunner

from evals.app import PLANNER_SET, app
from evals.errors import DatasetError
from evals.running.planner_set import LABELS, planner_json, read_inputs, run_planner


@pytest.fixture(scope="module")
def report():
    return planner_json(run_planner(PLANNER_SET))


def test_the_set_has_two_languages_in_two_halves():
    inputs = read_inputs(PLANNER_SET)
    assert len({each.input_id for each in inputs}) == len(inputs) >= 320
    sizes = Counter((each.language, each.half) for each in inputs if each.half != "later")
    assert len(sizes) == 4
    assert max(sizes.values()) - min(sizes.values()) <= 4
    halves = {
        half: {(each.language, each.category) for each in inputs if each.half == half} for half in ("tune", "gate")
    }
    assert halves["tune"] == halves["gate"]


def test_scores_are_counted_by_half_language_and_category(report):
    for half in report["halves"].values():
        for label in LABELS:
            whole = half["scores"][label]
            for part in ("languages", "categories"):
                assert whole["count"] == sum(each[label]["count"] for each in half[part].values())
                assert whole["right"] == sum(each[label]["right"] for each in half[part].values())
            assert 0.0 <= whole["share"] <= 1.0


def test_the_scores_that_were_recorded_are_kept(report):
    recorded = json.loads((PLANNER_SET / "recorded.json").read_text(encoding="utf-8"))
    assert sorted(recorded) == ["gate", "later"]
    for half, least in recorded.items():
        scores = report["halves"][half]["scores"]
        fallen = {label: scores[label] for label in LABELS if scores[label]["share"] < least[label]}
        assert fallen == {}, f"{half}: compare with `python -m evals planner --misses` before the rules were changed"


@pytest.mark.parametrize("half", ["tune", "gate", "later"])
def test_the_page_has_the_scores_of_now(report, half):
    cells = [
        f"{100 * score['share']:.1f} % ({score['right']}/{score['count']})"
        for score in (report["halves"][half]["scores"][label] for label in LABELS)
    ]
    page = PLANNER_SET.parents[2] / "docs" / "measurements" / "evaluation.md"
    assert f"| now | {half} | {' | '.join(cells)} |" in page.read_text(encoding="utf-8")


def test_misses_of_the_gate_are_not_listed(report):
    halves = {each.input_id: each.half for each in read_inputs(PLANNER_SET)}
    assert all(halves[miss["id"]] == "tune" for miss in report["misses"])
    wrong = sum(each["count"] - each["right"] for each in report["halves"]["tune"]["scores"].values())
    assert wrong == sum(len(miss["wrong"]) for miss in report["misses"])


def test_the_command_prints_tables_and_json():
    shown = CliRunner().invoke(app, ["planner", "--misses"])
    assert shown.exit_code == 0
    assert "planner tier 0" in shown.stdout
    alone = CliRunner().invoke(app, ["planner", "--json", "-"])
    assert json.loads(alone.stdout)["inputs"] == len(read_inputs(PLANNER_SET))


def test_a_line_that_is_no_labelled_input_is_named(tmp_path):
    for name in ("zh.jsonl", "en.jsonl"):
        (tmp_path / name).write_text('{"id": "x"}\n', encoding="utf-8")
    with pytest.raises(DatasetError, match=r"zh\.jsonl:1: is no labelled input"):
        read_inputs(tmp_path)
