"""End-to-end smoke test of an engine, for hosts that build one: prepare, call, commit, record.

Pass your engine and a session that it may fill; a broken promise raises AssertionError with a sentence. With pytest, inherit
`EngineSmoke` and override `open_engine`; each test gets a new engine.

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

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    ContextEngine,
    MissingChunksError,
    RuntimeConfig,
    ToolPairError,
    create_context_engine,
)
from mnemosyne.core.errors import EvidenceNotFoundError, TurnNotFoundError
from mnemosyne.schema.document import ModelUsage, ModelUsageStage, Task, TaskStatus, ToolCall
from mnemosyne.schema.session import Message, Ref, Role
from mnemosyne.stores.sqlite.memory import MemoryStore

SESSION = "smoke"


async def run_smoke(engine: ContextEngine, session_id: str = SESSION) -> None:
    """Run the whole chain once: prepare a turn, commit its reply, record a tool call and the model's usage.

    Raises AssertionError for the first broken promise.
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
    """The smoke test as a suite. Tests are async; run them with the anyio plugin of pytest."""

    pytestmark = pytest.mark.anyio

    def open_engine(self) -> AbstractAsyncContextManager[ContextEngine]:
        """Return the engine under test; a session begins with its first turn. Override this."""
        return _small()

    async def test_prepare_commit_record(self) -> None:
        """Prepare, call, commit, record."""
        async with self.open_engine() as engine:
            await run_smoke(engine)

    async def test_the_same_turn_is_answered_once(self) -> None:
        """The same input after the same turn is answered from its record, byte for byte; its commit too."""
        async with self.open_engine() as engine:
            first = await engine.prepare_turn(SESSION, "one")
            assert (await engine.prepare_turn(SESSION, "one")).text == first.text
            done = await engine.commit_assistant_message(SESSION, "two", turn_id=first.turn_id)
            again = await engine.commit_assistant_message(SESSION, "three", turn_id=first.turn_id)
            assert (again.content, again.version) == (done.content, done.version)

    async def test_what_was_said_is_in_the_next_prompt(self) -> None:
        """History is append-only and in order."""
        async with self.open_engine() as engine:
            for number in range(3):
                await engine.prepare_turn(SESSION, f"question {number}")
                await engine.commit_assistant_message(SESSION, f"answer {number}")
            turn = await engine.prepare_turn(SESSION, "and now?")
            places = [turn.text.index(f"{kind} {n}") for n in range(3) for kind in ("question", "answer")]
            assert places == sorted(places)

    async def test_a_reply_in_chunks_is_the_same_reply(self) -> None:
        """Chunks come in any order and more than once; a gap is named; nothing is written before the end."""
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
        """The tail follows the prompt unchanged; half of a tool call is refused."""
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
        """Tasks are written by id, new ones at the end."""
        async with self.open_engine() as engine:
            await engine.prepare_turn(SESSION, "plan")
            await engine.upsert_tasks(SESSION, [Task(task_id="a", name="first"), Task(task_id="b", depends_on=("a",))])
            await engine.upsert_tasks(SESSION, [Task(task_id="a", name="first", status=TaskStatus.COMPLETED)])
            assert [(task.task_id, task.status.value) for task in await engine.tasks(SESSION)] == [
                ("a", "completed"),
                ("b", "pending"),
            ]

    async def test_a_failure_leaves_nothing_behind(self) -> None:
        """Blocks that must be kept and do not fit raise an error, and so does a dangling ref; the session stays unchanged."""
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
