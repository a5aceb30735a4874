"""Contract suite of `jacquard.integrations.AgentFrameworkAdapter`: subclass `FrameworkContract`, override `make_agent`,
run pytest.

    class TestMyFramework(FrameworkContract):
        def make_agent(self, setup: AgentSetup) -> AgentUnderTest:
            adapter = attach_to_my_framework(setup.engine, failure=setup.failure)
            return MyAgentUnderTest(adapter, base_url=setup.base_url, tools=setup.tools)

The agent is a real agent of the framework. It calls its model at `setup.base_url`, at which `jacquard.testing.server`
answers from a script. The docstring of each test names the rule of `AgentFrameworkAdapter` that it checks.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import field, replace
from typing import Any, ClassVar, Protocol

import anyio
import pytest

from jacquard import (
    BudgetConfig,
    BudgetExceededError,
    ContextEngine,
    InMemoryEventBus,
    RuntimeConfig,
    create_context_engine,
    sync,
)
from jacquard.core.degradations import DegradationCode
from jacquard.integrations import AgentFrameworkAdapter, FailurePolicy, SessionOwnerError
from jacquard.pipeline.worlds import build_bare_world
from jacquard.testing.server import ScriptedRequest, ScriptedServer, SeenMessage
from mnemosyne import Event, MemoryStore, Role, SessionDocument, ToolCallStatus
from mnemosyne.schema.event import EventType
from mnemosyne.schema.world import NumericalAction, WorldPack
from mnemosyne.values import dataclass

OURS = "MARK-OF-OUR-CONTEXT"
"""Text that the engine's settings put into every prompt of ours. It occurs nowhere else."""
OWN = "You answer about the weather. MARK-OF-THE-AGENT"
"""System text of the agent itself. `AgentUnderTest` passes it to the framework."""
SMALL = BudgetConfig(max_input_tokens=40, reserved_reply_tokens=10)
"""Budget that is too small for any prompt, so that preparing a turn fails."""


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


def population(city: str) -> dict[str, int]:
    """Return how many people live in a city."""
    return {"people": 700_000 + len(city)}


def broken(city: str) -> str:
    """Return nothing: this tool fails."""
    raise TimeoutError(f"no answer about {city}")


@dataclass(frozen=True, kw_only=True)
class AgentSetup:
    """Settings by which `make_agent` makes an agent."""

    engine: Any
    """A `ContextEngine`, or an engine of `jacquard.sync`. None: the agent gets no adapter."""
    base_url: str
    tools: Sequence[Callable[..., Any]] = (weather, population, broken)
    """Tools of the agent: plain functions with annotations and docstrings."""
    system: str = OWN
    """System text of the agent itself."""
    failure: FailurePolicy = FailurePolicy.OPEN
    user_id: str | None = None


class AgentUnderTest(Protocol):
    """Agent of the framework that is tested."""

    @property
    def adapter(self) -> AgentFrameworkAdapter | None:
        """The attached adapter (None: the agent has no adapter)."""
        ...

    async def run(self, session_id: str, text: str) -> str:
        """Answer one user message. The framework keeps the conversation in its own store."""
        ...

    async def stream(self, session_id: str, text: str) -> str:
        """Do the same as `run` with a streamed answer, and read the answer to its end."""
        ...

    def run_blocking(self, session_id: str, text: str) -> str:
        """Do the same as `run`, called without an event loop."""
        ...

    async def stored(self, session_id: str) -> list[tuple[str, str]]:
        """Return the messages that the framework stores for a session, as (role, text), oldest first."""
        ...


@dataclass
class Scene:
    """Surroundings of one test: an engine, its store, the scripted server, and the events so far."""

    engine: ContextEngine
    store: MemoryStore
    server: ScriptedServer
    events: list[Event] = field(default_factory=list)

    async def document(self, session_id: str) -> SessionDocument:
        """Return the document of a session from the store."""
        document = await self.store.get_session(session_id)
        assert document is not None, f"session {session_id} was never stored"
        return document

    async def said(self, session_id: str) -> list[tuple[str, str]]:
        """Return the messages of a session as (role, text)."""
        messages = (await self.document(session_id)).session.messages
        return [(message.role.value, message.content) for message in messages]


