"""Programs of hosts that were written against the description of the interface; only their import lines are ours."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
USER_TEXT = "Where is my order?"


class MockLlmAdapter:
    """Section 6.10: `generate` alone."""

    def __init__(self):
        self.requests = []

    async def generate(self, request):
        from jacquard import LlmResponse

        self.requests.append([(part.role, part.content) for part in request.messages])
        return LlmResponse(
            content="[]", model="mock", prompt_tokens=0, completion_tokens=0, total_tokens=0, latency_ms=0
        )


async def test_e2e_smoke():
    """Section 20.4."""
    from jacquard import RuntimeConfig, create_context_engine
    from mnemosyne import CalibratedEstimator as CharBasedEstimator
    from mnemosyne import MemoryStore, Message, Role

    engine = create_context_engine(
        store=MemoryStore(),
        token_estimator=CharBasedEstimator(),
        llm_adapter=MockLlmAdapter(),
    )
    result = await engine.prepare_turn("s1", Message(role=Role.USER, content="hello"), RuntimeConfig())
    assert result.assembled_input.total_tokens > 0
    assert result.report.errors == []
    await engine.commit_assistant_message("s1", Message(role=Role.ASSISTANT, content="hi"))
    await engine.close()


class StreamingModel:
    """The host's own model."""

    provider_name, model = "example", "example-1"

    async def stream(self, assembled_input):
        assert [part.role for part in assembled_input.parts][-1] == "user"
        for index, text in enumerate(["It is ", "on its ", "way."]):
            yield SimpleNamespace(text=text, index=index)


async def test_a_host_that_drives_the_model_itself():
    """Section 16.4.1."""
    from jacquard import DefaultContextEngine as ContextEngine
    from jacquard import InMemoryEventBus, PruneConfig, RuntimeConfig
    from mnemosyne import (
        CalibratedEstimator,
        Evidence,
        EvidenceLinks,
        EvidenceSource,
        EvidenceType,
        MemoryStore,
        Message,
        ModelUsage,
        Priority,
        Role,
        SourceKind,
        SystemClock,
        UuidV4Generator,
    )

    store, tok, llm_adapter, event_bus = MemoryStore(), CalibratedEstimator(), MockLlmAdapter(), InMemoryEventBus()
    clock, id_gen, llm, user_text = SystemClock(), UuidV4Generator(), StreamingModel(), USER_TEXT
    policies = RuntimeConfig(prune=PruneConfig(must_keep_priorities=[Priority.MUST], ttl_seconds={"low": 3600}))
    cfg = RuntimeConfig()
    llm_resp = SimpleNamespace(text="It is on its way.", usage_id="usage-1", total_tokens=12)
    seen = []
    event_bus.on("AssistantMessageFinalized", lambda event: seen.append(event.event_type))

    engine = ContextEngine(
        store=store,
        token_estimator=tok,
        llm_adapter=llm_adapter,
        policies=policies,
        event_bus=event_bus,
    )
    session_id = "..."

    # 1) 用户输入到来：准备本轮 assembled input
    prepared = await engine.prepare_turn(
        session_id=session_id,
        user_message=Message(role=Role.USER, content=user_text, at=clock.now_iso()),
        runtime_config=cfg,
    )

    # 2) 由框架/宿主发起模型调用（流式）
    async for chunk in llm.stream(prepared.assembled_input):
        await engine.commit_assistant_chunk(session_id, chunk.text, chunk.index)

    # 3) 流结束，最终化 assistant message
    await engine.finalize_assistant_message(session_id, refs=[])

    # 4) 记录用量与产物证据（可选但强烈建议）
    llm_output_eid = await store.put_evidence(session_id, Evidence(
        evidence_id=id_gen.generate(),
        type=EvidenceType.LLM_OUTPUT,
        source=EvidenceSource(kind=SourceKind.LLM, name=llm.provider_name),
        content=llm_resp.text,
        links=EvidenceLinks(model_usage_id=llm_resp.usage_id),
    ))  # fmt: skip
    await engine.record_model_usage(
        session_id=session_id,
        model_usage=ModelUsage(
            model_usage_id=llm_resp.usage_id,
            provider=llm.provider_name,
            model=llm.model,
            total_tokens=llm_resp.total_tokens,
        ),
        llm_output_evidence_id=llm_output_eid,
    )

    document = await store.get_session(session_id)
    assert [message.content for message in document.session.messages] == [user_text, "It is on its way."]
    assert document.session.messages[0].at.tzinfo is not None
    assert document.session.model_usage[-1].total_tokens == 12
    assert seen == ["AssistantMessageFinalized"]
    await engine.close()


