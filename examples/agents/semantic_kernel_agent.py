"""A Semantic Kernel agent with our context."""

import anyio
from semantic_kernel.agents import ChatCompletionAgent, ChatHistoryAgentThread
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.core_plugins import TimePlugin

from jacquard import create_context_engine
from jacquard.integrations.semantic_kernel import KernelContext
from mnemosyne import MemoryStore


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        service = OpenAIChatCompletion(ai_model_id="gpt-4o-mini")
        agent = ChatCompletionAgent(service=service, plugins=[TimePlugin()])
        context = KernelContext(engine)
        context.attach(agent)
        thread = ChatHistoryAgentThread(thread_id="s1")
        print((await agent.get_response("What day is it?", thread=thread)).content, context.report)


anyio.run(main)
