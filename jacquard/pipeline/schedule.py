"""Finds the scheduled texts of a world that a turn must show.

An author schedules a text at an interval of turns, after an event, or while conditions are true. A text has a cooldown:
a number of turns after each use in which it is not shown. The plan of the previous turn states when each text was last
due, so that each branch of a session has its own schedule. This module must not import a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from jacquard.core.plan import PlanContext
from mnemosyne.chains.state import view_state
from mnemosyne.schema.memory import Chain, MemoryEntry, world_scope
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.world import Injection, WorldPack

INJECTION = "injection"
"""Kind of the memory entry that represents a scheduled text."""


def find_due_injections(window: SessionWindow, world: WorldPack) -> tuple[tuple[str, ...], Mapping[str, int]]:
    """Return (due, last_due) for the turn that follows `window`.

    `due` contains the ids of the texts that are due, in the order of the world. `last_due` maps the id of each text to the
    number of the turn in which it was last due, this turn included. Turns are counted from 1 along the branch; numerical turns
    count too.
    """
    previous = window.previous
    plan = previous.plan if previous is not None and previous.plan is not None else {}
    last = {str(name): int(depth) for name, depth in plan.get("injected_at", {}).items()}
    if not world.injections:
        return (), MappingProxyType(last)
    report = previous.report if previous is not None and previous.report is not None else {}
    events = frozenset(str(word) for word in report.get("events", ()))
    view, depth = view_state(window.state), window.head.depth + 1
    due = tuple(
        each.injection_id
        for each in world.injections
        if _is_due(each, depth, last.get(each.injection_id), events)
        and all(view.holds(condition) for condition in each.when)
    )
    return due, MappingProxyType({**last, **dict.fromkeys(due, depth)})


def _is_due(each: Injection, depth: int, last: int | None, events: frozenset[str]) -> bool:
    if last is not None and (each.once or depth - last < each.cooldown):
        return False
    if each.every is None and not each.on:
        return True
    return (each.every is not None and depth % each.every == 0) or not events.isdisjoint(each.on)


def list_injected_entries(world: WorldPack, plan: PlanContext) -> tuple[MemoryEntry, ...]:
    """Return the scheduled texts in `plan` as memory entries. These entries are never stored.

    A prompt shows scheduled texts directly before the input, in the same place as directives.
    """
    known = {each.injection_id: each for each in world.injections}
    return tuple(
        MemoryEntry(
            entry_id=name,
            scope=world_scope(world.world_id),
            chain=Chain.LORE,
            kind=INJECTION,
            text=known[name].text,
            title=known[name].title or name,
            priority=known[name].priority,
        )
        for name in plan.injections
        if name in known
    )


def event_words(entries: Iterable[MemoryEntry]) -> list[str]:
    """Return the words by which a schedule names the events in `entries`, each word once, in order.

    Examples: `quest_update`, `quest_completed`, `quest_completed:q_temple`.
    """
    words: dict[str, None] = {}
    for entry in entries:
        words[entry.kind] = None
        for tag in entry.tags if entry.quest_id else ():
            words[f"quest_{tag}"] = None
            words[f"quest_{tag}:{entry.quest_id}"] = None
    return list(words)
