"""The engine in one call: it has every shipped part, and passes over no setting in silence."""

from __future__ import annotations

import pytest
from engine_parts import ModelError, ScriptedModel, small_engine

from jacquard import (
    ConfigError,
    CurationConfig,
    GreedyPriorityPruner,
    ObservabilityConfig,
    PruneConfig,
    PruneResult,
    RedactionConfig,
    RuntimeConfig,
    SelectorConfig,
    SummaryConfig,
    create_context_engine,
)
from jacquard.config.sections import PlannerConfig
from mnemosyne import MemoryStore, ToolCall

pytestmark = pytest.mark.anyio
ASKED = "村长的钥匙在哪里?"
PATIENT = CurationConfig(deadline_ms=60_000)
SURE = PlannerConfig(confidence_threshold=0.0)


async def test_what_a_tool_answers_is_redacted_and_taken_in_without_any_part_of_the_hosts():
    async with small_engine() as (engine, store, told):
        await engine.prepare_turn("s", "who wrote?")
        await engine.commit_assistant_message("s", "let me see")
        call = ToolCall(tool_call_id="c1", tool="mail", args_digest={"to": "kai@example.com"})
        await engine.record_tool_call("s", call, result="The letter came from ann@example.com at noon.")
        turn = await engine.prepare_turn("s", "and then?")
        document = await store.get_session("s")
    (evidence,) = [each for each in document.evidences.values() if each.type.value == "tool_result"]
    assert "ann@example.com" not in evidence.content
    assert "came from" in turn.text
    assert "kai@example.com" not in str(document.session.tool_state)
    assert told.of("EvidenceIngested")


async def test_the_selectors_settings_count():
    config = RuntimeConfig(
        planner=SURE,
        curation=PATIENT,
        selector=SelectorConfig(failure_limit=1, reset_seconds=600, max_tokens=77),
        summary=SummaryConfig(enabled=False),
    )
    model = ScriptedModel(ModelError("connection", "gone"))
    async with small_engine(model=model, config=config) as (engine, _, _told):
        first = await engine.prepare_turn("s", ASKED)
        second = await engine.prepare_turn("s", f"{ASKED} 快说")
    assert model.requests[0].max_tokens == 77
    assert (first.report.stream_b.code, second.report.stream_b.code) == ("model_error", "circuit_open")
    assert len(model.requests) == 1


async def test_the_model_sums_up_and_makes_memory_unless_others_do():
    config = RuntimeConfig(
        planner=SURE,
        summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2, timeout_ms=60_000),
        curation=CurationConfig(enabled=False),
    )
    model = ScriptedModel("Kai asked and was answered, three times over.")
    async with small_engine(model=model, config=config) as (engine, store, _):
        for number in range(3):
            await engine.prepare_turn("s", f"question {number}")
            await engine.commit_assistant_message("s", f"answer {number}")
        await engine.summarize("s")
        assert (await engine.consolidate("s")).failures
        purposes = {each.params["purpose"] for each in (await store.get_session("s")).session.model_usage}
    assert purposes == {"summary", "memory"}


class Stingy:
    """Drops all that need not stay."""

    def prune(self, blocks, budget, rules=None):
        result = GreedyPriorityPruner().prune(blocks, budget, rules)
        return PruneResult(
            kept=result.kept, decisions=result.decisions, dropped=result.dropped, degraded=result.degraded
        )


async def test_a_pruner_of_the_hosts_is_named_by_the_configuration():
    config = RuntimeConfig(prune=PruneConfig(policy="stingy"), curation=CurationConfig(enabled=False))
    async with small_engine(config=config, pruner={"stingy": Stingy()}) as (engine, _, _told):
        assert (await engine.prepare_turn("s", "hello")).messages
    async with small_engine(config=config) as (engine, _, _told):
        with pytest.raises(ConfigError, match="there is no pruner 'stingy'"):
            await engine.prepare_turn("s", "hello")


@pytest.mark.parametrize(
    ("config", "word"),
    [
        (RuntimeConfig(selector=SelectorConfig(model="openai/x")), "selector.model names a model"),
        (RuntimeConfig(summary=SummaryConfig(model="openai/x")), "summary.model names a model"),
        (RuntimeConfig(selector=SelectorConfig(reranker="/models/r")), "reranker"),
        (RuntimeConfig(observability=ObservabilityConfig(metrics=True)), "bus.on_all"),
        (RuntimeConfig(redaction=RedactionConfig(mode="dual_store")), "a place for originals"),
    ],
)
def test_what_it_cannot_serve_is_refused(config, word):
    with pytest.raises(ConfigError, match=word):
        create_context_engine(MemoryStore(), config=config)
