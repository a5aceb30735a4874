"""A LlamaIndex agent with our context."""

import anyio
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai import OpenAI

from jacquard import create_context_engine
from jacquard.integrations.llamaindex import attach
from mnemosyne import MemoryStore


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        agent = FunctionAgent(llm=OpenAI(model="gpt-4o-mini"), tools=[weather], streaming=False)
        context = attach(agent, engine, session="s1")
        print(await agent.run(user_msg="How is the weather in Oslo?"), context.report)


anyio.run(main)
