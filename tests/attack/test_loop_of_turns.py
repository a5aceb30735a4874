"""While a large but legal input is worked on, the event loop goes on serving others; small inputs need no thread.

What these tests demand is in `nothing_holds_the_event_loop` of `conftest.py`, which watches every async test.
"""

from __future__ import annotations

import json
import threading
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from filament import parse_reply
from jacquard import BudgetConfig, HistoryConfig, LimitsConfig, RuntimeConfig, create_context_engine
from mnemosyne import MemoryStore, ToolCall
from mnemosyne.core.off_loop import calculate, size_of

LIMITS = LimitsConfig()
WIDE = RuntimeConfig(budget=BudgetConfig(max_input_tokens=1_000_000), history=HistoryConfig(max_tokens=400_000))
LONG_MESSAGE = "I ask “Lena” of the Key. " * (LIMITS.user_message_chars // 25)
LONG_REPLY = "<content>" + "She says nothing & waits. " * 14_000 + "</content>"
MANY_OPS = json.dumps([["SET", f"log.n{n}", {"id": f"n{n}", "text": "x" * 60}] for n in range(400)])
LONG_RESULT = "Write to a@b.co, or call. " * 7_000


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


@pytest.mark.anyio
async def test_the_loop_goes_on_while_a_long_message_is_prepared():
    async with engine_with() as engine:
        turn = await engine.prepare_turn("s", LONG_MESSAGE)
    assert turn.messages[-1].content.count("Lena") == LONG_MESSAGE.count("Lena")


@pytest.mark.anyio
async def test_the_loop_goes_on_while_a_turn_follows_long_messages():
    async with engine_with() as engine:
        for number in range(3):
            await engine.prepare_turn("s", f"{number} {LONG_MESSAGE}"[: LIMITS.user_message_chars])
            await engine.commit_assistant_message("s", "Yes.")
        assert (await engine.prepare_turn("s", "And then?")).messages


@pytest.mark.anyio
@pytest.mark.parametrize("reply", [LONG_REPLY, f"<content>Done.</content><state_update>{MANY_OPS}</state_update>"])
async def test_the_loop_goes_on_while_a_long_reply_is_read_and_judged(reply):
    assert len(reply) <= LIMITS.reply_chars
    async with engine_with(replace(WIDE, profile="story")) as engine:
        await engine.prepare_turn("s", "Go on.")
        done = await engine.commit_assistant_message("s", reply)
    assert done.content == parse_reply(reply).content


@pytest.mark.anyio
async def test_the_loop_goes_on_while_a_long_result_is_redacted():
    async with engine_with() as engine:
        await engine.prepare_turn("s", "Read it.")
        await engine.record_tool_call("s", ToolCall(tool_call_id="c", tool="read"), result=LONG_RESULT)
        await engine.prepare_turn("s", "And now?")


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
