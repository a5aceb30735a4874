"""An agent of the OpenAI Agents SDK with our context."""

import anyio
from agents import Agent, Runner, function_tool

from jacquard import create_context_engine
from jacquard.integrations.openai_agents import RunContextAdapter
from mnemosyne import MemoryStore


@function_tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


async def main() -> None:
    async with create_context_engine(MemoryStore()) as engine:
        context = RunContextAdapter(engine)
        agent = Agent(name="forecaster", model="gpt-4o-mini", tools=[weather])
        done = await Runner.run(agent, "How is the weather in Oslo?", **context.run_options("s1"))
        print(done.final_output, context.report)


anyio.run(main)
