"""The adapter of the OpenAI Agents SDK against the SDK itself, on both of OpenAI's APIs."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("agents", reason="The OpenAI Agents SDK is not installed here: make test-frameworks")

from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
)
from openai import AsyncOpenAI

from jacquard.integrations.openai_agents import RunContextAdapter
from jacquard.testing.framework import AgentSetup, FrameworkContract
from mnemosyne import ToolCallStatus


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
    error_status = ToolCallStatus.TIMEOUT

    def make_agent(self, setup):
        return SdkAgent(setup)

    def resume_without_adapter(self, agent):
        return type(agent)(replace(agent.setup, engine=None), agent.sessions)


class TestOpenAIAgentsOnChatCompletions(TestOpenAIAgents):
    def make_agent(self, setup):
        return ChatAgent(setup)
