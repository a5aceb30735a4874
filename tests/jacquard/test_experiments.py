"""A/B experiments: stable arms, settings over settings, tags that go with the turn."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import BudgetConfig, RuntimeConfig, open_workshop
from jacquard.config import ArmConfig
from jacquard.errors import ConfigError
from jacquard.experiments import arm_of, enrolled
from jacquard.settings import config_from_yaml

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
        tuple(enrolled(config, f"s{n}").tags[f"ab.{name}"] for name in ("layout", "budget")) for n in range(1200)
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
    big = next(c for c in (enrolled(config, f"s{n}") for n in range(50)) if c.tags["ab.budget"] == "big")
    assert big.budget == BudgetConfig(max_input_tokens=9000, reserved_reply_tokens=2000)
    assert big.tags["host"] == "demo"
    assert not big.experiments
    assert big.history == config.history
    plain = RuntimeConfig()
    assert enrolled(plain, "s") is plain


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{x: {a: {config: {layuot: cache_first}}}}", "experiments.x.a: layuot"),
        ("{x: {a: {config: {budget: {max_input_tokens: -1}}}}}", "max_input_tokens"),
        ("{x: {a: {config: {tags: {b: c}}}}}", "cannot be set by an arm"),
        ("{x: {a: {config: {layout: classic}}}, y: {b: {config: {layout: cache_first}}}}", "both set layout"),
    ],
)
def test_faults_name_experiment_and_arm(text: str, word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        enrolled(config_from_yaml(f"experiments: {text}"), "s")


@pytest.mark.anyio
async def test_the_arm_goes_with_turn_receipt_and_answer(tmp_path: Path) -> None:
    config = config_from_yaml("experiments: {layout: {classic: {}, cache: {config: {layout: cache_first}}}}")
    layouts = {"classic": "classic", "cache": "cache_first"}
    async with open_workshop(tmp_path, world=FOREST, embedder="none", config=config) as workshop:
        for session in ("s0", "s1", "s2"):
            await workshop.ensure_session(session, index=False)
            turn = await workshop.engine.prepare_turn(session, "Is that the key?")
            arm = turn.report.tags["ab.layout"]
            assert turn.report.layout == layouts[arm]
            assert await workshop.engine.prepare_turn(session, "Is that the key?") == turn
            record = await workshop.store.turn(session, turn.turn_id)
            assert record.receipt is not None
            assert record.receipt["tags"] == {"ab.layout": arm}
