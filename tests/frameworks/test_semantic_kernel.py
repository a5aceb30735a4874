"""The Semantic Kernel adapter against Semantic Kernel itself."""

from __future__ import annotations

from dataclasses import replace

import anyio
import pytest

pytest.importorskip("semantic_kernel", reason="Semantic Kernel is not installed here: make test-frameworks")

from openai import AsyncOpenAI
from semantic_kernel import Kernel
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.data.text_search import KernelSearchResults, TextSearch, TextSearchResult
from semantic_kernel.functions import KernelFunctionFromMethod, kernel_function
from semantic_kernel.prompt_template import PromptTemplateConfig

from jacquard.integrations.semantic_kernel import KernelContext
from jacquard.testing.framework import AgentSetup, FrameworkContract, open_scene
from jacquard.testing.server import ScriptedServer


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


class Shelf(TextSearch):
    """Search that finds the same page for every query."""

    async def search(self, query, output_type=str, **_):
        async def pages():
            if query == "nothing":
                raise OSError("the shelf is empty")
            yield TextSearchResult(name="mills", value="The mill is 300 years old.", link="https://example.org/mills")

        return KernelSearchResults(results=pages())


@pytest.mark.parametrize("asker", ["model", "template"])
def test_what_a_text_search_finds_is_evidence_with_its_address(asker):
    async def work():
        steps = ('tool:shelf-search {"query": "mill"}',) * (asker == "model")
        async with open_scene(server, *steps, "text:It is old.") as scene:
            kernel = Kernel()
            kernel.add_function("shelf", Shelf().create_search_function(output_type="TextSearchResult"))
            client = AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0)
            service = OpenAIChatCompletion(ai_model_id="scripted", async_client=client)
            template = "Be brief." if asker == "model" else "Be brief. Known: {{shelf.search query='mill'}}"
            agent = ChatCompletionAgent(
                name="guide",
                kernel=kernel,
                service=service,
                prompt_template_config=PromptTemplateConfig(template=template),
            )
            context = KernelContext(scene.engine, document_tools={"shelf-search"})
            context.attach(agent)
            thread = ChatHistoryAgentThread(thread_id="s1")
            await agent.get_response("How old is the mill?", thread=thread)
            document = await scene.document("s1")
            (evidence,) = document.evidences.values()
            assert evidence.type.value == "rag_doc"
            assert (evidence.content, evidence.source.uri) == (
                "The mill is 300 years old.",
                "https://example.org/mills",
            )
            (call,) = document.session.tool_state.tool_calls
            assert (call.tool, dict(call.args_digest)["query"], call.provider.name) == ("shelf-search", "mill", "shelf")
            assert call.result_evidence_ids == (evidence.evidence_id,)
            assert context.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)
