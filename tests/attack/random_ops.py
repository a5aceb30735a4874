"""Op sets that a model might send: on random states with rules, likely ones and hostile ones mixed; one by its number."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

WORDS = (
    "hp",
    "gold",
    "name",
    "items",
    "tags",
    "a/b",
    "c~d",
    "e.f",
    "note",
    "count",
    "状态",
    "金币",
    "名字",
    "x y",
    "-",
    "0",
    "$meta",
    "id",
)
HOSTILE = (
    "", "/", "//", "/-", "~", "~2", "..", "/../..", "$meta", "hero.$meta.limits", "__class__", "hero.__class__", "\x00", "\u202e",
    "k" * 300, "0", "-1", "99999999999999999999", "items.-1", "items.999", "items.1e3", "x0.", ".x0", "x0..hp", "{{ x }}", "<a>",
)  # fmt: skip
VALUES = (
    None, True, False, 0, -1, 1, 2**63, -(2**63), 10**400, 0.1, -0.0, 1e308, float("inf"), float("nan"), "", "one", "二十", "12",
    "</state_update>", "\x00\x1b[31m", "\u202e", "\ud800", [], {}, [1, "described"], [[[[[]]]]], {"id": "x1"}, {"_anchor": "x2"},
    {"$meta": {"updatable": True}}, {"id": 5}, {"": ""}, {"a.b": 1}, {"id": "x3", "hp": [1, "weak"]},
)  # fmt: skip
VERBS = ("SET", "ADD", "SUB", "MUL", "DIV", "PUSH", "POP", "INSERT", "DELETE", "set", "Remove", "EXEC", "", 5, None)


def random_state(random: Random) -> dict[str, Any]:
    """Return a state tree with rules: limits, types, closed and open containers, necessary fields, members with ids."""
    ids = iter(f"x{number}" for number in range(100))
    tree = {f"part{number}": _node(random, ids, 3) for number in range(random.randint(1, 4))}
    tree["quests"] = {
        "q1": {
            "id": "q1",
            "status": "active",
            "progress": 10,
            "$meta": {"necessary": ["id", "status"], "limits": {"progress": [0, 100]}},
        }
    }
    return tree


def _node(random: Random, ids: Iterator[str], depth: int) -> Any:
    kind = random.random()
    if depth == 0 or kind < 0.3:
        return random.choice((0, 5, -3.5, "calm", True, None, [80, "tired"], ["a", "b", "c"], []))
    if kind < 0.45:
        return [{"id": next(ids), "count": random.randint(0, 5)} for _ in range(random.randint(0, 3))]
    node: dict[str, Any] = {}
    if random.random() < 0.7:
        node[random.choice(("id", "_anchor"))] = next(ids)
    for word in random.sample(WORDS[:-2], random.randint(1, 5)):
        node[word] = _node(random, ids, depth - 1)
    meta: dict[str, Any] = {}
    numbers = [key for key, value in node.items() if type(value) in (int, float)]
    if numbers and random.random() < 0.6:
        meta["limits"] = {random.choice(numbers): [-10, 100]}
    fields = [key for key in node if key not in ("id", "_anchor")]
    for rule, chance in (("updatable", 0.15), ("extensible", 0.4)):
        if random.random() < chance:
            meta[rule] = random.random() < 0.5
    if fields and random.random() < 0.3:
        meta["necessary"] = [random.choice(fields)]
    return {**node, "$meta": meta} if meta else node


def random_ops(random: Random, state: Any) -> list[Any]:
    """Return the ops of one reply: rows and JSON Patch. Two of three sets suit the state, others hold things that are no ops."""
    targets = list(_targets(state))
    make = _hostile_op if random.random() < 1 / 3 else _suited_op
    return [make(random, targets) for _ in range(random.choice((1, 1, 2, 3, 6)))]


def _suited_op(random: Random, targets: list[tuple[str, Any]]) -> Any:
    fields = [target for target in targets if "$meta" not in target[0] and not target[0].endswith(("id", "_anchor"))]
    target, old = random.choice(fields or targets)
    plain = old[0] if isinstance(old, list) and len(old) == 2 and isinstance(old[1], str) else old
    if type(plain) in (int, float):
        return [random.choice(("SET", "ADD", "SUB", "MUL", "DIV")), target, random.randint(-5, 20)]
    if isinstance(plain, list):
        member = {"id": f"y{random.randrange(50)}", "count": 1}
        return random.choice((["PUSH", target, "calm"], ["PUSH", target, member], ["POP", target], ["PUSH", target, 3]))
    if isinstance(plain, dict):
        new = f"{target}{'/' if '/' in target else '.'}new"
        return random.choice((["SET", new, 1], ["DELETE", target], ["PUSH", target, {"n": 1}]))
    if target.startswith("/") and random.random() < 0.3:
        return {"op": random.choice(("replace", "remove")), "path": target, "value": "calm"}
    return random.choice((["SET", target, random.choice(("calm", "完成", "completed", True, 3))], ["DELETE", target]))


def _hostile_op(random: Random, targets: list[tuple[str, Any]]) -> Any:
    known = random.choice(targets)[0]
    target: Any = known if random.random() < 0.75 else random.choice((*HOSTILE, *WORDS, 7, None))
    value = random.choice((random.randint(-200, 200), random.choice(("calm", "wild", "完成")), random.choice(VALUES)))
    if random.random() < 0.2:
        verb = random.choice(("add", "replace", "remove", "move", "test", "ADD"))
        return {"op": verb, "path": f"/{target}".replace(".", "/"), "value": value}
    verb = random.choice(VERBS[:9]) if random.random() < 0.9 else random.choice(VERBS)
    row = [verb, target] if verb in ("POP", "DELETE") and random.random() < 0.8 else [verb, target, value]
    if random.random() < 0.03:
        return random.choice((row[:1], [*row, "more"], "SET x 1", 5, None, {}, [row]))
    return row


def _targets(node: Any, path: str = "", anchor: str = "") -> Iterator[tuple[str, Any]]:
    """Yield fields with what is there: addressed by pointer, and by anchor where one is above."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    mine = node.get("id") or node.get("_anchor") or "" if isinstance(node, dict) else ""
    if isinstance(mine, str) and mine:
        anchor = mine
        yield mine, node
    for key, value in items:
        name = str(key).replace("~", "~0").replace("/", "~1")
        yield f"{path}/{name}", value
        if anchor:
            yield f"{anchor}.{key}", value
        yield from _targets(value, f"{path}/{name}", anchor if isinstance(value, list) else "")
