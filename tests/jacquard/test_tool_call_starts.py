"""The start of a tool call is recorded when it starts, and its end under the same id."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from jacquard import ConfigError, InMemoryEventBus, create_context_engine
from jacquard.adapters.observe.prometheus import PrometheusMetrics
from mnemosyne import (
    MemoryStore,
    Message,
    ModelUsage,
    ModelUsageStage,
    ProviderKind,
    Role,
    Task,
    ToolCall,
    ToolCallStatus,
    ToolProvider,
)

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@dataclass
class Clock:
    at: datetime = AT

    def now(self):
        return self.at


class Desk:
    def __init__(self, store):
        self.clock, self.bus, self.events = Clock(), InMemoryEventBus(), []
        self.bus.on_all(self.events.append)
        self.store = store
        self.engine = create_context_engine(store, clock=self.clock, event_bus=self.bus)

    async def open(self):
        await self.engine.adopt_messages("s1", [Message(role=Role.USER, content="Where is it?")])
        await self.engine.upsert_tasks("s1", [Task(task_id="t1", name="look")])
        self.events.clear()

    def kinds(self):
        return [each.event_type.value for each in self.events if each.event_type.value.startswith("ToolCall")]

    async def calls(self):
        return (await self.store.get_session("s1")).session.tool_state.tool_calls


@pytest.fixture
async def desk():
    made = Desk(MemoryStore())
    await made.open()
    yield made
    await made.engine.close()


BEGIN = ToolCall(
    tool_call_id="c1",
    tool="map",
    provider=ToolProvider(kind=ProviderKind.MCP, name="maps"),
    args_digest={"place": "mill", "mail": "miller@mill.example"},
    status=ToolCallStatus.RUNNING,
    task_id="t1",
)
END = ToolCall(tool_call_id="c1")


async def test_a_call_that_begins_and_ends_is_one_call(desk):
    await desk.engine.record_tool_call("s1", BEGIN)
    (begun,) = await desk.calls()
    assert (begun.status, begun.called_at, begun.duration_ms) == (ToolCallStatus.RUNNING, AT, 0)
    assert desk.kinds() == ["ToolCalled"]
    desk.clock.at += timedelta(milliseconds=1500)
    await desk.engine.record_tool_call("s1", END, result="By the river.")
    (ended,) = await desk.calls()
    assert (ended.status, ended.called_at, ended.duration_ms) == (ToolCallStatus.SUCCESS, AT, 1500)
    assert (ended.tool, ended.provider.name, ended.task_id) == ("map", "maps", "t1")
    assert ended.args_digest == begun.args_digest
    assert "miller@mill.example" not in str(begun.args_digest)
    assert len(ended.result_evidence_ids) == 1
    assert desk.kinds() == ["ToolCalled", "ToolCallCompleted"]
    assert desk.events[-1].payload["duration_ms"] == 1500
    (task,) = await desk.engine.tasks("s1")
    assert task.result_evidence_ids == ended.result_evidence_ids


async def test_the_same_beginning_twice_and_after_the_end_changes_nothing(desk):
    first = await desk.engine.record_tool_call("s1", BEGIN)
    desk.clock.at += timedelta(seconds=2)
    assert await desk.engine.record_tool_call("s1", BEGIN) == first
    end = ToolCall(tool_call_id="c1", status=ToolCallStatus.TIMEOUT, duration_ms=7)
    await desk.engine.record_tool_call("s1", end)
    await desk.engine.record_tool_call("s1", BEGIN)
    (call,) = await desk.calls()
    assert (call.status, call.duration_ms) == (ToolCallStatus.TIMEOUT, 7)
    assert desk.kinds() == ["ToolCalled", "ToolCallCompleted"]


async def test_another_process_ends_the_call(desk):
    await desk.engine.record_tool_call("s1", BEGIN)
    other = Desk(desk.store)
    other.clock.at = AT + timedelta(seconds=3)
    await other.engine.record_tool_call("s1", END, result="Here.")
    assert (await desk.calls())[0].duration_ms == 3000


async def test_a_call_in_one_piece_has_both_events(desk):
    await desk.engine.record_tool_call("s1", ToolCall(tool_call_id="c2", tool="map"))
    assert desk.kinds() == ["ToolCalled", "ToolCallCompleted"]


async def test_a_running_call_has_no_result(desk):
    with pytest.raises(ConfigError, match="give its result with its end"):
        await desk.engine.record_tool_call("s1", BEGIN, result="too soon")


async def test_times_of_models_and_tools_are_metrics(desk):
    pytest.importorskip("prometheus_client")
    metrics = PrometheusMetrics()
    desk.bus.on_all(metrics.count)
    await desk.engine.record_tool_call("s1", ToolCall(tool_call_id="c2", tool="map", duration_ms=400))
    usage = ModelUsage(
        model_usage_id="u", model="big", stage=ModelUsageStage.ANSWER, latency_ms=2000, first_token_latency_ms=300
    )
    await desk.engine.record_model_usage("s1", usage)
    await desk.engine.record_model_usage("s1", ModelUsage(model_usage_id="v", model="big"))
    shown = metrics.exposition().decode()
    assert 'jacquard_model_call_seconds_sum{model="big",stage="answer"} 2.0' in shown
    assert 'jacquard_model_first_token_seconds_sum{model="big",stage="answer"} 0.3' in shown
    assert 'jacquard_model_call_seconds_count{model="big",stage="other"}' not in shown
    assert "jacquard_tool_call_seconds_sum 0.4" in shown
    (stored, _) = (await desk.store.get_session("s1")).session.model_usage
    assert (stored.latency_ms, stored.first_token_latency_ms) == (2000, 300)
