"""The adapter of Microsoft Agent Framework against the framework itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("agent_framework", reason="Agent Framework is not installed here: make test-frameworks")

from agent_framework import Agent, InMemoryHistoryProvider
from agent_framework.openai import OpenAIChatCompletionClient

from jacquard.integrations.agent_framework import AgentContextMiddleware
from jacquard.testing.framework import AgentSetup, FrameworkContract


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

    def make_agent(self, setup):
        return FrameworkAgent(setup)

    def resume_without_adapter(self, agent):
        return FrameworkAgent(replace(agent.setup, engine=None), agent.sessions)
