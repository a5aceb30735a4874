"""The adapter of Microsoft Agent Framework against the framework itself."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("agent_framework", reason="Agent Framework is not installed here: make test-frameworks")

import anyio
from agent_framework import Agent, FunctionTool, InMemoryHistoryProvider, MCPStreamableHTTPTool, Message, tool
from agent_framework._mcp import _make_mcp_tool_caller
from agent_framework.openai import OpenAIChatCompletionClient

from jacquard.integrations.agent_framework import AgentContextMiddleware
from jacquard.testing.framework import AgentSetup, FrameworkContract, open_scene, weather
from jacquard.testing.server import ScriptedServer


class FrameworkAgent:
    """An agent with the framework's own sessions."""

    def __init__(self, setup: AgentSetup, sessions=None):
        self.setup, self.sessions = setup, {} if sessions is None else sessions
        self.context = None
        if setup.engine is not None:
            self.context = AgentContextMiddleware(setup.engine, failure=setup.failure, user=setup.user_id)
        self.adapter = None if self.context is None else self.context.adapter
        self.agent = Agent(
            client=OpenAIChatCompletionClient(model="scripted", base_url=setup.base_url, api_key="none"),
            instructions=setup.system,
            tools=[*setup.tools],
            context_providers=[InMemoryHistoryProvider("kept")],
            middleware=[] if self.context is None else self.context.middleware,
        )

    def session(self, session_id):
        if session_id not in self.sessions:
            self.sessions[session_id] = self.agent.create_session(session_id=session_id)
        return self.sessions[session_id]

    async def run(self, session_id, text):
        return (await self.agent.run(text, session=self.session(session_id))).text

    def run_blocking(self, session_id, text):
        raise NotImplementedError

    async def stream(self, session_id, text):
        stream = self.agent.run(text, session=self.session(session_id), stream=True)
        return "".join([update.text async for update in stream])

    async def stored(self, session_id):
        kept = self.sessions[session_id].state["kept"]["messages"]
        # The framework gives calls random ids of its own beside those of the provider.
        return [(m.role, str([{**part.to_dict(), "id": None} for part in m.contents])) for m in kept]


class TestAgentFramework(FrameworkContract):
    needs_loop = True
    provider = "jacquard.testing.framework"

    def make_agent(self, setup):
        return FrameworkAgent(setup)

    def resume_without_adapter(self, agent):
        return FrameworkAgent(replace(agent.setup, engine=None), agent.sessions)


def test_a_run_that_waited_for_an_approval_goes_on_in_its_turn():
    async def work():
        async with open_scene(server, 'tool:weather {"city": "Oslo"}', "text:It rains.") as scene:
            asking = tool(weather, approval_mode="always_require")
            agent = FrameworkAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=(asking,)))
            session = agent.session("s1")
            first = await agent.agent.run("How is the weather?", session=session)
            approved = [request.to_function_approval_response(True) for request in first.user_input_requests]
            done = await agent.agent.run(Message("user", approved), session=session)
            assert done.text == "It rains."
            assert await scene.said("s1") == [("user", "How is the weather?"), ("assistant", "It rains.")]
            stored = (await scene.document("s1")).session
            assert [call.tool for call in stored.tool_state.tool_calls] == ["weather"]
            assert agent.adapter.report.turns == 1
            assert agent.adapter.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_tool_of_an_mcp_server_has_that_server_as_its_provider():
    async def work():
        async with open_scene(server, "text:Hello.") as scene:
            agent = FrameworkAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            held = MCPStreamableHTTPTool(name="books", url="http://127.0.0.1:9/mcp")
            function = FunctionTool(func=_make_mcp_tool_caller(held, "forecast"), name="forecast", description="")
            call = agent.adapter.map_tool_call(SimpleNamespace(function=function, arguments={}, metadata={}))
            assert (call.provider.kind.value, call.provider.name) == ("mcp", "books")

    with ScriptedServer() as server:
        anyio.run(work)
