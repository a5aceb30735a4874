"""Small models that answer from a script, and engines in memory, for the tests of the engine."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
from forest_parts import WORLD

from jacquard import InMemoryEventBus, LlmResponse, ModelError, create_context_engine
from mnemosyne import MemoryStore

PLANNED = {
    "active_quest_id": "q_002",
    "current_goal": "Bring the lamb home before dark.",
    "template_id": "chat",
    "focus_keywords": ["Lamb", "fold"],
    "temporal_context": "past",
    "domain_weight": {"narrative": 0.9, "lore": 0.1, "event": 0.4},
}


class ScriptedModel:
    """Answers in turn: a text, an object (as JSON), an error to raise, or `hang`; the last step stands for all later calls."""

    model = "scripted/small"

    def __init__(self, *steps):
        self.steps, self.requests = list(steps), []

    async def warm(self):
        return None

    async def close(self):
        return None

    async def generate(self, request):
        self.requests.append(request)
        step = self.steps[min(len(self.requests), len(self.steps)) - 1]
        if isinstance(step, Exception):
            raise step
        if step == "hang":
            await anyio.sleep_forever()
        text = step if isinstance(step, str) else json.dumps(step, ensure_ascii=False)
        return LlmResponse(content=text, model=self.model, prompt_tokens=120, completion_tokens=30)


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
