"""Counts the contents of a world (lore, quests, actions, …), for a report to the author of the world."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from filament.state.anchors import list_made_ids
from mnemosyne.schema.memory import LoreCategory
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.checking.state import QUESTS, read_pairs


def describe(world: WorldPack) -> dict[str, Any]:
    """Return the counts of `world` as a JSON value, in the order in which `jacquard author validate` shows them.

    - `lore` is counted by category, `quests` by status.
    - `generated_ids` lists the mappings to which an id was given, because the author wrote none. Each line has the path of the
      mapping in the state and its id (`crew.0: item_1`). Only mappings inside of lists need ids: ops (changes of the state that
      a reply asks for) address them by id.
    - `described_values` lists the paths of all `[value, description]` pairs of the state. It shows an author if a list of two
      texts was taken for such a pair by mistake.
    """
    categories = Counter(entry.kind for entry in world.lore)
    quests: Mapping[str, Any] = world.state.get(QUESTS, {})
    statuses = Counter(str(quest["status"]) for quest in quests.values())
    return {
        "id": world.world_id,
        "title": world.title,
        "locale": world.locale,
        "entities": len(world.entities),
        "lore": {
            "total": len(world.lore),
            **{category.value: categories.get(category.value, 0) for category in LoreCategory},
        },
        "restricted_lore": sum(bool(entry.viewers or entry.when) for entry in world.lore),
        "quests": {"total": len(quests), **dict(sorted(statuses.items()))},
        "actions": len(world.actions),
        "injections": len(world.injections),
        "template_rules": len(world.planner.templates),
        "prologue_turns": len(world.prologue),
        "turn_summaries": sum(turn.summary is not None for turn in world.prologue),
        "events": sum(len(turn.events) for turn in world.prologue),
        "narratives": len(world.narratives),
        "described_values": list(read_pairs(world.state)),
        "generated_ids": [f"{place.replace('/', '.')[1:]}: {name}" for name, place in list_made_ids(world.state)],
        "template_overrides": world.template_root is not None,
        "digest": world.digest,
    }
