"""Laws of ops on any state: the patch leads to the tree, all or nothing, limits kept. Quick, and long (`-m full`)."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from filament_strategies import texts
from hypothesis import given, settings
from hypothesis import strategies as st

from filament import OpError, apply_ops, collect_anchors, display, parse_op
from filament.errors import AnchorError
from filament.state.changes.ops import Op, Verb

ARITHMETIC = [Verb.ADD, Verb.SUB, Verb.MUL, Verb.DIV]
KEYS = st.one_of(
    st.sampled_from(["hp", "gold", "name", "items", "tags", "a/b", "c~d", "e.f", "note"]), texts(max_size=6)
)
KEYS = KEYS.filter(lambda key: key not in ("$meta", "id", "_anchor"))
NUMBERS = st.one_of(st.integers(-200, 200), st.floats(-200, 200, allow_nan=False))
LEAVES = st.one_of(
    st.none(), st.booleans(), NUMBERS, texts(max_size=6), st.tuples(NUMBERS, texts(max_size=4)).map(list)
)


@st.composite
def mappings(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """A mapping with fields, perhaps an identity, perhaps rules."""
    node: dict[str, Any] = {}
    if draw(st.booleans()):
        node[draw(st.sampled_from(["id", "_anchor"]))] = draw(st.sampled_from([f"x{n}" for n in range(30)] + ["d.o.t"]))
    node |= draw(st.dictionaries(KEYS, inner, max_size=4))
    meta: dict[str, Any] = {}
    if draw(st.booleans()):
        meta["limits"] = {key: [-100, 100] for key in draw(st.lists(KEYS, max_size=3))}
    for rule in ("updatable", "extensible"):
        if draw(st.integers(0, 15)) == 0:
            meta[rule] = draw(st.booleans())
    if draw(st.integers(0, 5)) == 0:
        meta["necessary"] = draw(st.lists(KEYS, max_size=2))
    if draw(st.integers(0, 5)) == 0:
        meta["lists"] = draw(st.lists(KEYS, max_size=2))
    return {**node, "$meta": meta} if meta else node


def states() -> st.SearchStrategy[dict[str, Any]]:
    inner = st.recursive(LEAVES, lambda more: st.one_of(st.lists(more, max_size=3), mappings(more)), max_leaves=12)
    return mappings(inner)


def places(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every place of a tree but the root, rules and identities, with what is there."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if key not in ("$meta", "id", "_anchor"):
            inner = f"{path}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield inner, value
            yield from places(value, inner)


def plain_values() -> st.SearchStrategy[Any]:
    more = st.dictionaries(KEYS, LEAVES, max_size=3)
    named = st.builds(lambda name, fields: {"id": name, **fields}, st.sampled_from([f"x{n}" for n in range(60)]), more)
    return st.one_of(NUMBERS, LEAVES, st.lists(LEAVES, max_size=3), more, named)


def is_plain_list(node: Any) -> bool:
    """A list without the shape of a value with a description."""
    return isinstance(node, list) and not (
        len(node) == 2 and not isinstance(node[0], list | dict) and isinstance(node[1], str)
    )


def value_like(draw: st.DrawFn, old: Any) -> Any:
    """A value that is likely to settle where `old` stands."""
    if draw(st.integers(0, 9)) == 0:
        return draw(plain_values())
    if isinstance(old, dict):
        kept = {key: value for key, value in old.items() if key != "$meta" and draw(st.booleans())}
        return {**kept, **draw(st.dictionaries(KEYS, LEAVES, max_size=2))}
    if isinstance(old, list) and not (
        len(old) == 2 and not isinstance(old[0], list | dict) and isinstance(old[1], str)
    ):
        return draw(st.lists(LEAVES, max_size=3))
    return draw(NUMBERS)


@st.composite
def turns(draw: st.DrawFn) -> tuple[dict[str, Any], list[Op]]:
    """A state and ops that mostly make sense: each verb at a place that suits it, by pointer or by anchor."""
    tree = draw(states())
    found = list(places(tree))
    try:
        anchors = {pointer: anchor for anchor, pointer in collect_anchors(tree).items()}
    except AnchorError:
        anchors = {}
    ops = []
    for number in range(draw(st.integers(1, 5))):
        if not found or draw(st.integers(0, 9)) == 0:
            verb, target, old = Verb.INSERT, f"/{draw(st.sampled_from(['new', 'hp', 'x y']))}", None
        else:
            target, old = draw(st.sampled_from(found))
            verb = draw(st.sampled_from(suited(old)))
        if verb is Verb.INSERT and isinstance(old, dict | list) and draw(st.booleans()):
            target += "/0" if isinstance(old, list) else "/new"
        above, _, field = target.rpartition("/")
        if target in anchors and draw(st.booleans()):
            target = anchors[target]
        elif above in anchors and "~" not in field and "." not in field and field and draw(st.booleans()):
            target = f"{anchors[above]}.{field}"
        value = (
            None if verb in (Verb.DELETE, Verb.POP) else draw(NUMBERS) if verb in ARITHMETIC else value_like(draw, old)
        )
        ops.append(Op(verb=verb, target=target, value=value, number=number))
    return tree, ops


def suited(old: Any) -> list[Verb]:
    number = old[0] if isinstance(old, list) and old else old
    if isinstance(number, int | float) and not isinstance(number, bool):
        return [Verb.SET, *ARITHMETIC, Verb.DELETE]
    if isinstance(old, list | dict):
        return [Verb.SET, Verb.PUSH, Verb.PUSH, Verb.POP, Verb.INSERT, Verb.INSERT, Verb.DELETE]
    return [Verb.SET, Verb.SET, Verb.INSERT, Verb.DELETE]


def patched(tree: Any, patch: Any) -> Any:
    """JSON Patch by the book, written a second time: on a deep copy, in place."""
    root = {"": copy.deepcopy(tree)}
    for op in patch:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in op["path"].split("/")]
        node: Any = root
        for token in tokens[:-1]:
            node = node[int(token)] if isinstance(node, list) else node[token]
        last = tokens[-1]
        value = copy.deepcopy(op.get("value"))
        if isinstance(node, list):
            if op["op"] == "add":
                node.insert(len(node) if last == "-" else int(last), value)
            elif op["op"] == "replace":
                node[int(last)] = value
            else:
                del node[int(last)]
        elif op["op"] == "remove":
            del node[last]
        else:
            assert op["op"] == "add" or last in node
            node[last] = value
    return root[""]


def within_limits(old: Any, new: Any) -> None:
    """What was inside its limits, and is still the same mapping, is inside them afterwards."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, (low, high) in old.get("$meta", {}).get("limits", {}).items():
            if key not in new or isinstance(old.get(key), dict) or is_plain_list(old.get(key)):
                continue
            before, after = (item[0] if isinstance(item, list) else item for item in (old.get(key), new[key]))
            assert after == before or low <= after <= high
        for key in old:
            if key in new:
                within_limits(old[key], new[key])


