from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

import filament.state.changes.patch
from filament import OpError
from mnemosyne import Chain, MemoryEntry
from mnemosyne.chains.json_patch import replay_ops
from mnemosyne.chains.lore import entries_by_category, hidden_entries
from mnemosyne.chains.state import (
    apply_action_ops,
    apply_reply_ops,
    condition_holds,
    find_anchor,
    forget_views,
    read_value,
    view_state,
)
from mnemosyne.core.errors import StateOpError
from mnemosyne.schema.memory import Comparison, Condition, LoreCategory

STATE = {
    "hero": {
        "id": "hero",
        "health": [85, "受伤状态"],
        "name": "Lin",
        "asleep": False,
        "traits": ["brave", "tired"],
        "$meta": {"lists": ["traits"], "limits": {"health": [0, 100]}},
    },
    "bag": {"_anchor": "bag_main", "items": [{"id": "key_01", "name": "铜钥匙", "count": 1}]},
    "quests": {"q_temple": {"id": "q_temple", "status": "active"}},
    "place": None,
}


def test_ops_in_both_spellings_become_a_patch_and_leave_the_state_alone():
    before = copy.deepcopy(STATE)
    applied = apply_reply_ops(
        STATE,
        [
            ["SUB", "hero.health", 5],
            {"op": "replace", "path": "/place", "value": "井"},
            ["PUSH", "bag_main", {"name": "灯"}],
        ],
    )
    assert before == STATE
    assert applied.tree["hero"]["health"] == 80
    assert applied.tree["place"] == "井"
    assert applied.tree["bag"]["items"][1] == {"id": "item_1", "name": "灯"}
    assert replay_ops(STATE, applied.patch) == applied.tree


def test_a_refused_op_names_itself_and_applies_nothing():
    with pytest.raises(StateOpError) as caught:
        apply_reply_ops(STATE, [["SET", "hero.name", "X"], ["SET", "nobody.health", 1]])
    assert caught.value.index == 1
    assert "nobody.health" in str(caught.value)
    assert "No op of the turn was applied" in str(caught.value)
    with pytest.raises(StateOpError, match="op 0"):
        apply_reply_ops(STATE, ["SET hero.name"])


def test_anchors_that_the_prompt_showed_are_found():
    tree = {"bag": {"_anchor": "bag", "items": [{"name": "lamp"}]}}
    applied = apply_reply_ops(tree, [["SET", "item_1.name", "torch"]], {"item_1": "/bag/items/0"})
    assert applied.tree["bag"]["items"][0]["name"] == "torch"


def test_action_ops_clamp_to_limits():
    assert apply_action_ops(STATE, (("ADD", "hero.health", 999),)).tree["hero"]["health"] == 100


@pytest.mark.parametrize(
    ("path", "op", "value", "expected"),
    [
        ("hero.health", Comparison.EQ, 85, True),
        ("hero.health", Comparison.GT, 84.5, True),
        ("hero.health", Comparison.LT, 85, False),
        ("hero.health", Comparison.GE, "85", False),
        ("hero.name", Comparison.NE, "Wu", True),
        ("hero.name", Comparison.LT, "Z", True),
        ("hero.asleep", Comparison.EQ, False, True),
        ("hero.asleep", Comparison.EQ, 0, False),
        ("hero.asleep", Comparison.LT, 1, False),
        ("hero.traits", Comparison.CONTAINS, "brave", True),
        ("hero.traits", Comparison.CONTAINS, "br", False),
        ("hero.name", Comparison.CONTAINS, "in", True),
        ("hero.name", Comparison.IN, ["Wu", "Lin"], True),
        ("hero.health", Comparison.IN, [1, 2], False),
        ("hero.asleep", Comparison.IN, [0, 1], False),
        ("bag_main", Comparison.CONTAINS, "key_01", True),
        ("bag.items", Comparison.CONTAINS, "key_01", True),
        ("bag_main", Comparison.CONTAINS, "key_02", False),
        ("quests", Comparison.CONTAINS, "q_temple", True),
        ("quests.q_temple.status", Comparison.EQ, "active", True),
        ("q_temple.status", Comparison.EQ, "active", True),
        ("key_01.count", Comparison.LE, 1, True),
        ("/hero/health", Comparison.EQ, 85, True),
        ("place", Comparison.EQ, None, True),
        ("nowhere", Comparison.NE, 1, False),
        ("hero.nothing", Comparison.EQ, None, False),
        ("hero.$meta", Comparison.NE, 1, False),
    ],
)
def test_conditions(path, op, value, expected):
    assert condition_holds(Condition(path=path, op=op, value=value), STATE) is expected
    assert view_state(STATE).holds(Condition(path=path, op=op, value=value)) is expected


