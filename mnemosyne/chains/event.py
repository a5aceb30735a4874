"""Reads the quests in a state for recall: ended quests, changes of status, and distances from the focused quest.

Quests are part of the state, but recall treats ended quests as memories, so this module turns them into memory
entries. Any tree can be read, even a broken one; values that do not look like a quest are left out. The module must
not import stores or indexes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from mnemosyne.schema.memory import QUEST_UPDATE, Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import TurnRecord

ACTIVE = "active"
CLOSED = frozenset({"completed", "failed"})
QUEST = "quest"
_LINKS = ("requires", "leads_to", "parent")


def closed_quests(state: Mapping[str, Any], session_id: str) -> tuple[MemoryEntry, ...]:
    """Return the completed and failed quests of `state` as entries of the event chain, in the order of the state.

    An entry has the quest's id, the kind `quest`, the status as a tag, and the title, description and outcome as its
    text. These entries are computed from the state of a branch, so they follow the branch and are in no store and no
    index.
    """
    return tuple(
        _quest_entry(quest_id, quest, session_id)
        for quest_id, quest in _iterate_quests(state)
        if _read_text(quest.get("status")) in CLOSED
    )


def _quest_entry(quest_id: str, quest: Mapping[str, Any], session_id: str) -> MemoryEntry:
    title = _read_text(quest.get("title")) or quest_id
    parts = (title, _read_text(quest.get("description")), _read_text(quest.get("outcome")))
    return MemoryEntry(
        entry_id=quest_id,
        scope=session_scope(session_id),
        chain=Chain.EVENT,
        kind=QUEST,
        title=title,
        text="\n".join(part for part in parts if part),
        entities=_read_names(quest.get("entities")),
        tags=(_read_text(quest.get("status")),),
        quest_id=quest_id,
    )


def quest_events(
    before: Mapping[str, Any], after: Mapping[str, Any], record: TurnRecord, at: datetime | None
) -> tuple[MemoryEntry, ...]:
    """Return one event for each quest whose status differs between the states `before` and `after` a turn.

    The events are in the order of `after`. An event has the kind `quest_update` and the id `<turn>.quest.<quest id>`.
    It is placed at the turn of `record` and has the time `at`.
    """
    statuses = {quest_id: _read_text(quest.get("status")) for quest_id, quest in _iterate_quests(before)}
    return tuple(
        _update_entry(quest_id, quest, statuses.get(quest_id, ""), record, at)
        for quest_id, quest in _iterate_quests(after)
        if _read_text(quest.get("status")) != statuses.get(quest_id, "")
    )


def _update_entry(
    quest_id: str, quest: Mapping[str, Any], old: str, record: TurnRecord, at: datetime | None
) -> MemoryEntry:
    status, title = _read_text(quest.get("status")), _read_text(quest.get("title")) or quest_id
    outcome = _read_text(quest.get("outcome")) if status in CLOSED else ""
    return MemoryEntry(
        entry_id=f"{record.turn_id}.quest.{quest_id}",
        scope=session_scope(record.session_id),
        chain=Chain.EVENT,
        kind=QUEST_UPDATE,
        title=title,
        text="\n".join(
            part for part in (f"{title}: {old} → {status}" if old else f"{title}: {status}", outcome) if part
        ),
        at=at,
        turn_id=record.turn_id,
        branch_id=record.branch_id,
        depth=record.depth,
        entities=_read_names(quest.get("entities")),
        tags=(status,),
        quest_id=quest_id,
        trust=Trust.MODEL,
    )


def quest_distances(state: Mapping[str, Any], focus_quest_id: str | None) -> dict[str, int]:
    """Return the number of links between the quest `focus_quest_id` and each quest that can be reached from it.

    The nearest quest comes first, and the focused quest has the distance 0. Links are `requires`, `leads_to` and
    `parent`, followed in both directions. Quests at the same distance keep the order of the state. The result is
    empty if there is no focus, or if the state does not have the focused quest.
    """
    quests = dict(_iterate_quests(state))
    if focus_quest_id not in quests:
        return {}
    ids = {key: _read_text(quest.get("id")) or key for key, quest in _raw_quests(state)} | {
        name: name for name in quests
    }
    near: dict[str, set[str]] = {quest_id: set() for quest_id in quests}
    for quest_id, quest in quests.items():
        for link in _linked_ids(quest):
            other = ids.get(link)
            if other is not None and other != quest_id:
                near[quest_id].add(other)
                near[other].add(quest_id)
    distances = {focus_quest_id: 0}
    waiting = deque([focus_quest_id])
    while waiting:
        here = waiting.popleft()
        for other in quests:
            if other in near[here] and other not in distances:
                distances[other] = distances[here] + 1
                waiting.append(other)
    return distances


def _iterate_quests(state: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield `(quest id, quest)`; the id is the quest's own, else its key."""
    for key, quest in _raw_quests(state):
        yield _read_text(quest.get("id")) or key, quest


def _raw_quests(state: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    quests = state.get("quests")
    if isinstance(quests, Mapping):
        for key, quest in quests.items():
            if not key.startswith(("$", "_")) and isinstance(quest, Mapping):
                yield key, quest


def _linked_ids(quest: Mapping[str, Any]) -> Iterator[str]:
    links = quest.get("links")
    for name in _LINKS:
        yield from _read_names(links.get(name) if isinstance(links, Mapping) else None)
    yield from _read_names(quest.get("parent"))


def _read_names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()


def _read_text(value: Any) -> str:
    """Return a field as text; for a value with a description, the value."""
    if isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[1], str):
        value = value[0]
    return value.strip() if isinstance(value, str) else ""