def rules_law(turn: tuple[dict[str, Any], list[Op]]) -> None:
    tree, ops = turn
    before = copy.deepcopy(tree)
    refused: int | None = None
    try:
        applied = apply_ops(tree, ops)
    except OpError as error:
        refused = error.index
    if refused is not None:
        assert tree == before
        apply_ops(tree, ops[:refused])
        return
    assert tree == before
    assert patched(before, applied.patch) == applied.tree
    assert list(patched(before, applied.patch)) == list(applied.tree)
    within_limits(before, applied.tree)
    display(applied.tree)
    if is_unique(before):
        assert is_unique(applied.tree)
    one_by_one = tree
    for op in ops:
        one_by_one = apply_ops(one_by_one, [op]).tree
    assert one_by_one == applied.tree


def is_unique(tree: Any) -> bool:
    try:
        collect_anchors(tree)
    except AnchorError:
        return False
    return True


def frozen_law(turn: tuple[dict[str, Any], list[Op]]) -> None:
    """In a state that may not be updated, nothing is."""
    tree, ops = turn
    frozen = {"all": _thaw(tree), "$meta": {"updatable": False}}
    for op in ops:
        target = f"/all{op.target}" if op.target.startswith("/") or not op.target else op.target
        try:
            applied = apply_ops(frozen, [Op(verb=op.verb, target=target, value=op.value)])
        except OpError:
            continue
        raise AssertionError(applied.patch)


def _thaw(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _thaw(value) for key, value in node.items() if key != "$meta"}
    return [_thaw(item) for item in node] if isinstance(node, list) else node


def clamp_law(start: float, steps: list[tuple[str, float]]) -> None:
    tree: Any = {"hp": [start, "x"], "$meta": {"limits": {"hp": [0, 100]}, "descriptions": {"hp": "keep"}}}
    reasons: list[str] = []
    for verb, number in steps:
        try:
            tree = apply_ops(tree, [parse_op([verb, "hp", number])]).tree
        except OpError as error:
            reasons.append(error.reason)
        assert 0 <= tree["hp"][0] <= 100
        assert tree["hp"][1] == "x"
    assert all("zero" in reason or "range" in reason for reason in reasons)


STEPS = st.lists(st.tuples(st.sampled_from(["ADD", "SUB", "MUL", "DIV"]), NUMBERS), max_size=8)
LAWS: dict[str, tuple[Any, tuple[st.SearchStrategy[Any], ...]]] = {
    "rules": (rules_law, (turns(),)),
    "frozen": (frozen_law, (turns(),)),
    "clamp": (clamp_law, (st.integers(0, 100), STEPS)),
}


def hold(name: str, examples: int) -> None:
    law, strategies = LAWS[name]
    settings(max_examples=examples, deadline=None)(given(*strategies)(law))()


@pytest.mark.parametrize("name", LAWS)
def test_law(name: str) -> None:
    hold(name, 200)


@pytest.mark.full
@pytest.mark.parametrize("name", LAWS)
def test_law_at_length(name: str) -> None:
    hold(name, 10_000)


@given(st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60))
def test_whole_numbers_stay_whole(left: int, right: int) -> None:
    def result(verb: str) -> Any:
        return apply_ops({"n": left}, [parse_op([verb, "n", right])]).tree["n"]

    assert result("ADD") == left + right
    assert result("SUB") == left - right
    assert type(result("ADD")) is int
    if right and left % right == 0:
        assert result("DIV") == left // right
        assert type(result("DIV")) is int


def test_decimals_come_out_as_a_person_would_write_them() -> None:
    assert apply_ops({"n": 0.1}, [parse_op(["ADD", "n", 0.2])]).tree["n"] == 0.3
    assert apply_ops({"n": 1.1}, [parse_op(["MUL", "n", 3])]).tree["n"] == 3.3
