"""What an author rules in `$meta`, with all that things inherit from their templates."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from filament import apply_patch, display, judge_ops, parse_reply
from filament.state.changes.judge import JudgedOps
from filament.state.descriptions import with_descriptions
from filament.state.display import with_own_lists
from filament.state.rules import rules_at_root

WOUNDS = [[0, "濒死"], [30, "重伤"], [70, "受伤状态"], [100, "安然无恙"]]


def world() -> dict[str, Any]:
    return {
        "hero": {
            "id": "hero",
            "name": "林舟",
            "health": [85, "受伤状态"],
            "stamina": [55, "腿沉"],
            "mood": ["calm", "at ease"],
            "rank": "novice",
            "tags": ["brave", "tired"],
            "$meta": {
                "limits": {"health": [0, 100], "stamina": [0, 100]},
                "types": {"rank": ["novice", "master"], "level": "integer"},
                "updatable": {"name": False},
                "necessary": ["$self", "name"],
                "lists": ["tags"],
                "descriptions": {"health": WOUNDS, "stamina": "drop", "mood": "keep"},
            },
        },
        "characters": {
            "$meta": {
                "extensible": True,
                "template": {
                    "trust": [50, "看不透"],
                    "needs": {"food": 1},
                    "$meta": {
                        "necessary": ["name"],
                        "extensible": False,
                        "limits": {"trust": [0, 100]},
                        "types": {"name": "text", "secret": "text"},
                        "descriptions": {"trust": [[0, "戒备"], [50, "看不透"], [80, "信赖"]]},
                    },
                },
            },
            "reed": {"id": "reed", "name": "阿苇", "trust": [72, "看不透"], "needs": {"food": 2}},
            "villagers": {
                "$meta": {"template": {"house": "unknown"}},
                "maud": {"id": "maud", "name": "芸婆", "trust": [80, "信赖"], "house": "石屋"},
            },
            "ghost": {"id": "ghost", "name": "?", "trust": 0, "$meta": {"limits": {"trust": [-100, 0]}}},
        },
        "bag": {
            "_anchor": "bag_main",
            "items": [
                {"id": "rope", "name": "绳", "count": 1},
                {"id": "pouch", "name": "囊", "count": 1, "_anchor": "bag_pouch", "items": []},
            ],
            "$meta": {"template": {"name": "?", "count": 1, "$meta": {"limits": {"count": [0, 9]}}}},
        },
        "laws": {
            "gravity": [9.8, "m/s²"],
            "notes": {"free": "x", "$meta": {"updatable": True}},
            "$meta": {"updatable": False},
        },
    }


def judged(*ops: Any, tree: Any = None) -> JudgedOps:
    """Judge ops, and hold the laws on the way."""
    tree = world() if tree is None else tree
    before = copy.deepcopy(tree)
    done = judge_ops(tree, list(ops))
    assert tree == before
    assert apply_patch(tree, done.patch) == done.tree
    if done.refused is not None:
        assert done.tree is tree
        assert not any(verdict.is_applied for verdict in done.verdicts)
    return done


def after(*ops: Any) -> Any:
    done = judged(*ops)
    assert done.refused is None, done.refused
    return done.tree


def refusal(*ops: Any) -> str:
    bad = judged(*ops).refused
    assert bad is not None
    return bad.code


def remarks(*ops: Any) -> list[str]:
    return [note.code.value for verdict in judged(*ops).verdicts for note in verdict.notes]


@pytest.mark.parametrize(
    ("op", "code"),
    [
        (["SET", "hero.name", "X"], "not_updatable"),
        (["DELETE", "hero.name"], "not_updatable"),
        (["DELETE", "hero"], "necessary"),
        (["SET", "hero.rank", "emperor"], "wrong_type"),
        (["SET", "hero.level", 1.5], "wrong_type"),
        (["SET", "hero.health", 101], "outside_limits"),
        (["SET", "hero.health", "full"], "wrong_type"),
        (["SET", "/hero/health/1", "fine"], "ruled_description"),
        (["SET", "laws.gravity", 1], "not_updatable"),
        (["SET", "laws.new", 1], "not_updatable"),
        (["DELETE", "laws"], "not_updatable"),
        (["SET", "reed.trust", 200], "outside_limits"),
        (["SET", "reed.wings", 2], "not_extensible"),
        (["SET", "characters.pip", {"trust": 3}], "missing_field"),
        (["SET", "characters.pip", {"name": "小豆", "wings": 2}], "not_extensible"),
        (["SET", "characters.pip", {"name": "小豆", "needs": 3}], "wrong_type"),
        (["DELETE", "reed.name"], "necessary"),
        (["SET", "ghost.trust", 5], "outside_limits"),
        (["SET", "maud.wings", 2], "not_extensible"),
        (["DELETE", "maud.name"], "necessary"),
        (["PUSH", "bag_main", {"id": "rope", "name": "x"}], "id_taken"),
        (["PUSH", "bag_main", {"name": "x", "count": 12}], "outside_limits"),
        (["PUSH", "bag_pouch", {"name": "x", "count": 12}], "outside_limits"),
        (["SET", "hero.$meta.limits", {}], "protected"),
        (["SET", "reed.id", "other"], "protected"),
        (["SET", "nobody.health", 1], "unknown_path"),
        (["ADD", "hero.rank", 1], "not_a_number"),
        (["PUSH", "hero.health", 1], "not_a_list"),
        (["DIV", "hero.health", 0], "division_by_zero"),
        (["POP", "bag_pouch"], "no_entry"),
        (["SET", "hero.health"], "malformed"),
    ],
)
def test_each_refusal_has_its_code(op: Any, code: str) -> None:
    assert refusal(op) == code


def test_a_word_further_down_lifts_what_is_ruled_above() -> None:
    assert after(["SET", "laws.notes.free", "y"])["laws"]["notes"]["free"] == "y"
    assert after(["SET", "ghost.trust", -40])["characters"]["ghost"]["trust"] == [-40, "戒备"]


def test_updatable_of_all_fields_but_some() -> None:
    tree = {"door": {"open": False, "key": "brass", "$meta": {"updatable": {"*": False, "open": True}}}}
    assert judged(["SET", "door.open", True], tree=tree).refused is None
    assert judged(["SET", "door.key", "iron"], tree=tree).verdicts[0].code == "not_updatable"
    assert judged(["SET", "door.hinge", 1], tree=tree).verdicts[0].code == "not_updatable"


@pytest.mark.parametrize(
    ("word", "field", "itself"),
    [("self", True, False), ("children", False, True), ("all", False, False), (["a"], False, True), ([], True, True)],
)
def test_necessary_is_about_the_thing_its_fields_or_both(word: Any, field: bool, itself: bool) -> None:
    tree = {"box": {"a": 1, "$meta": {"necessary": word}}}
    assert (judged(["DELETE", "box.a"], tree=tree).refused is None) is field
    assert (judged(["DELETE", "box"], tree=tree).refused is None) is itself


def test_what_must_stay_is_not_taken_away_with_what_holds_it() -> None:
    tree = {"room": {"chest": {"id": "chest", "$meta": {"necessary": "self"}}}, "bag": {"items": [{"id": "i"}]}}
    assert judged(["DELETE", "room"], tree=tree).verdicts[0].code == "necessary"
    assert judged(["SET", "room", {}], tree=tree).verdicts[0].code == "necessary"
    assert judged(["POP", "bag.items", "i"], tree=tree).refused is None


def test_new_things_are_filled_in_from_their_template() -> None:
    pip = after(["SET", "characters.pip", {"name": "小豆", "trust": 90}])["characters"]["pip"]
    assert pip == {"name": "小豆", "trust": [90, "信赖"], "needs": {"food": 1}}
    assert after(["PUSH", "bag_main", {"name": "灯"}])["bag"]["items"][-1] == {"id": "item_1", "name": "灯", "count": 1}
    assert after(["SET", "reed.secret", "likes bells"])["characters"]["reed"]["secret"] == "likes bells"


def test_a_group_passes_on_what_it_inherits_and_is_no_such_thing_itself() -> None:
    tom = after(["SET", "characters.villagers.tom", {"name": "Tom"}])["characters"]["villagers"]["tom"]
    assert tom == {"name": "Tom", "trust": [50, "看不透"], "needs": {"food": 1}, "house": "unknown"}
    assert after(["DELETE", "maud.house"])["characters"]["villagers"]["maud"].keys() == {"id", "name", "trust"}
    rules = rules_at_root(world()).rules_below("characters", world()["characters"])
    villagers = rules.rules_below("villagers", world()["characters"]["villagers"])
    assert villagers.shape == {}
    assert set(villagers.pattern) == {"trust", "needs", "house", "$meta"}


def test_templates_in_templates_reach_down_and_null_cuts_off() -> None:
    shelf = {
        "label": "",
        "$meta": {"template": {"title": "?", "$meta": {"limits": {"pages": [1, 99]}, "types": {"pages": "integer"}}}},
    }
    tree = {"library": {"$meta": {"template": shelf}, "north": {"id": "n", "label": "N"}}}
    done = judged(["SET", "n.novel", {"pages": 7}], ["SET", "library.east", {"label": "E"}], tree=tree)
    assert done.refused is None
    assert done.tree["library"]["north"]["novel"] == {"title": "?", "pages": 7}
    assert judged(["SET", "n.tome", {"pages": 700}], tree=tree).verdicts[0].code == "outside_limits"
    tree["library"]["north"]["$meta"] = {"template": None}
    assert judged(["SET", "n.tome", {"pages": 700}], tree=tree).tree["library"]["north"]["tome"] == {"pages": 700}


def test_a_pouch_in_a_bag_holds_things_of_the_same_kind() -> None:
    pouch = after(["PUSH", "bag_pouch", {"name": "薄荷"}])["bag"]["items"][1]
    assert pouch["items"] == [{"id": "item_1", "name": "薄荷", "count": 1}]


# --- values with a description ---


def test_a_table_tells_the_new_value_whatever_the_op_says() -> None:
    assert after(["SET", "hero.health", 100])["hero"]["health"] == [100, "安然无恙"]
    assert after(["SUB", "hero.health", 60])["hero"]["health"] == [25, "濒死"]
    assert after(["SUB", "hero.health", 999])["hero"]["health"] == [0, "濒死"]
    assert after(["SET", "hero.health", [100, "太阳般"]])["hero"]["health"] == [100, "安然无恙"]
    assert remarks(["SET", "hero.health", [100, "太阳般"]]) == ["description_ruled"]
    assert remarks(["SUB", "hero.health", 999]) == ["clamped"]


def test_without_a_rule_the_old_text_goes_with_the_old_value_and_that_is_remarked() -> None:
    tree = {"health": [85, "受伤状态"]}
    done = judged(["SET", "health", 100], tree=tree)
    assert done.tree == {"health": 100}
    (note,) = done.verdicts[0].notes
    assert note.code == "description_dropped"
    assert "受伤状态" in note.text
    assert judged(["SET", "health", [100, "安然无恙"]], tree=tree).tree == {"health": [100, "安然无恙"]}
    assert judged(["SET", "health", 85], tree=tree).verdicts[0].notes == ()


def test_an_author_may_let_the_old_text_go_or_stay() -> None:
    assert after(["SET", "hero.stamina", 90])["hero"]["stamina"] == 90
    assert remarks(["SET", "hero.stamina", 90]) == ["description_dropped"]
    assert after(["SET", "hero.mood", "angry"])["hero"]["mood"] == ["angry", "at ease"]
    assert remarks(["SET", "hero.mood", "angry"]) == []


def test_a_table_of_words_is_read_by_the_word() -> None:
    tree = {"sky": ["clear", "blue"], "$meta": {"descriptions": {"sky": [["clear", "blue"], ["rain", "wet"]]}}}
    assert judged(["SET", "sky", "rain"], tree=tree).tree["sky"] == ["rain", "wet"]
    assert judged(["SET", "sky", "snow"], tree=tree).tree["sky"] == "snow"
    assert judged(["SET", "sky", ["snow", "white"]], tree=tree).tree["sky"] == ["snow", "white"]


def test_plain_values_with_a_table_are_described_from_the_start() -> None:
    told = with_descriptions({"hp": 20, "none": 3, "$meta": {"descriptions": {"hp": WOUNDS}}})
    assert told["hp"] == [20, "濒死"]
    assert told["none"] == 3


def test_a_pair_that_the_author_calls_a_list_is_one() -> None:
    assert display(world())["hero"]["tags"] == ["brave", "tired"]
    assert display(world())["hero"]["health"] == "85 (受伤状态)"
    assert after(["POP", "hero.tags", "tired"], ["PUSH", "hero.tags", "wet"])["hero"]["tags"] == ["brave", "wet"]
    assert remarks(["SET", "hero.pals", ["Reed", "Inkspot"]]) == ["read_as_described"]


def test_a_template_tells_lists_from_pairs_too_and_a_part_shown_alone_keeps_that() -> None:
    tree = {
        "people": {
            "$meta": {"template": {"names": [], "$meta": {"lists": ["names"]}}},
            "reed": {"id": "reed", "names": ["阿苇", "Reed"]},
        }
    }
    assert display(tree)["people"]["reed"]["names"] == ["阿苇", "Reed"]
    assert display(tree["people"]["reed"])["names"] == "阿苇 (Reed)"
    assert display(with_own_lists(tree)["people"]["reed"])["names"] == ["阿苇", "Reed"]


# --- all or nothing ---


def test_every_op_gets_a_verdict_and_none_takes_effect_if_one_is_refused() -> None:
    done = judged(
        ["SET", "hero.health", 50], ["SET", "hero.health", 500], ["SET", "x y.z", 1], ["SET", "hero.rank", "master"]
    )
    assert [verdict.code for verdict in done.verdicts] == [
        "turn_refused",
        "outside_limits",
        "unknown_path",
        "turn_refused",
    ]
    assert done.refused is not None
    assert done.refused.number == 1
    assert "op 1 was refused" in done.verdicts[0].reason


def test_what_could_not_be_read_keeps_the_rest_of_the_reply_from_changing_anything() -> None:
    good, bad = '[["SET", "hero.health", 50]]', '[["SET", "hero.health", 60], ["FLY", "hero"]]'
    reply = parse_reply(f"Hm.<state_update>{good}</state_update><state_update>{bad}</state_update>")
    assert len(reply.ops) == 1
    done = judge_ops(world(), reply.ops, lost=reply.lost)
    assert [(v.number, v.code) for v in done.verdicts] == [(0, "turn_refused"), (1, "turn_refused"), (2, "malformed")]
    assert done.tree == world()
    cut = parse_reply(f'Hm.<state_update>{good}</state_update><state_update>[["SET", "hero.rank", "mas')
    done = judge_ops(world(), cut.ops, lost=cut.lost)
    assert [verdict.code for verdict in done.verdicts] == ["turn_refused", "unreadable"]


# --- anchors across turns ---


def test_an_id_never_names_another_thing_once_a_model_has_seen_it() -> None:
    tree = after(["PUSH", "bag_main", {"name": "灯"}], ["POP", "bag_main", "item_1"])
    again = judged(["PUSH", "bag_main", {"name": "油"}], tree=tree).tree
    assert again["bag"]["items"][-1]["id"] == "item_2"
    assert judged(["PUSH", "bag_main", {"id": "item_1", "name": "油"}], tree=tree).verdicts[0].code == "id_retired"
    back = judged(["PUSH", "bag_pouch", {"id": "item_1", "name": "灯"}], tree=tree).tree
    assert back["bag"]["items"][1]["items"][0]["id"] == "item_1"
    assert "item_1" not in back["$meta"]["gone"]


def test_an_id_stays_with_its_thing_whatever_comes_before_it() -> None:
    tree = judged(["PUSH", "bag_main", {"name": "灯"}]).tree
    for op in (
        ["DELETE", "rope"],
        {"op": "add", "path": "/bag/items/0", "value": {"name": "油"}},
        ["POP", "bag_main", "pouch"],
    ):
        tree = judged(op, tree=tree).tree
        (lamp,) = (item for item in tree["bag"]["items"] if item["name"] == "灯")
        assert lamp["id"] == "item_1"
    assert judged(["SET", "item_1.count", 3], tree=tree).refused is None
