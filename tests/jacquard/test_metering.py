"""Every call of a small model is recorded: what it was for, what it cost (reported or estimated), which turn it belongs to."""

from __future__ import annotations

import json
from dataclasses import replace

import anyio
import pytest
from deadline_parts import deadline_by_hand
from engine_parts import PLANNED, ModelError, ScriptedModel, small_engine

from jacquard import BudgetConfig, CurationConfig, HistoryConfig, PruneConfig, RuntimeConfig, SummaryConfig
from jacquard.adapters.observe.prometheus import PrometheusMetrics
from jacquard.config.sections import PlannerConfig
from jacquard.core.model_calls import Call, usage_of
from jacquard.memory.summarize.model import ModelSummarizer
from mnemosyne import CalibratedEstimator, MemoryStore, ModelUsageStage, Task

pytestmark = pytest.mark.anyio
COUNT = CalibratedEstimator().estimate
PLANNING = RuntimeConfig(
    planner=PlannerConfig(confidence_threshold=1.0, timeout_ms=60_000), curation=CurationConfig(enabled=False)
)
SUMMING = RuntimeConfig(
    summary=SummaryConfig(trigger_message_count=4, preserve_recent_messages=2, timeout_ms=60_000),
    history=HistoryConfig(max_messages=6),
    curation=CurationConfig(enabled=False),
)
MEMORY = json.dumps({"turns": [{"n": n, "summary": f"Turn {n}.", "events": [], "chapter_end": False} for n in (1, 2)]})


class SilentModel(ScriptedModel):
    """Answers as scripted, but does not say what it cost."""

    async def generate(self, request):
        return replace(await super().generate(request), prompt_tokens=None, completion_tokens=None)


def sent(model, number=0):
    return COUNT("\n".join(text for _, text in model.requests[number].messages))


def told_usages(told):
    return [event for event in told.of("Persisted") if event.payload["what"] == "model_usage"]


def test_a_call_is_counted_by_what_was_reported_else_by_what_was_said():
    call = Call(model="openai/small", prompt="one two three", answer="four", prompt_tokens=7, completion_tokens=2)
    made = usage_of("u", call, COUNT, stage=ModelUsageStage.PLAN, purpose="plan", turn_id="t")
    assert (made.provider, made.total_tokens, made.extra) == ("openai", 9, {"counted": "reported", "turn_id": "t"})
    half = usage_of("u", replace(call, completion_tokens=None), COUNT, stage=ModelUsageStage.PLAN, purpose="plan")
    assert (half.prompt_tokens, half.completion_tokens, half.extra["counted"]) == (7, COUNT("four"), "estimated")
    lost = usage_of("u", replace(call, answer=None), COUNT, stage=ModelUsageStage.PLAN, purpose="plan", error="gone")
    assert (lost.total_tokens, lost.status.value, lost.extra["counted"]) == (0, "error", "unknown")


@pytest.mark.parametrize("kind", [ScriptedModel, SilentModel])
async def test_a_plan_is_recorded_with_its_turn(kind):
    model = kind(PLANNED)
    async with small_engine(model=model, config=PLANNING) as (engine, store, told):
        turn = await engine.prepare_turn("s", "hm, and then?")
        (usage,) = (await store.get_session("s")).session.model_usage
    assert (usage.model_usage_id, usage.stage.value, usage.status.value) == (f"{turn.turn_id}.plan", "plan", "success")
    assert usage.extra["turn_id"] == turn.turn_id
    if kind is SilentModel:
        assert usage.extra["counted"] == "estimated"
        assert usage.prompt_tokens == sent(model)
        assert usage.completion_tokens == COUNT(json.dumps(PLANNED, ensure_ascii=False))
    else:
        assert (usage.extra["counted"], usage.prompt_tokens, usage.completion_tokens) == ("reported", 120, 30)
    (event,) = told_usages(told)
    assert (event.model_usage_id, event.turn_id) == (usage.model_usage_id, turn.turn_id)


@pytest.mark.parametrize(
    ("step", "tokens", "counted"),
    [("no plan at all", 150, "reported"), (ModelError("connection", "gone"), 0, "unknown")],
)
async def test_a_plan_that_failed_is_recorded_too(step, tokens, counted):
    async with small_engine(model=ScriptedModel(step), config=PLANNING) as (engine, store, _):
        turn = await engine.prepare_turn("s", "hm, and then?")
        (usage,) = (await store.get_session("s")).session.model_usage
    assert turn.plan.tier == 0
    assert (usage.status.value, usage.total_tokens, usage.extra["counted"]) == ("error", tokens, counted)
    assert usage.error
    assert usage.model == "scripted/small"


async def test_a_plan_that_came_too_late_is_recorded_as_one_that_nobody_knows_the_cost_of():
    config = replace(PLANNING, planner=PlannerConfig(confidence_threshold=1.0, timeout_ms=20))
    async with small_engine(model=ScriptedModel("hang"), config=config) as (engine, store, _):
        await engine.prepare_turn("s", "hm, and then?")
        (usage,) = (await store.get_session("s")).session.model_usage
    assert (usage.status.value, usage.model, usage.extra["counted"]) == ("error", "scripted/small", "unknown")
    assert usage.error.startswith("timeout")


