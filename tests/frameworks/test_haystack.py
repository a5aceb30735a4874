"""The Haystack adapter against Haystack itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed here: make test-frameworks")

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from jacquard.integrations.haystack import attach
from jacquard.testing.framework import AgentSetup, FrameworkContract


class HaystackAgent:
    """An agent whose messages are kept by session."""

    def __init__(self, setup: AgentSetup, kept=None):
        self.setup, self.kept = setup, {} if kept is None else kept
        generator = OpenAIChatGenerator(
            model="scripted", api_base_url=setup.base_url, api_key=Secret.from_token("none"), max_retries=0
        )
        self.agent = Agent(
            chat_generator=generator,
            tools=[create_tool_from_function(tool) for tool in setup.tools],
            system_prompt=setup.system,
        )
        self.attachment = None
        if setup.engine is not None:
            self.attachment = attach(self.agent, setup.engine, failure=setup.failure, user=setup.user_id)
        self.adapter = None if self.attachment is None else self.attachment.adapter

    def inputs(self, session_id, text):
        messages = [*self.kept.get(session_id, []), ChatMessage.from_user(text)]
        return {"messages": messages, "hook_context": {"session_id": session_id}}

    def keep(self, session_id, done):
        self.kept[session_id] = [message for message in done["messages"] if message.role.value != "system"]
        return done["messages"][-1].text

    async def run(self, session_id, text):
        return self.keep(session_id, await self.agent.run_async(**self.inputs(session_id, text)))

    def run_blocking(self, session_id, text):
        return self.keep(session_id, self.agent.run(**self.inputs(session_id, text)))

    async def stream(self, session_id, text):
        pieces = []

        async def listen(chunk):
            pieces.append(chunk.content)

        options = {"stream_options": {"include_usage": True}}
        inputs = self.inputs(session_id, text)
        done = await self.agent.run_async(**inputs, streaming_callback=listen, generation_kwargs=options)
        self.keep(session_id, done)
        return "".join(pieces)

    async def stored(self, session_id):
        return [(message.role.value, str(message.to_dict()["content"])) for message in self.kept[session_id]]


class TestHaystack(FrameworkContract):
    def make_agent(self, setup):
        return HaystackAgent(setup)

    def resume_without_adapter(self, agent):
        return HaystackAgent(replace(agent.setup, engine=None), agent.kept)
