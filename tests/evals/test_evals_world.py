"""Whole turns of the example world, scored; what leaks is seen; the gate holds its baseline and fails when it must."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evals.app import DEFAULT_GATE, app
from evals.dataset import read_queries
from evals.errors import DatasetError
from evals.reporting.report import result_json
from evals.running.gate import read_gate, run_gate
from evals.running.world_set import run_world

pytestmark = pytest.mark.anyio
GATE = read_gate(DEFAULT_GATE)

WORLD = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
KEY = {"id": "q1", "query": "Is that the temple key?", "relevant": {"lore_temple_key": 2}}
HIDDEN = {"id": "q2", "query": "What is in the lead box?", "relevant": {"lore_stone_house": 1}}


def queries(folder, *rows):
    file = folder / "queries.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


async def test_a_turn_delivers_what_is_relevant_and_keeps_secrets(tmp_path):
    report = result_json(await run_world(WORLD, queries(tmp_path, KEY, HIDDEN), embedder="none"))
    assert report["queries"][0]["evidence"] == {"lore_temple_key": "delivered"}
    assert report["leaks"] == {"queries": 0, "rate": 0.0, "ids": {}}
    assert 0 < report["queries"][0]["retrieved_tokens"][0] < 1000


async def test_who_may_know_is_given_it(tmp_path):
    asked = {**HIDDEN, "viewer": "chief", "relevant": {"lore_secret_hearth": 2}}
    report = result_json(await run_world(WORLD, queries(tmp_path, asked), embedder="none"))
    assert report["queries"][0]["evidence"] == {"lore_secret_hearth": "delivered"}
    assert report["leaks"]["queries"] == 0


async def test_a_leak_is_seen_in_candidates_and_in_the_prompt(tmp_path):
    rows = queries(tmp_path, {**KEY, "forbidden": ["lore_temple_key"]}, {**HIDDEN, "forbidden": ["p040.a"]})
    report = result_json(await run_world(WORLD, rows, embedder="none"))
    assert report["leaks"]["ids"]["q1"] == ["lore_temple_key"]
    assert "p040.a" in report["leaks"]["ids"]["q2"]
    assert report["leaks"]["rate"] == 1.0


async def test_what_the_budget_leaves_out_is_pruned(tmp_path):
    wide = result_json(await run_world(WORLD, queries(tmp_path, KEY), embedder="none"))
    used = 1024 + 2600
    tight = result_json(await run_world(WORLD, queries(tmp_path, KEY), embedder="none", max_input_tokens=used))
    assert wide["evidence"]["delivered"] == 1
    assert tight["evidence"]["delivered"] + tight["evidence"]["pruned"] == 1


async def test_a_label_that_names_nothing_is_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"queries.jsonl:1: the session holds no entry 'lore_tempel_key'"):
        await run_world(WORLD, queries(tmp_path, {**KEY, "relevant": {"lore_tempel_key": 1}}), embedder="none")


def every_sixth(source, folder):
    """Write every sixth query of a checked-in set; return the file and the ids that are in it."""
    lines = source.read_text(encoding="utf-8").splitlines()[::6]
    file = folder / source.name
    file.write_text("\n".join(lines), encoding="utf-8")
    return file, {json.loads(line)["id"] for line in lines}


async def check_gate(gate):
    verdicts = await run_gate(gate)
    assert [verdict.name for verdict in verdicts] == [each["name"] for each in gate.sets]
    for verdict in verdicts:
        assert verdict.faults == ()
        assert verdict.report["queries"]
        assert verdict.report["leaks"]["queries"] == 0


@pytest.mark.full
async def test_the_checked_in_sets_hold_their_baseline():
    """Both languages, some two hundred labelled turns with distractors and secrets; the carried model embeds."""
    await check_gate(GATE)


async def test_a_part_of_the_english_set_holds_its_baseline(tmp_path):
    """As many queries may fall as in the whole set."""
    one = GATE.sets[0]
    _, ids = every_sixth(DEFAULT_GATE.parent / one["queries"], tmp_path)
    rows = [row for row in GATE.baseline[one["name"]]["queries"] if row["id"] in ids]
    baseline = {one["name"]: {**GATE.baseline[one["name"]], "queries": rows}}
    gate = replace(GATE, file=tmp_path / "gate.json", tolerance=GATE.tolerance * 6, baseline=baseline)
    await check_gate(replace(gate, sets=({**one, "world": str(WORLD)},)))


async def test_a_part_of_the_chinese_set_leaks_nothing(tmp_path):
    file, _ = every_sixth(DEFAULT_GATE.with_name("whispering_forest_zh.jsonl"), tmp_path)
    report = result_json(await run_world(WORLD.with_name("zh"), file, embedder="none"))
    assert report["leaks"]["queries"] == 0
    assert report["evidence"]["delivered"] > len(report["queries"]) // 2


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_the_checked_in_sets_label_the_same_turns(locale):
    folder = DEFAULT_GATE.parent
    labels = {each.query_id[2:]: each for each in read_queries(folder / f"whispering_forest_{locale}.jsonl")}
    others = {each.query_id[2:]: each for each in read_queries(folder / "whispering_forest_en.jsonl")}
    assert len(labels) >= 100
    assert {name: (each.relevant, each.viewer, each.forbidden) for name, each in labels.items()} == {
        name: (each.relevant, each.viewer, each.forbidden) for name, each in others.items()
    }


def gate_file(folder, **changes):
    queries(folder, KEY, HIDDEN)
    sets = [{"name": "small", "world": str(WORLD), "queries": "queries.jsonl"}]
    file = folder / "gate.json"
    file.write_text(json.dumps({"tolerance": 1.0, "sets": sets, **changes}))
    return file


def test_the_command_keeps_a_baseline_and_fails_below_it(tmp_path):
    file = gate_file(tmp_path)
    run = CliRunner().invoke
    without = run(app, ["gate", "--gate", str(file), "--embedder", "none"])
    assert without.exit_code == 1
    assert "no baseline" in without.output
    assert run(app, ["gate", "--gate", str(file), "--embedder", "none", "--update"]).exit_code == 0
    kept = run(app, ["gate", "--gate", str(file), "--embedder", "none"])
    assert kept.exit_code == 0, kept.output
    better = json.loads(file.read_text())
    better["baseline"]["small"]["queries"][1]["metrics"] = dict.fromkeys(
        better["baseline"]["small"]["queries"][1]["metrics"], 1.5
    )
    file.write_text(json.dumps(better))
    fallen = run(app, ["gate", "--gate", str(file), "--embedder", "none"])
    assert fallen.exit_code == 1
    assert "recall@5 fell by" in fallen.output


@pytest.mark.parametrize("text", ["[]", "{", '{"tolerance": 1}', '{"tolerance": 1, "sets": [{"name": "x"}]}'])
def test_a_gate_that_is_none_is_refused(tmp_path, text):
    file = tmp_path / "gate.json"
    file.write_text(text)
    with pytest.raises(DatasetError, match=r"gate.json"):
        read_gate(file)
