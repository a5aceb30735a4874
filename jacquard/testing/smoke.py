"""Smoke test for hosts that build an engine: prepare a turn, commit its reply, record a tool call and a usage.

Call `run_smoke` with your engine and a session that the test may fill. If a check fails, `run_smoke` raises
AssertionError with a sentence. With pytest, subclass `EngineSmoke` and override `open_engine`; each test then gets a
new engine.

    class TestMyEngine(EngineSmoke):
        @asynccontextmanager
        async def open_engine(self):
            async with create_context_engine(MyStore()) as engine:
                yield engine
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from jacquard import BudgetConfig, BudgetExceededError, ContextEngine, RuntimeConfig, create_context_engine
from jacquard.core.errors import MissingChunksError, ToolPairError
from mnemosyne import (
    EvidenceNotFoundError,
    MemoryStore,
    Message,
    ModelUsage,
    ModelUsageStage,
    Ref,
    Role,
    Task,
    TaskStatus,
    ToolCall,
)
from mnemosyne.core.errors import TurnNotFoundError

SESSION = "smoke"
"""Session in which the tests of `EngineSmoke` play."""


async def run_smoke(engine: ContextEngine, session_id: str = SESSION) -> None:
    """Prepare a turn, commit its reply, record a tool call and a model usage. Check each result.

    Raises AssertionError at the first check that fails.
    """
    turn = await engine.prepare_turn(session_id, Message(role=Role.USER, content="hello"), RuntimeConfig())
    assert turn.assembled_input.total_tokens > 0, "a prompt costs something"
    assert turn.messages[-1].content.endswith("hello"), "the input is the last thing that the model reads"
    assert not turn.report.errors, "a turn that stands has no errors"
    assert turn.report.plan["tier"] >= 0, "the receipt names the tier of the plan"
    spent = sum(span.tokens for span in turn.report.spans)
    assert spent == turn.report.budget.used_tokens, "the tokens of the blocks add up to the prompt"
    done = await engine.commit_assistant_message(session_id, Message(role=Role.ASSISTANT, content="hi"))
    assert done.turn_id == turn.turn_id, "a reply goes to the turn that waits for it"
    await engine.record_tool_call(session_id, ToolCall(tool_call_id="smoke-tool", tool="clock"))
    usage = ModelUsage(model_usage_id="smoke-usage", model="any", stage=ModelUsageStage.ANSWER)
    result = await engine.record_model_usage(session_id, usage, turn_id=turn.turn_id)
    assert result.version > done.version, "what was recorded is written"


class EngineSmoke:
    """Smoke test as a suite for pytest. Its tests are async and run with the anyio plugin."""

    pytestmark = pytest.mark.anyio

    def open_engine(self) -> AbstractAsyncContextManager[ContextEngine]:
        """Return the engine under test. It must start a missing session with the session's first turn. Override this."""
        return _small()

    async def test_prepare_commit_record(self) -> None:
        """Check the chain of `run_smoke`."""
        async with self.open_engine() as engine:
            await run_smoke(engine)

    async def test_the_same_turn_is_answered_once(self) -> None:
        """Check that the same input after the same turn is answered from its record, byte for byte, and that a repeated
        commit returns the same result.
        """
        async with self.open_engine() as engine:
            first = await engine.prepare_turn(SESSION, "one")
            assert (await engine.prepare_turn(SESSION, "one")).text == first.text
            done = await engine.commit_assistant_message(SESSION, "two", turn_id=first.turn_id)
            again = await engine.commit_assistant_message(SESSION, "three", turn_id=first.turn_id)
            assert (again.content, again.version) == (done.content, done.version)

    async def test_what_was_said_is_in_the_next_prompt(self) -> None:
        """Check that the next prompt has all earlier messages in their order."""
        async with self.open_engine() as engine:
            for number in range(3):
                await engine.prepare_turn(SESSION, f"question {number}")
                await engine.commit_assistant_message(SESSION, f"answer {number}")
            turn = await engine.prepare_turn(SESSION, "and now?")
            places = [turn.text.index(f"{kind} {n}") for n in range(3) for kind in ("question", "answer")]
            assert places == sorted(places)

    async def test_a_reply_in_chunks_is_the_same_reply(self) -> None:
        """Check that chunks may come in any order and more than once, that a gap is named, and that the reply is
        committed at the end.
        """
        async with self.open_engine() as engine:
            turn = await engine.prepare_turn(SESSION, "tell me")
            for index, chunk in ((2, "!"), (0, "one "), (0, "one ")):
                await engine.commit_assistant_chunk(SESSION, chunk, index)
            with pytest.raises(MissingChunksError) as caught:
                await engine.finalize_assistant_message(SESSION)
            assert caught.value.missing == (1,)
            await engine.commit_assistant_chunk(SESSION, "two", 1)
            done = await engine.finalize_assistant_message(SESSION)
            assert (done.turn_id, done.content) == (turn.turn_id, "one two!")
            assert (await engine.finalize_assistant_message(SESSION)).content == "one two!"

    async def test_a_tool_loop_keeps_its_tail(self) -> None:
        """Check that tool calls and results follow the prompt unchanged, and that a call without its result is refused."""
        async with self.open_engine() as engine:
            turn = await engine.prepare_turn(SESSION, "what time is it?")
            call: dict[str, Any] = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function"}],
            }
            tail: list[dict[str, Any]] = [call, {"role": "tool", "tool_call_id": "c1", "content": "noon"}]
            messages = await engine.assemble(SESSION, turn.turn_id, tail)
            assert messages[-2:] == tail
            assert len(messages) == len(turn.messages) + 2
            with pytest.raises(ToolPairError):
                await engine.assemble(SESSION, turn.turn_id, [call])

    async def test_tasks_are_kept(self) -> None:
        """Check that tasks are written by id, and that new ones come last."""
        async with self.open_engine() as engine:
            await engine.prepare_turn(SESSION, "plan")
            await engine.upsert_tasks(SESSION, [Task(task_id="a", name="first"), Task(task_id="b", depends_on=("a",))])
            await engine.upsert_tasks(SESSION, [Task(task_id="a", name="first", status=TaskStatus.COMPLETED)])
            assert [(task.task_id, task.status.value) for task in await engine.tasks(SESSION)] == [
                ("a", "completed"),
                ("b", "pending"),
            ]

    async def test_a_failure_leaves_nothing_behind(self) -> None:
        """Check that a turn that does not fit and a ref to unknown evidence raise errors, and leave the session
        unchanged.
        """
        async with self.open_engine() as engine:
            small = RuntimeConfig(budget=BudgetConfig(max_input_tokens=40, reserved_reply_tokens=10))
            await engine.prepare_turn(SESSION, "first", turn_id="t1")
            with pytest.raises(BudgetExceededError):
                await engine.prepare_turn(SESSION, "second", small, turn_id="t2")
            with pytest.raises(EvidenceNotFoundError):
                await engine.commit_assistant_message(SESSION, "x", turn_id="t1", refs=[Ref(evidence_id="nowhere")])
            assert (await engine.commit_assistant_message(SESSION, "y", turn_id="t1")).content == "y"
            with pytest.raises(TurnNotFoundError):
                await engine.commit_assistant_message(SESSION, "z", turn_id="t2")


@asynccontextmanager
async def _small() -> AsyncIterator[ContextEngine]:
    store = MemoryStore()
    try:
        async with create_context_engine(store) as engine:
            yield engine
    finally:
        await store.close()
