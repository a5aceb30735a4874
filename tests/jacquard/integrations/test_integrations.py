"""The adapter that all agent frameworks share, with a toy framework in place of them (`tests/frameworks/` has the real ones)."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace

import anyio
import pytest
from toy_framework import ToyMapper

from jacquard import BudgetExceededError, ConfigError, RuntimeConfig, create_context_engine
from jacquard.core.errors import ToolPairError
from jacquard.integrations import (
    AdapterOptions,
    ContextAdapter,
    FailurePolicy,
    FoundDocument,
    FrameworkError,
    ModelAnswer,
    ModelRequest,
    SessionRecall,
    ToolOutcome,
    ToolResultError,
)
from jacquard.integrations.core.adapter import CHUNKS_A_WRITE, MOST_TURNS
from jacquard.integrations.core.bridge import EngineBridge
from jacquard.integrations.core.mapping import (
    find_provider,
    find_status,
    read_arguments,
    read_documents,
    read_text,
    write_result,
)
from jacquard.integrations.core.requirements import Requirement, check_framework, explain_missing
from jacquard.sync import create_context_engine as create_sync_engine
from mnemosyne import (
    Author,
    AuthorKind,
    EvidenceType,
    MemoryStore,
    Message,
    ProviderKind,
    Role,
    SessionNotFoundError,
    Task,
    TaskStatus,
    ToolCall,
    ToolCallStatus,
    ToolProvider,
)

pytestmark = pytest.mark.anyio
FRAMEWORKS = {
    "agent_framework": ("agent_framework", "agent-framework"),
    "autogen": ("autogen_agentchat", "autogen"),
    "crewai": ("crewai", "crewai"),
    "haystack": ("haystack", "haystack"),
    "langchain": ("langchain", "langchain"),
    "llamaindex": ("llama_index", "llamaindex"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "semantic_kernel": ("semantic_kernel", "semantic-kernel"),
}


@pytest.fixture
async def engine():
    store = MemoryStore()
    async with create_context_engine(store) as engine:
        yield engine
    await store.close()


def said(text):
    return Message(role=Role.USER, content=text)


def call_of(call_id="c1", name="lookup", arguments="{}"):
    return {"id": call_id, "function": {"name": name, "arguments": arguments}}


def adapter_on(engine, **options):
    return ContextAdapter(engine, ToyMapper(), AdapterOptions(**options))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_module_without_its_framework_says_what_to_install(name):
    module, extra = FRAMEWORKS[name]
    if find_spec(module) is not None:
        pytest.skip(f"{module} is installed here")
    with pytest.raises(ImportError, match=rf'pip install "\.\[{extra}\]"'):
        importlib.import_module(f"jacquard.integrations.{name}")


def test_importing_the_package_loads_no_framework():
    script = "import sys, jacquard.integrations; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not {module for module, _ in FRAMEWORKS.values()} & {*loaded}


def test_a_framework_below_its_floor_is_refused():
    there = Requirement(extra="toy", distribution="anyio", floor="4.0")
    assert check_framework(there, [(anyio, "run")]).startswith("4")
    with pytest.raises(FrameworkError, match=r"anyio 4\..* is older than this adapter needs \(99\.1\)"):
        check_framework(replace(there, floor="99.1"), [])
    with pytest.raises(FrameworkError, match="no-such-framework is not installed"):
        check_framework(replace(there, distribution="no-such-framework"), [])


def test_a_hook_that_has_gone_is_named():
    there = Requirement(extra="toy", distribution="anyio", floor="4.0")
    with pytest.raises(FrameworkError, match=r"has no ToyMapper\.map_everything"):
        check_framework(there, [(ToyMapper, "map_message"), (ToyMapper, "map_everything")])


@pytest.mark.parametrize(
    ("distribution", "floor", "what"),
    [
        ("no-such-framework", "1", "no-such-framework is not installed"),
        ("anyio", "99", "99 or later is needed"),
        ("anyio", "4.0", r"cannot be imported \(it is broken\)"),
    ],
)
def test_a_failed_import_is_explained(distribution, floor, what):
    needed = Requirement(extra="toy", distribution=distribution, floor=floor)
    with pytest.raises(ImportError, match=what):
        raise explain_missing(needed, ImportError("it is broken"))


async def test_a_turn_key_is_the_same_turn_in_another_process(engine):
    request = ModelRequest(turn_key="m1", user=said("Hello."))
    first = await adapter_on(engine).on_before_model_call("s", request)
    again = await adapter_on(engine).on_before_model_call("s", request)
    assert first == again
    assert len(await engine.parts.store.turns("s", limit=10)) == 0  # it waits for its reply


async def test_model_calls_at_once_prepare_one_turn(engine):
    adapter, request, prompts = adapter_on(engine), ModelRequest(turn_key="m1", user=said("Hello.")), []

    async def call():
        prompts.append(await adapter.on_before_model_call("s", request))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(call)
    assert len({id(prompt) for prompt in prompts}) == 1
    assert (adapter.report.turns, adapter.report.governed_calls) == (1, 5)


async def test_a_tail_that_is_too_large_is_sent_anyway_or_refused(engine):
    tail = tuple({"role": "user", "content": "word " * 30_000} for _ in range(3))
    request = ModelRequest(turn_key="m1", user=said("Hello."), tail=tail)
    adapter = adapter_on(engine)
    assert await adapter.on_before_model_call("s", request) is not None
    assert [problem.step for problem in adapter.report.problems] == ["tail"]
    with pytest.raises(BudgetExceededError):
        await adapter_on(engine, failure="closed").on_before_model_call("s2", request)


async def test_half_of_a_tool_call_is_refused(engine):
    tail = ({"role": "assistant", "content": "", "tool_calls": [call_of()]},)
    request = ModelRequest(turn_key="m1", user=said("Hello."), tail=tail)
    with pytest.raises(ToolPairError):
        await adapter_on(engine, failure="closed").on_before_model_call("s", request)


async def test_messages_of_others_come_before_that_of_the_user(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_turn_end("s", "Hi.", turn_key="m1")
    author = Author(kind=AuthorKind.AGENT, id="scout")
    other = Message(role=Role.USER, content="The bridge is down.", message_id="x1", author=author)
    request = ModelRequest(turn_key="m2", user=said("What now?"), before=(other,))
    prompt = await adapter.on_before_model_call("s", request)
    assert sum("The bridge is down." in part.content for part in prompt.messages) == 1
    document = await engine.parts.store.get_session("s")
    assert [m.author.id for m in document.session.messages if m.content == "The bridge is down."] == ["scout"]


@pytest.mark.parametrize("policy", list(FailurePolicy))
async def test_a_result_that_is_neither_text_nor_json(engine, policy):
    adapter = adapter_on(engine, failure=policy)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_tool_call_start("s", call_of())
    outcome = ToolOutcome(result=object())
    if policy is FailurePolicy.CLOSED:
        with pytest.raises(ToolResultError, match=r"'lookup'.*is a object, neither text nor JSON"):
            await adapter.on_tool_call_end("s", call_of(), outcome)
    else:
        await adapter.on_tool_call_end("s", call_of(), outcome)
        assert "neither text nor JSON" in adapter.report.problems[0].detail
    (call,) = (await engine.parts.store.get_session("s")).session.tool_state.tool_calls
    assert (call.tool, call.status, call.result_evidence_ids) == ("lookup", ToolCallStatus.SUCCESS, ())


async def test_the_same_call_id_in_two_turns_is_two_calls(engine):
    adapter = adapter_on(engine)
    for key in ("m1", "m2"):
        await adapter.on_before_model_call("s", ModelRequest(turn_key=key, user=said(f"Hello {key}.")))
        await adapter.on_tool_call_end("s", call_of(), ToolOutcome(result=f"for {key}"))
        await adapter.on_turn_end("s", "Hi.", turn_key=key)
    calls = (await engine.parts.store.get_session("s")).session.tool_state.tool_calls
    assert [call.extra["call_id"] for call in calls] == ["c1", "c1"]
    assert len({call.tool_call_id for call in calls}) == 2


async def test_results_of_a_tool_that_searches_become_documents(engine):
    adapter = adapter_on(engine, document_tools={"lookup"})
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    found = [{"text": "The mill is old.", "url": "https://example.org/mill"}, {"text": "The mill burned."}]
    await adapter.on_tool_call_end("s", call_of(arguments='{"q": "mill"}'), ToolOutcome(result=found))
    document = await engine.parts.store.get_session("s")
    (call,) = document.session.tool_state.tool_calls
    held = [document.evidences[each] for each in call.result_evidence_ids]
    assert [(each.type, each.content) for each in held] == [
        (EvidenceType.RAG_DOC, "The mill is old."),
        (EvidenceType.RAG_DOC, "The mill burned."),
    ]
    assert held[0].source.uri == "https://example.org/mill"


async def test_documents_of_a_retriever_are_evidence(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    found = FoundDocument(text="The mill is old.", uri="file:mill.md", score=0.5, metadata={"page": 3})
    await adapter.on_documents("s", [found], query="mill")
    (evidence,) = await engine.parts.store.list_evidences("s")
    assert (evidence.type, evidence.source.uri, evidence.metadata["page"]) == (EvidenceType.RAG_DOC, "file:mill.md", 3)
    assert (evidence.metadata["framework"], evidence.metadata["query"]) == ("toy", "mill")


async def test_a_search_of_a_retriever_is_a_tool_call(engine):
    """The call has the name of the retriever, its provider, query, time and number of documents; its evidence names it."""
    adapter = adapter_on(engine)
    prompt = await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    made = ToolCall(tool_call_id="r1", tool="Shelf", provider=ToolProvider(name="books"), duration_ms=7)
    await adapter.on_documents("s", [FoundDocument(text="The mill is old.")], query="mill", call=made)
    await adapter.on_documents("s", [], query="windmill")
    await adapter.on_documents(
        "s", [], query="watermill", call=replace(made, tool_call_id="r2"), error=TimeoutError("no answer")
    )
    document = await engine.parts.store.get_session("s")
    first, nothing, failed = document.session.tool_state.tool_calls
    (found,) = [each for each in document.evidences.values() if each.type is EvidenceType.RAG_DOC]
    assert (first.tool, first.provider.name, first.duration_ms) == ("Shelf", "books", 7)
    assert (dict(first.args_digest), first.extra["documents"]) == ({"query": "mill"}, 1)
    assert (first.tool_call_id, first.extra["turn_id"]) == (f"{prompt.turn_id}.r1", prompt.turn_id)
    assert first.called_at is not None
    assert (first.result_evidence_ids, found.links.tool_call_id) == ((found.evidence_id,), first.tool_call_id)
    assert (nothing.tool, nothing.provider.name, nothing.extra["documents"]) == ("retriever", "toy", 0)
    assert (failed.status, document.evidences[failed.result_evidence_ids[0]].content) == (
        ToolCallStatus.TIMEOUT,
        "no answer",
    )
    assert (adapter.report.tool_calls, adapter.report.documents, adapter.report.problems) == (3, 1, ())


async def test_a_search_before_the_first_turn_of_a_session_is_recorded(engine):
    adapter = adapter_on(engine, failure=FailurePolicy.CLOSED)
    await adapter.on_documents("s", [FoundDocument(text="The mill is old.")], query="mill")
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    (call,) = (await engine.parts.store.get_session("s")).session.tool_state.tool_calls
    assert (call.tool, len(call.result_evidence_ids)) == ("retriever", 1)


async def test_the_usage_of_a_model_call_names_its_task(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_after_model_call("s", ModelAnswer(task_id="t1"), {"prompt_tokens": 5, "completion_tokens": 2})
    (usage,) = (await engine.parts.store.get_session("s")).session.model_usage
    assert (usage.task_id, usage.prompt_tokens) == ("t1", 5)


async def test_an_agent_sees_its_own_lines_without_its_name(engine):
    """Lines of other agents have their names, and so has every line for an agent without a name."""
    adapter = adapter_on(engine)

    async def ask(key, agent):
        user = Message(role=Role.USER, content=f"Question {key}.", author=Author(kind=AuthorKind.AGENT, id="bob"))
        prompt = await adapter.on_before_model_call("s", ModelRequest(turn_key=key, user=user, agent=agent))
        reply = Message(role=Role.ASSISTANT, content=f"Answer {key}.", author=Author(kind=AuthorKind.AGENT, id="Alice"))
        await adapter.on_turn_end("s", reply, turn_key=key)
        return [each.content for each in prompt.messages]

    assert await ask("1", "Alice") == ["bob: Question 1."]
    assert await ask("2", "Alice") == ["bob: Question 1.", "Answer 1.", "bob: Question 2."]
    seen = await ask("3", "")
    assert (seen[1], seen[3]) == ("Alice: Answer 1.", "Alice: Answer 2.")
    assert (await ask("4", "carol"))[1] == "Alice: Answer 1."


def test_the_provider_of_a_tool_is_named_by_its_server_else_by_its_module():
    def nameless():
        return ""

    nameless.__module__ = "__main__"
    client = SimpleNamespace(__module__="bridge.mcp_tool")
    assert find_provider(None, partial(find_status)).name == "jacquard.integrations.core.mapping"
    assert find_provider(nameless, find_status).kind is ProviderKind.BUILTIN
    assert find_provider(client) == ToolProvider(kind=ProviderKind.MCP, name="bridge.mcp_tool")
    assert find_provider(client, name="weather") == ToolProvider(kind=ProviderKind.MCP, name="weather")
    assert find_provider(nameless, None) is None


async def test_a_tool_of_a_nameless_provider_has_the_framework_as_its_provider(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_tool_call_end("s", call_of(), ToolOutcome(result="a"))
    given = ToolProvider(kind=ProviderKind.MCP, name="weather")
    await adapter.on_tool_call_end("s", call_of("c2"), ToolOutcome(result="b"), provider=given)
    calls = (await engine.parts.store.get_session("s")).session.tool_state.tool_calls
    assert [call.provider for call in calls] == [ToolProvider(kind=ProviderKind.BUILTIN, name="toy"), given]


async def test_tasks_are_written(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_tasks("s", [Task(task_id="t1", name="find the mill", status=TaskStatus.IN_PROGRESS)])
    assert [task.name for task in await adapter.tasks("s")] == ["find the mill"]


async def test_a_run_that_fails_leaves_the_message_unanswered(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_chunk("s", "Half an ans", turn_key="m1")
    await adapter.on_turn_failed("s", turn_key="m1")
    await adapter.on_turn_end("s", "Too late.", turn_key="m1")
    prompt = await adapter.on_before_model_call("s", ModelRequest(turn_key="m2", user=said("Are you there?")))
    texts = [part.content for part in prompt.messages]
    assert any("Hello." in text for text in texts)
    assert not any("Half an ans" in text or "Too late." in text for text in texts)


async def test_chunks_of_an_answer_with_tool_calls_are_no_part_of_the_reply(engine):
    adapter = adapter_on(engine)
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    await adapter.on_chunk("s", "Let me look.")
    await adapter.on_after_model_call("s", ModelAnswer(text="Let me look.", tool_calls=1))
    await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Hello.")))
    for piece in ("It is ", "here."):
        await adapter.on_chunk("s", piece)
    await adapter.on_turn_end("s", "It is here.")
    document = await engine.parts.store.get_session("s")
    assert [message.content for message in document.session.messages] == ["Hello.", "It is here."]
    assert adapter.report.problems == ()


async def test_the_chunks_of_a_stream_are_written_several_at_once(engine):
    adapter, pieces = adapter_on(engine), [f"{number} " for number in range(200)]
    prompt = await adapter.on_before_model_call("s", ModelRequest(turn_key="m1", user=said("Count.")))
    for piece in pieces:
        await adapter.on_chunk("s", piece)
    reply = await engine.parts.store.unfinished_reply("s", prompt.turn_id, "m1")
    assert list(reply.chunks) == list(range(len(reply.chunks)))
    assert "".join(pieces).startswith("".join(reply.chunks.values()))
    assert len(reply.chunks) >= 3
    assert sum(len(text.split()) for text in reply.chunks.values()) > 200 - CHUNKS_A_WRITE
    await adapter.on_turn_end("s", "".join(pieces))
    assert await engine.parts.store.unfinished_reply("s", prompt.turn_id, "m1") is None
    assert (await engine.parts.store.get_session("s")).session.messages[-1].content == "".join(pieces)
    assert adapter.report.chunks == 200


async def test_usage_with_the_hosts_own_parts_corrects_no_estimate(engine):
    adapter, usage = adapter_on(engine), {"prompt_tokens": 90_000, "completion_tokens": 5}
    for key, is_bare in (("m1", False), ("m2", True)):
        await adapter.on_before_model_call("s", ModelRequest(turn_key=key, user=said("Hello."), is_bare=is_bare))
        await adapter.on_after_model_call("s", ModelAnswer(text="Hi."), usage, turn_key=key)
        await adapter.on_turn_end("s", "Hi.", turn_key=key)
    usages = (await engine.parts.store.get_session("s")).session.model_usage
    assert [each.extra["counted"] for each in usages] == ["reported_with_host_parts", "reported"]


async def test_runs_that_were_given_up_are_forgotten(engine):
    adapter = adapter_on(engine)
    for number in range(3):
        await adapter.on_before_model_call("s", ModelRequest(turn_key=f"m{number}", user=said(f"Hello {number}.")))
    await adapter.on_turn_end("s", "Hi.", turn_key="unknown")
    assert adapter.report.problems == ()
    assert MOST_TURNS >= 100


async def test_recall_finds_what_was_said_and_written(engine):
    await engine.prepare_turn("s", "The password is the seventh heron.")
    await engine.commit_assistant_message("s", "I will remember the heron.")
    recall = SessionRecall(engine, "s", limit=2)
    found = await recall.recall("What is the password?")
    assert any("seventh heron" in each.text for each in found)
    assert found[0].metadata["uri"].startswith("mnemosyne://")
    assert len(await recall.recall("heron", limit=1)) == 1
    with pytest.raises(SessionNotFoundError):
        await SessionRecall(engine, "nowhere").recall("heron")
    with pytest.raises(ConfigError, match="limit is 0"):
        SessionRecall(engine, "s", limit=0)


def test_a_blocking_call_needs_a_loop_of_the_engine():
    engine = create_context_engine(MemoryStore())
    with pytest.raises(ConfigError, match=r"Use an engine of jacquard\.sync"):
        EngineBridge(engine).run_blocking(engine.branches, "s")


async def test_a_blocking_call_on_the_engines_own_loop_is_refused(engine):
    with pytest.raises(ConfigError, match="would wait for itself"):
        EngineBridge(engine).run_blocking(engine.branches, "s")


async def test_an_engine_of_this_loop_is_called_from_threads(engine):
    bridge = EngineBridge(engine)
    await engine.prepare_turn("s", "Hello.")
    heads = await anyio.to_thread.run_sync(bridge.run_blocking, engine.branches, "s")
    assert heads[0].session_id == "s"


def test_a_closed_engine_is_named():
    with create_sync_engine(MemoryStore(), config=RuntimeConfig()) as engine:
        bridge = EngineBridge(engine)
    with pytest.raises(ConfigError, match="was closed"):
        anyio.run(bridge.run, engine.engine.branches, "s")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, "b"], "a\nb"),
        ([{"type": "image_url"}, {"type": "audio"}], "[image_url] [audio]"),
        ([], ""),
    ],
)
def test_the_text_of_a_content(content, text):
    assert read_text(content) == text


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        (None, {}),
        ("not json", {"input": "not json"}),
        ("[1]", {"input": [1]}),
        ({"a": {1, 2}}, {"a": "[set]"}),
        (7, {"input": 7}),
    ],
)
def test_arguments_are_plain(given, read):
    assert read_arguments(given) == read


def test_results_are_text_or_json():
    assert write_result("text") == "text"
    assert write_result({"a": "ä"}) == '{"a": "ä"}'
    assert write_result(object()) is None
    assert write_result(b"bytes") is None


def test_the_status_is_that_of_the_error_and_its_causes():
    wrapped = RuntimeError("the tool failed")
    wrapped.__cause__ = PermissionError("no")
    assert find_status(None) is ToolCallStatus.SUCCESS
    assert find_status(wrapped) is ToolCallStatus.FORBIDDEN
    assert find_status(FileNotFoundError()) is ToolCallStatus.NOT_FOUND
    assert find_status(ValueError()) is ToolCallStatus.ERROR
    assert find_status("it said no") is ToolCallStatus.ERROR


def test_documents_are_read_from_texts_mappings_and_objects():
    class Page:
        page_content, metadata = "third", {"source": "c.md", "long": "x" * 600}

    found = read_documents(["first", {"content": "second", "metadata": {"url": "b"}, "rank": 2}, Page(), {"x": 1}, " "])
    assert [each.text for each in found] == ["first", "second", "third"]
    assert [each.uri for each in found] == ["", "b", "c.md"]
    assert dict(found[1].metadata) == {"url": "b", "rank": 2}
    assert dict(found[2].metadata) == {"source": "c.md"}
    assert [each.text for each in read_documents('[{"text": "one"}]')] == ["one"]
    assert [each.text for each in read_documents("just words")] == ["just words"]
    found = read_documents(['{"name": "a", "value": "two", "link": "l"}', '{"x": 1}', "{no JSON", "{}"])
    assert [(each.text, each.uri) for each in found] == [("two", "l"), ('{"x": 1}', ""), ("{no JSON", ""), ("{}", "")]
