"""The Haystack adapter against Haystack itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("haystack", reason="Haystack is not installed here: make test-frameworks")

import anyio
from haystack import Document, Pipeline
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function

from jacquard import ConfigError
from jacquard.integrations import SessionRecall
from jacquard.integrations.haystack import ContextChatGenerator, ContextRetriever, DocumentRecorder, attach
from jacquard.sync import create_context_engine
from jacquard.testing.framework import OURS, AgentSetup, FrameworkContract, open_scene
from jacquard.testing.server import ScriptedServer
from mnemosyne import MemoryStore


class HaystackAgent:
    """An agent whose messages are kept by session."""

    def __init__(self, setup: AgentSetup, kept=None):
        self.setup, self.kept = setup, {} if kept is None else kept
        generator = OpenAIChatGenerator(model="scripted", api_base_url=setup.base_url, max_retries=0)
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
    provider = "jacquard.testing.framework"

    def make_agent(self, setup):
        return HaystackAgent(setup)

    def resume_without_adapter(self, agent):
        return HaystackAgent(replace(agent.setup, engine=None), agent.kept)


def test_a_pipeline_without_an_agent():
    """A generator in a pipeline gets our prompt; documents that pass a recorder are evidence; our recall is a component."""
    with (
        ScriptedServer("text:Old mills.", "text:Yes, mills.") as server,
        create_context_engine(MemoryStore()) as engine,
    ):
        inner = OpenAIChatGenerator(model="scripted", api_base_url=server.base_url, max_retries=0)
        generator = ContextChatGenerator(inner, engine, session="s1")
        pipeline = Pipeline()
        pipeline.add_component("found", DocumentRecorder(generator.adapter, session="s1", retriever="Shelf"))
        pipeline.add_component("llm", generator)
        assert pipeline.run({"llm": {"messages": [ChatMessage.from_user("What is old?")]}, "found": {"documents": []}})
        pages = [Document(content="The mill is old.", meta={"url": "https://example.org/mill"})]
        messages = [ChatMessage.from_user("And the mill?")]
        pipeline.run({"llm": {"messages": messages}, "found": {"documents": pages, "query": "mill"}})
        document = engine.run(engine.engine.parts.store.get_session, "s1")
        assert [m.content for m in document.session.messages] == [
            "What is old?",
            "Old mills.",
            "And the mill?",
            "Yes, mills.",
        ]
        assert sum("What is old?" in message.text for message in server.requests[1].messages) == 1
        (evidence,) = [each for each in document.evidences.values() if each.type.value == "rag_doc"]
        assert (evidence.content, evidence.source.uri) == ("The mill is old.", "https://example.org/mill")
        nothing, search = document.session.tool_state.tool_calls
        assert (search.tool, dict(search.args_digest), search.extra["documents"]) == ("Shelf", {"query": "mill"}, 1)
        assert search.result_evidence_ids == (evidence.evidence_id,)
        assert (nothing.tool, nothing.extra["documents"], nothing.provider.name) == ("Shelf", 0, "haystack")
        recalled = ContextRetriever(SessionRecall(engine, "s1")).run(query="old mills", top_k=2)["documents"]
        assert any("mills" in each.content for each in recalled)
        assert generator.to_dict()["type"].endswith("OpenAIChatGenerator")
        with pytest.raises(ConfigError, match="DocumentRecorder works on an engine"):
            pipeline.to_dict()


def test_an_agent_is_not_saved_with_its_adapter():
    with ScriptedServer() as server, create_context_engine(MemoryStore()) as engine:
        agent = HaystackAgent(AgentSetup(engine=engine, base_url=server.base_url, tools=()))
        with pytest.raises(ConfigError, match="detach it before the agent is saved"):
            agent.agent.to_dict()
        with pytest.raises(ConfigError, match="attached already"):
            attach(agent.agent, engine)
        agent.attachment.detach()
        assert isinstance(agent.agent.chat_generator, OpenAIChatGenerator)
        assert not any(agent.agent.hooks.values())


def test_a_run_without_a_session_is_refused():
    async def work():
        async with open_scene(server, "text:Hello.") as scene:
            agent = HaystackAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            with pytest.raises(ConfigError, match="The run names no session"):
                await agent.agent.run_async(messages=[ChatMessage.from_user("Hello.")])
            assert not any(OURS in request.text for request in server.requests)

    with ScriptedServer() as server:
        anyio.run(work)