@asynccontextmanager
async def open_scene(
    server: ScriptedServer, *steps: Any, budget: BudgetConfig | None = None, world: WorldPack | None = None
) -> AsyncIterator[Scene]:
    """Yield a scene: an engine with an empty store, and a server that answers by `steps`.

    `budget` is the token budget of the prompts (None: the default). New sessions begin in `world` (None: an empty
    world).
    """
    server.set_script(*steps)
    store, bus, events = MemoryStore(), InMemoryEventBus(), []  # type: ignore[var-annotated]
    bus.on_all(events.append)
    config = RuntimeConfig(instructions={"mark": OURS}, budget=budget or BudgetConfig())
    async with create_context_engine(store, config=config, event_bus=bus, world=world) as engine:
        yield Scene(engine=engine, store=store, server=server, events=events)
    await store.close()


def count_texts(messages: Sequence[SeenMessage], text: str) -> int:
    """Return how often `text` occurs in the messages of a request."""
    return sum(message.text.count(text) for message in messages)


def is_caused_by(error: BaseException | None, kind: type[BaseException]) -> bool:
    """Return whether an error, one of its causes, or a member of its exception group is of the class `kind`.

    Frameworks often wrap the errors of their hooks.
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, kind):
            return True
        waiting += [each.__cause__, each.__context__]
        waiting += getattr(each, "exceptions", ())
    return False


@contextmanager
def raises_somewhere(kind: type[BaseException]) -> Iterator[None]:
    """Expect an error of the class `kind` in the block. The error may be wrapped in other errors."""
    with pytest.raises(BaseException) as caught:  # noqa: PT011
        yield
    error = caught.value
    assert is_caused_by(error, kind), f"{type(error).__name__}: {error} is not caused by {kind.__name__}"


class FrameworkContract:
    """Tests of the rules of `AgentFrameworkAdapter`. The attributes state what the framework can do."""

    raises_tool_errors: ClassVar[bool] = False
    """True if a failing tool ends a run of the framework."""
    needs_loop: ClassVar[bool] = False
    """True if the framework cannot be called without an event loop."""
    has_chunks: ClassVar[bool] = True
    """True if the adapter gets the chunks of a streamed answer."""
    answers_without_model: ClassVar[bool] = True
    """True if the adapter can answer without a call of the model."""
    provider: ClassVar[str] = ""
    """Name of the provider of the tools in the record of a call ('': any name)."""
    error_status: ClassVar[ToolCallStatus] = ToolCallStatus.TIMEOUT
    """Status of the call of a tool that raised TimeoutError. It is `error` if the framework only reports that a tool
    failed.
    """

    @pytest.fixture
    def server(self) -> Iterator[ScriptedServer]:
        """Yield the scripted server of a test."""
        with ScriptedServer("text:Hello.") as server:
            yield server

    def make_agent(self, setup: AgentSetup) -> AgentUnderTest:
        """Return a new agent of the framework. Override this.

        The adapter is attached to it unless `setup.engine` is None.
        """
        raise NotImplementedError("say how an agent of the framework is made")

    def named(self, tool: str) -> str:
        """Return the name by which the model calls a tool. Some frameworks add a prefix for a group of tools."""
        return tool

    def calling(self, *calls: tuple[str, str]) -> str:
        """Return the step of a script that calls several tools at once. Each call is (name of the tool, city)."""
        return "tool:" + " && ".join(f'{self.named(tool)} {{"city": "{city}"}}' for tool, city in calls)

    @property
    def loop(self) -> tuple[str, str]:
        """Script of a tool loop: first a tool call, then the answer."""
        return self.calling(("weather", "Oslo")), "text:It rains in Oslo."

    def agent(self, scene: Scene, **options: Any) -> AgentUnderTest:
        """Return an agent that uses the engine of a scene. `options` are further fields of `AgentSetup`."""
        return self.make_agent(AgentSetup(engine=scene.engine, base_url=scene.server.base_url, **options))

    def report(self, agent: AgentUnderTest) -> Any:
        """Return the report of an agent's adapter."""
        assert agent.adapter is not None
        return agent.adapter.report

    def test_every_model_call_of_a_tool_loop_gets_the_prompt_of_one_turn(self, server: ScriptedServer) -> None:
        """Check rule 1, and the order of the parts.

        The order is: the agent's own system text, our system text, our history, the user's message, the framework's
        tool calls.
        """

        async def work() -> None:
            async with open_scene(server, *self.loop, "text:Also in Bergen.") as scene:
                agent = self.agent(scene)
                assert await agent.run("s1", "How is the weather in Oslo?") == "It rains in Oslo."
                assert await agent.run("s1", "And in Bergen?") == "Also in Bergen."
                first, second, third = (request.messages for request in server.requests)
                for messages in (first, second, third):
                    system = "\n".join(message.text for message in messages if message.role == "system")
                    assert count_texts(messages, OURS) == 1
                    assert system.index("MARK-OF-THE-AGENT") < system.index(OURS)
                    assert count_texts(messages, "How is the weather in Oslo?") == 1
                assert second[: len(first)] == first
                assert [message.role for message in second[len(first) :]] == ["assistant", "tool"]
                assert second[-1].text.strip('"') == "Rain in Oslo."
                assert count_texts(third, "It rains in Oslo.") == 1
                assert "And in Bergen?" in third[-1].text
                assert await scene.said("s1") == [
                    ("user", "How is the weather in Oslo?"),
                    ("assistant", "It rains in Oslo."),
                    ("user", "And in Bergen?"),
                    ("assistant", "Also in Bergen."),
                ]
                report = self.report(agent)
                assert (report.turns, report.governed_calls, report.ungoverned_calls) == (2, 3, 0)
                assert report.problems == ()

        anyio.run(work)

    def test_a_tool_call_is_recorded_with_its_result(self, server: ScriptedServer) -> None:
        """Check rule 4: id, name, provider, arguments, status and duration are recorded, and the result is linked
        evidence.
        """

        async def work() -> None:
            async with open_scene(server, *self.loop) as scene:
                await self.agent(scene).run("s1", "How is the weather in Oslo?")
                document = await scene.document("s1")
                assert document.session.tool_state is not None
                (call,) = document.session.tool_state.tool_calls
                assert (call.tool, dict(call.args_digest), call.status) == (
                    self.named("weather"),
                    {"city": "Oslo"},
                    ToolCallStatus.SUCCESS,
                )
                assert call.extra["call_id"]
                assert call.provider is not None
                assert call.provider.name == (self.provider or call.provider.name) != ""
                assert 0 <= call.duration_ms < 60_000
                evidence = document.evidences[call.result_evidence_ids[0]]
                assert "Rain in Oslo." in evidence.content
                assert evidence.links.tool_call_id == call.tool_call_id

        anyio.run(work)

    def test_tools_that_are_called_at_once_are_told_apart(self, server: ScriptedServer) -> None:
        """Check rule 4 for parallel tools. A result that is JSON and not text is stored as JSON."""

        async def work() -> None:
            calls = self.calling(("weather", "Oslo"), ("population", "Oslo"), ("weather", "Rome"))
            async with open_scene(server, calls, "text:Rain, and many people.") as scene:
                agent = self.agent(scene)
                await agent.run("s1", "Tell me of Oslo and Rome.")
                document = await scene.document("s1")
                assert document.session.tool_state is not None
                recorded = document.session.tool_state.tool_calls
                found = {
                    (call.tool, call.args_digest["city"]): document.evidences[call.result_evidence_ids[0]].content
                    for call in recorded
                }
                assert len({call.tool_call_id for call in recorded}) == 3
                assert "Oslo" in found[self.named("weather"), "Oslo"]
                assert "Rome" in found[self.named("weather"), "Rome"]
                assert "700004" in found[self.named("population"), "Oslo"]
                assert self.report(agent).problems == ()
                assert sum(message.role == "tool" for message in server.requests[1].messages) == 3

        anyio.run(work)

    def test_a_tool_that_fails_is_recorded_as_failed(self, server: ScriptedServer) -> None:
        """Check rule 4: the error decides the status, not the text that the model reads."""

        async def work() -> None:
            async with open_scene(server, self.calling(("broken", "Oslo")), "text:I could not find out.") as scene:
                agent = self.agent(scene)
                if self.raises_tool_errors:
                    with raises_somewhere(TimeoutError):
                        await agent.run("s1", "How is the weather?")
                else:
                    assert await agent.run("s1", "How is the weather?") == "I could not find out."
                tool_state = (await scene.document("s1")).session.tool_state
                assert tool_state is not None
                (call,) = tool_state.tool_calls
                assert (call.tool, call.status) == (self.named("broken"), self.error_status)

        anyio.run(work)

    def test_usage_is_counted_once_a_call(self, server: ScriptedServer) -> None:
        """Check rule 4: each model call has one record, with the provider's counts."""

        async def work() -> None:
            async with open_scene(server, *self.loop) as scene:
                agent = self.agent(scene)
                await agent.run("s1", "How is the weather in Oslo?")
                usages = [each for each in (await scene.document("s1")).session.model_usage or () if self.is_ours(each)]
                assert [each.prompt_tokens for each in usages] == [
                    len(request.text) // 4 for request in server.requests
                ]
                assert all(each.completion_tokens > 0 for each in usages)
                assert [each.stage.value for each in usages] == ["tool_call", "answer"]
                assert self.report(agent).usages == 2

        anyio.run(work)

    def is_ours(self, usage: Any) -> bool:
        """Return whether a usage was recorded by an adapter, not by the engine's own models."""
        return "framework" in usage.extra

    def test_a_streamed_answer_is_recorded_whole(self, server: ScriptedServer) -> None:
        """Check rules 1 and 4 for streams: one turn for a tool loop, one usage for each call, and the complete answer."""

        async def work() -> None:
            text = "It rains in Oslo, and it will not stop before the evening."
            async with open_scene(server, self.loop[0], f"text:{text}") as scene:
                agent = self.agent(scene)
                assert await agent.stream("s1", "How is the weather in Oslo?") == text
                assert (await scene.said("s1"))[-1] == ("assistant", text)
                report = self.report(agent)
                assert (report.turns, report.governed_calls, report.usages, report.tool_calls) == (1, 2, 2, 1)
                assert report.problems == ()
                usages = [each for each in (await scene.document("s1")).session.model_usage or () if self.is_ours(each)]
                assert [each.prompt_tokens > 0 for each in usages] == [True, True]
                assert server.requests[0].is_stream
                if self.has_chunks:
                    assert report.chunks > 1

        anyio.run(work)

    def test_the_framework_keeps_what_it_would_keep_without_us(self, server: ScriptedServer) -> None:
        """Check rule 3: the framework stores the same conversation with and without the adapter, and no text of ours."""

        async def work() -> None:
            kept = []
            for with_adapter in (True, False):
                async with open_scene(server, *self.loop, "text:Also in Bergen.") as scene:
                    setup = AgentSetup(engine=scene.engine if with_adapter else None, base_url=server.base_url)
                    agent = self.make_agent(setup)
                    await agent.run("s1", "How is the weather in Oslo?")
                    await agent.run("s1", "And in Bergen?")
                    kept.append(await agent.stored("s1"))
            assert kept[0] == kept[1]
            assert kept[0], "the framework kept nothing, so nothing was compared"
            assert not any(OURS in text for _, text in kept[0])

        anyio.run(work)

    def test_a_turn_that_needs_no_model_calls_none(self, server: ScriptedServer) -> None:
        """Check that a declared action of the world is answered without the model, because it has its reply already."""
        if not self.answers_without_model:
            pytest.skip("the framework has no way to answer without its model")

        async def work() -> None:
            reply = "You wait an hour."
            action = NumericalAction(action_id="wait", patterns=("I wait",), ops=(("ADD", "hours", 1),), reply=reply)
            world = replace(build_bare_world("clock"), state={"hours": 0}, actions=(action,))
            async with open_scene(server, "text:Never sent.", world=world) as scene:
                agent = self.agent(scene)
                assert await agent.run("s1", "I wait") == reply
                assert server.requests == []
                assert await scene.said("s1") == [("user", "I wait"), ("assistant", reply)]
                assert self.report(agent).problems == ()

        anyio.run(work)

    def test_two_sessions_at_once_do_not_meet(self, server: ScriptedServer) -> None:
        """Check rule 5: runs in two sessions at once do not see each other."""

        def script(request: ScriptedRequest) -> str:
            city = next(name for name in ("Oslo", "Rome") if name in request.text)
            if any(message.role == "tool" for message in request.messages):
                return f"slow:0.05 text:It rains in {city}."
            return f"slow:0.05 {self.calling(('weather', city))}"

        async def work() -> None:
            async with open_scene(server, script) as scene:
                agent = self.agent(scene)

                async def ask(session_id: str, city: str) -> None:
                    assert await agent.run(session_id, f"How is {city}?") == f"It rains in {city}."

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(ask, "north", "Oslo")
                    tasks.start_soon(ask, "south", "Rome")
                for session_id, city, other in (("north", "Oslo", "Rome"), ("south", "Rome", "Oslo")):
                    document = await scene.document(session_id)
                    assert [m.content for m in document.session.messages] == [f"How is {city}?", f"It rains in {city}."]
                    assert document.session.tool_state is not None
                    (call,) = document.session.tool_state.tool_calls
                    assert call.args_digest == {"city": city}
                    assert not any(other in each.content for each in document.evidences.values())
                for request in server.requests:
                    assert ("Oslo" in request.text) != ("Rome" in request.text)

        anyio.run(work)

    def test_an_agent_goes_on_without_an_engine_that_fails(self, server: ScriptedServer) -> None:
        """Check rule 6 for `open`: the agent answers without us, and report and events state this. No message is lost."""

        async def work() -> None:
            async with open_scene(server, *self.loop, budget=SMALL) as scene:
                agent = self.agent(scene, failure=FailurePolicy.OPEN)
                assert await agent.run("s1", "How is the weather in Oslo?") == "It rains in Oslo."
                assert not any(OURS in request.text for request in server.requests)
                assert count_texts(server.requests[0].messages, "How is the weather in Oslo?") == 1
                report = self.report(agent)
                assert (report.governed_calls, report.ungoverned_calls) == (0, 2)
                assert [problem.step for problem in report.problems] == ["prepare"]
                assert "BudgetExceededError" in report.problems[0].detail
                degraded = [each for each in scene.events if each.event_type is EventType.DEGRADED]
                assert degraded[-1].payload["reason"] == DegradationCode.INTEGRATION_FAILED.value
                assert await scene.said("s1") == [
                    ("user", "How is the weather in Oslo?"),
                    ("assistant", "It rains in Oslo."),
                ]

        anyio.run(work)

    def test_an_agent_stops_with_an_engine_that_fails(self, server: ScriptedServer) -> None:
        """Check rule 6 for `closed`: the run ends with the engine's error, and no model is called."""

        async def work() -> None:
            async with open_scene(server, *self.loop, budget=SMALL) as scene:
                agent = self.agent(scene, failure=FailurePolicy.CLOSED)
                with raises_somewhere(BudgetExceededError):
                    await agent.run("s1", "How is the weather in Oslo?")
                assert server.requests == []

        anyio.run(work)

    def test_a_session_of_another_user_is_refused(self, server: ScriptedServer) -> None:
        """Check that a session belongs to the user of its first run. Another user is refused with every failure policy."""

        async def work() -> None:
            async with open_scene(server, "text:Hello.") as scene:
                await self.agent(scene, user_id="ann").run("s1", "Hello from Ann.")
                await self.agent(scene, user_id="ann").run("s1", "Hello again.")
                before = len(server.requests)
                with raises_somewhere(SessionOwnerError):
                    await self.agent(scene, user_id="bob").run("s1", "Hello from Bob.")
                assert len(server.requests) == before
                assert not any("Bob" in text for _, text in await scene.said("s1"))

        anyio.run(work)

    def test_events_have_the_name_of_the_framework(self, server: ScriptedServer) -> None:
        """Check that the events of a run have the tag `framework`, and that events of the host's own calls do not."""

        async def work() -> None:
            async with open_scene(server, *self.loop) as scene:
                agent = self.agent(scene)
                await agent.run("s1", "How is the weather in Oslo?")
                assert agent.adapter is not None
                tagged = {
                    each.event_type for each in scene.events if each.tags.get("framework") == agent.adapter.framework
                }
                assert {EventType.ASSEMBLED, EventType.TOOL_CALL_COMPLETED, EventType.PERSISTED} <= tagged
                scene.events.clear()
                await scene.engine.prepare_turn("s1", "And now?")
                assert not any("framework" in each.tags for each in scene.events)

        anyio.run(work)

    def test_a_run_without_an_event_loop(self, server: ScriptedServer) -> None:
        """Check rules 1 and 4 without an event loop, with an engine of `jacquard.sync`."""
        if self.needs_loop:
            pytest.skip("the framework has no calls without an event loop")
        server.set_script(*self.loop)
        store = MemoryStore()
        with sync.create_context_engine(store, config=RuntimeConfig(instructions={"mark": OURS})) as engine:
            agent = self.make_agent(AgentSetup(engine=engine, base_url=server.base_url))
            assert agent.run_blocking("s1", "How is the weather in Oslo?") == "It rains in Oslo."
            assert [count_texts(request.messages, OURS) for request in server.requests] == [1, 1]
            document = engine.run(store.get_session, "s1")
            assert document is not None
            assert [message.role for message in document.session.messages] == [Role.USER, Role.ASSISTANT]
            assert document.session.tool_state is not None
            assert len(document.session.tool_state.tool_calls) == 1
            assert self.report(agent).problems == ()

    def test_an_engine_on_another_event_loop(self, server: ScriptedServer) -> None:
        """Check that an engine of `jacquard.sync` serves an agent on another event loop."""
        server.set_script(*self.loop)
        with sync.create_context_engine(MemoryStore(), config=RuntimeConfig(instructions={"mark": OURS})) as engine:
            agent = self.make_agent(AgentSetup(engine=engine, base_url=server.base_url))
            assert anyio.run(agent.run, "s1", "How is the weather in Oslo?") == "It rains in Oslo."
            assert [count_texts(request.messages, OURS) for request in server.requests] == [1, 1]
            assert self.report(agent).problems == ()

    def test_earlier_messages_of_the_framework_are_taken_over(self, server: ScriptedServer) -> None:
        """Check that a conversation can begin without the adapter: the messages before the adapter are in later
        prompts.
        """

        async def work() -> None:
            async with open_scene(server, "text:It rains.", "text:You asked about Oslo.") as scene:
                agent = self.agent(scene)
                assert agent.adapter is not None
                later = self.resume_without_adapter(agent)
                if later is None:
                    pytest.skip("the framework cannot give an adapter the messages of an earlier run")
                await later.run("s1", "How is the weather in Oslo?")
                await agent.run("s1", "What did I ask?")
                assert count_texts(server.requests[-1].messages, "How is the weather in Oslo?") == 1
                assert count_texts(server.requests[-1].messages, OURS) == 1
                assert [role for role, _ in await scene.said("s1")] == ["user", "assistant"] * 2

        anyio.run(work)

    def resume_without_adapter(self, agent: AgentUnderTest) -> AgentUnderTest | None:
        """Return an agent without the adapter that shares the framework's store with `agent`. Return None if this is
        impossible.
        """
        return None

    def test_after_detach_calls_pass_unchanged(self, server: ScriptedServer) -> None:
        """Check rule 7: after `detach`, the model is called as without the adapter."""

        async def work() -> None:
            async with open_scene(server, "text:One.", *self.loop) as scene:
                agent = self.agent(scene)
                await agent.run("s1", "First?")
                assert agent.adapter is not None
                agent.adapter.detach()
                agent.adapter.detach()
                assert await agent.run("s1", "Second?") == "It rains in Oslo."
                assert [OURS in request.text for request in server.requests] == [True, False, False]
                assert len(await scene.said("s1")) == 2

        anyio.run(work)
