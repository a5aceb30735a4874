"""A Haystack agent with our context, without an event loop."""

from typing import Annotated

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import tool

from jacquard.integrations.haystack import attach
from jacquard.sync import create_context_engine
from mnemosyne import MemoryStore


@tool
def weather(city: Annotated[str, "Its name."]) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


with create_context_engine(MemoryStore()) as engine:
    agent = Agent(chat_generator=OpenAIChatGenerator(model="gpt-4o-mini"), tools=[weather])
    context = attach(agent, engine, session="s1")
    done = agent.run(messages=[ChatMessage.from_user("How is the weather in Oslo?")])
    print(done["last_message"].text, context.report)
