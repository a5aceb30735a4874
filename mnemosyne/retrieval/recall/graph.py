"""Nearness on the world's graph: how close an entry is to the focused quest and to the entities of the input.

Calculation only. Distances on the quest graph come from the caller (`chains.event` walks it).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mnemosyne.retrieval.engines.rows import entity_facet, quest_facet
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import RetrievalQuery

QUEST_REACH = 3
_ENTITY_SHARE = 0.5
_HALF_LIFE_TURNS = 30.0


def nearness(entry: MemoryEntry, quest_distances: Mapping[str, int], entities: Collection[str]) -> float:
    """Return 0..1: 1 for the focused quest, 1 / (1 + steps) for quests around it, half the share of entities in common.

    The greater of the two counts.
    """
    if not quest_distances and not entities:
        return 0.0
    steps = quest_distances.get(entry.quest_id) if entry.quest_id is not None else None
    by_quest = 0.0 if steps is None else 1.0 / (1.0 + max(steps, 0))
    if not entities or not entry.entities:
        return by_quest
    return max(by_quest, _ENTITY_SHARE * len(set(entry.entities) & set(entities)) / len(entities))


def facet_terms(query: RetrievalQuery) -> dict[str, float]:
    """Return the terms under which entries near the focus are indexed, nearer ones with more weight."""
    near = sorted((steps, quest_id) for quest_id, steps in query.quest_distances.items() if 0 <= steps <= QUEST_REACH)
    terms = {quest_facet(quest_id): 1.0 / (1.0 + steps) for steps, quest_id in near}
    terms.update({entity_facet(entity): _ENTITY_SHARE for entity in query.entities})
    return terms


def recency(depth: int | None, now: int) -> float | None:
    """Return 1 for the current turn, halved every 30 turns back; None for entries without a place in time."""
    if depth is None:
        return None
    return float(0.5 ** (max(now - depth, 0) / _HALF_LIFE_TURNS))


def context_factor(chain: Chain, near: float, recent: float | None, temporal: str) -> tuple[float, float]:
    """Return (factor, bonus) by which recency and nearness change a fused score.

    Narrative entries get up to a tenth more for recency, unless the input is about the past. Nearness matters most
    among events (a walk from the focused quest) and little elsewhere.
    """
    factor = 1.0
    if chain is Chain.NARRATIVE and recent is not None and temporal != "past":
        factor = 1.0 + 0.1 * recent
    return factor, near * (0.35 if chain is Chain.EVENT else 0.05)
