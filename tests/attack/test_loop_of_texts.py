"""Hostile texts as long as an input may be, through the engine: nothing holds the event loop, which `conftest.py` watches."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest
from generators import GENERATORS
from text_entries import EXAMPLES, LIMITS

from jacquard import BudgetConfig, HistoryConfig, RuntimeConfig, open_runtime
from mnemosyne import ToolCall

WIDE = RuntimeConfig(budget=BudgetConfig(max_input_tokens=3_000_000), history=HistoryConfig(max_tokens=1_500_000))
OTHERS = ("english", "random tags", "distinct names", "random secrets", "a list of objects", "chinese")


def texts(short: str) -> pytest.MarkDecorator:
    """Return the generators that a test is run for: one in the suite, the others in its long form."""
    others = [pytest.param(name, marks=pytest.mark.full) for name in OTHERS if name != short]
    return pytest.mark.parametrize("generator", [short, *others])


@asynccontextmanager
async def played():
    async with open_runtime("memory:", world=EXAMPLES / "en", embedder="none", config=WIDE) as runtime:
        await runtime.ensure_session("s")
        await runtime.engine.prepare_turn("s", "Hello.")
        await runtime.engine.commit_assistant_message("s", "Hi.")
        yield runtime.engine


async def play_on(engine):
    """Play two more turns: what was long is history, then summary, now."""
    for text in ("And then?", "Where is the key?"):
        await engine.prepare_turn("s", text)
        await engine.commit_assistant_message("s", "Nothing.")
    await engine.settle(60)


@pytest.mark.anyio
@texts("distinct names")
async def test_a_message_as_long_as_it_may_be_holds_nothing_up(generator):
    async with played() as engine:
        await engine.prepare_turn("s", GENERATORS[generator](LIMITS.user_message_chars))
        await engine.commit_assistant_message("s", "Yes.")
        await play_on(engine)


@pytest.mark.anyio
@texts("marks on one letter")
async def test_a_reply_as_long_as_it_may_be_holds_nothing_up(generator):
    async with played() as engine:
        await engine.prepare_turn("s", "Tell me.")
        await engine.commit_assistant_message("s", GENERATORS[generator](LIMITS.reply_chars))
        await play_on(engine)


@pytest.mark.anyio
async def test_a_reply_in_chunks_holds_nothing_up():
    async with played() as engine:
        await engine.prepare_turn("s", "Tell me.")
        text, size = GENERATORS["english sentences"](LIMITS.reply_chars), 50_000
        for number in range(len(text) // size):
            await engine.commit_assistant_chunk("s", text[number * size : (number + 1) * size], number)
        await engine.finalize_assistant_message("s")
        await play_on(engine)


@pytest.mark.anyio
@texts("a list of objects")
async def test_a_tool_result_as_long_as_it_may_be_holds_nothing_up(generator):
    async with played() as engine:
        await engine.prepare_turn("s", "Look.")
        call = ToolCall(tool_call_id="c", tool="read", args_digest={"path": GENERATORS[generator](4_000)})
        await engine.record_tool_call("s", call, result=GENERATORS[generator](LIMITS.tool_result_chars))
        await engine.commit_assistant_message("s", "I see.")
        await play_on(engine)
