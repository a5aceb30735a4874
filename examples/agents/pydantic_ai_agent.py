"""A pydantic-ai agent with our context."""

import anyio
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

from jacquard import create_context_engine
from jacquard.integrations.pydantic_ai import ContextCapability
from mnemosyne import MemoryStore


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        context = ContextCapability(engine)
        agent = Agent(OpenAIChatModel("gpt-4o-mini"), tools=[weather], capabilities=[context])
        done = await agent.run("How is the weather in Oslo?", conversation_id="s1")
        print(done.output, context.report)


anyio.run(main)
