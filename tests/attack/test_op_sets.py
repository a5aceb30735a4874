"""Whatever ops a model sends, the state stays sound: all or none, rules kept, nothing lost, and each refusal is explained."""

from __future__ import annotations

import copy
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from cli_calls import call
from long_form import LongForm
from random_ops import random_ops, random_state

from filament import apply_patch, dump_yaml, judge_ops, load_yaml
from filament.state.verdicts import Refusal
from jacquard import open_runtime
from mnemosyne import load_world
from mnemosyne.schema.world import WorldPack

SHORT = 40
NAMES = ("id", "_anchor")
NOTES = ("gone", "lists")
"""What the engine itself notes among the rules: the names of removed things, and lists that look like a value with a text."""
STATUSES = {"inactive", "active", "completed", "failed"}


def check(number: int) -> None:
    """Judge op set `number` on a random state, and let a session of a typed world take one in a reply."""
    random = Random(number)
    state = random_state(random)
    if number % 2:
        state["$meta"] = {"typed": True}
    _check_judged(state, random_ops(random, state))
    anyio.run(_check_session, random, _starter("zh" if number % 4 > 1 else "en"))


def _check_judged(state: dict[str, Any], ops: list[Any]) -> None:
    before = copy.deepcopy(state)
    judged = judge_ops(state, ops)
    assert state == before, "the given state was changed"
    again = judge_ops(state, ops)
    assert (again.tree, again.patch) == (judged.tree, judged.patch), "the same ops had two results"
    refused = [verdict for verdict in judged.verdicts if not verdict.is_applied]
    if refused:
        assert judged.tree == before, "some ops of a refused set took effect"
        assert not judged.patch
    assert all(verdict.code and verdict.reason.strip() for verdict in refused), "an op was refused without a reason"
    assert apply_patch(before, judged.patch) == judged.tree, "the patch does not lead to the state"
    json.dumps(judged.tree, allow_nan=False).encode("utf-8")
    assert load_yaml(dump_yaml(judged.tree)) == judged.tree, "the state cannot be shown"
    _check_rules(before, judged.tree)


def _check_rules(old: Any, new: Any) -> None:
    """What the model may not touch is as it was, wherever the same container is still there."""
    if isinstance(old, dict) and isinstance(new, dict):
        if old.get("id") != new.get("id"):
            return
        assert [old.get(name) for name in NAMES] == [new.get(name) for name in NAMES], "a name was changed"
        assert _rules(old) == _rules(new), "a rule was changed"
        rules = old.get("$meta", {})
        for name in rules.get("necessary", ()):
            assert name not in old or name in new, f"the necessary field {name} is gone"
        if rules.get("updatable") is False:
            assert _plain(old) == _plain(new), "a closed container was changed"
        for name, (low, high) in rules.get("limits", {}).items():
            value, was = _number(new.get(name)), _number(old.get(name))
            assert value is None or value == was or low <= value <= high, f"{name} is {value}, beyond {low} to {high}"
        for name in old.keys() & new.keys():
            _check_rules(old[name], new[name])


def _rules(node: Any) -> Any:
    return {name: rule for name, rule in node.get("$meta", {}).items() if name not in NOTES}


def _plain(node: Any) -> Any:
    return {key: value for key, value in node.items() if not isinstance(value, dict | list)}


def _number(value: Any) -> float | None:
    value = value[0] if isinstance(value, list) and value else value
    return value if type(value) in (int, float) else None


async def _check_session(random: Random, world: WorldPack) -> None:
    async with open_runtime("memory:", world=world, embedder="none") as runtime:
        await runtime.ensure_session("s", index=False)
        window = await runtime.store.window("s", message_limit=1)
        ops = random_ops(random, window.state)
        await runtime.engine.prepare_turn("s", "What now?")
        update = json.dumps(ops, ensure_ascii=True)
        done = await runtime.engine.commit_assistant_message(
            "s", f"<content>So it is.</content><state_update>{update}</state_update>"
        )
        after = (await runtime.store.window("s", message_limit=1)).state
        assert apply_patch(window.state, done.ops) == after, "the store has another state than the commit tells"
        _check_quests(window.state, after)
        turn = await runtime.engine.prepare_turn("s", "And then?")
        told = any(each.block_id == "refused_update" for each in turn.report.decisions)
        faults = [
            verdict for verdict in done.verdicts if not verdict.is_applied and verdict.code != Refusal.TURN_REFUSED
        ]
        assert told == bool(faults), f"the next prompt tells of refused ops: {told}; there are {len(faults)}"


def _check_quests(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert old["quests"].keys() == new["quests"].keys(), "a quest came or went"
    for name, quest in new["quests"].items():
        if name != "$meta":
            status = quest["status"][0] if isinstance(quest["status"], list) else quest["status"]
            assert status in STATUSES, f"quest {name} is {status!r}"


@lru_cache(maxsize=2)
def _starter(locale: str) -> WorldPack:
    with tempfile.TemporaryDirectory() as name:
        call("author", "init", Path(name) / "pack", "--locale", locale)
        return load_world(Path(name) / "pack")


OPS = LongForm(count=10_000, check=check)


@pytest.mark.parametrize("number", range(SHORT))
def test_a_state_stays_sound_whatever_ops_it_gets(number):
    check(number)