async def test_a_tool_call_with_its_result():
    """Section 16.4.2."""
    from jacquard import create_context_engine
    from mnemosyne import (
        EvidenceLinks,
        EvidenceSource,
        EvidenceType,
        MemoryStore,
        ProviderKind,
        SourceKind,
        SystemClock,
        ToolCall,
        ToolCallStatus,
        ToolProvider,
        UuidV4Generator,
    )

    class Tools:
        async def get_order(self, order_id):
            return SimpleNamespace(to_json=lambda: '{"order": "xxxx", "status": "sent"}')

    store, clock, id_gen, tools, session_id = MemoryStore(), SystemClock(), UuidV4Generator(), Tools(), "s1"
    engine = create_context_engine(store)
    await engine.prepare_turn(session_id, USER_TEXT)
    engine_ingestor = engine.ingestor_of(session_id)

    tc = ToolCall(
        tool_call_id=id_gen.generate(),
        tool="getOrder",
        provider=ToolProvider(kind=ProviderKind.BUILTIN, name="order-service", uri="https://..."),
        called_at=clock.now_iso(),
        args_digest={"order_id": "xxxx"},
        status=ToolCallStatus.SUCCESS,
        duration_ms=37,
    )

    result = await tools.get_order(order_id="xxxx")

    eid = await engine_ingestor.ingest(
        content=result.to_json(),
        source=EvidenceSource(kind=SourceKind.TOOL, name="getOrder"),
        evidence_type=EvidenceType.TOOL_RESULT,
        links=EvidenceLinks(tool_call_id=tc.tool_call_id),
    )

    await engine.record_tool_call(session_id, tc, result_evidence_ids=[eid.evidence_id])

    document = await store.get_session(session_id)
    (call,) = document.session.tool_state.tool_calls
    assert call.result_evidence_ids == (eid.evidence_id,)
    assert call.called_at.tzinfo is not None
    await engine.close()


async def test_refs_are_the_third_argument_of_a_commit():
    """Section 6.7."""
    from jacquard import create_context_engine
    from mnemosyne import EvidenceSource, EvidenceType, MemoryStore, Message, Ref, Role, SourceKind

    store = MemoryStore()
    engine = create_context_engine(store)
    await engine.prepare_turn("s1", USER_TEXT)
    found = await engine.ingestor_of("s1").ingest(
        "The order was sent on Monday.", EvidenceSource(kind=SourceKind.RAG, uri="doc://orders"), EvidenceType.RAG_DOC
    )
    done = await engine.commit_assistant_message(
        "s1", Message(role=Role.ASSISTANT, content="On Monday."), [Ref(evidence_id=found.evidence_id)]
    )
    assert done.version == (await store.head("s1")).version
    assert (await store.get_session("s1")).session.messages[-1].refs[0].evidence_id == found.evidence_id
    await engine.close()


async def test_the_adapter_reads_requests_by_role_and_content():
    """Section 6.10: the request's messages have `role` and `content`."""
    from jacquard import create_context_engine
    from mnemosyne import MemoryStore

    adapter, store = MockLlmAdapter(), MemoryStore()
    engine = create_context_engine(store, llm_adapter=adapter)
    for number in range(8):
        await engine.prepare_turn("s1", f"Mara has {number} keys.")
        await engine.commit_assistant_message("s1", "I see.")
    await engine.settle(5)
    await engine.summarize("s1")
    assert adapter.requests
    assert {role for role, _ in adapter.requests[-1]} == {"system", "user"}
    await engine.close()


@pytest.mark.parametrize("answer", [None, 5, ValueError("no")])
async def test_an_adapter_that_fails_is_one_step_down_and_no_error(answer):
    from jacquard import create_context_engine
    from mnemosyne import MemoryStore

    class Broken:
        async def generate(self, request):
            if isinstance(answer, Exception):
                raise answer
            return answer

    engine = create_context_engine(MemoryStore(), llm_adapter=Broken())
    turn = await engine.prepare_turn("s1", "Hello.")
    assert turn.messages[-1].content
    await engine.close()


async def test_an_engine_that_nobody_closes_ends_with_its_event_loop(tmp_path):
    script = tmp_path / "host.py"
    script.write_text(HOST, encoding="utf-8")
    command = [sys.executable, "-W", "error", str(script)]
    done = await anyio.run_process(command, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.returncode, done.stdout.decode().split(), done.stderr.decode()) == (0, ["hi", "again"], "")


HOST = """\
import asyncio
from jacquard import create_context_engine
from mnemosyne import MemoryStore

engine = create_context_engine(MemoryStore())

async def say(text):
    turn = await engine.prepare_turn("s", text)
    done = await engine.commit_assistant_message("s", text)
    print(done.content)

asyncio.run(say("hi"))
asyncio.run(say("again"))
"""


def test_an_adapter_without_generate_is_refused_in_a_sentence():
    from jacquard import ConfigError, create_context_engine
    from mnemosyne import MemoryStore

    with pytest.raises(ConfigError, match="`async def generate"):
        create_context_engine(MemoryStore(), llm_adapter=object())
