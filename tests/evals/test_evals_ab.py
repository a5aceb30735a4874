"""Arms compared by receipts: what is measured, the intervals, and nothing to compare."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import numpy as np
import pytest
from typer.testing import CliRunner

from evals.app import app
from evals.errors import DatasetError
from evals.running.ab import METRICS, ArmTurns, compare_arms, read_arms
from jacquard import config_from_yaml, open_runtime

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"


def arm(name: str, means: list[float], turns: int = 20) -> ArmTurns:
    """Sessions whose turns all measure the session's mean."""
    rows = np.repeat(np.array(means)[:, None], turns, axis=0) * np.ones((1, len(METRICS)))
    sessions = tuple(f"{name}{n}" for n in range(len(means)) for _ in range(turns))
    return ArmTurns(arm=name, rows=rows, sessions=sessions)


def test_a_difference_is_told_where_the_sessions_agree() -> None:
    (pair,) = compare_arms({"x": (arm("a", [10, 11, 9, 10, 10]), arm("b", [14, 15, 13, 14]))})
    assert (pair.a, pair.b, pair.turns, pair.sessions) == ("a", "b", (100, 80), (5, 4))
    first = pair.differences[0]
    assert (first.metric, first.a, first.b, first.verdict) == ("prompt_tokens", 10.0, 14.0, "more")
    assert 3 < first.low < 4 < first.high < 5
    assert pair == compare_arms({"x": (arm("a", [10, 11, 9, 10, 10]), arm("b", [14, 15, 13, 14]))})[0]


def test_many_turns_of_few_sessions_prove_little() -> None:
    (pair,) = compare_arms({"x": (arm("a", [5, 15], 500), arm("b", [6, 17], 500))})
    assert pair.differences[0].verdict == "open"


def test_arms_are_compared_pair_by_pair() -> None:
    arms = {"x": (arm("a", [1, 2]), arm("b", [1, 2]), arm("c", [1, 2])), "y": (arm("only", [1]),)}
    assert [(pair.a, pair.b) for pair in compare_arms(arms)] == [("a", "b"), ("a", "c"), ("b", "c")]
    with pytest.raises(DatasetError, match="no two arms"):
        compare_arms(arms, experiment="y")
    with pytest.raises(DatasetError, match="there are: x, y"):
        compare_arms(arms, experiment="z")


def test_receipts_of_a_store_are_read_and_compared(tmp_path: Path) -> None:
    config = config_from_yaml("experiments: {room: {small: {config: {budget: {max_input_tokens: 4200}}}, big: {}}}")

    async def play() -> dict[str, tuple[ArmTurns, ...]]:
        async with open_runtime(tmp_path / "store", world=FOREST, embedder="none", config=config) as runtime:
            for session in range(4):
                await runtime.ensure_session(f"s{session}", index=False)
                await runtime.engine.prepare_turn(f"s{session}", "Is that the key that opens the temple?")
                await runtime.engine.commit_assistant_message(
                    f"s{session}", '<content>No.</content><state_update>[["SET", "nobody.x", 1]]</state_update>'
                )
            return await read_arms(runtime.store)

    arms = anyio.run(play)
    assert {found.arm for found in arms["room"]} == {"small", "big"}
    assert all(row[METRICS.index("ops_refused")] == 1 for found in arms["room"] for row in found.rows)
    done = CliRunner().invoke(app, ["ab", "--store", str(tmp_path / "store"), "--json", "-"])
    assert done.exit_code == 0, done.output
    (pair,) = json.loads(done.stdout)["pairs"]
    assert (pair["a"], pair["b"]) == ("big", "small")
    assert pair["metrics"]["prompt_tokens"]["b"] <= 3176 < pair["metrics"]["prompt_tokens"]["a"]
    shown = CliRunner().invoke(app, ["ab", "--store", str(tmp_path / "store")])
    assert "room: A = big, B = small" in shown.output
    assert CliRunner().invoke(app, ["ab", "--store", str(tmp_path / "nothing")]).exit_code == 1
