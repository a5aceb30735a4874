"""Checks the links between the parts of a world pack: ids are unique, references and paths lead somewhere, and ops can run.

An op is a change of the state that an action or a text of the pack makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any

from filament import judge_ops
from filament.state.verdicts import Authority, Remark
from mnemosyne.chains.quantities import calculate, expand_pattern, is_expression
from mnemosyne.core.faults import FaultList, SourceLocation, did_you_mean
from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.schema.memory import QUEST_UPDATE, Comparison, Condition
from mnemosyne.shapes import BROKEN
from mnemosyne.world.checking.patterns import pattern_fault, slow_fault
from mnemosyne.world.checking.state import QUESTS, StateTree, plain_value, quest_state, read_tree, with_types
from mnemosyne.world.format.check import iterate_sound
from mnemosyne.world.format.fields import OBJECTIVE_STATUSES, QUEST_STATUSES
from mnemosyne.world.reading.draft import Item, PackDraft, Part


def check_links(draft: PackDraft, faults: FaultList, *, try_patterns: bool = False) -> StateTree | None:
    """Check the links between the parts of `draft`, and return the state tree with the quests in it.

    Faults are added to `faults`. Return None if the state is not a mapping or already contains quests. If `try_patterns`, also
    check whether an input makes a pattern slow. This check takes a moment.
    """
    _check_unique(draft.world.items("entities"), "entity", faults)
    _check_unique(draft.actions, "action", faults)
    _check_unique(
        _iterate_memories(draft),
        "memory (lore, quests, scheduled texts, events and narratives share their ids)",
        faults,
    )
    tree = _build_tree(draft, faults)
    _check_references(draft, tree, faults)
    _check_quest_graph(draft, faults)
    _check_narratives(draft.history, faults)
    _check_focus(draft, faults)
    _check_events(draft, faults)
    for place, action in draft.actions:
        for where, pattern in iterate_sound(action.get("patterns"), place.at("patterns")):
            whole = expand_pattern(pattern, _number_names(action))
            if wrong := pattern_fault(whole) or (slow_fault(whole) if try_patterns else None):
                faults.add(where, wrong)
        _check_numbers(action, place, faults)
    if tree is not None:
        _check_story_time(draft, tree, faults)
    if tree is not None and draft.quests_known:
        for where, condition in _iterate_conditions(draft):
            _check_condition(condition, tree, where, faults)
        for place, action in draft.actions:
            _check_ops(_calculated_ops(action, place, tree, faults), tree, faults)
    return tree


def _number_names(action: dict[str, Any]) -> list[str]:
    return [number["name"] for number in _sound_numbers(action) if isinstance(number.get("name"), str)]


def _sound_numbers(action: dict[str, Any]) -> list[dict[str, Any]]:
    numbers = action.get("numbers")
    return [each for each in numbers if each is not BROKEN] if isinstance(numbers, list) else []


def _check_numbers(action: dict[str, Any], place: SourceLocation, faults: FaultList) -> None:
    patterns = [text for text in action.get("patterns") or () if isinstance(text, str)]
    for at, number in iterate_sound(action.get("numbers"), place.at("numbers")):
        name, least, most = number.get("name"), number.get("least", 1), number.get("most", 0)
        if name is not None and not any(f"{{{name}}}" in text or f"(?P<{name}>" in text for text in patterns):
            faults.add(at.at("name"), f"names {name!r}, which is in no pattern; write {{{name}}} where the number is")
        if isinstance(least, int) and isinstance(most, int) and least > most:
            faults.add(at.at("least"), f"is {least}, above the most {most}; swap them")


def _calculated_ops(
    action: dict[str, Any], place: SourceLocation, tree: StateTree, faults: FaultList
) -> Iterator[tuple[SourceLocation, list[Any]]]:
    """Yield the ops of an action, with expressions calculated from the least numbers. Ops with faults are left out."""
    numbers = {each["name"]: each.get("least", 1) for each in _sound_numbers(action) if "name" in each}

    def read_name(name: str) -> int:
        if name in numbers:
            return int(numbers[name])
        path = tree.find(name)
        value = None if path is None else plain_value(tree.at(path))
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        known = f"the numbers {', '.join(numbers)}, or a path to a whole number"
        raise ValueError(f"{name!r} is not a number of this action or a whole number of the state; use {known}")

    def check(value: Any, where: SourceLocation) -> Any:
        if not numbers or not is_expression(value):
            return value
        try:
            return calculate(value, read_name)
        except ValueError as error:
            faults.add(where, f"cannot be calculated: {error}")
            return None

    for where, guard in iterate_sound(action.get("guards"), place.at("guards")):
        if is_expression(guard.value) and not numbers:
            faults.add(where, "calculates, but the action declares no numbers; add 'numbers'")
        check(guard.value, where)
    for where, op in iterate_sound(action.get("ops"), place.at("ops")):
        value = check(op[2], where) if len(op) == 3 else None
        if len(op) < 3 or value is not None or op[2] is None:
            yield where, [*op[:2], value] if len(op) == 3 else op


def _build_tree(draft: PackDraft, faults: FaultList) -> StateTree | None:
    state = draft.world.value.get("state")
    if not isinstance(state, dict):
        return None
    world, places = draft.world.place, {}
    root = with_types(state) if state or draft.quests else {}
    if QUESTS in root:
        faults.add(world.at("state", QUESTS), "is in world.yaml; quests belong in quests.yaml, remove it here")
        return None
    for place, quest in draft.quests:
        if "id" in quest and quest["id"] not in places:
            places[quest["id"]] = place
            root.setdefault(QUESTS, {})[quest["id"]] = quest_state(quest)

    def where(path: KeyPath) -> SourceLocation:
        if len(path) > 1 and path[0] == QUESTS and path[1] in places:
            return places[path[1]].at(*path[2:])
        return world.at("state", *path)

    return read_tree(root, where, faults)


def _iterate_memories(draft: PackDraft) -> Iterator[Item]:
    yield from draft.lore
    yield from draft.quests
    yield from draft.injections
    for place, turn in draft.history.items("turns"):
        yield from iterate_sound(turn.get("events"), place.at("events"))
    yield from draft.history.items("narratives")


def _check_unique(items: Iterable[Item], what: str, faults: FaultList) -> None:
    first: dict[str, SourceLocation] = {}
    for place, item in items:
        name = item.get("id")
        if name is None:
            continue
        here = place.at("id")
        if name in first:
            faults.add(
                here, f"{name!r} is used already at {first[name]} ({first[name].key}); give each {what} its own id"
            )
        else:
            first[name] = here


def _check_references(draft: PackDraft, tree: StateTree | None, faults: FaultList) -> None:
    quests = {quest["id"] for _, quest in draft.quests if "id" in quest}
    entities = {entity["id"] for _, entity in draft.world.items("entities") if "id" in entity}
    if draft.entities_known and tree is not None:
        known = entities | tree.anchors
        for place, item in (*draft.lore, *draft.quests):
            for where, name in iterate_sound(item.get("entities"), place.at("entities")):
                _check_known(name, known, "entity", "add it to the entities of world.yaml", where, faults)
    for place, quest in draft.quests:
        for where, name in _linked_quests(quest, place):
            if name == quest.get("id"):
                faults.add(where, "links the quest to itself; remove it")
            elif draft.quests_known:
                _check_known(name, quests, "quest", "add it to quests.yaml", where, faults)
    for place, turn in draft.history.items("turns"):
        for where, event in iterate_sound(turn.get("events"), place.at("events")):
            if event.get("quest") is not None and draft.quests_known:
                _check_known(event["quest"], quests, "quest", "add it to quests.yaml", where.at("quest"), faults)


def _linked_quests(quest: dict[str, Any], place: SourceLocation) -> Iterator[tuple[SourceLocation, str]]:
    links = quest.get("links") or {}
    for key in ("requires", "leads_to"):
        yield from iterate_sound(links.get(key), place.at("links", key))
    if links.get("parent") is not None:
        yield place.at("links", "parent"), links["parent"]


def _check_known(name: str, known: set[str], what: str, remedy: str, place: SourceLocation, faults: FaultList) -> None:
    if name not in known:
        near = did_you_mean(name, sorted(known))
        faults.add(place, f"there is no {what} {name!r}{near or f'; {remedy}'}")


def _check_quest_graph(draft: PackDraft, faults: FaultList) -> None:
    """Report cycles, because a quest that waits for itself can never begin."""
    places = {quest["id"]: place for place, quest in draft.quests if "id" in quest}
    for key in ("requires", "parent"):
        before = {
            quest["id"]: [
                name for _, name in _linked_quests({"links": {key: (quest.get("links") or {}).get(key)}}, place)
            ]
            for place, quest in draft.quests
            if "id" in quest
        }
        before = {name: [each for each in names if each != name] for name, names in before.items()}
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            circle = list(reversed(error.args[1]))
            first = min(circle[:-1], key=lambda name: places[name].line)
            turned = circle[:-1][circle.index(first) :] + circle[: circle.index(first) + 1]
            faults.add(places[first].at("links", key), f"runs in a circle ({' -> '.join(turned)}); break it somewhere")


def _check_narratives(history: Part, faults: FaultList) -> None:
    turns = history.value.get("turns")
    if turns is None:
        return
    for place, narrative in history.items("narratives"):
        first, last = narrative.get("from_turn"), narrative.get("to_turn")
        if first is not None and last is not None and first > last:
            faults.add(place.at("from_turn"), f"is {first}, after to_turn {last}; swap them")
        for key in ("from_turn", "to_turn"):
            number = narrative.get(key)
            if number is not None and number > len(turns):
                faults.add(place.at(key), f"is {number}, but there are {len(turns)} turns; turns count from 1")


def _check_focus(draft: PackDraft, faults: FaultList) -> None:
    locked = draft.planner.value.get("focus_locked") is True
    if locked and draft.quests_known and not any(quest.get("status") == "active" for _, quest in draft.quests):
        faults.add(draft.planner.place.at("focus_locked"), "locks the focus, but no quest is active; make one active")


def _check_events(draft: PackDraft, faults: FaultList) -> None:
    """Report events that cannot happen, because their text would never be shown."""
    quests = {quest["id"] for _, quest in draft.quests if "id" in quest}
    known = [QUEST_UPDATE, *(f"quest_{status}" for status in QUEST_STATUSES)]
    for place, injection in draft.injections:
        for where, word in iterate_sound(injection.get("on"), place.at("on")):
            event, colon, quest = word.partition(":")
            if event.startswith("quest") and event not in known:
                near = did_you_mean(event, known) or f"; there are {', '.join(known)}"
                faults.add(where, f"names the event {event!r}, which never happens{near}")
            elif colon and event in known and draft.quests_known:
                _check_known(quest, quests, "quest", "add it to quests.yaml", where, faults)


def _iterate_conditions(draft: PackDraft) -> Iterator[tuple[SourceLocation, Condition]]:
    for place, entry in draft.lore:
        yield from iterate_sound(entry.get("when"), place.at("when"))
    for place, rule in draft.planner.items("templates"):
        yield from iterate_sound(rule.get("when"), place.at("when"))
    for place, action in draft.actions:
        yield from iterate_sound(action.get("guards"), place.at("guards"))
    for place, injection in draft.injections:
        yield from iterate_sound(injection.get("when"), place.at("when"))


def _check_story_time(draft: PackDraft, tree: StateTree, faults: FaultList) -> None:
    for where, name in draft.world.items("story_time"):
        path = tree.find(name)
        if path is None:
            near = tree.nearest(name) or "; add it to the state with its starting value"
            faults.add(where, f"tells the time of the story by {name!r}, which is not in the state{near}")
        elif isinstance(plain_value(tree.at(path)), dict | list):
            faults.add(where, f"tells the time of the story by {name!r}, which is not a single value; name its fields")


def _check_condition(condition: Condition, tree: StateTree, place: SourceLocation, faults: FaultList) -> None:
    path = tree.find(condition.path)
    if path is None:
        near = tree.nearest(condition.path) or "; add it to the state with its starting value"
        faults.add(place, f"refers to {condition.path!r}, which is not in the state{near}")
        return
    value = plain_value(tree.at(path))
    ordered = condition.op in (Comparison.LT, Comparison.LE, Comparison.GT, Comparison.GE)
    if ordered and (isinstance(value, bool) or not isinstance(value, int | float)):
        faults.add(place, f"compares {condition.path!r} by size, but it is not a number; compare with == or !=")
    elif condition.op is Comparison.CONTAINS and not isinstance(value, list | str):
        faults.add(place, f"tests whether {condition.path!r} contains something, but it is neither a list nor text")
    elif condition.op in (Comparison.EQ, Comparison.NE, Comparison.IN):
        _check_status(condition, path, place, faults)


def _check_status(condition: Condition, path: tuple[str, ...], place: SourceLocation, faults: FaultList) -> None:
    """Report comparisons with an unknown status, because they can never be true."""
    if path[0] != QUESTS or path[-1] != "status" or len(path) not in (3, 5):
        return
    known = QUEST_STATUSES if len(path) == 3 else OBJECTIVE_STATUSES
    asked = condition.value if isinstance(condition.value, list) else [condition.value]
    for value in asked:
        if value not in known:
            near = did_you_mean(str(value), known) or f"; it can be {', '.join(known)}"
            faults.add(place, f"compares a status with {value!r}{near}")


def _check_ops(ops: Iterable[tuple[SourceLocation, list[Any]]], tree: StateTree, faults: FaultList) -> None:
    """Add a fault for every op of an action that cannot run on `tree`. Each op is tried after the ops before it.

    For a POP only the list is looked up, because its entries are known only in play.
    """
    root: Any = tree.root
    for place, raw in ops:
        if tree.find(raw[1]) is None:
            near = tree.nearest(raw[1]) or "; add it to the state with its starting value"
            faults.add(place, f"changes {raw[1]!r}, which is not in the state{near}")
        elif tree.is_sound and raw[0] != "POP":
            judged = judge_ops(root, [raw], authority=Authority.AUTHOR)
            (verdict,) = judged.verdicts
            misspelt = [note.text for note in verdict.notes if note.code in (Remark.CONVERTED, Remark.NORMALISED)]
            if not verdict.is_applied:
                faults.add(place, f"can never run: {verdict.reason}; change the op or the state")
            elif misspelt:
                faults.add(place, f"is not written as it is read: {misspelt[0]} Write it so")
            root = judged.tree
