"""Anchors are found and given; a tree is shown as a model should see it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from filament_strategies import values
from hypothesis import given
from hypothesis import strategies as st

from filament import collect_anchors, display, with_anchors
from filament.errors import AnchorError

TREE: dict[str, Any] = {
    "$meta": {"description": "not shown", "id": "no_anchor"},
    "hero": {
        "id": "hero",
        "health": [85, "受伤状态"],
        "mood": [None, "unknown"],
        "luck": [0.5, ""],
        "titles": ["Sir", "the Bold"],
        "bag/main": {"_anchor": "bag_main", "items": [{"name": "Rope"}, {"id": "item_3", "name": "Key"}, "loose"]},
        "$meta": {"lists": ["titles"], "limits": {"health": [0, 100]}},
    },
    "quests": {"q_001": {"id": "q_001", "objectives": [{"id": "q_001.find", "text": "Find it"}]}},
}


def test_anchors_lead_to_their_places() -> None:
    assert collect_anchors(TREE) == {
        "hero": "/hero",
        "bag_main": "/hero/bag~1main",
        "item_3": "/hero/bag~1main/items/1",
        "q_001": "/quests/q_001",
        "q_001.find": "/quests/q_001/objectives/0",
    }


def test_duplicates_are_told_with_all_places() -> None:
    tree = {"a": {"id": "x"}, "b": [{"_anchor": "x"}, {"id": "y"}], "c": {"id": "y"}, "d": {"id": "z", "_anchor": "z"}}
    with pytest.raises(AnchorError) as caught:
        collect_anchors(tree)
    assert caught.value.duplicates == {"x": ("/a", "/b/0"), "y": ("/b/1", "/c")}
    assert "'x' at /a and /b/0" in str(caught.value)


def test_ids_that_are_no_text_are_no_anchors() -> None:
    assert collect_anchors({"a": {"id": 5}, "b": {"id": ""}, "c": {"_anchor": None}, "d": {"id": ["x", "a VWD"]}}) == {}


def test_every_mapping_in_a_container_gets_an_id() -> None:
    before = copy.deepcopy(TREE)
    named = with_anchors(TREE)
    assert before == TREE
    assert named["hero"]["bag/main"]["items"] == [
        {"id": "item_4", "name": "Rope"},
        {"id": "item_3", "name": "Key"},
        "loose",
    ]
    assert list(named["hero"]["bag/main"]["items"][0]) == ["id", "name"]
    assert named["quests"] is TREE["quests"]
    assert with_anchors(named) is named
    assert with_anchors(TREE) == named


def test_ids_are_given_in_nested_containers_first_and_then_in_all_other_lists() -> None:
    tree = {
        "_anchor": "c",
        "items": [{"_anchor": "d", "shelf": [{"n": 1}]}],
        "more": [{"n": 2}],
        "plain": {"list": [{"n": 3}]},
    }
    named = with_anchors(tree)
    assert named["plain"] == {"list": [{"id": "item_4", "n": 3}]}
    assert len(collect_anchors(named)) == 6
    assert named["items"][0]["shelf"][0]["id"] != named["items"][0]["id"] != named["more"][0]["id"]


PEOPLE = {
    "hero": {"id": "hero", "name": "Ilse"},
    "people": {
        "$meta": {"extensible": True, "template": {"trust": 5, "mood": {"now": "calm"}}},
        "bram": {"id": "bram", "name": "Bram", "mood": {"now": "dry"}},
        "zed": {"name": "Zed"},
        "老周": {"name": "老周"},
        "hero": {"name": "a namesake"},
        "guards": {"$meta": {"template": {"post": "gate"}}, "zed": {"name": "another"}, "tom": {"name": "Tom"}},
        "sack": {"_anchor": "sack", "items": [{"name": "Salt"}]},
    },
    "rooms": {"four": {"name": "Room four"}},
}


def test_a_thing_in_a_group_with_a_template_gets_its_key_as_id() -> None:
    named = with_anchors(PEOPLE)
    people = named["people"]
    assert {key: thing.get("id") for key, thing in people.items() if key != "$meta"} == {
        "bram": "bram",
        "zed": "zed",
        "老周": "老周",
        "hero": "item_2",  # a top field has this name
        "guards": None,
        "sack": None,
    }
    assert (people["guards"]["zed"]["id"], people["guards"]["tom"]["id"]) == ("item_3", "tom")
    assert people["sack"]["items"][0]["id"] == "item_1"
    assert people["bram"] is PEOPLE["people"]["bram"]
    assert named["rooms"] is PEOPLE["rooms"]
    assert with_anchors(named) is named
    assert collect_anchors(named)["zed"] == "/people/zed"


def test_the_key_of_a_thing_is_no_id_where_that_was_the_id_of_another() -> None:
    def named(gone: str) -> str:
        return with_anchors({"$meta": {"gone": {"zed": gone}}, "people": PEOPLE["people"]})["people"]["zed"]["id"]

    assert named("Zed") == "zed"
    assert named("Zoe") == "item_2"


def test_what_a_model_is_shown() -> None:
    assert display(TREE) == {
        "hero": {
            "id": "hero",
            "health": "85 (受伤状态)",
            "mood": "null (unknown)",
            "luck": 0.5,
            "titles": ["Sir", "the Bold"],
            "bag/main": {"_anchor": "bag_main", "items": [{"name": "Rope"}, {"id": "item_3", "name": "Key"}, "loose"]},
        },
        "quests": {"q_001": {"id": "q_001", "objectives": [{"id": "q_001.find", "text": "Find it"}]}},
    }
    assert list(display(TREE)["hero"]) == [key for key in TREE["hero"] if key != "$meta"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ([True, "x"], "true (x)"),
        ([3, "x"], "3 (x)"),
        ([2.0, "x"], "2.0 (x)"),
        (["低语森林", "外部"], "低语森林 (外部)"),
        ([3, 4], [3, 4]),
        ([[1, "a"], [2, "b"]], ["1 (a)", "2 (b)"]),
        ([3, "x", "y"], [3, "x", "y"]),
    ],
)
def test_values_with_descriptions(value: Any, shown: Any) -> None:
    assert display({"field": value}) == {"field": shown}


@given(values())
def test_showing_shares_nothing_and_changes_nothing(tree: Any) -> None:
    before = copy.deepcopy(tree)
    shown = display(tree)
    assert tree == before
    assert shown is not tree or not isinstance(tree, dict | list)
    named = with_anchors(tree)
    assert with_anchors(named) is named


@given(st.lists(st.one_of(st.just({"n": 1}), st.integers(1, 30).map(lambda n: {"id": f"item_{n}"})), max_size=12))
def test_given_ids_never_clash(items: list[Any]) -> None:
    ids = [item["id"] for item in items if "id" in item]
    named = with_anchors({"_anchor": "bag", "items": items})["items"]
    given_ids = [new["id"] for new, old in zip(named, items, strict=True) if "id" not in old]
    assert len(set(given_ids)) == len(given_ids)
    assert not set(given_ids) & set(ids)
