"""The world of a session that was imported without a pack: nothing but a plain instruction."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from mnemosyne.schema.world import PlannerRules, WorldPack

BARE_WORLDS = ("", "bare")
"""The worlds of sessions that began without a pack: imported ones, and those that `create_context_engine` starts by itself."""

_INSTRUCTION = (
    "You are a helpful agent in a long conversation. Answer from what the context layers and the conversation hold; "
    "say so when they do not hold the answer."
)


@lru_cache(maxsize=64)
def bare_world(world_id: str) -> WorldPack:
    """Return a world without lore, quests, actions or rules."""
    return WorldPack(
        world_id=world_id,
        title=world_id,
        locale="en",
        instruction=_INSTRUCTION,
        persona={},
        state={},
        entities=(),
        lore=(),
        actions=(),
        planner=PlannerRules(),
        prologue=(),
        narratives=(),
        digest="bare",
    )


def world_of(worlds: Mapping[str, WorldPack], world_id: str) -> WorldPack:
    """Return a known world by its id, else a bare one."""
    return worlds.get(world_id) or bare_world(world_id)
