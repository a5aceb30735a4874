"""Builds the start of a session: the prologue of a world as finished turns, with summaries, events and macro narratives.

A prologue is the list of turns that an author wrote for before the session. A macro narrative is one text that summarises
several turns. The module must not import stores, importers or the reader of packs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, session_scope
from mnemosyne.schema.record import ImportedTurn, SessionStart
from mnemosyne.schema.session import Author, AuthorKind, Message, Role
from mnemosyne.schema.world import PrologueEvent, PrologueNarrative, PrologueTurn, WorldPack

MAIN_BRANCH = "main"


def session_start(
    session_id: str, world: WorldPack, at: datetime | None = None, *, extra: Mapping[str, Any] = EMPTY
) -> SessionStart:
    """Return a new session of `world`.

    Prologue turns get the ids `p001`, `p002`, … at depths 1, 2, … of branch `main`, with the messages `p001.u` and
    `p001.a`. A summary becomes the narrative entry `p001.summary`. An event is placed at its turn, a macro narrative
    at its last turn. `at` is the time at which the session starts; the turns of the prologue have no time. `extra` is
    metadata of the session document.
    """
    return SessionStart(
        session_id=session_id,
        world_id=world.world_id,
        locale=world.locale,
        state=world.state,
        turns=tuple(_build_turn(number, turn, world) for number, turn in enumerate(world.prologue, start=1)),
        entries=tuple(_build_entries(session_scope(session_id), world)),
        at=at,
        extra=extra,
    )


def prologue_turn_id(number: int) -> str:
    """Return the id of prologue turn `number` (1-based)."""
    return f"p{number:03d}"


def _build_turn(number: int, turn: PrologueTurn, world: WorldPack) -> ImportedTurn:
    turn_id = prologue_turn_id(number)
    player = Author(kind=AuthorKind.USER, id=world.user_name) if world.user_name else None
    name = world.persona.get("name")
    agent = Author(kind=AuthorKind.AGENT, id=name) if isinstance(name, str) and name else None
    messages = (
        Message(role=Role.USER, content=turn.user, message_id=f"{turn_id}.u", author=player),
        Message(role=Role.ASSISTANT, content=turn.assistant, message_id=f"{turn_id}.a", author=agent),
    )
    return ImportedTurn(turn_id=turn_id, messages=tuple(message for message in messages if message.content))


def _build_entries(scope: str, world: WorldPack) -> Iterator[MemoryEntry]:
    for number, turn in enumerate(world.prologue, start=1):
        if turn.summary:
            yield _build_summary(scope, number, turn.summary)
        for event in turn.events:
            yield _build_event(scope, number, event)
    for narrative in world.narratives:
        yield _build_macro(scope, min(narrative.to_turn, len(world.prologue)), narrative)


def _build_summary(scope: str, number: int, text: str) -> MemoryEntry:
    turn_id = prologue_turn_id(number)
    return MemoryEntry(
        entry_id=f"{turn_id}.summary",
        scope=scope,
        chain=Chain.NARRATIVE,
        kind="turn_summary",
        text=text,
        turn_id=turn_id,
        branch_id=MAIN_BRANCH,
        depth=number,
    )


def _build_event(scope: str, number: int, event: PrologueEvent) -> MemoryEntry:
    places = () if event.location is None else (event.location,)
    return MemoryEntry(
        entry_id=event.event_id,
        scope=scope,
        chain=Chain.EVENT,
        kind=event.type,
        text=event.summary,
        turn_id=prologue_turn_id(number),
        branch_id=MAIN_BRANCH,
        depth=number,
        entities=tuple(dict.fromkeys((*event.participants, *places))),
        quest_id=event.quest_id,
        metadata={"participants": list(event.participants), "location": event.location},
    )


def _build_macro(scope: str, last: int, narrative: PrologueNarrative) -> MemoryEntry:
    return MemoryEntry(
        entry_id=narrative.narrative_id,
        scope=scope,
        chain=Chain.NARRATIVE,
        kind="macro",
        title=narrative.title,
        text=narrative.text,
        turn_id=prologue_turn_id(last) if last else None,
        branch_id=MAIN_BRANCH,
        depth=last,
        metadata={"from_turn": narrative.from_turn, "to_turn": narrative.to_turn},
    )
