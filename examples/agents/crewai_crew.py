"""A crew of CrewAI with our context, without an event loop."""

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool

from jacquard.integrations.crewai import CrewContext
from jacquard.sync import create_context_engine
from mnemosyne import MemoryStore


@tool
def weather(city: str) -> str:
    """Return the weather of a city."""
    return f"Rain in {city}."


with create_context_engine(MemoryStore()) as engine:
    context, llm = CrewContext(engine), LLM(model="openai/gpt-4o-mini")
    agent = Agent(role="forecaster", goal="Tell the weather.", backstory="Brief.", llm=llm, tools=[weather])
    task = Task(description="How is the weather in Oslo?", expected_output="A sentence.", agent=agent)
    crew = Crew(agents=[agent], tasks=[task])
    context.attach(crew, session="s1")
    print(crew.kickoff().raw, context.report, engine.tasks("s1"))
