"""The rule planner: triage, focus, goal, template, search intent and confidence."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from types import MappingProxyType

import pytest
from forest_parts import PLAN, STATE, WORLD, window
from hypothesis import given
from hypothesis import strategies as st

from jacquard import PlanContext, Planner
from jacquard.core.names import NameDictionary, mentions, normalise
from jacquard.core.plan import SearchIntent, Temporal, Triage, plan_from_json, plan_to_json
from jacquard.pipeline.planning.rules import RulePlanner
from mnemosyne.schema.world import Entity, PlannerRules

PLANNER: Planner = RulePlanner()


def plan(text: str, *, focus: str | None = None, world=WORLD, state=None) -> PlanContext:
    return PLANNER.plan(text, window(focus=focus, state=state), world)


def test_the_seeds_question_is_about_the_key_and_the_past():
    made = plan("那把钥匙是不是开启神庙的?我记得之前提到过。")
    assert made.triage is Triage.NARRATIVE
    assert made.search_intent.enabled
    assert made.search_intent.focus_keywords == ("神庙钥匙", "森林神庙")
    assert made.search_intent.temporal_context is Temporal.PAST
    assert made.entities == ("temple_key", "temple")
    assert made.active_quest_id == "q_001"
    assert made.current_goal == "找到森林神庙的入口"
    assert made.confidence >= 0.6


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("Where is the ELDER?", ("elder",)),
        ("Elderly people", ()),
        ("I visit the forest  temple", ("temple",)),
        ("the templexyz", ()),
        ("村长的小羊在神庙钥匙旁", ("elder", "lamb", "temple_key")),
        ("Ｊａｄｅ　ｋｅｙ", ("temple_key",)),
        ("ann's lamb", ("shepherd", "lamb")),
        ("去temple看看", ("temple",)),
        ("", ()),
    ],
)
def test_names_are_found_in_both_scripts(text, entities):
    assert plan(text).entities == entities


def test_an_ambiguous_alias_names_nobody_but_stays_a_keyword():
    made = plan("I ask the old man about the jade key")
    assert made.entities == ("temple_key",)
    assert made.search_intent.focus_keywords == ("the old man", "神庙钥匙")
    assert any("several entities" in reason for reason in made.reasons)


def test_focus_stays_switches_and_is_locked():
    assert plan("What a day.", focus="q_002").active_quest_id == "q_002"
    assert plan("What a day.").active_quest_id == "q_001"
    assert plan("Ann, where is your lamb?", focus="q_001").active_quest_id == "q_002"
    assert plan("Tell me of the lost lamb", focus="q_001").active_quest_id == "q_002"
    assert plan("说说森林神庙", focus="q_002").active_quest_id == "q_001"
    assert plan("the temple and the lamb", focus="q_002").active_quest_id == "q_002"
    locked = replace(WORLD, planner=replace(WORLD.planner, focus_locked=True))
    assert plan("Ann, where is your lamb?", focus="q_001", world=locked).active_quest_id == "q_001"


def test_a_quest_that_ended_loses_the_focus():
    quests = {**STATE["quests"], "q_002": {**STATE["quests"]["q_002"], "status": "completed"}}
    made = plan("Ann, where is your lamb?", focus="q_002", state={**STATE, "quests": quests})
    assert made.active_quest_id == "q_001"


def test_without_quests_there_is_no_focus_and_no_goal():
    made = plan("hello", state={})
    assert (made.active_quest_id, made.current_goal) == (None, "")


@pytest.mark.parametrize(
    ("progress", "told"),
    [
        ([1, "三桶灯油已搬上一桶"], "（1: 三桶灯油已搬上一桶）"),
        ([1, " "], "（1）"),
        (2, "（2）"),
        ([None, "x"], ""),
        (["a", "b", "c"], ""),
    ],
)
def test_a_goal_tells_progress_with_its_description(progress, told):
    quest = STATE["quests"]["q_001"]
    steps = [{**step, "progress": progress} for step in quest["objectives"]]
    own = {"q_001": {**quest, "progress": None, "objectives": steps}}
    assert plan("神庙", state={**STATE, "quests": own}).current_goal == f"找到森林神庙的入口{told}"
    only = {"q_001": {**quest, "progress": progress, "objectives": quest["objectives"][1:]}}
    assert plan("神庙", state={**STATE, "quests": only}).current_goal == f"找到森林神庙的入口{told}"


def test_a_goal_never_tells_the_progress_of_another_step():
    quest = {**STATE["quests"]["q_001"], "progress": [1, "三桶灯油已搬上一桶"]}
    steps = [{"id": "a", "text": "搬油", "status": "completed", "progress": 3}, *quest["objectives"]]
    state = {**STATE, "quests": {"q_001": {**quest, "objectives": steps}}}
    assert plan("神庙", state=state).current_goal == "找到森林神庙的入口"


def test_goal_follows_the_focus():
    assert plan("Ann, where is your lamb?").current_goal == "Bring the lamb home"


@pytest.mark.parametrize(
    ("text", "template"),
    [("I attack the wolf", "combat"), ("attackers!", "chat"), ("我攻击他", "combat"), ("list my things", "dense")],
)
def test_templates_are_chosen_by_the_first_rule_that_fits(text, template):
    assert plan(text).template_id == template


def test_a_rule_whose_condition_fails_is_passed_over():
    poor = {**STATE, "hero": {**STATE["hero"], "gold": 3}}
    assert plan("list my things", state=poor).template_id == "chat"


@pytest.mark.parametrize(
    ("text", "temporal"),
    [
        ("我记得你上次说过", Temporal.PAST),
        ("Do you remember the lamb?", Temporal.PAST),
        ("What did he say earlier", Temporal.PAST),
        ("明天打算去哪里", Temporal.FUTURE),
        ("I will plan to leave tomorrow", Temporal.FUTURE),
        ("开门", Temporal.NOW),
        ("I open the door", Temporal.NOW),
        ("the goodwill of men", Temporal.NOW),
        ("Before we set out, I take my sword", Temporal.NOW),
        ("Has it come up before?", Temporal.PAST),
        ("出发之前，先吃饭", Temporal.NOW),
        ("他之前来过", Temporal.PAST),
    ],
)
def test_words_tell_the_time(text, temporal):
    assert plan(text).search_intent.temporal_context is temporal


def test_the_pack_adds_words_and_weights():
    rules = PlannerRules(
        past_words=("眼下的从前",), domain_weights={"past": {"narrative": 0.9, "lore": 0.1, "event": 0.3}}
    )
    made = plan("我说的是眼下的从前", world=replace(WORLD, planner=rules))
    assert made.search_intent.temporal_context is Temporal.PAST
    assert made.search_intent.domain_weight == {"narrative": 0.9, "lore": 0.1, "event": 0.3}


def test_the_past_of_the_world_is_not_looked_for_in_what_was_played_alone():
    own, worlds = plan("Where did I find it?").search_intent, plan("Who built the temple?").search_intent
    assert own.temporal_context is worlds.temporal_context is Temporal.PAST
    assert own.domain_weight["narrative"] > own.domain_weight["lore"]
    assert worlds.domain_weight == plan("I open the door").search_intent.domain_weight


def test_a_declared_action_is_numerical_and_searches_nothing():
    made = plan("请使用治疗药水吧。", focus="q_002")
    assert made.triage is Triage.NUMERICAL
    assert made.action_id == "drink_potion"
    assert not made.search_intent.enabled
    assert made.active_quest_id == "q_002"
    assert made.confidence == 1.0


def test_a_story_that_mentions_an_action_is_told():
    assert plan("喝药水之前我想和村长谈谈").triage is Triage.NARRATIVE


def test_confidence_follows_its_formula():
    assert plan("推门").confidence == 0.40
    assert plan("嗯").confidence == 1.0
    assert plan("村长?").confidence == 0.65
    assert plan("村长?", state={}).confidence == 0.80
    assert plan("the lamb and the temple").confidence == 0.60
    assert plan("the old man and the lamb").confidence == 0.60


@pytest.mark.parametrize(
    ("text", "keywords"),
    [
        ("When did Caroline go to the LGBTQ support group?", ("Caroline", "LGBTQ")),
        ("Did Mary Ann's brother move to New York in May?", ("Mary Ann", "New York", "May")),
        ("他提到的「青铜铃」和《夜航记》是什么", ("青铜铃", "夜航记")),
        ("what now?", ()),
        ("I'd say “so be it”, Tom.", ("so be it", "Tom")),
    ],
)
def test_without_entities_names_are_guessed(text, keywords):
    assert plan(text, world=replace(WORLD, entities=(), digest="bare")).search_intent.focus_keywords == keywords


@given(st.text(), st.sampled_from([None, "q_001", "q_002", "gone"]))
def test_it_always_answers_and_answers_alike(text, focus):
    first, second = plan(text, focus=focus), RulePlanner().plan(text, window(focus=focus), WORLD)
    assert first == second
    assert plan_from_json(plan_to_json(first)) == first
    assert 0 <= first.confidence <= 1


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["id", "title", "status", "objectives", "text", "entities", "q"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_a_broken_quest_tree_is_no_reason_to_fail(quests):
    assert plan("the temple", state={"quests": quests}).triage is Triage.NARRATIVE


def test_plan_json_has_the_keys_of_the_spec():
    value = plan_to_json(PLAN)
    assert list(value) == [
        "active_quest_id", "current_goal", "template_id", "search_intent", "triage", "tier", "confidence", "entities",
        "action_id", "reasons", "tier1", "switches", "flags", "injections", "injected_at",
    ]  # fmt: skip
    assert list(value["search_intent"]) == ["enabled", "focus_keywords", "temporal_context", "domain_weight"]
    given_weights = replace(
        PLAN, search_intent=SearchIntent(enabled=False, domain_weight=MappingProxyType({"lore": 1.0}))
    )
    assert plan_from_json(plan_to_json(given_weights)) == given_weights


def test_ten_thousand_aliases_cost_little():
    entities = tuple(
        Entity(entity_id=f"e{n}", name=f"Name{n} of Place{n % 97}", aliases=(f"别名{n}号", f"alias {n}"))
        for n in range(5_000)
    )
    dictionary = NameDictionary(entities)
    assert len(dictionary) == 15_000
    text = "I met alias 4999 and 别名17号 near Name3 of Place3. " * 4
    started = perf_counter()
    found = dictionary.find(text)
    assert {each.entity_ids[0] for each in found} == {"e4999", "e17", "e3"}
    assert perf_counter() - started < 0.05


@given(st.text(alphabet="ab 神庙x", max_size=12), st.sampled_from(["a", "ab", "神庙", "ab 神", "x庙", "b a"]))
def test_dictionary_and_mentions_agree(text, name):
    """A dictionary of one name finds it exactly where `mentions` does."""
    dictionary = NameDictionary([Entity(entity_id="e", name=name)])
    assert bool(dictionary.find(text)) == mentions(normalise(text), name)
