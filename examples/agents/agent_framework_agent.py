"""An agent of Microsoft Agent Framework with our context."""

import anyio
from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from jacquard import create_context_engine
from jacquard.integrations.agent_framework import AgentContextMiddleware
from mnemosyne import MemoryStore


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        context, client = AgentContextMiddleware(engine), OpenAIChatCompletionClient(model="gpt-4o-mini")
        agent = Agent(client=client, tools=[weather], middleware=context.middleware)
        done = await agent.run("How is the weather in Oslo?", session=agent.create_session(session_id="s1"))
        print(done.text, context.report)


anyio.run(main)
