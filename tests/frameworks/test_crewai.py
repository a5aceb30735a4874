"""The CrewAI adapter against CrewAI itself."""

from __future__ import annotations

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed here: make test-frameworks")

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool as crew_tool

from jacquard.integrations.crewai import CrewContext
from jacquard.testing.framework import AgentSetup, FrameworkContract


class CrewAgent:
    """A crew of one agent and one task for each message of the user."""

    def __init__(self, setup: AgentSetup):
        self.setup, self.kept = setup, {}
        self.context = None if setup.engine is None else CrewContext(setup.engine, failure=setup.failure)
        self.adapter = None if self.context is None else self.context.adapter

    def crew(self, session_id, text, *, streaming=False):
        llm = LLM(model="openai/gpt-4o", base_url=self.setup.base_url, api_key="none", max_retries=0, stream=streaming)
        agent = Agent(
            role="forecaster",
            goal="answer",
            backstory=self.setup.system,
            llm=llm,
            tools=[crew_tool(tool) for tool in self.setup.tools],
            max_retry_limit=0,
        )
        task = Task(description=text, expected_output="One sentence.", agent=agent)
        crew = Crew(agents=[agent], tasks=[task], cache=False)
        if self.adapter is not None and self.adapter.is_attached:
            self.context.attach(crew, session=session_id, user=self.setup.user_id)
        return crew

    def keep(self, session_id, done):
        self.kept.setdefault(session_id, []).extend(done.tasks_output[0].messages)
        return done.raw

    async def run(self, session_id, text):
        return self.keep(session_id, await self.crew(session_id, text).akickoff())

    def run_blocking(self, session_id, text):
        return self.keep(session_id, self.crew(session_id, text).kickoff())

    async def stream(self, session_id, text):
        return self.keep(session_id, await self.crew(session_id, text, streaming=True).akickoff())

    async def stored(self, session_id):
        return [(message["role"], str(message.get("content"))) for message in self.kept[session_id]]


class ThreadedCrewAgent(CrewAgent):
    """The same by `kickoff_async`, which runs `kickoff` in a thread."""

    async def run(self, session_id, text):
        return self.keep(session_id, await self.crew(session_id, text).kickoff_async())


class TestCrewAI(FrameworkContract):
    def make_agent(self, setup):
        return CrewAgent(setup)


class TestCrewAIInThreads(TestCrewAI):
    def make_agent(self, setup):
        return ThreadedCrewAgent(setup)
