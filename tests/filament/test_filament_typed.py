"""A typed state: quests with legal statuses, values that keep their type, and refusals that name what would be legal."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from filament import apply_patch, judge_ops
from filament.state.changes.judge import JudgedOps
from filament.state.display import list_limits
from filament.state.verdicts import Authority, Note, OpVerdict


def state(**meta: Any) -> dict[str, Any]:
    """A state as a world pack starts it: the root says that it is typed."""
    return {
        "location": "the jetty",
        "weather": ["windy", "the storm is six hours away"],
        "hero": {
            "health": [90, "a bruised knee"],
            "coins": 12,
            "rank": "novice",
            "conditions": ["wet", "cold", "tired"],
            "$meta": {"limits": {"health": [0, 100]}, "types": {"rank": ["novice", "master"], "pet": "text?"}},
        },
        "bag": {
            "_anchor": "bag_main",
            "items": [
                {"id": "item_bread", "name": "Bread", "count": 2},
                {"id": "item_lamp", "name": "Oil lamp", "count": 1, "lit": False},
            ],
        },
        "quests": {
            "q_light": {
                "id": "q_light",
                "title": "Keep the light burning",
                "status": "active",
                "objectives": [
                    {"id": "q_light_oil", "text": "Carry oil", "status": "active"},
                    {"id": "q_light_dawn", "text": "Burn till dawn", "status": "active"},
                ],
                "links": {"leads_to": ["q_cellar"], "$meta": {"lists": ["leads_to"]}},
                "progress": [1, "one of three drums is up"],
            },
            "q_cellar": {"id": "q_cellar", "title": "The cellar", "status": "inactive", "objectives": []},
            "q_done": {"id": "q_done", "title": "The crossing", "status": "completed", "objectives": []},
        },
        "$meta": {"typed": True, **meta},
    }


def judged(*ops: Any, tree: Any = None) -> JudgedOps:
    tree = state() if tree is None else tree
    before = copy.deepcopy(tree)
    done = judge_ops(tree, list(ops))
    assert tree == before
    assert apply_patch(tree, done.patch) == done.tree
    return done


def applied(*ops: Any, tree: Any = None) -> tuple[Any, tuple[Note, ...]]:
    done = judged(*ops, tree=tree)
    assert done.refused is None, done.refused
    return done.tree, tuple(note for verdict in done.verdicts for note in verdict.notes)


def refusal(*ops: Any, tree: Any = None) -> OpVerdict:
    bad = judged(*ops, tree=tree).refused
    assert bad is not None
    return bad


@pytest.mark.parametrize(
    "word",
    ["已完成", "完成", "完成了", "done", "DONE", "Complete", "ｄｏｎｅ", "true", True, "finished", " Completed. "],
)
def test_a_synonym_of_a_status_becomes_the_status_and_that_is_remarked(word: Any) -> None:
    tree, notes = applied(["SET", "q_light.status", word])
    assert tree["quests"]["q_light"]["status"] == "completed"
    assert [note.code.value for note in notes] == ["normalised"]
    assert "'completed'" in notes[0].text


@pytest.mark.parametrize(
    ("path", "word", "status"),
    [
        ("q_light.status", "失败", "failed"),
        ("q_light.status", "on_hold", "paused"),
        ("q_cellar.status", "进行中", "active"),
        ("q_cellar.status", "In-Progress", "active"),
        ("q_light_oil.status", "已完成", "completed"),
        ("q_light_oil.status", True, "completed"),
    ],
)
def test_quests_and_objectives_know_words_of_both_languages(path: str, word: Any, status: str) -> None:
    done = judged(["SET", path, word])
    assert done.refused is None
    assert judge_ops(done.tree, [["SET", path, status]]).patch[-1]["value"] == status


def test_a_legal_status_needs_no_remark() -> None:
    tree, notes = applied(["SET", "q_light.status", "completed"])
    assert (tree["quests"]["q_light"]["status"], notes) == ("completed", ())


@pytest.mark.parametrize(
    ("path", "word", "legal"),
    [
        ("q_cellar.status", "completed", ("active", "failed")),
        ("q_done.status", "active", ()),
        ("q_light.status", "inactive", ("completed", "failed", "paused")),
    ],
)
def test_a_status_that_may_not_follow_is_refused_with_those_that_may(path: str, word: str, legal: Any) -> None:
    bad = refusal(["SET", path, word])
    assert (bad.code, bad.target) == ("illegal_transition", path)
    assert bad.legal is not None
    assert bad.legal.choices == legal
    assert all(each in bad.reason for each in legal)


def test_a_quest_may_be_begun_and_ended_in_one_turn() -> None:
    tree, _ = applied(["SET", "q_cellar.status", "active"], ["SET", "q_cellar.status", "done"])
    assert tree["quests"]["q_cellar"]["status"] == "completed"


@pytest.mark.parametrize("word", ["soon", "未知", 3, False, None, ["active"]])
def test_what_is_no_status_is_refused_with_the_statuses(word: Any) -> None:
    bad = refusal(["SET", "q_light.status", word])
    assert bad.code == "wrong_type"
    assert "inactive, active, completed, failed, paused" in bad.reason


def test_a_misspelt_status_is_told_the_nearest() -> None:
    assert "did you mean 'completed'" in refusal(["SET", "q_light.status", "complted"]).reason


@pytest.mark.parametrize(
    "op",
    [
        ["DELETE", "quests"],
        ["DELETE", "q_light"],
        ["DELETE", "q_light.title"],
        ["DELETE", "q_light.status"],
        ["DELETE", "q_light.objectives"],
        ["DELETE", "q_light_oil"],
        ["POP", "q_light.objectives"],
        ["POP", "q_light.objectives", "q_light_dawn"],
        ["DELETE", "hero"],
        ["DELETE", "hero.coins"],
        ["DELETE", "location"],
        ["SET", "quests", {}],
        {"op": "remove", "path": "/quests/q_light/objectives/0"},
    ],
)
def test_quests_and_what_the_pack_declares_cannot_be_deleted(op: Any) -> None:
    bad = refusal(op)
    assert bad.code == "necessary"
    assert "SET" in bad.reason


def test_objectives_are_not_replaced_as_a_whole_but_may_be_added() -> None:
    bad = refusal(["SET", "q_light.objectives", []])
    assert bad.code == "protected"
    assert "q_light_oil, q_light_dawn" in bad.reason
    tree, _ = applied(["PUSH", "q_light.objectives", {"text": "Wake the keeper"}])
    assert tree["quests"]["q_light"]["objectives"][2] == {"id": "item_1", "status": "active", "text": "Wake the keeper"}
    assert refusal(["PUSH", "q_light.objectives", {"status": "active"}]).code == "missing_field"
    assert refusal(["PUSH", "q_light.objectives", {"text": "x", "status": "soon"}]).code == "wrong_type"
    assert refusal(["SET", "quests.q_new", {"title": "A quest of my own"}]).code == "not_extensible"


def test_a_quest_takes_the_fields_of_its_kind() -> None:
    tree, _ = applied(
        ["SET", "q_light.outcome", "It burnt till dawn."], ["SET", "q_light_oil.progress", "two of three"]
    )
    assert tree["quests"]["q_light"]["outcome"] == "It burnt till dawn."
    assert tree["quests"]["q_light"]["objectives"][0]["progress"] == "two of three"
    assert applied(["SET", "q_light.progress", "half"])[0]["quests"]["q_light"]["progress"] == "half"
    assert refusal(["SET", "q_light.links", {}]).code == "not_updatable"
    assert refusal(["SET", "q_light.reward", 5]).code == "not_extensible"


# --- fields ---


@pytest.mark.parametrize(
    ("op", "near"),
    [
        (["SET", "hero.helth", 90], "health"),
        (["SET", "locaton", "the tower"], "location"),
        (["SET", "item_bread.cuont", 1], "count"),
        (["ADD", "hero.coin", 1], "coins"),
        (["SET", "item_bred.count", 1], "item_bread"),
        (["SET", "heroo.health", 1], "hero"),
        (["SET", "/hero/helth", 1], "health"),
        (["SET", "q_light.objectives.q_light_oli.status", "completed"], "q_light_oil"),
        (["POP", "bag_main", "item_lmap"], "item_lamp"),
        (["DELETE", "hero.coin"], "coins"),
        (["PUSH", "hero.condition", "wet"], "conditions"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(op: Any, near: str) -> None:
    bad = refusal(op)
    assert repr(near) in bad.reason
    assert bad.legal is None or bad.legal.near in ("", near)


def test_a_field_that_is_not_declared_is_made_only_below_what_is_extensible() -> None:
    bad = refusal(["SET", "hero.luck", 3])
    assert bad.code == "not_extensible"
    assert "health, coins, rank" in bad.reason
    assert applied(["SET", "hero.pet", "a gull"])[0]["hero"]["pet"] == "a gull"
    assert applied(["SET", "item_lamp.wick", "new"])[0]["bag"]["items"][1]["wick"] == "new"
    assert applied(["PUSH", "bag_main", {"name": "Rope"}])[0]["bag"]["items"][2] == {"id": "item_1", "name": "Rope"}
    assert refusal(["SET", "mood", "dark"]).code == "not_extensible"
    assert applied(["SET", "mood", "dark"], tree=state(extensible=True))[0]["mood"] == "dark"
    shut = state()
    shut["bag"]["$meta"] = {"extensible": False}
    assert refusal(["PUSH", "bag_main", {"name": "Rope"}], tree=shut).code == "not_extensible"


def test_a_declared_list_may_grow_and_shrink() -> None:
    tree, _ = applied(["PUSH", "hero.conditions", "poisoned"], ["POP", "hero.conditions", "cold"])
    assert tree["hero"]["conditions"] == ["wet", "tired", "poisoned"]
    bad = refusal(["PUSH", "bag_main", "Rope"])
    assert (bad.code, bad.legal is not None and bad.legal.choices) == ("wrong_type", ("name", "count"))


# --- types ---


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        (["SET", "location", 42], "text"),
        (["SET", "location", True], "text"),
        (["SET", "location", None], "text"),
        (["SET", "location", ["a", "b", "c"]], "text"),
        (["SET", "location", {"name": "tower"}], "text"),
        (["SET", "weather", 3], "text"),
        (["SET", "hero.coins", "many"], "number"),
        (["SET", "hero.coins", True], "number"),
        (["SET", "hero.health", "full"], "number"),
        (["SET", "item_lamp.lit", 1], "boolean"),
        (["SET", "item_lamp.lit", "maybe"], "boolean"),
        (["SET", "hero.pet", 3], "text"),
        (["SET", "hero.conditions", "wet"], "list"),
        (["SET", "hero", 3], "mapping"),
        (["SET", "/hero/conditions/0", 3], "text"),
    ],
)
def test_a_value_keeps_its_type(op: Any, kind: str) -> None:
    bad = refusal(op)
    assert bad.code == "wrong_type"
    assert bad.legal is not None
    assert bad.legal.kind == kind


@pytest.mark.parametrize(
    ("op", "path", "value"),
    [
        (["SET", "hero.coins", "15"], ("hero", "coins"), 15),
        (["SET", "hero.coins", "１５"], ("hero", "coins"), 15),
        (["SET", "hero.health", ["80", "better"]], ("hero", "health"), [80, "better"]),
        (["ADD", "hero.coins", "3"], ("hero", "coins"), 15),
        (["SET", "item_lamp.lit", "true"], ("bag", "items", 1, "lit"), True),
        (["SET", "item_lamp.lit", "是"], ("bag", "items", 1, "lit"), True),
    ],
)
def test_a_number_or_truth_value_as_text_is_read_and_remarked(op: Any, path: Any, value: Any) -> None:
    node, notes = applied(op)
    for step in path:
        node = node[step]
    assert node == value
    assert type(node) is type(value)
    assert [note.code.value for note in notes if note.code != "description_dropped"] == ["converted"]


def test_a_choice_in_another_spelling_is_read() -> None:
    tree, notes = applied(["SET", "hero.rank", "Master"])
    assert (tree["hero"]["rank"], [note.code.value for note in notes]) == ("master", ["normalised"])
    bad = refusal(["SET", "hero.rank", "mastr"])
    assert (bad.code, bad.legal is not None and bad.legal.near) == ("wrong_type", "master")


def test_limits_and_counts() -> None:
    bad = refusal(["SET", "item_bread.count", -5])
    assert (bad.code, bad.legal is not None and bad.legal.limits) == ("outside_limits", (0, None))
    assert "0 to ∞" in bad.reason
    tree, notes = applied(["SUB", "item_bread.count", 5])
    assert tree["bag"]["items"][0]["count"] == 0
    assert [note.code.value for note in notes] == ["clamped"]
    assert refusal(["PUSH", "bag_main", {"name": "Debt", "count": -1}]).code == "outside_limits"
    assert refusal(["SET", "hero.health", 101]).legal is not None


def test_a_value_may_be_given_a_description() -> None:
    assert applied(["SET", "location", ["the tower", "dark"]])[0]["location"] == ["the tower", "dark"]
    assert applied(["SET", "weather", "rain"])[0]["weather"] == "rain"


def test_a_description_may_be_derived_by_a_text() -> None:
    tree = {"oil": [3, "x"], "$meta": {"descriptions": {"oil": "enough for {value} hours"}}}
    assert judged(["SUB", "oil", 1], tree=tree).tree["oil"] == [2, "enough for 2 hours"]
    assert judged(["SET", "oil", [1, "low"]], tree=tree).verdicts[0].notes[0].code == "description_ruled"
    assert judged(["SET", "/oil/1", "low"], tree=tree).verdicts[0].code == "ruled_description"


# --- who may what ---


def test_a_host_may_do_what_a_model_may_not_but_types_and_limits_hold() -> None:
    ops = [
        ["SET", "q_done.status", "active"],
        ["DELETE", "q_light_oil"],
        ["SET", "hero.luck", 3],
        ["DELETE", "hero.coins"],
    ]
    done = judge_ops(state(), ops, authority=Authority.HOST)
    assert done.refused is None
    assert done.tree["quests"]["q_done"]["status"] == "active"
    assert [judge_ops(state(), [op]).refused is None for op in ops] == [False] * 4
    assert judge_ops(state(), [["SET", "location", None]], authority=Authority.AUTHOR).refused is None
    for op in (["SET", "q_done.status", "soon"], ["SET", "location", 42], ["SET", "hero.health", 200]):
        assert judge_ops(state(), [op], authority=Authority.HOST).refused is not None


def test_a_state_without_the_word_is_free() -> None:
    tree = state()
    del tree["$meta"]
    for op in (
        ["SET", "hero.helth", 90],
        ["SET", "location", 42],
        ["DELETE", "q_light"],
        ["SET", "item_bread.count", -5],
        ["SET", "q_light.status", "已完成"],
    ):
        assert judged(op, tree=tree).refused is None


def test_limits_are_listed_with_the_paths_that_have_them() -> None:
    tree = state()
    tree["cave"] = {"depth": 3, "air": [2, "thin"], "$meta": {"units": {"depth": "m"}, "limits": {"air": [None, 9]}}}
    tree["bag"]["items"][0]["$meta"] = {"limits": {"count": [0, 9]}}
    del tree["quests"]
    assert list_limits(tree) == {
        "0..100": ["hero.health"],
        "novice | master": ["hero.rank"],
        "0..9": ["item_bread.count"],
        "m": ["cave.depth"],
        "≤ 9": ["cave.air"],
    }


def test_limits_of_a_template_are_told_once() -> None:
    rules = {"limits": {"trust": [0, 10]}, "types": {"mood": ["calm", "angry"]}}
    group = {"template": {"trust": 5, "mood": "calm", "$meta": rules}}
    people = {"$meta": group, "bram": {"id": "bram", "trust": 5}, "zed": {"trust": 3, "mood": "calm"}}
    own = {"id": "oda", "trust": 1, "$meta": {"limits": {"trust": [0, 3]}}}
    assert list_limits({"people": {**people, "oda": own}}) == {
        "0..10": ["people.*.trust"],
        "calm | angry": ["people.*.mood"],
        "0..3": ["oda.trust"],
    }
