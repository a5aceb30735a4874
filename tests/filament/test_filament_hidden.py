"""Fields that an author hides from models and players (`$meta.hidden`): shown nowhere, changed as all others."""

from __future__ import annotations

from typing import Any

import pytest

from filament import judge_ops, with_anchors
from filament.state.display import is_hidden_at, without_hidden

STATE: dict[str, Any] = {
    "$meta": {"typed": True, "hidden": ["seed"]},
    "seed": 7,
    "hero": {"id": "hero", "coins": 3, "fate": "drowns", "$meta": {"hidden": ["fate"]}},
    "flags": {"$meta": {"hidden": True, "extensible": True}, "cloth": {"id": "cloth", "seen": True}},
    "people": {
        "$meta": {"extensible": True, "template": {"name": "?", "guilt": 0, "$meta": {"hidden": ["guilt"]}}},
        "bram": {"id": "bram", "name": "Bram", "guilt": 9},
    },
    "chest": {
        "_anchor": "chest",
        "items": [{"id": "trap", "$meta": {"hidden": True}}, {"id": "rope", "count": 1, "weight": 2}],
    },
}


def refusal(op: list[Any]) -> str:
    return judge_ops(STATE, [op]).verdicts[0].reason


def test_what_is_hidden_is_left_out_and_all_else_stays() -> None:
    shown = without_hidden(STATE)
    bare = {key: value for key, value in shown.items() if key != "$meta"}
    assert {key: value for key, value in bare["hero"].items() if key != "$meta"} == {"id": "hero", "coins": 3}
    assert list(bare) == ["hero", "people", "chest"]
    assert {key: value for key, value in bare["people"]["bram"].items() if key != "$meta"} == {
        "id": "bram",
        "name": "Bram",
    }
    assert [item["id"] for item in bare["chest"]["items"]] == ["rope"]
    plain = {"hero": STATE["chest"]["items"][1]}
    assert without_hidden(plain) is plain


@pytest.mark.parametrize(
    ("place", "hidden"),
    [
        (("seed",), True),
        (("hero", "fate"), True),
        (("hero", "coins"), False),
        (("flags", "cloth", "seen"), True),
        (("flags", "later"), True),
        (("people", "bram", "guilt"), True),
        (("people", "bram", "name"), False),
        (("chest", "items", "0"), True),
        (("chest", "items", "1", "count"), False),
        (("nowhere", "at", "all"), False),
    ],
)
def test_a_place_is_hidden_by_itself_or_with_what_it_is_in(place: tuple[str, ...], hidden: bool) -> None:
    assert is_hidden_at(STATE, place) is hidden


def test_ops_change_what_is_hidden() -> None:
    ops = [["SET", "seed", 8], ["SET", "hero.fate", "lives"], ["SET", "flags.door", True], ["ADD", "bram.guilt", 1]]
    done = judge_ops(STATE, ops)
    assert done.refused is None
    assert (done.tree["seed"], done.tree["hero"]["fate"], done.tree["people"]["bram"]["guilt"]) == (8, "lives", 10)
    assert done.tree["flags"]["door"] is True


@pytest.mark.parametrize(
    "op",
    [
        ["SET", "hero.fat", 1],
        ["SET", "hero.names", 1],
        ["SET", "seeds", 1],
        ["SET", "cloths.seen", 1],
        ["SET", "traps.count", 1],
        ["ADD", "bram.name", 1],
        ["SET", "bram.age", 1],
        ["SET", "hero", 1],
        ["SET", "/hero/fatt", 1],
        ["PUSH", "hero", 1],
        ["ADD", "hero.id", 1],
    ],
)
def test_no_refusal_names_what_is_hidden(op: list[Any]) -> None:
    reason = refusal(op)
    for word in str(op[1]).replace("/", ".").split("."):
        reason = reason.replace(f"{word!r}", "")
    assert not any(word in reason for word in ("fate", "seed", "flags", "cloth", "guilt", "trap", "drowns"))


def test_a_mapping_that_is_set_as_it_was_shown_keeps_what_is_hidden() -> None:
    done = judge_ops(STATE, [["SET", "people.bram", {"name": "Bram the Dry"}]])
    assert done.refused is None
    assert done.tree["people"]["bram"] == {"id": "bram", "name": "Bram the Dry", "guilt": 9}


def test_a_new_thing_has_the_hidden_fields_of_its_template() -> None:
    done = judge_ops(STATE, [["SET", "people.zed", {"name": "Zed"}]])
    assert done.tree["people"]["zed"] == {"name": "Zed", "guilt": 0}
    assert without_hidden(with_anchors(done.tree))["people"]["zed"] == {"id": "zed", "name": "Zed"}
