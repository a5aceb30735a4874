"""The Semantic Kernel adapter against Semantic Kernel itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("semantic_kernel", reason="Semantic Kernel is not installed here: make test-frameworks")

from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import KernelFunctionFromMethod, kernel_function

from jacquard.integrations.semantic_kernel import KernelContext
from jacquard.testing.framework import AgentSetup, FrameworkContract


class KernelAgent:
    """A chat completion agent with a thread for each session."""

    def __init__(self, setup: AgentSetup, threads=None):
        self.setup, self.threads = setup, {} if threads is None else threads
        client = AsyncOpenAI(base_url=setup.base_url, api_key="none", max_retries=0)
        kernel = Kernel()
        for tool in setup.tools:
            function = KernelFunctionFromMethod(kernel_function(tool), plugin_name="city")
            kernel.add_function("city", function)
        service = OpenAIChatCompletion(ai_model_id="scripted", async_client=client)
        self.agent = ChatCompletionAgent(name="forecaster", kernel=kernel, service=service, instructions=setup.system)
        self.context = None
        if setup.engine is not None:
            self.context = KernelContext(setup.engine, failure=setup.failure)
            self.context.attach(self.agent, user=setup.user_id)
        self.adapter = None if self.context is None else self.context.adapter

    def thread(self, session_id):
        return self.threads.setdefault(session_id, ChatHistoryAgentThread(thread_id=session_id))

    async def run(self, session_id, text):
        return (await self.agent.get_response(text, thread=self.thread(session_id))).message.content

    def run_blocking(self, session_id, text):
        raise NotImplementedError

    async def stream(self, session_id, text):
        items = self.agent.invoke_stream(text, thread=self.thread(session_id))
        return "".join([item.message.content async for item in items])

    async def stored(self, session_id):
        messages = [message async for message in self.threads[session_id].get_messages()]
        return [(m.role.value, str([item.model_dump(exclude={"inner_content"}) for item in m.items])) for m in messages]


class InvokingAgent(KernelAgent):
    """The same agent by `invoke`."""

    async def run(self, session_id, text):
        items = [item async for item in self.agent.invoke(text, thread=self.thread(session_id))]
        return items[-1].message.content


class TestSemanticKernel(FrameworkContract):
    provider = "city"
    needs_loop = True

    def named(self, tool):
        return f"city-{tool}"

    def make_agent(self, setup):
        return KernelAgent(setup)

    def resume_without_adapter(self, agent):
        return type(agent)(replace(agent.setup, engine=None), agent.threads)


class TestSemanticKernelByInvoke(TestSemanticKernel):
    def make_agent(self, setup):
        return InvokingAgent(setup)
