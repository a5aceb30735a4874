"""Computes nearness on the world's graph: how close an entry is to the focused quest and to the entities of the
input.

The caller passes distances on the quest graph (`chains.event` computes them). This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mnemosyne.retrieval.engines.rows import entity_facet, quest_facet
from mnemosyne.retrieval.text.lexical import Scores
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import RetrievalQuery

QUEST_REACH = 3
"""Number of steps from the focused quest within which entries are searched."""
_ENTITY_SHARE = 0.5
_HALF_LIFE_TURNS = 30.0


def find_nearness(
    entries: Sequence[MemoryEntry], quest_distances: Mapping[str, int], entities: Collection[str]
) -> list[float]:
    """Return the nearness (0..1) of each entry: the greater of its nearness by quest and its nearness by entities.

    - The nearness by quest is 1 / (1 + steps). `quest_distances` maps the id of a quest to its number of steps from the focused
      quest, which has 0 steps and so the nearness 1.
    - The nearness by entities is half the share of `entities` that occur in the entry.
    """
    near = [0.0] * len(entries)
    if not quest_distances and not entities:
        return near
    wanted = frozenset(entities)
    for place, entry in enumerate(entries):
        steps = quest_distances.get(entry.quest_id) if entry.quest_id is not None else None
        by_quest = 0.0 if steps is None else 1.0 / (1.0 + max(steps, 0))
        if entities and entry.entities:
            by_quest = max(by_quest, _ENTITY_SHARE * len(wanted.intersection(entry.entities)) / len(entities))
        near[place] = by_quest
    return near


def facet_terms(query: RetrievalQuery) -> dict[str, float]:
    """Return the index terms of the quests and entities near the focus, with weights. A nearer quest has a greater weight."""
    near = sorted((steps, quest_id) for quest_id, steps in query.quest_distances.items() if 0 <= steps <= QUEST_REACH)
    terms = {quest_facet(quest_id): 1.0 / (1.0 + steps) for steps, quest_id in near}
    terms.update({entity_facet(entity): _ENTITY_SHARE for entity in query.entities})
    return terms


def find_recency(entries: Sequence[MemoryEntry], now: int) -> list[float | None]:
    """Return the recency of each entry, or None for an entry without a depth.

    The recency is 1 in the turn of depth `now`, and is halved for every 30 turns before it.
    """
    return [None if entry.depth is None else 0.5 ** (max(now - entry.depth, 0) / _HALF_LIFE_TURNS) for entry in entries]


def weigh_by_context(
    scores: Scores,
    entries: Sequence[MemoryEntry],
    near: Sequence[float],
    recent: Sequence[float | None],
    temporal: str,
) -> Scores:
    """Return the fused `scores` of `entries`, changed by their recency (`recent`) and nearness (`near`).

    Narrative entries get up to a tenth more for recency, unless the input is about the past (`temporal`). Nearness
    adds most to events, and little to other entries.
    """
    factors = [
        1.0 + 0.1 * at if at is not None and entry.chain is Chain.NARRATIVE and temporal != "past" else 1.0
        for entry, at in zip(entries, recent, strict=True)
    ]
    reaches = [0.35 if entry.chain is Chain.EVENT else 0.05 for entry in entries]
    return np.asarray(scores * np.array(factors) + np.array(near) * np.array(reaches), dtype=np.float64)
