"""Overviews of the labelled set: both halves are scored, misses of `gate` are not shown, and the gate fails below its figures."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from evals.app import DEFAULT_GATE, OVERVIEW_SET, app
from evals.errors import DatasetError
from evals.running.gate import read_gate
from evals.running.overview_set import find_falls, overviews_json, read_overviews, run_overviews

pytestmark = pytest.mark.anyio
GATE = read_gate(DEFAULT_GATE)


def test_the_set_has_thirty_inputs_a_language_a_third_of_which_ask_for_no_overview():
    inputs = read_overviews(OVERVIEW_SET)
    for language in ("zh", "en"):
        own = [each for each in inputs if each.language == language]
        assert len(own) == 30
        assert sum(not each.scopes for each in own) == 10
        assert sum(each.half == "gate" for each in own) == 15
        assert {scope for each in own for scope in each.scopes} == {"all", "own", "person", "place", "quest"}


async def test_the_set_holds_the_figures_of_the_gate():
    report = overviews_json(await run_overviews(OVERVIEW_SET, "none"))
    assert find_falls(report, GATE.overviews_kept, GATE.tolerance) == []
    assert all(miss["id"] not in {"zh02", "en02"} for miss in report["misses"])
    for language in ("zh", "en"):
        assert report["halves"]["tune"][language]["recognised"] == 1.0
    worse = {"zh": {**GATE.overviews_kept["zh"], "recall": 1.1}, "en": {**GATE.overviews_kept["en"], "false": -0.1}}
    faults = find_falls(report, worse, GATE.tolerance)
    assert [fault.partition(" is ")[0] for fault in faults] == ["overviews, zh: recall", "overviews, en: false"]


def test_the_command_prints_a_table_and_json():
    shown = CliRunner().invoke(app, ["overviews", "--embedder", "none"])
    assert shown.exit_code == 0, shown.output
    assert "overviews, 60 inputs" in shown.stdout
    alone = CliRunner().invoke(app, ["overviews", "--embedder", "none", "--json", "-"])
    assert json.loads(alone.stdout)["inputs"] == 60


def test_a_line_that_is_no_labelled_overview_is_named(tmp_path):
    for name in ("zh.jsonl", "en.jsonl"):
        (tmp_path / name).write_text('{"id": "x"}\n', encoding="utf-8")
    with pytest.raises(DatasetError, match=r"zh\.jsonl:1: is no labelled overview"):
        read_overviews(tmp_path)
