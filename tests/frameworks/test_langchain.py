"""The LangChain adapter against LangChain itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("langchain", reason="LangChain is not installed here: make test-frameworks")

import httpx
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver

from jacquard.integrations.langchain import ContextMiddleware
from jacquard.testing.framework import AgentSetup, FrameworkContract


class LangChainAgent:
    """An agent of `create_agent` with a checkpointer."""

    def __init__(self, setup: AgentSetup, saver: InMemorySaver | None = None):
        self.setup, self.saver = setup, saver or InMemorySaver()
        self.middleware = (
            None if setup.engine is None else ContextMiddleware(setup.engine, failure=setup.failure, user=setup.user_id)
        )
        self.adapter = None if self.middleware is None else self.middleware.adapter
        # Its own client shares connections between event loops, of which each test has another one.
        model = ChatOpenAI(
            model="scripted",
            base_url=setup.base_url,
            api_key="none",
            stream_usage=True,
            max_retries=0,
            http_async_client=httpx.AsyncClient(),
        )
        self.agent = create_agent(
            model,
            [*setup.tools],
            system_prompt=setup.system,
            middleware=[] if self.middleware is None else [self.middleware],
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
    raises_tool_errors = True

    def make_agent(self, setup):
        return LangChainAgent(setup)

    def resume_without_adapter(self, agent):
        return LangChainAgent(replace(agent.setup, engine=None), agent.saver)
