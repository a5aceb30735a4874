"""The LlamaIndex adapter against LlamaIndex itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("llama_index.llms.openai_like", reason="LlamaIndex is not installed here: make test-frameworks")

import anyio
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.instrumentation.dispatcher import instrument_tags
from llama_index.core.memory import Memory
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from jacquard import ConfigError
from jacquard.integrations import SessionRecall
from jacquard.integrations.llamaindex import ContextRetriever, DocumentRecorder, attach
from jacquard.testing.framework import AgentSetup, FrameworkContract, open_scene
from jacquard.testing.server import ScriptedServer


class IndexAgent:
    """A function agent with a memory for each session."""

    def __init__(self, setup: AgentSetup, memories=None):
        self.setup, self.memories = setup, {} if memories is None else memories
        self.function_agents, self.runner = self.make(streaming=False)
        self.attachment = (
            None
            if setup.engine is None
            else attach(self.runner, setup.engine, failure=setup.failure, user=setup.user_id)
        )
        self.adapter = None if self.attachment is None else self.attachment.adapter

    def make(self, *, streaming):
        # Usage of a stream comes only when it is asked for, and asking for it is an error otherwise.
        extra = {"stream_options": {"include_usage": True}} if streaming else {}
        llm = OpenAILike(
            model="scripted",
            api_base=self.setup.base_url,
            api_key="none",
            is_chat_model=True,
            is_function_calling_model=True,
            additional_kwargs=extra,
            max_retries=0,
        )
        agent = FunctionAgent(
            name="forecaster",
            llm=llm,
            system_prompt=self.setup.system,
            tools=[FunctionTool.from_defaults(tool) for tool in self.setup.tools],
            streaming=streaming,
        )
        return [agent], agent

    def memory(self, session_id):
        return self.memories.setdefault(session_id, Memory.from_defaults(session_id=session_id))

    async def run(self, session_id, text):
        with instrument_tags({"session_id": session_id}):
            done = await self.runner.run(user_msg=text, memory=self.memory(session_id))
        return done.response.content

    def run_blocking(self, session_id, text):
        raise NotImplementedError

    async def stream(self, session_id, text):
        _, runner = self.make(streaming=True)
        self.attachment = attach(runner, self.setup.engine)
        self.adapter = self.attachment.adapter
        with instrument_tags({"session_id": session_id}):
            handler = runner.run(user_msg=text, memory=self.memory(session_id))
            pieces = [event.delta async for event in handler.stream_events() if isinstance(event, AgentStream)]
            await handler
        return "".join(pieces)

    async def stored(self, session_id):
        return [(message.role.value, str(message.blocks)) for message in await self.memory(session_id).aget_all()]


class WorkflowAgent(IndexAgent):
    """The same agent within an `AgentWorkflow`."""

    def make(self, *, streaming):
        agents, _ = super().make(streaming=streaming)
        return agents, AgentWorkflow(agents=agents, root_agent="forecaster")


class TestLlamaIndex(FrameworkContract):
    provider = "jacquard.testing.framework"
    needs_loop = True

    def make_agent(self, setup):
        return IndexAgent(setup)

    def resume_without_adapter(self, agent):
        return type(agent)(replace(agent.setup, engine=None), agent.memories)


class TestLlamaIndexWorkflow(TestLlamaIndex):
    def make_agent(self, setup):
        return WorkflowAgent(setup)


class Shelf(BaseRetriever):
    """A retriever of the host."""

    def _retrieve(self, query_bundle):
        node = TextNode(text=f"About {query_bundle.query_str}.", metadata={"file_path": "shelf.md"})
        return [NodeWithScore(node=node, score=0.5)]


def test_what_a_retriever_finds_is_evidence_and_our_recall_is_a_retriever():
    async def work():
        async with open_scene(server, "text:I will remember.") as scene:
            agent = IndexAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            recorder = DocumentRecorder.install(agent.attachment)
            try:
                await agent.run("s1", "The password is the seventh heron.")
                with instrument_tags({"session_id": "s1"}):
                    await Shelf().aretrieve("mills")
                await Shelf().aretrieve("of no session")
                await recorder.drain()
            finally:
                recorder.remove()
            document = await scene.document("s1")
            found = [each for each in document.evidences.values() if each.type.value == "rag_doc"]
            assert [(each.content, each.source.uri, each.metadata["score"]) for each in found] == [
                ("About mills.", "shelf.md", 0.5)
            ]
            (search,) = document.session.tool_state.tool_calls
            assert (search.tool, dict(search.args_digest), search.extra["documents"]) == (
                "Shelf",
                {"query": "mills"},
                1,
            )
            assert (search.result_evidence_ids, search.provider.name) == ((found[0].evidence_id,), "llamaindex")
            retriever = ContextRetriever(SessionRecall(scene.engine, "s1"))
            recalled = await retriever.aretrieve("What is the password?")
            assert "seventh heron" in recalled[0].node.get_content()

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_run_without_a_session_is_refused():
    async def work():
        async with open_scene(server, "text:Hello.") as scene:
            agent = IndexAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            with pytest.raises(Exception, match="The run names no session"):
                await agent.runner.run(user_msg="Hello.")
            with pytest.raises(ConfigError, match="was replaced already"):
                attach(agent.runner, scene.engine)

    with ScriptedServer() as server:
        anyio.run(work)
