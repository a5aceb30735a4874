"""Numerical actions: the whole input or nothing, guards, ops, and replies that are plain text."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from forest_parts import HEAL, STATE, WORLD
from hypothesis import given
from hypothesis import strategies as st

from jacquard.core.errors import TemplateError
from jacquard.pipeline.planning.actions import apply_action, find_action_faults, match_action
from mnemosyne.core.errors import StateOpError


@pytest.mark.parametrize(
    "text",
    [
        "喝药水", "喝一瓶药水。", "请使用治疗药水吧!!", "使用药水，谢谢", " 喝药水啊～ ", "麻烦你喝药水",
        "drink potion", "Drink a POTION!", "please, use the healing potion", "Use the potion, thanks.", "ｄｒｉｎｋ　ｐｏｔｉｏｎ",
    ],
)  # fmt: skip
def test_a_declared_input_is_recognised(text):
    found = match_action(text, WORLD)
    assert found is not None
    assert found[0] is HEAL


@pytest.mark.parametrize(
    "text",
    [
        "", "我看见有人喝药水", "喝药水,然后去神庙", "drink the potion and leave", "I drink potion", "drinkpotion",
        "don't drink a potion", "drink potion" + " " * 200 + "!", "please", "吧",
    ],
)  # fmt: skip
def test_anything_more_than_the_action_is_told(text):
    assert match_action(text, WORLD) is None


def test_named_groups_come_along():
    found = match_action("Use a Healing Potion, please!", WORLD)
    assert found is not None
    assert found[1] == {"what": "Healing Potion"}
    assert match_action("喝药水", WORLD) == (HEAL, {})


def test_it_applies_its_ops_and_answers():
    before = copy.deepcopy(STATE)
    outcome = apply_action(HEAL, {"what": "potion"}, STATE)
    assert outcome.reply == "Health 100, 1 left (potion)."
    assert outcome.refused is None
    assert outcome.state["hero"]["health"] == 100
    assert [(op["op"], op["path"]) for op in outcome.patch] == [
        ("replace", "/inventory/main_bag/items/1/count"),
        ("replace", "/hero/health"),
    ]
    assert before == STATE


def test_a_guard_that_fails_answers_and_changes_nothing():
    empty = apply_action(HEAL, {}, STATE).state
    empty = apply_action(HEAL, {}, empty).state
    outcome = apply_action(HEAL, {}, empty)
    assert outcome.reply == "You have no potion left."
    assert outcome.refused is HEAL.guards[0]
    assert outcome.state == empty
    assert outcome.patch == ()


def test_a_refused_op_changes_nothing():
    with pytest.raises(StateOpError, match="no_such_item"):
        apply_action(replace(HEAL, ops=(("SUB", "no_such_item.count", 1),)), {}, STATE)


@given(st.text())
def test_values_are_never_run_as_templates_nor_escaped(text):
    hostile = f"{{{{ 7*7 }}}}{{% for x in y %}}<b>&{text}"
    action = replace(HEAL, guards=(), ops=(("SET", "hero.name", "x"),), reply="[{{ groups.what }}]{{ state.note }}")
    outcome = apply_action(action, {"what": hostile}, {**STATE, "note": hostile})
    assert outcome.reply == f"[{hostile}]{hostile}".strip()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("{{ state.nothing }}", "nothing"),
        ("one\n{{ item('gone').count }}", "gone"),
        ("{{ state.inventory }}", "a mapping cannot be printed"),
        ("{% if %}", "Expected"),
        ("{{ state.__class__ }}", "unsafe"),
        ("{% for n in range(9999) %}{% for m in range(9999) %}{% endfor %}{% endfor %}", "steps"),
    ],
)
def test_a_faulty_reply_says_whose_it_is(reply, reason):
    with pytest.raises(TemplateError, match=reason) as caught:
        apply_action(replace(HEAL, reply=reply), {}, STATE)
    assert caught.value.file == "action drink_potion: reply"
    assert caught.value.line == (2 if reply.startswith("one") else 1)


def test_faults_of_actions_are_told_before_anyone_plays():
    assert find_action_faults(WORLD) == ()
    broken = (
        replace(HEAL, action_id="one", reply="{{ state.hero | nofilter }}"),
        replace(HEAL, action_id="two", reply="{{ state.hero.mana }}"),
        replace(HEAL, action_id="three", ops=(("ADD", "hero.name", 1),)),
        replace(HEAL, action_id="four", guards=(replace(HEAL.guards[0], value=99),), reply="{{ state.hero.mana }}"),
    )
    faults = find_action_faults(replace(WORLD, actions=broken))
    assert [fault.split(":")[0] for fault in faults] == ["action one", "action two", "action three"]
    assert "nofilter" in faults[0]
    assert "mana" in faults[1]
