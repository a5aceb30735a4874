"""A/B experiments: stable arms, settings over settings, tags that go with the turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import (
    BudgetConfig,
    ConfigError,
    RuntimeConfig,
    apply_experiments,
    config_from_yaml,
    create_context_engine,
    open_runtime,
)
from jacquard.config.experiments import arm_of
from jacquard.config.sections import ArmConfig
from mnemosyne import MemoryStore

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
TWO = """
tags: {host: demo}
experiments:
  layout: {classic: {}, cache: {config: {layout: cache_first}}}
  budget:
    small: {share: 1, config: {budget: {max_input_tokens: 4000}}}
    big: {share: 3, config: {budget: {max_input_tokens: 9000, reserved_reply_tokens: 2000}}}
"""


def test_arms_get_sessions_by_their_shares_and_independently() -> None:
    config = config_from_yaml(TWO)
    got = Counter(
        tuple(apply_experiments(config, f"s{n}").tags[f"ab.{name}"] for name in ("layout", "budget"))
        for n in range(1200)
    )
    for layout in ("classic", "cache"):
        assert 110 < got[layout, "small"] < 190
        assert 390 < got[layout, "big"] < 510


def test_the_hash_is_the_same_for_ever() -> None:
    arms = {"a": ArmConfig(), "b": ArmConfig(), "c": ArmConfig()}
    assert [arm_of("layout", arms, f"session-{n}") for n in range(12)] == list("caccacaabbba")
    assert [arm_of("其他", arms, f"会话{n}") for n in range(8)] == list("ccbbabcc")


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=9), st.text(max_size=9), st.lists(st.floats(0, 5), min_size=1, max_size=4))
def test_any_session_has_an_arm_that_has_a_share(experiment: str, session: str, shares: list[float]) -> None:
    arms = {str(n): ArmConfig(share=share) for n, share in enumerate(shares)}
    if sum(shares) > 0:
        arm = arm_of(experiment, arms, session)
        assert arms[arm].share > 0
        assert arm_of(experiment, arms, session) == arm
    else:
        with pytest.raises(ConfigError, match="no arm has a share"):
            arm_of(experiment, arms, session)


def test_an_arm_changes_what_it_names_and_nothing_else() -> None:
    config = config_from_yaml(TWO)
    big = next(c for c in (apply_experiments(config, f"s{n}") for n in range(50)) if c.tags["ab.budget"] == "big")
    assert big.budget == BudgetConfig(max_input_tokens=9000, reserved_reply_tokens=2000)
    assert big.tags["host"] == "demo"
    assert not big.experiments
    assert big.history == config.history
    plain = RuntimeConfig()
    assert apply_experiments(plain, "s") is plain


ARMS = "budget: {reserved_reply_tokens: 100}\nexperiments:\n  x:\n    a: {}\n    b: {config: %s}\n"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ("{layuot: cache_first}", "e.yaml:5: experiments.x.b.config.layuot: is no setting; did you mean 'layout'?"),
        (
            "{budget: {max_input_tokens: -1}}",
            "e.yaml:5: experiments.x.b.config.budget.max_input_tokens: is -1; it must be 1 or more",
        ),
        ("{tags: {b: c}}", "e.yaml:5: experiments.x.b.config.tags: cannot be set by an arm"),
    ],
)
def test_a_fault_in_any_arm_is_told_when_the_settings_are_read(changes: str, fault: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_yaml(ARMS % changes, file="e.yaml")
    assert str(caught.value) == fault


def test_an_arm_is_held_against_the_settings_around_it() -> None:
    config = config_from_yaml(ARMS % "{budget: {max_input_tokens: 500}}")
    assert config.experiments["x"]["b"].config == {"budget": {"max_input_tokens": 500}}
    with pytest.raises(ConfigError, match="max_input_tokens 90 leaves nothing for the prompt"):
        config_from_yaml(ARMS % "{budget: {max_input_tokens: 90}}")


def test_an_engine_refuses_experiments_that_cannot_be_whatever_the_session() -> None:
    arms = {"a": ArmConfig(), "b": ArmConfig(config={"layuot": "classic"})}
    with pytest.raises(ConfigError, match=r"experiments\.x\.b: layuot: is no setting; did you mean 'layout'"):
        create_context_engine(MemoryStore(), config=RuntimeConfig(experiments={"x": arms}))
    both = {
        "x": {"a": ArmConfig(), "b": ArmConfig(config={"layout": "classic"})},
        "y": {"c": ArmConfig(config={"layout": "cache_first"}), "d": ArmConfig()},
    }
    with pytest.raises(ConfigError, match="experiments 'x' and 'y' both set layout; let one of them do it"):
        create_context_engine(MemoryStore(), config=RuntimeConfig(experiments=both))
    taken = replace(RuntimeConfig(), experiments={"x": both["x"], "y": {"d": ArmConfig()}})
    create_context_engine(MemoryStore(), config=taken)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"layuot": "cache_first"}, r"experiments\.x\.a: layuot"),
        ({"tags": {"b": "c"}}, "cannot be set by an arm"),
    ],
)
def test_faults_name_experiment_and_arm(changes: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        apply_experiments(RuntimeConfig(experiments={"x": {"a": ArmConfig(config=changes)}}), "s")


def test_two_experiments_must_not_set_the_same() -> None:
    text = "{x: {a: {config: {layout: classic}}}, y: {b: {config: {layout: cache_first}}}}"
    with pytest.raises(ConfigError, match="both set layout"):
        apply_experiments(config_from_yaml(f"experiments: {text}"), "s")


@pytest.mark.anyio
async def test_the_arm_goes_with_turn_receipt_and_answer(tmp_path: Path) -> None:
    config = config_from_yaml("experiments: {layout: {classic: {}, cache: {config: {layout: cache_first}}}}")
    layouts = {"classic": "classic", "cache": "cache_first"}
    async with open_runtime(tmp_path, world=FOREST, embedder="none", config=config) as runtime:
        for session in ("s0", "s1", "s2"):
            await runtime.ensure_session(session, index=False)
            turn = await runtime.engine.prepare_turn(session, "Is that the key?")
            arm = turn.report.tags["ab.layout"]
            assert turn.report.layout == layouts[arm]
            assert await runtime.engine.prepare_turn(session, "Is that the key?") == turn
            record = await runtime.store.turn(session, turn.turn_id)
            assert record.receipt is not None
            assert record.receipt["tags"] == {"ab.layout": arm}
