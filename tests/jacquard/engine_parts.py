"""Small models that answer from a script, and engines in memory, for the tests of the engine."""

from __future__ import annotations

from contextlib import asynccontextmanager

from forest_parts import WORLD
from servers.scripted_model import ScriptedModel

from jacquard import (
    InMemoryEventBus,
    ModelError,
    create_context_engine,
)
from mnemosyne import MemoryStore

PLANNED = {
    "active_quest_id": "q_002",
    "current_goal": "Bring the lamb home before dark.",
    "template_id": "chat",
    "focus_keywords": ["Lamb", "fold"],
    "temporal_context": "past",
    "domain_weight": {"narrative": 0.9, "lore": 0.1, "event": 0.4},
}


class Told:
    """Listens to a bus."""

    def __init__(self, bus):
        self.bus, self.events = bus, []
        bus.on_all(self.events.append)

    def of(self, kind):
        return [event for event in self.events if event.event_type.value == kind]

    def reasons(self, kind="Degraded"):
        return [event.payload["reason"] for event in self.of(kind)]


@asynccontextmanager
async def small_engine(*, model=None, config=None, world=WORLD, store=None, **parts):
    """An engine over the small forest in memory; yields (engine, store, what it told)."""
    own = store or MemoryStore()
    bus = InMemoryEventBus()
    told = Told(bus)
    try:
        async with create_context_engine(
            own, llm_adapter=model, config=config, world=world, event_bus=bus, **parts
        ) as engine:
            yield engine, own, told
    finally:
        await own.close()


__all__ = ["PLANNED", "WORLD", "ModelError", "ScriptedModel", "Told", "small_engine"]