def test_values_and_anchors_are_found():
    assert read_value(STATE, "hero.health") == (True, 85)
    assert read_value(STATE, "hero.traits") == (True, ["brave", "tired"])
    assert read_value(STATE, "hero.mana") == (False, None)
    assert find_anchor(STATE, "key_01") == {"id": "key_01", "name": "铜钥匙", "count": 1}
    assert find_anchor(STATE, "bag_main") == STATE["bag"]
    assert find_anchor(STATE, "nobody") is None


def lore(entry_id: str, **fields) -> MemoryEntry:
    return MemoryEntry(
        **({"entry_id": entry_id, "scope": "world:w", "chain": Chain.LORE, "kind": "agent", "text": ""} | fields)
    )


@given(
    st.recursive(
        st.integers(0, 3) | st.sampled_from(["a", "b", "é"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["id", "_anchor", "a", "b", "c.d", "$meta", "é"]), inner, max_size=4)
        ),
        max_leaves=12,
    ),
    st.lists(st.sampled_from(["a", "b", "c.d", "id", "é", "", "0", "/a"]), min_size=1, max_size=3).map(".".join),
)
def test_a_path_leads_where_all_anchors_say(tree, path):
    """Paths in which no anchor can be are read without looking for anchors."""
    state = tree if isinstance(tree, dict) else {"a": tree}
    view, whole = view_state(state), view_state(state)
    _ = whole.index
    assert view.read(path) == whole.read(path)
    assert view.describe(path) == whole.describe(path)


def test_hidden_entries():
    hurt = Condition(path="hero.health", op=Comparison.LT, value=50)
    well = Condition(path="hero.health", op=Comparison.GE, value=50)
    restricted = (
        lore("for all"),
        lore("secret", viewers=("witch",)),
        lore("later", when=(hurt,)),
        lore("now", when=(well,)),
        lore("both", viewers=("witch",), when=(well, hurt)),
    )
    assert hidden_entries(restricted, None, STATE) == {"secret", "later", "both"}
    assert hidden_entries(restricted, "witch", STATE) == {"later", "both"}
    assert hidden_entries(restricted, "witch", view_state({"hero": {"health": 10}})) == {"now", "both"}


def test_entries_by_category_are_the_visible_ones_highest_priority_first():
    entries = (
        lore("b", kind="axiom"),
        lore("a", kind="axiom"),
        lore("top", kind="axiom", priority=90),
        lore("no", kind="axiom"),
        lore("other"),
    )
    found = entries_by_category(entries, LoreCategory.AXIOM, frozenset({"no"}))
    assert [entry.entry_id for entry in found] == ["top", "a", "b"]


scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["x", "~", "/"])
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b/c", "d~"]), inner, max_size=3),
    max_leaves=8,
)
pointers = st.lists(st.sampled_from(["a", "b~1c", "d~0", "0", "1", "-", "x", "00"]), min_size=1, max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
patches = st.lists(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace", "remove"]), "path": pointers, "value": trees}),
    max_size=4,
)


@given(tree=st.dictionaries(st.sampled_from(["a", "b/c", "d~"]), trees, max_size=3), patch=patches)
def test_a_store_plays_a_patch_as_filament_does(tree, patch):
    """Two readers of one log: the store rebuilds what the turn has seen, to the order of keys."""
    before = copy.deepcopy(tree)
    refused, expected = None, None
    try:
        expected = filament.state.changes.patch.apply_patch(tree, patch)
    except OpError as error:
        refused = error.index
    if refused is None:
        assert repr(replay_ops(tree, patch)) == repr(expected)
    else:
        with pytest.raises(StateOpError) as caught:
            replay_ops(tree, patch)
        assert caught.value.index == refused
    assert tree == before


def test_a_state_is_looked_through_once_and_forgotten_by_an_erasure():
    state = {"people": [{"name": "Zed"}], "$meta": {"hidden": ["plan"]}, "plan": "flee"}
    view = view_state(state)
    assert view_state(state) is view
    assert view.anchors == {"item_1": "/people/0"}
    assert "plan" not in view.shown
    assert view_state(dict(state)) is not view
    forget_views()
    assert view_state(state) is not view
