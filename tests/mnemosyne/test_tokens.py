from __future__ import annotations

import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import CalibratedEstimator
from mnemosyne.core.exact_tokens.tiktoken_encoding import TiktokenEstimator, load_encoding

ENGLISH = (
    "The lantern had burned low by the time Mara reached the old mill. She set down her pack, counted the coins that were "
    "left, and wondered whether the ferryman would take her word for the rest. Outside, the rain went on as if it had "
    "nowhere else to be.",
    "You may enter the vault only if you carry the seal of the house. If you do not, the wardens will ask your name, your "
    "errand and the hour; answer all three truthfully and you may keep your sword.",
    '"I told you already," said the smith, "that blade isn\'t finished. Come back on Thursday, or don\'t come back at '
    "all!\" He turned to the forge and wouldn't say another word.",
    "Quest log: find 3 silver keys (2/3), speak with Captain Ilvane, return before day 14. Reward: 250 gold, 40 "
    "experience, reputation +5 with the River Guild.",
    "Remarkably, the constellations that the astronomer catalogued corresponded to the underground passageways; nobody "
    "in the university believed her until the collapse of the northern observatory.",
)
CHINESE = (
    "灯油快烧完的时候,玛拉才走到旧磨坊。她放下背包,数了数剩下的铜钱,心里想着摆渡人会不会让她先欠着。外面的雨还在下,好像哪儿也不想去。",
    "只有带着家族印信的人才能进入地库。如果你没有印信,守卫会问你的名字、来意和时辰;三样都照实回答,就可以留着你的剑。",
    "“我早就跟你说过,”铁匠道,“那把刀还没打好。星期四再来,不然就别来了!”他转身对着炉火,再也不肯多说一句。",
    "任务日志:寻找三把银钥匙(2/3),与伊尔文船长交谈,第14天之前返回。奖励:250金币,40点经验,河畔行会声望+5。",
    "古老的观星台坍塌之后,学院里的人才相信她所绘制的星图与地下的暗道一一对应。",
)


@pytest.fixture(scope="module")
def exact() -> TiktokenEstimator:
    return TiktokenEstimator("o200k_base")


@pytest.mark.parametrize("text", [*ENGLISH, *CHINESE])
def test_the_error_on_a_text_is_within_what_is_stated(text: str, exact: TiktokenEstimator) -> None:
    assert CalibratedEstimator().estimate(text) == pytest.approx(exact.estimate(text), rel=0.16)


@pytest.mark.parametrize("texts", [ENGLISH, CHINESE])
def test_the_error_on_a_language_is_within_what_is_stated(texts: tuple[str, ...], exact: TiktokenEstimator) -> None:
    ours = sum(map(CalibratedEstimator().estimate, texts))
    assert ours == pytest.approx(sum(map(exact.estimate, texts)), rel=0.05)


def test_prose_is_more_than_a_token_a_word() -> None:
    words = sum(len(text.split()) for text in ENGLISH)
    assert 1.15 < sum(map(CalibratedEstimator().estimate, ENGLISH)) / words < 1.45


def test_nothing_costs_nothing() -> None:
    assert CalibratedEstimator().estimate("") == 0
    assert CalibratedEstimator().estimate(" ") == 1


@given(st.text(), st.text())
def test_joining_changes_the_sum_by_two_at_most(one: str, other: str) -> None:
    estimate = CalibratedEstimator().estimate
    assert abs(estimate(one + other) - estimate(one) - estimate(other)) <= 2


def test_encodings_load_without_litellm_and_leave_the_environment_alone() -> None:
    before = dict(os.environ)
    assert load_encoding("cl100k_base").encode("hello world")
    assert dict(os.environ) == before
    if "litellm" in sys.modules:
        pytest.skip("another test has imported litellm")


def test_an_encoding_that_is_not_carried_is_named() -> None:
    with pytest.raises(LookupError, match="r50k_base"):
        load_encoding("r50k_base")


def test_control_tokens_are_plain_text(exact: TiktokenEstimator) -> None:
    assert exact.estimate("<|endoftext|>") > 1
