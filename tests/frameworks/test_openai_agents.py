"""The adapter of the OpenAI Agents SDK against the SDK itself, on both of OpenAI's APIs."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("agents", reason="The OpenAI Agents SDK is not installed here: make test-frameworks")

import anyio
import mcp
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunHooks,
    Runner,
    SQLiteSession,
    function_tool,
)
from agents.mcp import MCPServer
from openai import AsyncOpenAI

from jacquard.integrations.openai_agents import RunContextAdapter
from jacquard.pipeline.worlds import build_bare_world
from jacquard.testing.framework import OURS, AgentSetup, FrameworkContract, open_scene
from jacquard.testing.server import ScriptedServer
from mnemosyne.schema.world import NumericalAction


class SdkAgent:
    """An agent with a session store of the SDK."""

    model_class = OpenAIResponsesModel

    def __init__(self, setup: AgentSetup, sessions=None):
        self.setup, self.sessions = setup, {} if sessions is None else sessions
        self.context = None if setup.engine is None else RunContextAdapter(setup.engine, failure=setup.failure)
        self.adapter = None if self.context is None else self.context.adapter
        client = AsyncOpenAI(base_url=setup.base_url, api_key="none", max_retries=0)
        self.agent = Agent(
            name="forecaster",
            instructions=setup.system,
            model=self.model_class("scripted", client),
            model_settings=ModelSettings(include_usage=True),
            tools=[function_tool(tool) for tool in setup.tools],
        )

    def options(self, session_id):
        session = self.sessions.setdefault(session_id, SQLiteSession(session_id))
        config = RunConfig(tracing_disabled=True)
        if self.context is None:
            return {"session": session, "run_config": config}
        return {
            "session": session,
            **self.context.run_options(session_id, run_config=config, user_id=self.setup.user_id),
        }

    async def run(self, session_id, text):
        return (await Runner.run(self.agent, text, **self.options(session_id))).final_output

    def run_blocking(self, session_id, text):
        return Runner.run_sync(self.agent, text, **self.options(session_id)).final_output

    async def stream(self, session_id, text):
        options = self.options(session_id)
        result = Runner.run_streamed(self.agent, text, **options)
        pieces = []
        async for event in self.context.listen(options, result.stream_events()):
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                pieces.append(event.data.delta)
        return "".join(pieces)

    async def stored(self, session_id):
        items = await self.sessions[session_id].get_items()
        return [
            (item.get("role", item.get("type")), str(item.get("content", item.get("output", "")))) for item in items
        ]


class ChatAgent(SdkAgent):
    model_class = OpenAIChatCompletionsModel


class TestOpenAIAgents(FrameworkContract):
    # A filter of inputs cannot answer in place of the model.
    answers_without_model = False
    provider = "jacquard.testing.framework"

    def make_agent(self, setup):
        return SdkAgent(setup)

    def resume_without_adapter(self, agent):
        return type(agent)(replace(agent.setup, engine=None), agent.sessions)


class TestOpenAIAgentsOnChatCompletions(TestOpenAIAgents):
    def make_agent(self, setup):
        return ChatAgent(setup)


def test_a_reply_that_the_sdk_cannot_give_is_reported():
    async def work():
        action = NumericalAction(
            action_id="wait", patterns=("I wait",), ops=(("ADD", "hours", 1),), reply="An hour goes by."
        )
        world = replace(build_bare_world("clock"), state={"hours": 0}, actions=(action,))
        async with open_scene(server, "text:You wait.", world=world) as scene:
            agent = SdkAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            assert await agent.run("s1", "I wait") == "You wait."
            assert await scene.said("s1") == [("user", "I wait"), ("assistant", "An hour goes by.")]
            assert [problem.step for problem in agent.adapter.report.problems] == ["reply"]

    with ScriptedServer() as server:
        anyio.run(work)


def test_an_adapter_keeps_the_hosts_own_filter_and_hooks():
    class Counting(RunHooks):
        ended = 0

        async def on_agent_end(self, context, agent, output):
            self.ended += 1

    def shout(data):
        data.model_data.instructions = f"{data.model_data.instructions} LOUDER"
        return data.model_data

    async def work():
        async with open_scene(server, "text:Hello.") as scene:
            agent = SdkAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            hooks = Counting()
            config = RunConfig(tracing_disabled=True, call_model_input_filter=shout)
            options = agent.context.run_options("s1", run_config=config, hooks=hooks)
            await Runner.run(agent.agent, "Hello?", **options)
            assert "LOUDER" in server.requests[0].text
            assert OURS in server.requests[0].text
            assert hooks.ended == 1

    with ScriptedServer() as server:
        anyio.run(work)


class Books(MCPServer):
    """An MCP server of the host with one tool."""

    name = "books"

    async def connect(self): ...

    async def cleanup(self): ...

    async def list_tools(self, run_context=None, agent=None):
        return [mcp.types.Tool(name="forecast", input_schema={"type": "object", "properties": {}})]

    async def call_tool(self, tool_name, arguments, meta=None):
        return mcp.types.CallToolResult(content=[mcp.types.TextContent(type="text", text="Rain.")])

    async def list_prompts(self):
        return mcp.types.ListPromptsResult(prompts=[])

    async def get_prompt(self, name, arguments=None):
        raise NotImplementedError


def test_a_tool_of_an_mcp_server_has_that_server_as_its_provider():
    async def work():
        async with open_scene(server, "tool:forecast {}", "text:It rains.") as scene:
            agent = SdkAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            agent.agent.mcp_servers = [Books()]
            assert await agent.run("s1", "How is the weather?") == "It rains."
            (call,) = (await scene.document("s1")).session.tool_state.tool_calls
            assert (call.provider.kind.value, call.provider.name) == ("mcp", "books")

    with ScriptedServer() as server:
        anyio.run(work)
