"""The engine's records: links both ways, chunks under a clock, corrections."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree

import pytest
from engine_parts import small_engine

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    ConfigError,
    CurationConfig,
    ObservabilityConfig,
    RuntimeConfig,
    open_runtime,
    read_snapshot,
)
from jacquard.config.sections import ChunkConfig
from jacquard.core.errors import MissingChunksError
from jacquard.pipeline.record.prepared_turn import turn_from_record
from mnemosyne import (
    Evidence,
    EvidenceNotFoundError,
    EvidenceSource,
    EvidenceType,
    ModelUsage,
    ModelUsageStage,
    Ref,
    SourceKind,
    Task,
    ToolCall,
    ToolProvider,
)
from mnemosyne.core import codec
from mnemosyne.privacy.redact import RegexRedactor

FOREST = Path("examples/whispering_forest/zh")
pytestmark = pytest.mark.anyio
PLAIN = RuntimeConfig(curation=CurationConfig(enabled=False))


class SetClock:
    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self):
        return self.time


def result(name, kind=EvidenceType.TOOL_RESULT):
    source = EvidenceSource(kind=SourceKind.TOOL, name="getOrder", uri=f"tool://{name}")
    return Evidence(evidence_id=name, type=kind, source=source, content=f"content of {name}")


async def test_a_tool_call_and_its_results_name_each_other_and_their_task():
    async with small_engine(config=PLAIN, redactor=RegexRedactor()) as (engine, store, told):
        await engine.prepare_turn("s", "where is my order?")
        await engine.upsert_tasks("s", [Task(task_id="t", name="find the order")])
        await store.put_evidence("s", result("e1"))
        call = ToolCall(
            tool_call_id="c1",
            tool="getOrder",
            provider=ToolProvider(name="orders", uri="mcp://orders"),
            args_digest={"mail": "ann@example.org", "order": 17},
            task_id="t",
            duration_ms=37,
        )
        await engine.record_tool_call("s", call, ["e1"])
        again = await engine.record_tool_call("s", call, ["e1"])
        document = await store.get_session("s")
        with pytest.raises(EvidenceNotFoundError):
            await engine.record_tool_call("s", replace(call, tool_call_id="c2"), ["nowhere"])
        assert (await store.head("s")).version == again.version
    (kept,) = document.session.tool_state.tool_calls
    assert kept.result_evidence_ids == ("e1",)
    assert "ann@example.org" not in str(kept.args_digest)
    assert kept.args_digest["order"] == 17
    assert document.evidences["e1"].links.tool_call_id == "c1"
    assert document.session.task_state.todo_list.tasks[0].result_evidence_ids == ("e1",)
    assert [e.tool_call_id for e in told.of("ToolCalled") + told.of("ToolCallCompleted")] == ["c1", "c1", "c1", "c1"]


async def test_the_sequence_of_section_7_is_persisted_with_its_links():
    async with small_engine() as (engine, store, told):
        turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
        await engine.commit_assistant_chunk("s", "在他", 0)
        await engine.commit_assistant_chunk("s", "腰间。", 1)
        recalled = turn.evidences[0].evidence_id
        done = await engine.finalize_assistant_message("s", [Ref(evidence_id=recalled)])
        await store.put_evidence("s", result("answer", EvidenceType.LLM_OUTPUT))
        usage = ModelUsage(model_usage_id="u1", model="big", stage=ModelUsageStage.ANSWER, prompt_tokens=900)
        await engine.record_model_usage("s", usage, "answer", turn_id=turn.turn_id)
        document = await store.get_session("s")
    said, answered = document.session.messages
    assert (said.content, answered.content) == ("村长的钥匙在哪里?", "在他腰间。")
    assert answered.refs[0].evidence_id in document.evidences
    assert document.evidences["answer"].links.model_usage_id == "u1"
    (kept,) = document.session.model_usage
    assert (kept.extra["turn_id"], kept.extra["counted"]) == (turn.turn_id, "reported")
    assert kept.extra["estimated_prompt_tokens"] == turn.report.budget.used_tokens
    ids = {block.block_id for block in document.context_blocks}
    assert ids == set(turn.report.new_block_ids) >= {"instruction", "status"}
    refs = {ref.evidence_id for block in document.context_blocks for ref in block.refs}
    assert refs == set(turn.report.new_evidence_ids) <= set(document.evidences)
    assert [event.event_type.value for event in told.events] == [
        "SessionLoaded", "TurnPlanned", "BlocksDerived", "PruneCompleted", "Assembled", "Degraded", "MessageAppended",
        "EvidenceIngested", "Persisted", "AssistantChunkReceived", "AssistantChunkReceived", "MessageAppended",
        "Persisted", "AssistantMessageFinalized", "Persisted",
    ]  # fmt: skip
    assert {event.session_id for event in told.events} == {"s"}
    assert done.turn_id == turn.turn_id


async def test_events_hold_no_words_unless_they_are_asked_for():
    async with small_engine(config=PLAIN) as (engine, _, told):
        await engine.prepare_turn("s", "a secret word")
        await engine.commit_assistant_chunk("s", "another secret", 0)
        assert "secret" not in str(told.events)
        told.events.clear()
        loud = replace(PLAIN, observability=ObservabilityConfig(capture_content=True), tags={"arm": "b"})
        await engine.prepare_turn("s", "a secret word again", loud)
        assert "a secret word again" in told.of("Assembled")[0].payload["text"]
        assert {event.tags["arm"] for event in told.events} == {"b"}
        told.events.clear()
        await engine.prepare_turn("s", "hush", replace(PLAIN, observability=ObservabilityConfig(emit_events=False)))
        assert told.events == []


async def test_the_end_of_pruning_is_an_event_with_the_reasons_of_what_was_dropped():
    tight = BudgetConfig(max_input_tokens=900, reserved_reply_tokens=100)
    async with small_engine(config=replace(PLAIN, budget=tight)) as (engine, _, told):
        for number in range(4):
            await engine.prepare_turn("s", f"{number}: " + "the ferry leaves at noon " * 20)
            await engine.commit_assistant_message("s", "I see.")
        turn = await engine.prepare_turn("s", "and now?")
    payload = told.of("PruneCompleted")[-1].payload
    left = [each for each in turn.report.decisions if each.action.value != "kept"]
    assert payload["dropped_blocks"] == [each.block_id for each in left] != []
    assert payload["kept"] + len(left) == len(turn.report.decisions)
    assert payload["reasons"].keys() == {each.code for each in left}


async def test_chunks_expire_and_can_be_given_up():
    clock = SetClock()
    config = replace(PLAIN, chunks=ChunkConfig(expire_seconds=60))
    async with small_engine(config=config, clock=clock) as (engine, _, told):
        turn = await engine.prepare_turn("s", "hello")
        await engine.commit_assistant_chunk("s", "hi", 0)
        clock.time += timedelta(seconds=61)
        with pytest.raises(MissingChunksError, match="no chunk of it is held"):
            await engine.finalize_assistant_message("s", turn_id=turn.turn_id)
        assert told.reasons() == ["chunks_expired"]
        await engine.commit_assistant_chunk("s", "wrong", 0)
        assert await engine.abort_assistant_message("s") == 1
        await engine.commit_assistant_chunk("s", "right", 0)
        assert (await engine.finalize_assistant_message("s")).content == "right"


async def test_what_the_provider_counted_corrects_the_next_limit():
    async with small_engine(config=PLAIN) as (engine, _, _):
        first = await engine.prepare_turn("s", "hello")
        await engine.commit_assistant_message("s", "hi")
        counted = int(first.report.budget.used_tokens * 1.25)
        usage = ModelUsage(model_usage_id="u", model="big", stage=ModelUsageStage.ANSWER, prompt_tokens=counted)
        await engine.record_model_usage("s", usage, turn_id=first.turn_id)
        second = await engine.prepare_turn("s", "and now?")
    assert (first.report.budget.correction, second.report.budget.correction) == (1.0, 1.25)
    assert second.report.budget.limit_tokens == int(first.report.budget.limit_tokens / 1.25)


async def test_a_tail_has_the_room_that_was_kept_for_it():
    budget = BudgetConfig(max_input_tokens=2000, reserved_reply_tokens=100, reserved_tail_tokens=300)
    async with small_engine(config=replace(PLAIN, budget=budget)) as (engine, _, _):
        turn = await engine.prepare_turn("s", "hello")
        free = turn.report.budget.limit_tokens + turn.report.budget.tail_tokens - turn.report.budget.used_tokens
        assert turn.report.budget.tail_tokens == 300
        await engine.assemble("s", turn.turn_id, [{"role": "user", "content": "word " * int(free / 2)}])
        with pytest.raises(BudgetExceededError, match="tail"):
            await engine.assemble("s", turn.turn_id, [{"role": "user", "content": "word " * free * 2}])


async def test_a_receipt_may_be_kept_without_its_decisions():
    config = replace(PLAIN, observability=ObservabilityConfig(include_reports_in_store=False))
    async with small_engine(config=config) as (engine, store, _):
        turn = await engine.prepare_turn("s", "hello")
        record = await store.turn("s", turn.turn_id)
        assert turn.report.decisions
        assert record.receipt["decisions"] == []
        assert record.receipt["plan"]["tier"] == 0
        assert (await engine.prepare_turn("s", "hello")).text == turn.text


@pytest.mark.parametrize("layout", ["classic", "cache_first", "layers"])
async def test_the_to_do_list_is_in_the_next_prompt_and_in_its_replay(layout):
    async with small_engine(config=replace(PLAIN, layout=layout)) as (engine, store, _):
        empty = await engine.prepare_turn("s", "hello")
        await engine.commit_assistant_message("s", "hi")
        await engine.upsert_tasks("s", [Task(task_id="t1", name="find </todo> the <key>")])
        turn = await engine.prepare_turn("s", "and now?")
        record = await store.turn("s", turn.turn_id)
    assert "<todo>" not in empty.text
    (todo,) = ElementTree.fromstring(turn.text).iter("todo")
    assert "name: find </todo> the <key>" in todo.text
    assert "".join(message.content for message in turn.messages).count("<todo>") == 1
    tape = read_snapshot(record)
    assert tape.source.variables["tasks"]["open"][0]["id"] == "t1"


async def test_a_record_has_the_prompt_once_and_its_other_forms_follow_from_it():
    """Each text of a block is in the record once; package, context blocks, evidence and XML text are the same as before."""
    async with open_runtime("memory:", world=FOREST, embedder="none") as runtime:
        await runtime.ensure_session("s")
        turn = await runtime.engine.prepare_turn("s", "这就是神庙的钥匙吗？")
        record = await runtime.store.turn("s", turn.turn_id)
    again = turn_from_record(record, 0)
    assert again.text == turn.text
    assert again.package == turn.package
    assert again.context_blocks == turn.context_blocks
    assert again.evidences == turn.evidences
    stored = codec.encode(record.prompt).decode()
    pieces = [piece for message in record.prompt["messages"] for piece in message["content"]]
    long = [piece for piece in pieces if len(piece) > 200]
    assert long
    assert all(stored.count(json.dumps(piece, ensure_ascii=False)[1:-1]) == 1 for piece in long)
    assert len(zlib.compress(codec.encode(record.prompt))) + len(zlib.compress(codec.encode(record.receipt))) < 36_000


async def test_the_status_of_a_tool_call_may_be_given_as_a_text():
    async with small_engine() as (engine, store, _):
        await engine.prepare_turn("s", "where is my order?")
        await engine.record_tool_call("s", ToolCall(tool_call_id="c", tool="map", status="not_found"), result="no map")
        with pytest.raises(ConfigError, match=r"ToolCall.status is 'broken'; give one of success, timeout"):
            await engine.record_tool_call("s", ToolCall(tool_call_id="d", tool="map", status="broken"))
        document = await store.get_session("s")
    assert [call.status.value for call in document.session.tool_state.tool_calls] == ["not_found"]