@pytest.mark.parametrize("kind", [ScriptedModel, SilentModel])
async def test_a_summary_is_recorded_with_its_turn_its_evidence_and_an_event(kind):
    model = kind("Kai asked four questions and got four answers.")
    summarizer = ModelSummarizer(model, COUNT)
    async with small_engine(config=SUMMING, summarizer=summarizer) as (engine, store, told):
        for number in range(4):
            turn = await engine.prepare_turn("s", f"question {number}")
            await engine.commit_assistant_message("s", f"answer {number}")
            assert await engine.settle(60)
        document = await store.get_session("s")
    usage = document.session.model_usage[0]
    turns = {record.turn_id for record in await store_turns(store)}
    assert usage.extra["turn_id"] in turns
    assert (usage.stage.value, usage.params["purpose"]) == ("summarize", "summary")
    assert usage.extra["counted"] == ("reported" if kind is ScriptedModel else "estimated")
    assert usage.prompt_tokens == (120 if kind is ScriptedModel else sent(model))
    assert document.evidences[usage.model_usage_id].links.model_usage_id == usage.model_usage_id
    assert [event.model_usage_id for event in told_usages(told)] == [
        each.model_usage_id for each in document.session.model_usage
    ]
    assert turn.turn_id in turns


async def store_turns(store):
    return await store.turns("s", limit=100)


async def test_a_refused_summary_cost_something_all_the_same():
    async with small_engine(config=SUMMING, summarizer=ModelSummarizer(ScriptedModel("  "), COUNT)) as (
        engine,
        store,
        _,
    ):
        for number in range(4):
            await engine.prepare_turn("s", f"question {number}")
            await engine.commit_assistant_message("s", f"answer {number}")
            assert await engine.settle(60)
        usage = (await store.get_session("s")).session.model_usage[0]
    assert (usage.status.value, usage.total_tokens, usage.model) == ("error", 150, "scripted/small")
    assert "empty" in usage.error


@pytest.mark.parametrize("kind", [ScriptedModel, SilentModel])
async def test_memory_is_recorded_with_its_turn_its_evidence_and_a_figure(kind):
    model, metrics = kind(ModelError("connection", "gone"), MEMORY), PrometheusMetrics()
    async with small_engine(config=PLANNING, consolidator=model) as (engine, store, told):
        told.bus.on_all(metrics.count)
        for number in range(2):
            turn = await engine.prepare_turn("s", f"question {number}")
            await engine.commit_assistant_message("s", f"answer {number}")
        assert (await engine.consolidate("s")).failures
        assert (await engine.consolidate("s")).summaries == 2
        document = await store.get_session("s")
    failed, usage = document.session.model_usage
    assert (failed.status.value, failed.extra["counted"]) == ("error", "unknown")
    assert {each.extra["turn_id"] for each in (failed, usage)} == {turn.turn_id}
    assert usage.params["purpose"] == "memory"
    assert usage.extra["counted"] == ("reported" if kind is ScriptedModel else "estimated")
    answered = [each for each in document.evidences.values() if each.links.model_usage_id == usage.model_usage_id]
    assert [each.content for each in answered] == [MEMORY]
    assert [event.payload["status"] for event in told_usages(told)] == ["error", "success"]
    line = (
        f'jacquard_model_tokens_total{{kind="input",model="scripted/small",stage="summarize"}} {usage.prompt_tokens}.0'
    )
    assert line in metrics.exposition().decode()


ASKED = "村长的钥匙在哪里?"
CHOOSING = RuntimeConfig(planner=PlannerConfig(confidence_threshold=0.0), summary=SummaryConfig(enabled=False))


class LateModel(ScriptedModel):
    """Ends the deadline when it is asked, and answers once its gate is open."""

    def __init__(self, deadline, *steps):
        super().__init__(*steps)
        self.deadline, self.gate = deadline, anyio.Event()

    async def generate(self, request):
        self.deadline.end()
        await self.gate.wait()
        return await super().generate(request)


def choosing(**curation):
    return replace(CHOOSING, curation=CurationConfig(**{"deadline_ms": 60_000, "background_seconds": 600, **curation}))


@pytest.mark.parametrize("kind", [ScriptedModel, SilentModel])
async def test_a_choice_is_recorded_with_its_turn(kind):
    model = kind("[]")
    async with small_engine(model=model, config=choosing()) as (engine, store, told):
        turn = await engine.prepare_turn("s", ASKED)
        (usage,) = (await store.get_session("s")).session.model_usage
    assert turn.report.stream_b.path.value == "selected"
    assert (usage.model_usage_id, usage.params["purpose"]) == (f"{turn.turn_id}.select", "select")
    assert usage.status.value == "success"
    assert usage.extra == {
        "turn_id": turn.turn_id,
        "counted": "reported" if kind is ScriptedModel else "estimated",
    }
    assert usage.prompt_tokens == (120 if kind is ScriptedModel else sent(model))
    assert usage.completion_tokens == (30 if kind is ScriptedModel else COUNT("[]"))
    assert [event.model_usage_id for event in told_usages(told)] == [usage.model_usage_id]


