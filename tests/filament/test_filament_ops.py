"""What each op does, and what the rules of a state refuse."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from filament import OpError, apply_ops, apply_patch, collect_anchors, parse_op, resolve, with_anchors
from filament.state.changes.ops import Op, Verb


def state() -> dict[str, Any]:
    return {
        "hero": {
            "id": "hero",
            "health": [85, "受伤状态"],
            "gold": 10,
            "name": "Ayla",
            "titles": [],
            "stats": {"strength": 3, "$meta": {"updatable": False}},
            "$meta": {"limits": {"health": [0, 100], "gold": [0, None]}, "necessary": ["name"]},
        },
        "main_bag": {
            "_anchor": "bag_main",
            "owner": "hero",
            "items": [
                {"id": "item_sword_01", "name": "Iron Sword", "count": 1},
                {"id": "item_potion_02", "name": "Potion", "count": 2, "marks": [1, 2, 3]},
            ],
        },
        "chest": {"_anchor": "chest", "content": [], "$meta": {"extensible": False}},
        "world": {
            "$meta": {"updatable": False},
            "weather": "rain",
            "door": {"open": False, "$meta": {"updatable": True, "extensible": False}},
        },
        "quests": {"q.1": {"id": "q.1", "objectives": [{"id": "find", "status": "active"}]}},
        "odd/key~": {"a": 1},
    }


def run(*raws: Any, tree: Any = None, anchors: dict[str, str] | None = None) -> Any:
    """Apply ops in either spelling, and hold the laws on the way."""
    tree = state() if tree is None else tree
    before = copy.deepcopy(tree)
    try:
        applied = apply_ops(tree, [parse_op(raw, number) for number, raw in enumerate(raws)], anchors)
    finally:
        assert tree == before
    assert apply_patch(tree, applied.patch) == applied.tree
    assert tree == before
    return applied.tree


def refused(*raws: Any, tree: Any = None) -> OpError:
    with pytest.raises(OpError) as caught:
        run(*raws, tree=tree)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "path", "value"),
    [
        (["SET", "item_sword_01.count", 0], "/main_bag/items/0/count", 0),
        (["set", "hero.gold", 7], "/hero/gold", 7),
        (["SET", "hero.health", 50], "/hero/health", 50),
        (["SET", "hero.health", [50, "better"]], "/hero/health", [50, "better"]),
        (["SET", "/hero/health", 50], "/hero/health", 50),
        (["SET", "/hero/health/0", 50], "/hero/health", 50),
        (["SET", "/hero/health/1", "fine"], "/hero/health", [85, "fine"]),
        (["SET", "hero.mood", "glad"], "/hero/mood", "glad"),
        (["SET", "weathervane", "north"], "/weathervane", "north"),
        (["SET", "q.1.objectives.find.status", "done"], "/quests/q.1/objectives/0/status", "done"),
        (["SET", "find.status", "done"], "/quests/q.1/objectives/0/status", "done"),
        (["SET", "quests.other", None], "/quests/other", None),
        (["SET", "world.door.open", True], "/world/door/open", True),
        (["ADD", "hero.gold", 5], "/hero/gold", 15),
        (["ADD", "hero.health", 50], "/hero/health", 100),
        (["SUB", "hero.gold", 50], "/hero/gold", 0),
        (["SUB", "hero.gold", -(2**40)], "/hero/gold", 10 + 2**40),
        (["MUL", "hero.gold", 0.1], "/hero/gold", 1.0),
        (["DIV", "hero.gold", 5], "/hero/gold", 2),
        (["DIV", "hero.gold", 4], "/hero/gold", 2.5),
        (["PUSH", "hero.titles", "Sir"], "/hero/titles", ["Sir"]),
        (["POP", "item_potion_02.marks"], "/main_bag/items/1/marks", [1, 2]),
        (["POP", "item_potion_02.marks", 1], "/main_bag/items/1/marks", [2, 3]),
        ({"op": "replace", "path": "/hero/gold", "value": 3}, "/hero/gold", 3),
        ({"op": "replace", "path": "hero.gold", "value": 3}, "/hero/gold", 3),
        ({"op": "add", "path": "/hero/mood", "value": "glad"}, "/hero/mood", "glad"),
        ({"op": "add", "path": "/hero/gold", "value": 3}, "/hero/gold", 3),
        ({"op": "add", "path": "hero.titles", "value": "Sir"}, "/hero/titles", ["Sir"]),
        ({"op": "add", "path": "/hero/titles/-", "value": "Sir"}, "/hero/titles", ["Sir"]),
        ({"op": "add", "path": "/main_bag/items/1/marks/1", "value": 9}, "/main_bag/items/1/marks", [1, 9, 2, 3]),
        ({"op": "remove", "path": "/main_bag/items/1/marks/1"}, "/main_bag/items/1/marks", [1, 3]),
        ({"op": "ADD", "path": "hero.gold", "value": 5}, "/hero/gold", 15),
        ({"op": "replace", "path": "/odd~1key~0/a", "value": 2}, "/odd~1key~0/a", 2),
    ],
)
def test_what_an_op_does(raw: Any, path: str, value: Any) -> None:
    node = run(raw)
    for token in path[1:].split("/"):
        key = token.replace("~1", "/").replace("~0", "~")
        node = node[int(key)] if isinstance(node, list) else node[key]
    assert node == value
    assert type(node) is type(value)


def test_only_the_named_place_changes_and_the_rest_is_shared() -> None:
    before = state()
    after = apply_ops(before, [parse_op(["ADD", "hero.gold", 1])]).tree
    assert after["main_bag"] is before["main_bag"]
    assert after == {**before, "hero": {**before["hero"], "gold": 11}}
    assert list(after) == list(before)
    assert list(after["hero"]) == list(before["hero"])


def test_the_patch_has_pointers() -> None:
    applied = apply_ops(
        state(),
        [
            parse_op(["SUB", "hero.health", 5]),
            parse_op(["PUSH", "bag_main", {"name": "Lamp"}]),
            parse_op(["DELETE", "item_sword_01"]),
            parse_op(["SET", "/odd~1key~0/a", 2]),
            parse_op(["SET", "hero.mood", "glad"]),
        ],
    )
    assert list(applied.patch) == [
        {"op": "replace", "path": "/hero/health", "value": 80},
        {"op": "add", "path": "/main_bag/items/-", "value": {"id": "item_1", "name": "Lamp"}},
        {"op": "remove", "path": "/main_bag/items/0"},
        {"op": "add", "path": "/$meta", "value": {"gone": {"item_sword_01": "Iron Sword"}}},
        {"op": "replace", "path": "/odd~1key~0/a", "value": 2},
        {"op": "add", "path": "/hero/mood", "value": "glad"},
    ]


def test_both_spellings_are_one_op() -> None:
    assert parse_op(["SET", "hero.gold", 1]) == parse_op({"op": "replace", "path": "hero.gold", "value": 1})
    assert parse_op(["DELETE", "/hero/gold"]) == parse_op({"op": "remove", "path": "/hero/gold"})
    assert parse_op(["PUSH", "/hero/titles", 1]) == parse_op({"op": "add", "path": "/hero/titles/-", "value": 1})
    assert parse_op(["POP", "a"], 4) == Op(verb=Verb.POP, target="a", number=4)


def test_a_pushed_mapping_gets_the_next_id_first() -> None:
    after = run(
        ["PUSH", "bag_main", {"name": "Lamp"}], ["PUSH", "bag_main", {"name": "Oil"}], ["SET", "item_2.name", "Tar"]
    )
    assert after["main_bag"]["items"][2:] == [{"id": "item_1", "name": "Lamp"}, {"id": "item_2", "name": "Tar"}]
    assert list(after["main_bag"]["items"][2]) == ["id", "name"]


def test_later_ops_see_earlier_ones_and_anchors_follow_what_moves() -> None:
    after = run(
        ["DELETE", "item_sword_01"],
        ["SET", "item_potion_02.count", 9],
        {"op": "add", "path": "/main_bag/items/0", "value": {"id": "map", "count": 1}},
        ["ADD", "item_potion_02.count", 1],
        ["ADD", "map.count", 1],
        ["POP", "bag_main", "map"],
        ["SUB", "item_potion_02.count", 4],
    )
    assert after["main_bag"]["items"] == [{"id": "item_potion_02", "name": "Potion", "count": 6, "marks": [1, 2, 3]}]


def test_a_thing_that_went_can_no_longer_be_addressed() -> None:
    error = refused(["DELETE", "item_sword_01"], ["SET", "item_sword_01.count", 1])
    assert (error.index, error.op) == (1, '["SET", "item_sword_01.count", 1]')
    assert "neither an id" in error.reason


def test_what_the_prompt_showed_under_a_made_id_keeps_it() -> None:
    tree = {"bag": {"_anchor": "bag", "items": [{"n": 1}, {"n": 2}, {"n": 3}]}}
    shown = collect_anchors(with_anchors(tree))
    ops = [["DELETE", "item_1"], ["SET", "item_3.n", 9], ["PUSH", "bag", {"n": 4}], ["ADD", "item_2.n", 5]]
    assert run(*ops, tree=tree, anchors=shown)["bag"]["items"] == [
        {"id": "item_2", "n": 7},
        {"id": "item_3", "n": 9},
        {"id": "item_4", "n": 4},
    ]


def test_an_anchor_of_the_tree_goes_before_where_the_prompt_saw_it() -> None:
    op = parse_op(["SET", "item_sword_01.count", 0])
    assert resolve(op, {"item_sword_01": "/main_bag/items/1"}, state()) == "/main_bag/items/0/count"
    assert resolve(parse_op(["PUSH", "bag_main", 1]), None, state()) == "/main_bag"
    assert resolve(parse_op(["SET", "hero.new", 1]), {}, state()) == "/hero/new"
    with pytest.raises(OpError, match="did you mean 'item_sword_01'"):
        resolve(parse_op(["SET", "item_sword_1.count", 0], 3), None, state())


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (["SET", "hero.health", 101], "outside the limits"),
        (["SET", "hero.health", -1], "outside the limits"),
        (["SET", "hero.health", "full"], "takes a number"),
        (["SET", "hero.health", True], "takes a number"),
        (["SET", "hero.health", [200, "x"]], "outside the limits"),
        (["SET", "hero", {"health": 200, "name": "A"}], "outside the limits"),
        (["SET", "hero.health", {"a": 1}], "number"),
        (["SET", "hero.stats.strength", 4], "may not be updated"),
        (["SET", "hero.stats", {"strength": 4}], "may not be updated"),
        (["ADD", "hero.stats.strength", 1], "may not be updated"),
        (["DELETE", "hero.stats"], "may not be updated"),
        (["DELETE", "hero"], "may not be updated"),
        (["SET", "hero", {"name": "A"}], "may not be updated"),
        (["SET", "world.weather", "sun"], "may not be updated"),
        (["SET", "world", {}], "may not be updated"),
        (["SET", "world.door.lock", 1], "extensible"),
        (["SET", "world.door", {"open": True, "lock": 1}], "extensible"),
        (["PUSH", "chest", {"name": "Gem"}], "extensible"),
        ({"op": "add", "path": "/chest/content/0", "value": 1}, "extensible"),
        ({"op": "add", "path": "/chest/lid", "value": 1}, "extensible"),
        (["DELETE", "hero.name"], "necessary"),
        ({"op": "remove", "path": "/hero/name"}, "necessary"),
        (["SET", "item_sword_01.id", "x"], "cannot be changed"),
        (["SET", "item_sword_01", {"id": "x"}], "cannot be changed"),
        (["SET", "bag_main._anchor", "x"], "cannot be changed"),
        (["DELETE", "item_sword_01.id"], "cannot be changed"),
        (["SET", "hero.$meta", 1], "$meta"),
        (["SET", "hero.$meta.limits", 1], "$meta"),
        ({"op": "remove", "path": "/hero/$meta"}, "$meta"),
        (["SET", "item_sword_01", 5], "fields of its own"),
        (["SET", "bag_main.items", 5], "is a list"),
        (["SET", "hero.health", [1, 2]], "number"),
        (["ADD", "hero.name", 1], "not a number"),
        (["ADD", "hero.nothing", 1], "there is no 'nothing' to calculate with"),
        (["ADD", "hero.gold", "one"], "needs a number"),
        (["ADD", "hero.gold", True], "needs a number"),
        (["DIV", "hero.gold", 0], "zero"),
        (["DIV", "hero.gold", 0.0], "zero"),
        (["MUL", "hero.gold", 2**62], "range"),
        (["MUL", "hero.gold", 1e308], "range"),
        (["PUSH", "hero.name", 1], "not a list"),
        (["PUSH", "hero.health", 1], "value with a description"),
        (["PUSH", "hero.nothing", 1], "no 'nothing'"),
        (["PUSH", "quests", 1], "no list"),
        (["PUSH", "bag_main", {"id": "hero"}], "taken"),
        (["PUSH", "bag_main", {"id": 5}], "an id is text"),
        (["PUSH", "bag_main", {"a": [{"id": "x"}, {"id": "x"}]}], "taken"),
        (["SET", "hero.friend", {"id": "bag_main"}], "taken"),
        (["POP", "hero.titles"], "empty"),
        (["POP", "bag_main", "hero"], "no entry"),
        (["DELETE", "hero.nothing"], "no 'nothing'"),
        (["DELETE", "/hero/health/1"], "one by one"),
        (["SET", "/hero/health/2", 1], "no such part"),
        (["SET", "/", 1], "no '' to replace"),
        (["SET", "/hero/nothing", 1], "to replace"),
        (["SET", "/nothing/at/all", 1], "nothing at"),
        (["SET", "/main_bag/items/7", 1], "no '7'"),
        (["SET", "/main_bag/items/00", 1], "no '00'"),
        (["SET", "/hero~2", 1], "JSON Pointer"),
        (["SET", "bag_main.items.0.count", 1], "by its id"),
        (["SET", "bag_main.items[0].count", 1], "no field"),
        (["SET", "hero..gold", 1], "empty name"),
        (["SET", "hero.gold.coins", 1], "no field"),
        (["SET", "heroo.gold", 1], "did you mean 'hero'"),
        (["PUSH", "bag_man", 1], "did you mean 'bag_main'"),
        ({"op": "add", "path": "/hero/health/1", "value": "x"}, "value with a description"),
    ],
)
def test_what_is_refused(raw: Any, word: str) -> None:
    error = refused(["SET", "hero.gold", 99], raw)
    assert word in error.reason
    assert error.index == 1
    assert str(error) == f"op 1 ({error.op}): {error.reason}"


def test_a_whole_mapping_settles_field_by_field() -> None:
    after = run(["SET", "item_sword_01", {"name": "Steel Sword", "edge": [3, "sharp"]}])
    assert after["main_bag"]["items"][0] == {"id": "item_sword_01", "name": "Steel Sword", "edge": [3, "sharp"]}
    tree = {"npc": {"id": "npc", "mood": ["calm", "since noon"], "$meta": {"limits": {"trust": [0, 9]}}}}
    after = run(["SET", "npc", {"mood": "angry", "trust": 4}], tree=tree)
    assert after["npc"] == {"id": "npc", "mood": "angry", "$meta": tree["npc"]["$meta"], "trust": 4}


def test_a_list_that_comes_to_look_like_a_value_with_description_stays_a_list() -> None:
    after = run(["PUSH", "hero.titles", "Sir"], ["PUSH", "hero.titles", "the Bold"], ["PUSH", "hero.titles", "of Elm"])
    assert after["hero"]["titles"] == ["Sir", "the Bold", "of Elm"]
    assert after["hero"]["$meta"]["lists"] == ["titles"]
    after = run(
        {"op": "remove", "path": "/notes/1"}, ["POP", "notes"], tree={"notes": ["a", "b", "c"], "$meta": {"lists": []}}
    )
    assert after == {"notes": ["a"], "$meta": {"lists": ["notes"]}}
    after = run(["SET", "notes", ["a", "b"]], tree={"notes": []})
    assert after == {"notes": ["a", "b"], "$meta": {"lists": ["notes"]}}


def test_an_id_at_two_places_cannot_be_addressed_by_it() -> None:
    tree = {"a": {"id": "x", "n": 1}, "b": {"id": "x", "n": 1}}
    assert "more than one place" in refused(["SET", "x.n", 2], tree=tree).reason
    assert run(["SET", "/b/n", 2], tree=tree)["b"]["n"] == 2


def test_limits_that_are_misspelt_fail_closed() -> None:
    tree = {"hp": 1, "$meta": {"limits": {"hp": [0]}}}
    assert "$meta.limits must be" in refused(["SET", "hp", 1], tree=tree).reason
    assert "$meta.limits must be" in refused(["ADD", "hp", 1], tree=tree).reason


def test_an_op_value_is_copied() -> None:
    value: dict[str, Any] = {"name": "Lamp", "tags": ["a"]}
    after = apply_ops(state(), [Op(verb=Verb.PUSH, target="bag_main", value=value)]).tree
    value["tags"].append("b")
    assert after["main_bag"]["items"][2]["tags"] == ["a"]


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (None, "a list"),
        ("SET a 1", "a list"),
        ([], "[verb, target]"),
        (["SET", "a", 1, 2], "[verb, target]"),
        (["JUMP", "a", 1], "not a verb"),
        ([["SET"], "a", 1], "not a verb"),
        ({"path": "/a"}, "not a verb"),
        ({"op": "move", "from": "/a", "path": "/b"}, "not a verb"),
        ({"op": "add", "path": "/a"}, "needs a value"),
        ({"op": "replace"}, "path"),
        (["SET", "a"], "needs a value"),
        (["ADD", "a"], "needs a value"),
        (["SET", "", 1], "path"),
        (["SET", 5, 1], "path"),
        (["SET", "a" * 501, 1], "path"),
        (["DELETE", "a", 1], "takes no value"),
        (["SET", "a", float("nan")], "finite"),
        (["SET", "a", [float("inf")]], "finite"),
        (["SET", "a", 2**63], "64 bits"),
        (["SET", "a", {"x": {"$meta": {}}}], "$meta"),
        (["SET", "a", {1: 2}], "not text"),
        (["SET", "a", {1, 2}], "not JSON"),
    ],
)
def test_malformed_ops_are_refused_with_their_place(raw: Any, word: str) -> None:
    with pytest.raises(OpError) as caught:
        parse_op(raw, 3)
    assert caught.value.index == 3
    assert word in caught.value.reason


def test_a_value_without_bottom_is_refused() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(OpError, match="nested deeper"):
        parse_op(["SET", "a", deep])


def test_patches_are_played_again_without_questions() -> None:
    tree = state()
    patch = [{"op": "replace", "path": "/hero/name", "value": "B"}, {"op": "remove", "path": "/hero/name"}]
    assert "name" not in apply_patch(tree, patch)["hero"]
    for bad in (
        {"op": "move", "path": "/hero", "from": "/x"},
        {"op": "remove", "path": "/hero/nothing"},
        {"op": "replace", "path": "/hero/nothing", "value": 1},
        {"op": "add", "path": "/nothing/x", "value": 1},
        {"op": "add", "path": "/main_bag/items/9", "value": 1},
        {"op": "add", "path": "/hero/name/x", "value": 1},
        {"op": "add", "path": "hero", "value": 1},
        {"op": "add", "path": "/hero/x"},
        {"op": "remove", "path": ""},
    ):
        with pytest.raises(OpError, match=r"^op 2 "):
            apply_patch(tree, [*patch[:1], *patch[:1], bad])
    assert tree == state()
    assert apply_patch({"a": 1}, [{"op": "replace", "path": "", "value": [1]}]) == [1]
