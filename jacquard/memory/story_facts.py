"""Reads the facts of a story on one branch: values that the state had, and memories that state facts.

This module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from filament.state.display import without_hidden
from jacquard.core.errors import ConfigError
from jacquard.memory.path_entries import load_path_entries
from mnemosyne.chains.lore import may_know
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.chains.story_facts import (
    end_former_facts,
    facts_of_memories,
    facts_of_state,
    find_endings,
    lineage_upto,
    topic_of_fact,
)
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Store, combined_reads
from mnemosyne.schema.memory import (
    FACT_ENDED,
    SUPERSEDED_BY,
    TAKES_FROM_RECALL,
    Chain,
    StoryFact,
    session_scope,
)
from mnemosyne.schema.session import SessionHead

TURNS_READ = 500
"""Maximum number of turns whose ops are read for the former values of the state in a turn; the newest are read."""


async def load_state_facts(
    store: Store, head: SessionHead, state: Mapping[str, Any], *, whole: bool = False
) -> list[StoryFact]:
    """Return the values of the state that the turns on the path of `head` set or ended. `state` is the state at `head`.

    Only the newest TURNS_READ turns are read, unless `whole` is true. Values that are hidden from prompts are left out.
    """
    turns = list(
        await store.turns(head.session_id, limit=TURNS_READ, branch_id=head.branch_id, before_depth=head.depth + 1)
    )
    while whole and turns and turns[0].depth > 1:
        turns[:0] = await store.turns(
            head.session_id, limit=TURNS_READ, branch_id=head.branch_id, before_depth=turns[0].depth
        )
    if not any(turn.ops for turn in turns):
        return []
    base = await store.state_at(head.session_id, turns[0].parent_id)
    find = partial(facts_of_state, base, turns, without_hidden(state), turns[0].depth - 1)
    return await calculate(find, size=size_of(state) * (1 + sum(len(turn.ops) for turn in turns) // 20))


async def load_past_head(
    store: Store, session_id: str, branch_id: str | None = None, as_of_turn: int | None = None
) -> SessionHead:
    """Return the head that a branch had after the turn with the number `as_of_turn` (None: its present head).

    `branch_id` is the branch (None: the active branch). Raises ConfigError if the branch has no such turn.
    """
    head = await store.head(session_id, branch_id)
    if as_of_turn is None or as_of_turn == head.depth:
        return head
    if not 0 <= as_of_turn < head.depth:
        raise ConfigError(f"as_of_turn is {as_of_turn}; branch {head.branch_id!r} has the turns 1 to {head.depth}.")
    turns = await store.turns(head.session_id, limit=1, branch_id=head.branch_id, before_depth=as_of_turn + 1)
    turn_id = turns[-1].turn_id if turns else None
    lineage = lineage_upto(head.lineage, as_of_turn)
    return replace(head, depth=as_of_turn, turn_id=turn_id, lineage=lineage)


async def load_past(
    store: Store, session_id: str, branch_id: str | None = None, as_of_turn: int | None = None
) -> tuple[SessionHead, Mapping[str, Any]]:
    """Return the head of `load_past_head` with the state after its turn."""
    head = await load_past_head(store, session_id, branch_id, as_of_turn)
    return head, await store.state_at(session_id, head.turn_id)


async def load_story_facts(
    store: Store,
    session_id: str,
    branch_id: str | None = None,
    *,
    viewer: str | None = None,
    as_of_turn: int | None = None,
) -> list[StoryFact]:
    """Return the facts of the story on a branch with the turns in which they are valid, in the order of their beginning.

    With `as_of_turn`, only the facts that were valid after the turn with this number are returned. With `viewer`, only
    facts in memories that this viewer may know. Raises the errors of `load_past_head`.
    """
    head, state = await load_past(store, session_id, branch_id, as_of_turn)
    gated = await store.gated_entries((session_scope(session_id),))
    edited = {each.metadata.get(TAKES_FROM_RECALL) for each in gated if each.chain is not Chain.EVENT}
    view = view_state(state)
    told = [
        each
        for each in await load_path_entries(store, head, Chain.EVENT)
        if topic_of_fact(each) is not None
        and each.entry_id not in edited
        and (viewer is None or may_know(each, viewer, view))
    ]
    facts = facts_of_memories(told, find_endings(gated, head.lineage))
    if viewer is None:
        facts += await load_state_facts(store, head, state, whole=True)
    if as_of_turn is not None:
        facts = [fact for fact in facts if fact.valid_to is None]
    return sorted(facts, key=lambda fact: fact.valid_from)


async def settle_facts(store: Store, session_id: str) -> None:
    """Write the ends of facts that are missing on the active branch, and remove those of facts that are gone, after a person
    added or removed a fact.
    """
    events = await load_path_entries(store, await store.head(session_id), Chain.EVENT)
    present = {each.entry_id for each in events}
    stale = [
        each
        for each in events
        if each.kind == FACT_ENDED
        and not present.issuperset((each.metadata[TAKES_FROM_RECALL], each.metadata[SUPERSEDED_BY]))
    ]
    gone = {each.entry_id for each in stale}
    kept = [each for each in events if each.entry_id not in gone]
    # An entry without text is removed.
    changes = [*(replace(each, text="") for each in stale), *end_former_facts(kept, kept)]
    if changes:
        await store.append_entries(session_id, changes)


async def with_story_times(
    store: Store, session_id: str, facts: Sequence[StoryFact], paths: Sequence[str]
) -> tuple[StoryFact, ...]:
    """Return facts with the time of the story when they began. `paths` are the paths of the state that state the time."""
    turn_ids = [fact.turn_id for fact in facts if fact.turn_id] if paths else []
    if not turn_ids:
        return tuple(facts)
    read = await combined_reads(store).chosen_inputs(store, session_id, {}, turn_ids=[*dict.fromkeys(turn_ids)])
    times = describe_story_times(read.states, paths)
    return tuple(replace(fact, time=times.get(fact.turn_id, "")) for fact in facts)


def describe_story_times(states: Mapping[str, Mapping[str, Any]], paths: Sequence[str]) -> dict[str, str]:
    """Return the time of the story in each of `states`, by the key of the state. `paths` are the paths of the time."""
    views = {name: StateView(without_hidden(state)) for name, state in states.items()}
    return {name: ", ".join(filter(None, map(view.describe, paths))) for name, view in views.items()}