@pytest.mark.parametrize(
    ("step", "tokens", "counted", "error"),
    [
        ("nothing that is a list", 150, "reported", "unreadable"),
        (ModelError("connection", "gone"), 0, "unknown", "connection"),
        (ModelError("timeout", "too slow"), 0, "unknown", "timeout"),
    ],
)
async def test_a_choice_that_failed_is_recorded_too(step, tokens, counted, error):
    async with small_engine(model=ScriptedModel(step), config=choosing()) as (engine, store, told):
        turn = await engine.prepare_turn("s", ASKED)
        (usage,) = (await store.get_session("s")).session.model_usage
    assert turn.report.stream_b.path.value == "fallback"
    assert (usage.status.value, usage.total_tokens, usage.extra["counted"]) == ("error", tokens, counted)
    assert usage.error.startswith(error)
    assert (usage.model, usage.extra["turn_id"]) == ("scripted/small", turn.turn_id)
    assert [event.payload["status"] for event in told_usages(told)] == ["error"]


@pytest.mark.parametrize(("answer", "status"), [("[]", "success"), ("no list", "error")])
async def test_a_choice_that_came_after_its_turn_is_recorded_when_it_comes(answer, status):
    config = choosing()
    with deadline_by_hand(config.curation) as deadline:
        model = LateModel(deadline, answer)
        async with small_engine(model=model, config=config) as (engine, store, told):
            turn = await engine.prepare_turn("s", ASKED)
            (early,) = (await store.get_session("s")).session.model_usage
            assert told_usages(told) == []
            model.gate.set()
            assert await engine.settle(60)
            (late,) = (await store.get_session("s")).session.model_usage
    assert turn.report.stream_b.code == "deadline"
    assert early.model_usage_id == late.model_usage_id == f"{turn.turn_id}.select"
    assert (early.status.value, early.total_tokens) == ("error", 0)
    assert early.extra == {"counted": "unknown", "turn_id": turn.turn_id, "under_way": True}
    assert (late.status.value, late.total_tokens) == (status, 150)
    assert late.extra == {"counted": "reported", "turn_id": turn.turn_id, "late": True}
    (event,) = told_usages(told)
    assert (event.payload["status"], event.payload["prompt_tokens"]) == (status, 120)


async def test_a_choice_that_never_came_is_recorded_as_one_that_nobody_knows_the_cost_of():
    config = choosing()
    with deadline_by_hand(config.curation) as deadline:
        async with small_engine(model=LateModel(deadline, "[]"), config=config) as (engine, store, told):
            await engine.prepare_turn("s", ASKED)
            deadline.pass_by(config.curation.background_seconds)
            assert await engine.settle(60)
            (usage,) = (await store.get_session("s")).session.model_usage
    assert (usage.status.value, usage.extra["counted"], usage.extra["late"]) == ("error", "unknown", True)
    assert "broken off" in usage.error
    assert len(told_usages(told)) == 1


class Hasty(MemoryStore):
    """Somebody else writes between the first reading of a session and the writing of its turn, once."""

    is_over = False

    async def save_prepared(self, record, **given):
        if not self.is_over:
            self.is_over = True
            await self.upsert_tasks(record.session_id, [Task(task_id="t", name="a task")])
        return await super().save_prepared(record, **given)


async def test_what_an_attempt_spent_that_met_a_conflict_is_recorded_with_its_turn():
    async with small_engine(model=ScriptedModel("[]"), config=choosing(), store=Hasty()) as (engine, store, _):
        turn = await engine.prepare_turn("s", ASKED)
        usages = (await store.get_session("s")).session.model_usage
    name = f"{turn.turn_id}.select"
    assert [(each.model_usage_id, each.total_tokens) for each in usages] == [(name, 150), (f"{name}.2", 150)]


async def test_what_shortening_took_is_recorded_with_its_turn():
    model = ScriptedModel("Kai spoke of the mill at length.")
    config = RuntimeConfig(
        budget=BudgetConfig(max_input_tokens=1500, reserved_reply_tokens=100),
        summary=SummaryConfig(enabled=False, timeout_ms=60_000),
        curation=CurationConfig(enabled=False),
        prune=PruneConfig(policy="degrade_to_summary"),
    )
    async with small_engine(config=config, summarizer=ModelSummarizer(model, COUNT)) as (engine, store, told):
        for number in range(4):
            turn = await engine.prepare_turn("s", f"{number}: " + "the mill stood by the river. " * 60)
            await engine.commit_assistant_message("s", f"answer {number}")
        again = await engine.prepare_turn("s", turn.package.user_message.content, turn_id=turn.turn_id)
        usages = (await store.get_session("s")).session.model_usage
    assert [usage.params["purpose"] for usage in usages] == ["shorten"] * len(model.requests)
    assert usages
    assert {usage.total_tokens for usage in usages} == {150}
    assert usages[0].model_usage_id == f"{usages[0].extra['turn_id']}.shorten.1"
    assert [event.model_usage_id for event in told_usages(told)] == [usage.model_usage_id for usage in usages]
    assert again.text == turn.text
