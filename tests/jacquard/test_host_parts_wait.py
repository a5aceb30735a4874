"""Parts of a host may wait on the event loop, wherever a turn calls them."""

from __future__ import annotations

from contextlib import asynccontextmanager

import anyio
import pytest
from engine_parts import ScriptedModel, small_engine

from jacquard import RuntimeConfig, SummaryConfig
from jacquard.config.sections import PlannerConfig
from mnemosyne import MemoryStore, RedactResult

pytestmark = pytest.mark.anyio


async def wait():
    await anyio.sleep(0.001)


class WaitingStore:
    """A store of a host: every method of it waits before it does its work."""

    def __init__(self):
        self.inner = MemoryStore()

    @property
    def damage_log(self):
        return self.inner.damage_log

    def __getattr__(self, name):
        method = getattr(self.inner, name)

        async def call(*args, **options):
            await wait()
            return await method(*args, **options)

        return call


class WaitingLocks:
    """Locks of a host that are elsewhere."""

    @asynccontextmanager
    async def hold(self, session_id):
        await wait()
        yield
        await wait()

    async def close(self):
        pass


class WaitingRedactor:
    async def redact(self, text, rules=None):
        await wait()
        found = "hunter2" in text
        return RedactResult(
            redacted_text=text.replace("hunter2", "***"), applied_rules=("words",) * found, has_sensitive=found
        )


async def test_every_part_that_a_host_may_give_waits_on_the_loop():
    heard, store = [], WaitingStore()

    async def hear(event):
        await wait()
        heard.append(event.event_type.value)

    model = ScriptedModel('["lore_elder"]')
    config = RuntimeConfig(
        planner=PlannerConfig(confidence_threshold=1.0),
        summary=SummaryConfig(trigger_message_count=1, preserve_recent_messages=1, timeout_ms=20_000),
    )
    async with small_engine(
        store=store, model=model, config=config, locks=WaitingLocks(), redactor=WaitingRedactor()
    ) as (engine, _, told):
        told.bus.on_all(hear)
        for number in range(3):
            turn = await engine.prepare_turn("s", f"村长的钥匙在哪里? hunter2 ({number})")
            await engine.commit_assistant_message("s", f"好。({number})" * 10)
        chunked = await engine.prepare_turn("s", "然后呢?")
        await engine.commit_assistant_chunk("s", "好", 0)
        result = await engine.finalize_assistant_message("s")
        dry = await engine.prepare_turn("s", "还有呢?", dry_run=True)
    assert "***" in turn.text
    assert "hunter2" not in turn.text
    assert "internal" not in {each.code for each in turn.report.degradations}
    assert heard == [event.event_type.value for event in told.events]
    assert result.turn_id == chunked.turn_id
    assert "还有呢" in dry.text
