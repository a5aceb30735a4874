"""Contract suite of an engine: subclass `EngineContract`, override `open_engine`, and run pytest.

    from jacquard.testing.engine import EngineContract

    class TestMyEngine(EngineContract):
        @asynccontextmanager
        async def open_engine(self, folder: Path) -> AsyncIterator[Engine]:
            async with MyEngine(folder) as engine:
                yield engine

Each test calls `open_engine` with a fresh folder. Some tests call it again with the same folder, to check what remains
after the engine was closed. The engine must start missing sessions by itself, without a world (the setting `profile:
assistant`). The tests run under the anyio plugin of pytest, so the fixture `anyio_backend` chooses the event loop. An
engine in the process and the engine of a service keep the same rules:

1. The same input after the same turn is the same turn, and an id names a turn. A repeated call is answered from the
   record.
2. A turn is pending until its reply is committed. A second commit returns the result of the first.
3. A reply is refused if no turn is pending, or if another input replaced its turn.
4. Chunks of a reply may come in any order and more than once. A reply with a gap is refused and can be completed.
5. A swipe prepares the same input on another branch, without the former reply. `switch` brings that reply back.
6. A rollback leaves later turns on their branch. A fork opens a branch after any committed turn.
7. An edited message has its new text in later prompts. Its former branch keeps the old text.
8. Messages that are adopted twice exist once, with their roles, authors and ids.
9. A tool call that has begun is ended by its id. A call and its result are linked.
10. Facts about a user are in the prompts of that user's sessions. Of one topic, the later fact is valid.
11. Tasks are written and replaced by id.
12. A failed call changes nothing. Its error has the class that the engine names, and its attributes.
13. Calls on one session run one after another, and sessions do not see each other.
14. Acknowledged data exist after the engine was closed and opened again.
15. Any text comes back unchanged: Chinese, control characters, half a kilobyte of brackets.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import anyio
import pytest

from jacquard import ChatMessage, CommitResult, ConfigError, InputTooLargeError, PreparedTurn
from jacquard.core.errors import ChunkConflictError, MissingChunksError
from mnemosyne import (
    Author,
    AuthorKind,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    FactKind,
    Message,
    ModelUsage,
    PutResult,
    Ref,
    Role,
    SessionNotFoundError,
    SourceKind,
    Task,
    ToolCall,
    ToolCallStatus,
    UserFact,
)
from mnemosyne.core.errors import BranchExistsError, BranchNotFoundError, NoPendingTurnError, TurnNotFoundError
from mnemosyne.schema.session import SessionHead

STRANGE = "门开了吗？<b>&amp;</b> {{ x }} \x1b[31m\u202e" + "[(" * 250
"""Text with signs that are often changed on their way: Chinese, markup, control characters, brackets."""


class Engine(Protocol):
    """Engine under test. These are the methods that the suite calls by name; `jacquard.ContextEngine` has more."""

    async def prepare_turn(
        self, session_id: str, user_message: ChatMessage, *, turn_id: str | None = None, branch_id: str | None = None
    ) -> PreparedTurn:
        """Do the same as `ContextEngine.prepare_turn`."""
        ...

    async def commit_assistant_message(
        self,
        session_id: str,
        assistant_message: ChatMessage,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
    ) -> CommitResult:
        """Do the same as `ContextEngine.commit_assistant_message`."""
        ...

    def __getattr__(self, name: str) -> Any:
        """Return any other method of `jacquard.ContextEngine`."""
        ...


async def play(engine: Engine, session_id: str, text: str, reply: str) -> CommitResult:
    """Prepare a turn and commit its reply."""
    turn = await engine.prepare_turn(session_id, text)
    return await engine.commit_assistant_message(session_id, reply, turn_id=turn.turn_id)


def texts_of(turn: PreparedTurn) -> str:
    """Return the whole prompt of a turn as one text."""
    return "\n".join(message.content for message in turn.messages)


class EngineContract:
    """Tests of the rules that every engine keeps. The docstring of the module has the rules and an example."""

    pytestmark = pytest.mark.anyio

    def open_engine(self, folder: Path) -> AbstractAsyncContextManager[Engine]:
        """Return the engine under test, over a store in `folder`. Override this."""
        raise NotImplementedError

    async def test_rule_1_the_same_input_is_the_same_turn(self, tmp_path: Path) -> None:
        """Check rule 1 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            first = await engine.prepare_turn("s", "Is the gate open?")
            assert await engine.prepare_turn("s", "Is the gate open?") == first
            named = await engine.prepare_turn("named", "Hello.", turn_id="mine")
            await engine.commit_assistant_message("named", "Hello to you.", turn_id="mine")
            again = await engine.prepare_turn("named", "Hello.", turn_id="mine")
            assert (again.turn_id, again.messages) == ("mine", named.messages)

    async def test_rule_1_a_prompt_has_the_input_and_a_receipt(self, tmp_path: Path) -> None:
        """Check rule 1 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            await play(engine, "s", "My cat is called Miso.", "A fine name.")
            turn = await engine.prepare_turn("s", "What is my cat called?")
            assert turn.messages[-1].content.endswith("What is my cat called?")
            assert "Miso" in texts_of(turn)
            assert turn.report.budget.used_tokens > 0
            assert sum(span.tokens for span in turn.report.spans) == turn.report.budget.used_tokens
            assert [dict(each) for each in turn.messages] == await engine.assemble("s", turn.turn_id)
            assert turn.to_openai()[-1]["role"] == "user"

    async def test_rule_2_a_reply_is_committed_once(self, tmp_path: Path) -> None:
        """Check rule 2 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "Hello.")
            first = await engine.commit_assistant_message("s", "Good day.", turn_id=turn.turn_id)
            assert first.content == "Good day."
            assert await engine.commit_assistant_message("s", "Good day.", turn_id=turn.turn_id) == first
            heads = await engine.branches("s")
            assert [head.turn_id for head in heads] == [turn.turn_id]

    async def test_rule_3_a_reply_without_a_turn_is_refused(self, tmp_path: Path) -> None:
        """Check rule 3 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            with pytest.raises(SessionNotFoundError) as unknown:
                await engine.commit_assistant_message("nobody", "Hello.")
            assert unknown.value.session_id == "nobody"
            await play(engine, "s", "Hello.", "Good day.")
            with pytest.raises(NoPendingTurnError):
                await engine.commit_assistant_message("s", "And another one.")
            with pytest.raises(TurnNotFoundError) as missing:
                await engine.commit_assistant_message("s", "And another one.", turn_id="never")
            assert missing.value.turn_id == "never"

    async def test_rule_4_chunks_come_in_any_order(self, tmp_path: Path) -> None:
        """Check rule 4 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "Count.")
            for number in (2, 0, 2):
                await engine.commit_assistant_chunk("s", f"part {number} ", number, turn_id=turn.turn_id)
            with pytest.raises(ChunkConflictError):
                await engine.commit_assistant_chunk("s", "something else", 0, turn_id=turn.turn_id)
            with pytest.raises(MissingChunksError):
                await engine.finalize_assistant_message("s", turn_id=turn.turn_id)
            await engine.commit_assistant_chunk("s", "part 1 ", 1, turn_id=turn.turn_id)
            done = await engine.finalize_assistant_message("s", turn_id=turn.turn_id)
            assert done.content.strip() == "part 0 part 1 part 2"

    async def test_rule_4_chunks_can_be_forgotten(self, tmp_path: Path) -> None:
        """Check rule 4 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "Count.")
            await engine.commit_assistant_chunk("s", "one", 0)
            assert await engine.abort_assistant_message("s") == 1
            done = await engine.commit_assistant_message("s", "Two.", turn_id=turn.turn_id)
            assert done.content == "Two."

    async def test_rule_5_a_swipe_is_a_branch(self, tmp_path: Path) -> None:
        """Check rule 5 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            await play(engine, "s", "A drink?", "Tea, please.")
            turn = await engine.swipe("s")
            assert "Tea, please." not in texts_of(turn)
            await engine.commit_assistant_message("s", "Coffee, please.", turn_id=turn.turn_id)
            heads = await engine.branches("s")
            assert len(heads) == 2
            assert "Coffee" in texts_of(await engine.prepare_turn("s", "With sugar?"))
            await engine.switch("s", heads[1].branch_id)
            assert "Tea, please." in texts_of(await engine.prepare_turn("s", "With sugar?"))

    async def test_rule_5_a_retry_is_the_newest_input(self, tmp_path: Path) -> None:
        """Check rule 5 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "A drink?")
            assert (await engine.retry("s")).turn_id == turn.turn_id

    async def test_rule_6_a_rollback_keeps_what_followed(self, tmp_path: Path) -> None:
        """Check rule 6 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            first = await play(engine, "s", "One.", "First.")
            second = await play(engine, "s", "Two.", "Second.")
            head = await engine.rollback("s", first.turn_id)
            assert head.turn_id == first.turn_id
            assert {each.turn_id for each in await engine.branches("s")} == {first.turn_id, second.turn_id}
            forked = await engine.fork("s", second.turn_id, "again")
            assert (forked.branch_id, forked.turn_id) == ("again", second.turn_id)
            with pytest.raises(BranchExistsError):
                await engine.fork("s", first.turn_id, "again")
            with pytest.raises(BranchNotFoundError) as unknown:
                await engine.switch("s", "nowhere")
            assert unknown.value.branch_id == "nowhere"
            with pytest.raises(TurnNotFoundError):
                await engine.rollback("s", "never")

    async def test_rule_7_an_edited_message_has_its_new_text(self, tmp_path: Path) -> None:
        """Check rule 7 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            done = await play(engine, "s", "The code word is heron.", "I see.")
            await engine.edit_message("s", f"{done.turn_id}.u", "The code word is otter.")
            text = texts_of(await engine.prepare_turn("s", "What is the code word?"))
            assert "otter" in text
            assert "heron" not in text

    async def test_rule_8_adopted_messages_are_there_once(self, tmp_path: Path) -> None:
        """Check rule 8 of the list in the module's docstring."""
        said: list[ChatMessage] = [
            Message(
                role=Role.USER,
                content="I am Ada.",
                message_id="m1",
                author=Author(kind=AuthorKind.USER, id="ada"),
                at=datetime(2026, 1, 2, tzinfo=UTC),
            ),
            {"role": "assistant", "content": "Welcome, Ada."},
        ]
        async with self.open_engine(tmp_path) as engine:
            head: SessionHead = await engine.adopt_messages("s", said)
            assert (await engine.adopt_messages("s", said)).turn_id == head.turn_id
            text = texts_of(await engine.prepare_turn("s", "Who am I?"))
            assert text.count("I am Ada.") == 1

    async def test_rule_9_a_tool_call_is_ended_by_its_id(self, tmp_path: Path) -> None:
        """Check rule 9 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "How warm is it?")
            begun = ToolCall(tool_call_id="c1", tool="weather", status=ToolCallStatus.RUNNING)
            assert isinstance(await engine.record_tool_call("s", begun), PutResult)
            ended = ToolCall(tool_call_id="c1", tool="weather", status=ToolCallStatus.SUCCESS)
            await engine.record_tool_call("s", ended, result="It is 31 degrees in Oslo.")
            again = await engine.prepare_turn("s", "How warm is it?")
            assert "31 degrees" in texts_of(again)
            assert again.turn_id == turn.turn_id
            with pytest.raises(EvidenceNotFoundError) as missing:
                await engine.record_tool_call("s", ToolCall(tool_call_id="c2", tool="weather"), ["never"])
            assert missing.value.evidence_id == "never"

    async def test_rule_9_a_usage_belongs_to_its_turn(self, tmp_path: Path) -> None:
        """Check rule 9 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "Hello.")
            usage = ModelUsage(model_usage_id="u1", provider="p", model="m", prompt_tokens=10, total_tokens=10)
            done = await engine.record_model_usage("s", usage, turn_id=turn.turn_id)
            assert done.success
            with pytest.raises(TurnNotFoundError):
                await engine.record_model_usage("s", usage, turn_id="never")

    async def test_rule_9_evidence_is_taken_in_once(self, tmp_path: Path) -> None:
        """Check rule 9 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            await play(engine, "s", "Hello.", "Good day.")
            ingestor, source = engine.ingestor_of("s"), EvidenceSource(kind=SourceKind.TOOL, name="search", uri="u:1")
            first = await ingestor.ingest("The ferry leaves at nine.", source, EvidenceType.TOOL_RESULT)
            second = await ingestor.ingest("The ferry leaves at nine.", source, EvidenceType.TOOL_RESULT)
            assert first.is_new
            assert not second.is_new
            assert second.evidence_id == first.evidence_id

    async def test_rule_10_facts_hold_in_time(self, tmp_path: Path) -> None:
        """Check rule 10 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            oslo = UserFact(text="Ada lives in Oslo.", topic="home", kind=FactKind.CORE_PROFILE)
            rome = UserFact(text="Ada lives in Rome.", topic="home", kind=FactKind.CORE_PROFILE)
            await engine.remember("ada", [oslo])
            (stored,) = await engine.remember("ada", [rome])
            assert stored.fact_id
            facts = await engine.user_facts("ada")
            assert [(fact.text, fact.valid_to is None) for fact in facts] == [(oslo.text, False), (rome.text, True)]
            said = Message(role=Role.USER, content="Where do I live?", author=Author(kind=AuthorKind.USER, id="ada"))
            assert "Rome" in texts_of(await engine.prepare_turn("s", said))
            with pytest.raises(ConfigError):
                await engine.remember("ada", [UserFact(text=" ")])

    async def test_rule_11_tasks_are_replaced_by_id(self, tmp_path: Path) -> None:
        """Check rule 11 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            await play(engine, "s", "Hello.", "Good day.")
            await engine.upsert_tasks("s", [Task(task_id="t1", name="Write"), Task(task_id="t2", name="Send")])
            await engine.upsert_tasks("s", [Task(task_id="t1", name="Rewrite")])
            assert [task.name for task in await engine.tasks("s")] == ["Rewrite", "Send"]

    async def test_rule_12_what_fails_changes_nothing(self, tmp_path: Path) -> None:
        """Check rule 12 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            await play(engine, "s", "Hello.", "Good day.")
            before = await engine.branches("s")
            with pytest.raises(InputTooLargeError):
                await engine.prepare_turn("s", "x" * 2_000_000)
            with pytest.raises(ConfigError):
                await engine.prepare_turn("s", " ")
            with pytest.raises(ConfigError):
                await engine.prepare_turn("s", {"role": "nobody", "content": "x"})
            assert await engine.branches("s") == before

    async def test_rule_13_sessions_do_not_see_each_other(self, tmp_path: Path) -> None:
        """Check rule 13 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:

            async def talk(name: str) -> None:
                for number in range(3):
                    await play(engine, name, f"{name} says {number}", f"Heard {name} {number}.")

            async with anyio.create_task_group() as group:
                for name in ("anna", "bert", "chen"):
                    group.start_soon(talk, name)
            for name in ("anna", "bert", "chen"):
                text = texts_of(await engine.prepare_turn(name, "And now?"))
                others = {"anna", "bert", "chen"} - {name}
                assert text.count(f"{name} says") == 3
                assert not any(f"{other} says" in text for other in others)

    async def test_rule_13_calls_on_a_session_are_serial(self, tmp_path: Path) -> None:
        """Check rule 13 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            turn = await engine.prepare_turn("s", "Hello.")
            done: list[CommitResult] = []

            async def commit() -> None:
                done.append(await engine.commit_assistant_message("s", "Good day.", turn_id=turn.turn_id))

            async with anyio.create_task_group() as group:
                for _ in range(4):
                    group.start_soon(commit)
            assert done == [done[0]] * 4
            text = texts_of(await engine.prepare_turn("s", "And now?"))
            assert text.count("Good day.") == 1

    async def test_rule_14_what_was_acknowledged_is_there_later(self, tmp_path: Path) -> None:
        """Check rule 14 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            done = await play(engine, "s", "The password is heron.", "Noted.")
            pending = await engine.prepare_turn("s", "What is it?")
        async with self.open_engine(tmp_path) as engine:
            assert [head.turn_id for head in await engine.branches("s")] == [done.turn_id]
            again = await engine.prepare_turn("s", "What is it?")
            assert (again.turn_id, again.messages) == (pending.turn_id, pending.messages)

    async def test_rule_15_texts_come_back_as_they_were(self, tmp_path: Path) -> None:
        """Check rule 15 of the list in the module's docstring."""
        async with self.open_engine(tmp_path) as engine:
            done = await play(engine, "蓝/s %2F", STRANGE, STRANGE)
            assert done.content == STRANGE
            turn = await engine.prepare_turn("蓝/s %2F", "And then?")
            assert turn.session_id == "蓝/s %2F"
            assert sum(STRANGE in message.content for message in turn.messages) == 2
