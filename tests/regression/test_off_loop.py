"""While a large but legal input is worked on, the event loop goes on serving others; small inputs need no thread."""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from time import process_time, thread_time

import anyio
import pytest
from anyio.lowlevel import checkpoint

from filament import parse_reply
from jacquard import BudgetConfig, HistoryConfig, LimitsConfig, RuntimeConfig, create_context_engine
from mnemosyne import MemoryStore, ToolCall
from mnemosyne.core.off_loop import calculate, size_of

LIMITS = LimitsConfig()
WIDE = RuntimeConfig(budget=BudgetConfig(max_input_tokens=600_000), history=HistoryConfig(max_tokens=200_000))
LONG_MESSAGE = "I ask “Lena” of the Key. " * (LIMITS.user_message_chars // 25)
LONG_REPLY = "<content>" + "She says nothing & waits. " * 14_000 + "</content>"
MANY_OPS = json.dumps([["SET", f"log.n{n}", {"id": f"n{n}", "text": "x" * 60}] for n in range(400)])
LONG_RESULT = "Write to a@b.co, or call. " * 7_000


class Pulse:
    """Counts the turns of the event loop, and the most processor time that its thread spent between two of them."""

    def __init__(self):
        self.turns, self.longest, self.process = 0, 0.0, 0.0

    async def beat(self):
        last = thread_time()
        while True:
            await checkpoint()
            now = thread_time()
            self.turns, self.longest, last = self.turns + 1, max(self.longest, now - last), now


@asynccontextmanager
async def watched():
    """Watch the event loop while the block runs."""
    pulse, started = Pulse(), process_time()
    async with anyio.create_task_group() as group:
        group.start_soon(pulse.beat)
        yield pulse
        pulse.process = process_time() - started
        group.cancel_scope.cancel()


@asynccontextmanager
async def engine_with(config=WIDE):
    store = MemoryStore()
    try:
        async with create_context_engine(store, config=config) as engine:
            await engine.prepare_turn("s", "Hello.")
            await engine.commit_assistant_message("s", "Hi.")
            yield engine
    finally:
        await store.close()


def goes_on(pulse):
    assert pulse.turns > 20
    assert pulse.longest < pulse.process / 4, f"{pulse.longest:.3f} of {pulse.process:.3f} s were spent on the loop"


@pytest.mark.anyio
async def test_the_loop_goes_on_while_a_long_message_is_prepared():
    async with engine_with() as engine, watched() as pulse:
        turn = await engine.prepare_turn("s", LONG_MESSAGE)
    assert turn.messages[-1].content.count("Lena") == LONG_MESSAGE.count("Lena")
    goes_on(pulse)


@pytest.mark.anyio
async def test_the_loop_goes_on_while_a_turn_follows_long_messages():
    async with engine_with() as engine:
        for number in range(3):
            await engine.prepare_turn("s", f"{number} {LONG_MESSAGE}"[: LIMITS.user_message_chars])
            await engine.commit_assistant_message("s", "Yes.")
        async with watched() as pulse:
            await engine.prepare_turn("s", "And then?")
    goes_on(pulse)


@pytest.mark.anyio
@pytest.mark.parametrize("reply", [LONG_REPLY, f"<content>Done.</content><state_update>{MANY_OPS}</state_update>"])
async def test_the_loop_goes_on_while_a_long_reply_is_read_and_judged(reply):
    assert len(reply) <= LIMITS.reply_chars
    async with engine_with() as engine:
        await engine.prepare_turn("s", "Go on.")
        async with watched() as pulse:
            done = await engine.commit_assistant_message("s", reply)
    assert done.content == parse_reply(reply).content
    goes_on(pulse)


@pytest.mark.anyio
async def test_the_loop_goes_on_while_a_long_result_is_redacted():
    async with engine_with() as engine:
        await engine.prepare_turn("s", "Read it.")
        async with watched() as pulse:
            await engine.record_tool_call("s", ToolCall(tool_call_id="c", tool="read"), result=LONG_RESULT)
    goes_on(pulse)


@pytest.mark.anyio
async def test_what_is_small_is_calculated_where_it_stands_and_what_is_large_in_a_thread():
    here = threading.get_ident()
    assert await calculate(threading.get_ident, size=size_of("short", {"a": [1, 2, "three"]})) == here
    assert await calculate(threading.get_ident, size=size_of(LONG_MESSAGE)) != here
    assert await calculate(threading.get_ident, size=size_of({"a": [{"b": n} for n in range(1_000)]})) != here


def test_the_size_of_a_tree_is_told_without_reading_all_of_it():
    class Unread(dict):
        def values(self):
            raise AssertionError("it was read although it is large by its number of fields")

    assert size_of(Unread.fromkeys(map(str, range(10_000)))) > 4_000
