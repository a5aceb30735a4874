"""The pydantic-ai adapter against pydantic-ai itself."""

from __future__ import annotations

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed here: make test-frameworks")

import anyio
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.messages import ModelRequest
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from jacquard.integrations.pydantic_ai import ContextCapability, StreamingContextCapability
from jacquard.testing.framework import AgentSetup, FrameworkContract, open_scene, weather
from jacquard.testing.server import ScriptedServer


class PydanticAgent:
    """An agent whose message history is kept by conversation."""

    capability_class = StreamingContextCapability

    def __init__(self, setup: AgentSetup, histories=None):
        self.setup, self.histories = setup, {} if histories is None else histories
        self.capability = None
        if setup.engine is not None:
            self.capability = self.capability_class(setup.engine, failure=setup.failure, user=setup.user_id)
        self.adapter = None if self.capability is None else self.capability.adapter
        provider = OpenAIProvider(base_url=setup.base_url, api_key="none")
        self.agent = Agent(
            OpenAIChatModel("scripted", provider=provider),
            instructions=self.own_instructions(),
            system_prompt=self.own_system_prompt(),
            tools=[*setup.tools],
            capabilities=[] if self.capability is None else [self.capability],
        )

    def own_instructions(self):
        return self.setup.system

    def own_system_prompt(self):
        return ()

    async def run(self, session_id, text):
        done = await self.agent.run(text, conversation_id=session_id, message_history=self.histories.get(session_id))
        self.histories[session_id] = done.all_messages()
        return done.output

    def run_blocking(self, session_id, text):
        return self.agent.run_sync(text, conversation_id=session_id).output

    async def stream(self, session_id, text):
        async with self.agent.run_stream(text, conversation_id=session_id) as result:
            pieces = [piece async for piece in result.stream_text(delta=True)]
        return "".join(pieces)

    async def stored(self, session_id):
        kept = []
        for message in self.histories[session_id]:
            kept += [(part.part_kind, str(getattr(part, "content", ""))) for part in message.parts]
            if isinstance(message, ModelRequest):
                kept.append(("instructions", message.instructions or ""))
        return kept


class PlainAgent(PydanticAgent):
    """Without chunks, and with the agent's own text as a system prompt in place of instructions."""

    capability_class = ContextCapability

    def own_instructions(self):
        return None

    def own_system_prompt(self):
        return self.setup.system


class TestPydanticAI(FrameworkContract):
    provider = "jacquard.testing.framework"
    raises_tool_errors = True

    def make_agent(self, setup):
        return PydanticAgent(setup)

    def resume_without_adapter(self, agent):
        from dataclasses import replace

        return type(agent)(replace(agent.setup, engine=None), agent.histories)


class TestPydanticAIWithoutChunks(TestPydanticAI):
    has_chunks = False

    def make_agent(self, setup):
        return PlainAgent(setup)


def test_a_run_that_waited_for_an_approval_goes_on_in_its_turn():
    async def work():
        async with open_scene(server, 'tool:weather {"city": "Oslo"}', "text:It rains.") as scene:

            def make():
                model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=server.base_url, api_key="none"))
                tool = Tool(weather, requires_approval=True)
                context = ContextCapability(scene.engine)
                return context, Agent(
                    model, tools=[tool], capabilities=[context], output_type=[str, DeferredToolRequests]
                )

            _, agent = make()
            first = await agent.run("How is the weather?", conversation_id="s1")
            approved = DeferredToolResults(approvals={first.output.approvals[0].tool_call_id: True})
            context, later = make()
            done = await later.run(
                message_history=first.all_messages(), deferred_tool_results=approved, conversation_id="s1"
            )
            assert done.output == "It rains."
            assert await scene.said("s1") == [("user", "How is the weather?"), ("assistant", "It rains.")]
            session = (await scene.document("s1")).session
            assert [call.tool for call in session.tool_state.tool_calls] == ["weather"]
            assert server.requests[1].messages[: len(server.requests[0].messages)] == server.requests[0].messages
            assert context.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)
