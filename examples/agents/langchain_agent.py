"""A LangChain agent with our context."""

import anyio
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from jacquard import create_context_engine
from jacquard.integrations.langchain import ContextMiddleware
from mnemosyne import MemoryStore


def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        context = ContextMiddleware(engine)
        agent = create_agent(ChatOpenAI(model="gpt-4o-mini"), [weather], middleware=[context])
        question = {"messages": [("user", "How is the weather in Oslo?")]}
        print(await agent.ainvoke(question, {"configurable": {"thread_id": "s1"}}), context.report)


anyio.run(main)
