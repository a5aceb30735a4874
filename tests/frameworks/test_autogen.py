"""The AutoGen adapter against AutoGen itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("autogen_agentchat", reason="AutoGen is not installed here: make test-frameworks")

import anyio
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.memory import ListMemory, MemoryContent, MemoryMimeType
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from jacquard.integrations.autogen import AgentContext
from jacquard.testing.framework import OWN, AgentSetup, FrameworkContract, count_texts, open_scene
from jacquard.testing.server import ScriptedServer

INFO = {"vision": True, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": False}


class AutoGenAgent:
    """An assistant agent for each session, as AutoGen has it."""

    def __init__(self, setup: AgentSetup, contexts=None):
        self.setup, self.contexts, self.agents = setup, {} if contexts is None else contexts, {}
        self.context = None if setup.engine is None else AgentContext(setup.engine, failure=setup.failure)
        self.adapter = None if self.context is None else self.context.adapter

    def agent(self, session_id, *, streaming=False):
        if session_id not in self.agents:
            options = {"stream_options": {"include_usage": True}} if streaming else {}
            client = OpenAIChatCompletionClient(
                model="scripted",
                base_url=self.setup.base_url,
                api_key="none",
                model_info=INFO,
                max_retries=0,
                **options,
            )
            agent = AssistantAgent(
                "forecaster",
                client,
                tools=[FunctionTool(tool, description=tool.__doc__) for tool in self.setup.tools],
                system_message=self.setup.system,
                model_context=self.contexts.setdefault(session_id, UnboundedChatCompletionContext()),
                max_tool_iterations=5,
                model_client_stream=streaming,
            )
            if self.context is not None:
                self.context.attach(agent, session=session_id, user=self.setup.user_id)
            self.agents[session_id] = agent
        return self.agents[session_id]

    async def run(self, session_id, text):
        return (await self.agent(session_id).run(task=text)).messages[-1].content

    def run_blocking(self, session_id, text):
        raise NotImplementedError

    async def stream(self, session_id, text):
        agent = self.agent(session_id, streaming=True)
        events = agent.run_stream(task=text)
        return "".join([event.content async for event in events if isinstance(event, ModelClientStreamingChunkEvent)])

    async def stored(self, session_id):
        messages = await self.contexts[session_id].get_messages()
        return [(message.type, str(message.content)) for message in messages]


class TestAutoGen(FrameworkContract):
    provider = "jacquard.testing.framework"
    needs_loop = True

    def make_agent(self, setup):
        return AutoGenAgent(setup)

    def resume_without_adapter(self, agent):
        return AutoGenAgent(replace(agent.setup, engine=None), agent.contexts)


def test_an_agent_sees_its_own_lines_without_its_name():
    async def work():
        async with open_scene(server, "text:It rains.", "text:Then an umbrella.", "text:Go by bus.") as scene:
            context = AgentContext(scene.engine)
            client = OpenAIChatCompletionClient(
                model="scripted", base_url=server.base_url, api_key="none", model_info=INFO, max_retries=0
            )
            agents = [AssistantAgent(name, client, system_message=OWN) for name in ("alice", "bob")]
            for agent in agents:
                context.attach(agent, session=agent.name)
            await RoundRobinGroupChat(agents, max_turns=3).run(task="How is the weather?")
            seen = server.requests[2].messages
            assert [(each.role, each.text) for each in seen[1:]] == [
                ("user", "How is the weather?"),
                ("assistant", "It rains."),
                ("user", "bob: Then an umbrella."),
            ]
            assert context.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_search_of_an_agents_memory_is_a_tool_call():
    async def work():
        async with open_scene(server, "text:Old.") as scene:
            memory = ListMemory()
            await memory.add(MemoryContent(content="The mill is old.", mime_type=MemoryMimeType.TEXT))
            client = OpenAIChatCompletionClient(
                model="scripted",
                base_url=server.base_url,
                api_key="none",
                model_info={**INFO, "multiple_system_messages": True},
                max_retries=0,
            )
            agent = AssistantAgent("forecaster", client, memory=[memory])
            context = AgentContext(scene.engine)
            context.attach(agent, session="s1")
            await agent.run(task="How old is the mill?")
            document = await scene.document("s1")
            (call,) = document.session.tool_state.tool_calls
            (evidence,) = [each for each in document.evidences.values() if each.type.value == "rag_doc"]
            assert (call.tool, call.provider.name) == ("ListMemory", "autogen_core.memory._list_memory")
            assert (dict(call.args_digest), call.extra["documents"]) == ({"query": "How old is the mill?"}, 1)
            assert (call.result_evidence_ids, evidence.content) == ((evidence.evidence_id,), "The mill is old.")
            assert context.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)


def test_agents_of_a_group_chat_keep_the_authors_of_what_they_hear():
    """Each agent has its session; what another agent said is a message with that agent as its author."""

    async def work():
        async with open_scene(server, "text:It rains.", "text:Then take an umbrella.") as scene:
            context = AgentContext(scene.engine)
            setup = AgentSetup(engine=scene.engine, base_url=server.base_url, tools=())
            client = OpenAIChatCompletionClient(
                model="scripted", base_url=setup.base_url, api_key="none", model_info=INFO, max_retries=0
            )
            agents = [AssistantAgent(name, client, system_message=OWN) for name in ("forecaster", "adviser")]
            for agent in agents:
                context.attach(agent, session=agent.name)
            await RoundRobinGroupChat(agents, max_turns=2).run(task="How is the weather?")
            heard = (await scene.document("adviser")).session.messages
            assert [(m.role.value, m.author.id if m.author else None, m.content) for m in heard] == [
                ("user", None, "How is the weather?"),
                ("user", "forecaster", "It rains."),
                ("assistant", "adviser", "Then take an umbrella."),
            ]
            assert [count_texts(request.messages, "How is the weather?") for request in server.requests] == [1, 1]
            assert count_texts(server.requests[1].messages, "It rains.") == 1
            assert context.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)
