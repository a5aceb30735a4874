"""The LangChain adapter against LangChain itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("langchain", reason="LangChain is not installed here: make test-frameworks")

import anyio
import httpx
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import create_retriever_tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from jacquard import ConfigError
from jacquard.integrations import SessionRecall
from jacquard.integrations.langchain import ContextMiddleware, ContextModel, ContextRetriever
from jacquard.sync import create_context_engine
from jacquard.testing.framework import AgentSetup, FrameworkContract, open_scene
from jacquard.testing.server import ScriptedServer
from mnemosyne import MemoryStore


class LangChainAgent:
    """An agent of `create_agent` with a checkpointer."""

    def __init__(self, setup: AgentSetup, saver: InMemorySaver | None = None, *, tools=(), middleware=()):
        self.setup, self.saver = setup, saver or InMemorySaver()
        self.middleware = (
            None if setup.engine is None else ContextMiddleware(setup.engine, failure=setup.failure, user=setup.user_id)
        )
        self.adapter = None if self.middleware is None else self.middleware.adapter
        # Its own client shares connections between event loops, of which each test has another one.
        self.model = ChatOpenAI(
            model="scripted",
            base_url=setup.base_url,
            api_key="none",
            stream_usage=True,
            max_retries=0,
            http_async_client=httpx.AsyncClient(),
        )
        self.agent = create_agent(
            self.model,
            [*setup.tools, *tools],
            system_prompt=setup.system,
            middleware=[*middleware, *([] if self.middleware is None else [self.middleware])],
            checkpointer=self.saver,
        )

    def config(self, session_id):
        return {"configurable": {"thread_id": session_id}}

    async def run(self, session_id, text):
        done = await self.agent.ainvoke({"messages": [("user", text)]}, self.config(session_id))
        return done["messages"][-1].text

    def run_blocking(self, session_id, text):
        return self.agent.invoke({"messages": [("user", text)]}, self.config(session_id))["messages"][-1].text

    async def stream(self, session_id, text):
        given = {"messages": [("user", text)]}
        pieces = self.agent.astream(given, self.config(session_id), stream_mode="messages")
        return "".join([chunk.text async for chunk, about in pieces if about["langgraph_node"] == "model"])

    async def stored(self, session_id):
        state = await self.agent.aget_state(self.config(session_id))
        return [(message.type, message.text) for message in state.values["messages"]]


class TestLangChain(FrameworkContract):
    provider = "jacquard.testing.framework"
    raises_tool_errors = True

    def make_agent(self, setup):
        return LangChainAgent(setup)

    def resume_without_adapter(self, agent):
        return LangChainAgent(replace(agent.setup, engine=None), agent.saver)


class Shelf(BaseRetriever):
    """A retriever of the host."""

    def _get_relevant_documents(self, query, *, run_manager):
        return [Document(page_content=f"About {query}.", metadata={"source": "shelf.md", "page": 3})]


def test_what_a_retriever_finds_in_a_run_is_evidence():
    async def work():
        async with open_scene(server, 'tool:shelf {"query": "mills"}', "text:Mills are old.") as scene:
            setup = AgentSetup(engine=scene.engine, base_url=server.base_url, tools=())
            agent = LangChainAgent(setup, tools=[create_retriever_tool(Shelf(), "shelf", "Look up a book.")])
            config = {**agent.config("s1"), "callbacks": [agent.middleware.documents]}
            await agent.agent.ainvoke({"messages": [("user", "What of mills?")]}, config)
            document = await scene.document("s1")
            found = [each for each in document.evidences.values() if each.type.value == "rag_doc"]
            assert [(each.content, each.source.uri, each.metadata["page"]) for each in found] == [
                ("About mills.", "shelf.md", 3)
            ]
            assert found[0].metadata["query"] == "mills"
            calls = {call.tool: call for call in document.session.tool_state.tool_calls}
            search, used = calls["Shelf"], calls["shelf"]
            assert (dict(search.args_digest), search.extra["documents"]) == ({"query": "mills"}, 1)
            assert (search.result_evidence_ids, search.provider.name) == ((found[0].evidence_id,), "langchain")
            assert found[0].links.tool_call_id == search.tool_call_id
            assert used.provider.name == "langchain_core.tools.retriever"
            assert agent.adapter.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_retriever_over_our_recall():
    async def work():
        async with open_scene(server, "text:I will remember.") as scene:
            agent = LangChainAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            await agent.run("s1", "The password is the seventh heron.")
            retriever = ContextRetriever(recall=SessionRecall(scene.engine, "s1"))
            found = await retriever.ainvoke("What is the password?")
            assert "seventh heron" in found[0].page_content
            assert found[0].metadata["uri"].startswith("mnemosyne://")
            again = await anyio.to_thread.run_sync(retriever.invoke, "What is the password?")
            assert [each.page_content for each in again] == [each.page_content for each in found]

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_run_that_was_interrupted_goes_on_in_its_turn():
    """Approval of a tool: the second run continues the first, and the session has one turn."""

    async def work():
        async with open_scene(server, 'tool:weather {"city": "Oslo"}', "text:It rains.") as scene:
            setup = AgentSetup(engine=scene.engine, base_url=server.base_url)
            asking = HumanInTheLoopMiddleware(interrupt_on={"weather": True})
            agent = LangChainAgent(setup, middleware=[asking])
            await agent.agent.ainvoke({"messages": [("user", "How is the weather?")]}, agent.config("s1"))
            later = LangChainAgent(setup, agent.saver, middleware=[asking])
            resume = Command(resume={"decisions": [{"type": "approve"}]})
            done = await later.agent.ainvoke(resume, later.config("s1"))
            assert done["messages"][-1].text == "It rains."
            assert await scene.said("s1") == [("user", "How is the weather?"), ("assistant", "It rains.")]
            assert server.requests[1].messages[: len(server.requests[0].messages)] == server.requests[0].messages
            session = (await scene.document("s1")).session
            assert [call.tool for call in session.tool_state.tool_calls] == ["weather"]
            assert len({usage.model_usage_id for usage in session.model_usage}) == 2

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_picture_of_the_user_stays_with_the_message():
    async def work():
        async with open_scene(server, "text:A mill.") as scene:
            agent = LangChainAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
            content = [{"type": "text", "text": "What is this?"}, picture]
            await agent.agent.ainvoke({"messages": [HumanMessage(content=content)]}, agent.config("s1"))
            sent = server.requests[0].body["messages"][-1]["content"]
            assert [part["type"] for part in sent] == ["text", "image_url"]
            assert "What is this?" in sent[0]["text"]
            assert await scene.said("s1") == [("user", "What is this?"), ("assistant", "A mill.")]

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_run_without_a_session_is_refused():
    async def work():
        async with open_scene(server, "text:Hello.") as scene:
            agent = LangChainAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            bare = create_agent(agent.model, [], middleware=[ContextMiddleware(scene.engine)])
            with pytest.raises(ConfigError, match="The run names no session"):
                await bare.ainvoke({"messages": [("user", "Hello.")]})

    with ScriptedServer() as server:
        anyio.run(work)


def test_after_detach_neither_an_engine_nor_a_session_is_needed():
    with ScriptedServer("text:Hello.") as server:
        with create_context_engine(MemoryStore()) as engine:
            agent = LangChainAgent(AgentSetup(engine=engine, base_url=server.base_url, tools=()))
            agent.adapter.detach()
        bare = create_agent(agent.model, [], middleware=[agent.middleware])
        assert bare.invoke({"messages": [("user", "Hello?")]})["messages"][-1].text == "Hello."


THREAD = {"configurable": {"thread_id": "s1"}}


def chat_model(server):
    return ChatOpenAI(
        model="scripted",
        base_url=server.base_url,
        api_key="none",
        stream_usage=True,
        max_retries=0,
        http_async_client=httpx.AsyncClient(),
    )


def test_a_chain_without_an_agent_has_our_prompt_and_commits_its_answers():
    async def work():
        async with open_scene(
            server, "text:Noted.", "text:The seventh heron.", "text:The heron.", "text:Bye."
        ) as scene:
            model = ContextModel(scene.engine, chat_model(server))
            template = ChatPromptTemplate.from_messages([("system", "Be brief."), ("human", "{question}")])
            chain = template | model | StrOutputParser()
            assert await chain.ainvoke({"question": "The password is the seventh heron."}, THREAD) == "Noted."
            question = {"question": "What is the password?"}
            assert await chain.ainvoke(question, THREAD) == "The seventh heron."
            pieces = [piece async for piece in chain.astream(question, THREAD)]
            assert "".join(pieces) == "The heron."
            assert await anyio.to_thread.run_sync(chain.invoke, {"question": "Bye."}, THREAD) == "Bye."
            said = [text for _, text in await scene.said("s1")]
            # The same words again are another turn.
            assert said[2:6] == ["What is the password?", "The seventh heron.", "What is the password?", "The heron."]
            assert said[-2:] == ["Bye.", "Bye."]
            second = server.requests[1].messages
            assert second[0].text.startswith("Be brief.")
            assert any("seventh heron" in each.text for each in second[1:-1])
            assert len((await scene.document("s1")).session.model_usage) == 4

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_chain_goes_on_in_its_turn_with_the_results_of_tools():
    async def work():
        async with open_scene(server, 'tool:weather {"city": "Oslo"}', "text:It rains.") as scene:
            model = ContextModel(scene.engine, chat_model(server).bind_tools([weather]), session="s1")
            asked = HumanMessage("How is the weather?")
            first = await model.ainvoke([asked])
            result = ToolMessage("Rain.", tool_call_id=first.tool_calls[0]["id"])
            assert (await model.ainvoke([asked, first, result])).text == "It rains."
            assert await scene.said("s1") == [("user", "How is the weather?"), ("assistant", "It rains.")]
            assert server.requests[1].messages[:-2] == server.requests[0].messages

    with ScriptedServer() as server:
        anyio.run(work)


def weather(city: str) -> str:
    """Return the weather."""
    return "Rain."


def test_a_chain_whose_model_fails_or_that_names_no_session_says_so():
    async def work():
        async with open_scene(server, "status:500", "text:Hello.") as scene:
            model = ContextModel(scene.engine, chat_model(server))
            with pytest.raises(ConfigError, match="names no session"):
                await model.ainvoke("Hello.")
            with pytest.raises(ConfigError, match="no message of the user"):
                await model.ainvoke([("system", "x")], THREAD)
            with pytest.raises(Exception, match="500"):
                await model.ainvoke("Hello?", THREAD)
            assert (await model.ainvoke("Hello again.", THREAD)).text == "Hello."
            model.detach()

    with ScriptedServer() as server:
        anyio.run(work)
