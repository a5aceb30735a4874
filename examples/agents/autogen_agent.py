"""An AutoGen agent with our context."""

import anyio
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

from jacquard import create_context_engine
from jacquard.integrations.autogen import AgentContext
from mnemosyne import MemoryStore


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        context, client = AgentContext(engine), OpenAIChatCompletionClient(model="gpt-4o-mini")
        agent = AssistantAgent("forecaster", client, tools=[weather], max_tool_iterations=5)
        context.attach(agent, session="s1")
        print((await agent.run(task="How is the weather in Oslo?")).messages[-1].content, context.report)


anyio.run(main)
