"""What is told of an engine's work: the bus, spans by the GenAI names, Prometheus figures, and nothing imported unasked."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from anyio import to_thread
from deadline_parts import deadline_by_hand
from engine_parts import PLANNED, ScriptedModel, small_engine
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    CurationConfig,
    InMemoryEventBus,
    LlmRequest,
    ModelError,
    ObservabilityConfig,
    RuntimeConfig,
    open_runtime,
)
from jacquard.adapters.observe.models import TracedModel
from jacquard.adapters.observe.otel import OtelTracing
from jacquard.adapters.observe.prometheus import PrometheusMetrics
from jacquard.config.sections import PlannerConfig
from mnemosyne import Event
from mnemosyne.schema.event import EventType

pytestmark = pytest.mark.anyio
DOCS = Path(__file__).parents[2] / "docs" / "en" / "observability.md"
REQUEST = LlmRequest(messages=(("user", "a secret"),), max_tokens=5, timeout_seconds=1.0)


def event(kind=EventType.PERSISTED):
    return Event(event_type=kind, session_id="s", at=datetime(2026, 1, 1, tzinfo=UTC))


async def test_handlers_are_told_in_order_each_once_and_no_more_when_off():
    bus, told = InMemoryEventBus(), []

    async def slowly(each):
        told.append(("async", each.event_type.value))

    bus.on("Persisted", slowly)
    bus.on("Assembled", lambda each: told.append("wrong"))
    bus.on_all(lambda each: told.append("all"))
    await bus.emit(event())
    bus.off("Persisted", slowly)
    await bus.emit(event())
    assert told == [("async", "Persisted"), "all", "all"]
    with pytest.raises(ValueError, match="no such"):
        bus.on("no such", slowly)


def traced(exporter=None):
    exporter = exporter or InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return OtelTracing(provider), exporter


@pytest.mark.parametrize("capture", [False, True])
async def test_a_models_call_is_a_span_with_the_names_of_the_conventions(capture):
    tracing, exporter = traced()
    model = TracedModel(ScriptedModel("another secret"), tracing, capture)
    with tracing.span("outer"):
        await model.generate(REQUEST)
    inner, outer = exporter.get_finished_spans()
    assert inner.name == "chat scripted/small"
    assert inner.parent.span_id == outer.context.span_id
    facts = dict(inner.attributes)
    assert facts["gen_ai.operation.name"] == "chat"
    assert facts["gen_ai.provider.name"] == "scripted"
    assert (facts["gen_ai.usage.input_tokens"], facts["gen_ai.usage.output_tokens"]) == (120, 30)
    assert ("secret" in str(facts)) is capture


async def test_a_failing_call_is_marked_by_its_kind_alone():
    tracing, exporter = traced()
    with pytest.raises(ModelError):
        await TracedModel(ScriptedModel(ModelError("connection", "secret host")), tracing).generate(REQUEST)
    (span,) = exporter.get_finished_spans()
    assert span.attributes["error.type"] == "ModelError"
    assert "secret host" not in span.to_json()


async def test_a_turn_is_a_tree_of_spans():
    tracing, exporter = traced()
    model = TracedModel(ScriptedModel(PLANNED), tracing)
    async with small_engine(model=model, tracing=tracing) as (engine, _, _):
        turn = await engine.prepare_turn("s", "hm, and then?")
        await engine.commit_assistant_message("s", "hi")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    root = spans["jacquard.prepare_turn"]
    assert root.attributes["gen_ai.conversation.id"] == "s"
    assert root.attributes["jacquard.turn.id"] == turn.turn_id
    assert spans["jacquard.plan"].parent.span_id == root.context.span_id
    assert spans["jacquard.plan"].attributes["jacquard.plan.tier"] == 1
    assert "jacquard.commit_assistant_message" in spans


PATIENT = RuntimeConfig(
    planner=PlannerConfig(confidence_threshold=1.0, timeout_ms=60_000), curation=CurationConfig(deadline_ms=60_000)
)
ROAD = ["plan", "stream_a", "stream_b", "recall", "select", "weave"]


async def test_every_step_of_a_turn_is_a_span_below_it_and_none_holds_a_word():
    tracing, exporter = traced()
    model = ScriptedModel(PLANNED, '["lore_elder"]')
    async with small_engine(model=model, tracing=tracing, config=PATIENT) as (engine, _, _):
        await engine.prepare_turn("s", "hm, 村长的 secret?")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    parents = {name: span.parent.span_id if span.parent else None for name, span in spans.items()}
    root = spans["jacquard.prepare_turn"].context.span_id
    stream_b, select = (spans[f"jacquard.{name}"].context.span_id for name in ("stream_b", "select"))
    assert {name: parents[f"jacquard.{name}"] for name in ROAD} == {
        "plan": root, "stream_a": root, "stream_b": root, "recall": stream_b, "select": stream_b, "weave": root,
    }  # fmt: skip
    calls = [span for span in exporter.get_finished_spans() if span.name == "chat scripted/small"]
    assert [span.parent.span_id for span in calls] == [spans["jacquard.plan"].context.span_id, select]
    assert {span.attributes["gen_ai.operation.name"] for span in calls} == {"chat"}
    facts = dict(spans["jacquard.stream_b"].attributes)
    assert (facts["jacquard.stream_b.path"], facts["jacquard.stream_b.chosen"]) == ("selected", 1)
    assert spans["jacquard.recall"].attributes["gen_ai.retrieval.top_k"] == 50
    assert spans["jacquard.weave"].attributes["jacquard.prompt.tokens"] > 0
    told = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert "secret" not in told
    assert "村长" not in told


class WatchedSpans(InMemorySpanExporter):
    """Keeps spans, and tells when the skeleton is rendered."""

    def __init__(self):
        super().__init__()
        self.rendered = threading.Event()

    def export(self, spans):
        done = super().export(spans)
        if any(span.name == "jacquard.stream_a" for span in spans):
            self.rendered.set()
        return done


async def test_both_streams_begin_after_the_plan_and_the_skeleton_waits_for_no_selector():
    tracing, exporter = traced(WatchedSpans())
    asked, gate = anyio.Event(), anyio.Event()

    class WaitingModel(ScriptedModel):
        async def generate(self, request):
            asked.set()
            await gate.wait()
            return await super().generate(request)

    config = RuntimeConfig(curation=PATIENT.curation, planner=PlannerConfig(confidence_threshold=0.0))
    async with (
        small_engine(model=WaitingModel('["lore_elder"]'), tracing=tracing, config=config) as (engine, _, _),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(engine.prepare_turn, "s", "村长的钥匙在哪里?")
        await asked.wait()
        assert await to_thread.run_sync(exporter.rendered.wait, 60)
        ended = {span.name for span in exporter.get_finished_spans()}
        assert not {"jacquard.select", "jacquard.stream_b", "jacquard.weave"} & ended
        gate.set()
    spans = {span.name: span for span in exporter.get_finished_spans()}
    for stream in ("jacquard.stream_a", "jacquard.stream_b"):
        assert spans["jacquard.plan"].end_time <= spans[stream].start_time
        assert spans[stream].end_time <= spans["jacquard.weave"].start_time


async def test_what_a_late_choice_does_stands_below_the_turn_that_asked_for_it():
    tracing, exporter = traced()
    gate = anyio.Event()

    with deadline_by_hand(PATIENT.curation) as deadline:

        class LateModel(ScriptedModel):
            async def generate(self, request):
                deadline.end()
                await gate.wait()
                return await super().generate(request)

        config = RuntimeConfig(curation=PATIENT.curation, planner=PlannerConfig(confidence_threshold=0.0))
        async with small_engine(model=LateModel('["lore_elder"]'), tracing=tracing, config=config) as (engine, _, _):
            turn = await engine.prepare_turn("s", "村长的钥匙在哪里?")
            gate.set()
            assert await engine.settle(60)
    assert turn.report.stream_b.code == "deadline"
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans["jacquard.select"].parent.span_id == spans["jacquard.stream_b"].context.span_id
    assert spans["jacquard.select"].attributes["jacquard.select.chosen"] == 1
    assert spans["jacquard.stream_b"].attributes["jacquard.stream_b.code"] == "deadline"


@pytest.mark.parametrize("capture", [False, True])
async def test_words_are_captured_only_where_the_configuration_says_so(capture):
    tracing, exporter = traced()
    config = replace(PATIENT, observability=ObservabilityConfig(capture_content=capture))
    async with small_engine(model=ScriptedModel(PLANNED), tracing=tracing, config=config) as (engine, _, _):
        await engine.prepare_turn("s", "hm, a secret?")
    told = "".join(span.to_json() for span in exporter.get_finished_spans())
    assert ("a secret" in told) is capture


async def test_a_turn_that_fails_marks_its_span_by_the_errors_name():
    tracing, exporter = traced()
    config = RuntimeConfig(budget=BudgetConfig(max_input_tokens=60, reserved_reply_tokens=10))
    async with small_engine(tracing=tracing, config=config) as (engine, _, _):
        with pytest.raises(BudgetExceededError):
            await engine.prepare_turn("s", "and then?")
    spans = {span.name: span for span in exporter.get_finished_spans()}
    for name in ("jacquard.prepare_turn", "jacquard.weave"):
        assert spans[name].attributes["error.type"] == "BudgetExceededError"
    assert "error.type" not in spans["jacquard.stream_a"].attributes


async def test_figures_are_counted_from_events():
    metrics = PrometheusMetrics()
    config = RuntimeConfig(curation=CurationConfig(enabled=False))
    async with small_engine(config=config) as (engine, _, told):
        told.bus.on_all(metrics.count)
        await engine.prepare_turn("s", "and then?")
        await engine.commit_assistant_chunk("s", "hi", 0)
        await engine.finalize_assistant_message("s")
    text = metrics.exposition().decode()
    assert 'jacquard_turns_total{what="prepared"} 1.0' in text
    assert 'jacquard_turns_total{what="committed"} 1.0' in text
    assert 'jacquard_stream_b_total{code="disabled",path="skipped"} 1.0' in text
    assert 'jacquard_plans_total{tier="0",tier1="no_model"} 1.0' in text
    assert "jacquard_prompt_tokens_count 1.0" in text
    assert 'jacquard_turn_step_seconds_count{step="total"} 1.0' in text


async def test_a_configuration_opens_what_it_names(tmp_path):
    config = RuntimeConfig(observability=ObservabilityConfig(metrics=True, tracing=True))
    world = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
    async with open_runtime(tmp_path, world=world, embedder="none", config=config) as runtime:
        assert b"jacquard_events" in runtime.watchers.metrics.exposition()
        assert isinstance(runtime.watchers.tracing, OtelTracing)


def test_nothing_of_it_is_imported_unless_it_is_asked_for():
    code = (
        "import sys, jacquard, jacquard.wiring.runtime, jacquard.wiring.parts.observability, jacquard.cli.app\n"
        "print([m for m in ('opentelemetry', 'prometheus_client', 'psycopg') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_page_names_every_span_event_and_figure():
    page = DOCS.read_text(encoding="utf-8")
    for step in ROAD:
        assert f"`jacquard.{step}`" in page
    for kind in EventType:
        assert f"`{kind.value}`" in page
    for family in PrometheusMetrics().registry.collect():
        assert f"`{family.name}" in page, family.name
