"""The CrewAI adapter against CrewAI itself."""

from __future__ import annotations

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed here: make test-frameworks")

import anyio
from crewai import LLM, Agent, Crew, Task
from crewai.knowledge.knowledge import Knowledge
from crewai.knowledge.storage.base_knowledge_storage import BaseKnowledgeStorage
from crewai.tools import tool as crew_tool
from crewai.tools.mcp_native_tool import MCPNativeTool

from jacquard.integrations.crewai import CrewContext
from jacquard.testing.framework import AgentSetup, FrameworkContract, count_texts, open_scene
from jacquard.testing.server import ScriptedServer


class CrewAgent:
    """A crew of one agent and one task for each message of the user."""

    def __init__(self, setup: AgentSetup):
        self.setup, self.kept = setup, {}
        self.context = None if setup.engine is None else CrewContext(setup.engine, failure=setup.failure)
        self.adapter = None if self.context is None else self.context.adapter

    def crew(self, session_id, text, *, streaming=False, tools=()):
        llm = LLM(model="openai/gpt-4o", base_url=self.setup.base_url, api_key="none", max_retries=0, stream=streaming)
        agent = Agent(
            role="forecaster",
            goal="answer",
            backstory=self.setup.system,
            llm=llm,
            tools=[*(crew_tool(tool) for tool in self.setup.tools), *tools],
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
    provider = "jacquard.testing.framework"

    def make_agent(self, setup):
        return CrewAgent(setup)


class TestCrewAIInThreads(TestCrewAI):
    def make_agent(self, setup):
        return ThreadedCrewAgent(setup)


class Shelf(BaseKnowledgeStorage):
    """Storage of a knowledge base that finds the same page for every query."""

    async def asearch(self, query, limit=5, metadata_filter=None, score_threshold=0.6):
        return self.search(query)

    def search(self, query, limit=5, metadata_filter=None, score_threshold=0.6):
        if query == ["nothing"]:
            raise OSError("the shelf is empty")
        page = {"id": "p1", "content": "The mill is 300 years old.", "metadata": {"source": "mills.md"}, "score": 0.9}
        return [page]

    def save(self, documents):
        pass

    async def asave(self, documents):
        pass

    def reset(self):
        pass

    async def areset(self):
        pass


@pytest.mark.parametrize("way", ["akickoff", "kickoff_async"])
@pytest.mark.parametrize("owner", ["agent", "crew"])
def test_what_a_knowledge_base_finds_is_evidence_of_the_turn(owner, way):
    async def work():
        async with open_scene(server, "text:mill age", "text:It is old.", "text:nothing", "text:No idea.") as scene:
            context = CrewContext(scene.engine)
            shelf = Knowledge(collection_name="shelf", sources=[], storage=Shelf())
            llm = LLM(model="openai/gpt-4o", base_url=server.base_url, api_key="none", max_retries=0)
            agent = Agent(role="guide", goal="answer", backstory="Brief.", llm=llm)
            task = Task(description="How old is the mill?", expected_output="Words.", agent=agent)
            crew = Crew(agents=[agent], tasks=[task])
            {"agent": agent, "crew": crew}[owner].knowledge = shelf
            context.attach(crew, session="s1")
            await getattr(crew, way)()
            await getattr(crew, way)()
            document = await scene.document("s1")
            (evidence,) = [each for each in document.evidences.values() if each.type.value == "rag_doc"]
            assert (evidence.content, evidence.source.uri) == ("The mill is 300 years old.", "mills.md")
            found, failed = document.session.tool_state.tool_calls
            assert (found.tool, dict(found.args_digest), found.extra["documents"]) == (
                "Knowledge",
                {"query": "mill age"},
                1,
            )
            assert (found.result_evidence_ids, found.task_id) == ((evidence.evidence_id,), str(task.id))
            assert found.extra["turn_id"]
            assert (failed.extra["documents"], failed.status.value) == (0, "error")
            assert context.report.problems == ()
            context.detach()
            assert "query" not in vars(shelf)

    with ScriptedServer() as server:
        anyio.run(work)


def test_tasks_of_a_crew_are_tasks_of_the_session():
    """Two agents with a task each: the to-do list has both with CrewAI's ids, and tool calls name theirs."""

    async def work():
        steps = ('tool:weather {"city": "Oslo"}', "text:It rains.", "text:Take an umbrella.")
        async with open_scene(server, *steps) as scene:
            context = CrewContext(scene.engine)
            llm = LLM(model="openai/gpt-4o", base_url=server.base_url, api_key="none", max_retries=0)
            agents = [Agent(role=role, goal="help", backstory="Brief.", llm=llm) for role in ("forecaster", "adviser")]
            agents[0].tools = [crew_tool(AgentSetup(engine=None, base_url="").tools[0])]
            look = Task(name="look", description="How is Oslo?", expected_output="Words.", agent=agents[0])
            advise = Task(description="What to take?", expected_output="Words.", agent=agents[1], context=[look])
            crew = Crew(agents=agents, tasks=[look, advise])
            context.attach(crew, session="s1")
            await crew.akickoff()
            document = await scene.document("s1")
            tasks = {task.task_id: task for task in document.session.task_state.todo_list.tasks}
            assert {name: task.status.value for name, task in tasks.items()} == {
                str(look.id): "completed",
                str(advise.id): "completed",
            }
            assert list(tasks) == [str(look.id), str(advise.id)]
            assert (tasks[str(look.id)].name, tasks[str(advise.id)].depends_on) == ("look", (str(look.id),))
            (call,) = document.session.tool_state.tool_calls
            assert (call.task_id, call.provider.name) == (str(look.id), "jacquard.testing.framework")
            ours = [usage for usage in document.session.model_usage if "framework" in usage.extra]
            assert [usage.task_id for usage in ours] == [str(look.id), str(look.id), str(advise.id)]
            assert tasks[str(look.id)].result_evidence_ids == call.result_evidence_ids
            assert [(m.role.value, m.content) for m in document.session.messages] == [
                ("user", "How is Oslo?"),
                ("assistant", "It rains."),
                ("user", "What to take?"),
                ("assistant", "Take an umbrella."),
            ]
            assert [m.author.id for m in document.session.messages if m.role.value == "assistant"] == [
                "forecaster",
                "adviser",
            ]
            assert context.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)


def test_the_only_agent_of_a_crew_is_the_author_of_its_result():
    async def work():
        async with open_scene(server, "text:It rains.", "text:Still rain.") as scene:
            agent = CrewAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            await agent.run("s1", "How is Oslo?")
            await agent.stream("s1", "And now?")
            messages = (await scene.document("s1")).session.messages
            assert [each.author.id for each in messages if each.role.value == "assistant"] == ["forecaster"] * 2
            assert count_texts(server.requests[1].messages, "It rains.") == 1
            assert count_texts(server.requests[1].messages, "forecaster: ") == 0

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_tool_of_an_mcp_server_has_that_server_as_its_provider():
    async def work():
        async with open_scene(server, 'tool:books_forecast {"city": "Oslo"}', "text:It rains.") as scene:

            class Client:
                async def connect(self): ...

                async def disconnect(self): ...

                async def call_tool(self, name, arguments):
                    return "Rain."

            tool = MCPNativeTool(Client, "forecast", {}, "books")
            agent = CrewAgent(AgentSetup(engine=scene.engine, base_url=server.base_url, tools=()))
            crew = agent.crew("s1", "How is Oslo?", tools=[tool])
            assert (await crew.akickoff()).raw == "It rains."
            (call,) = (await scene.document("s1")).session.tool_state.tool_calls
            assert (call.tool, call.provider.kind.value, call.provider.name) == ("books_forecast", "mcp", "books")

    with ScriptedServer() as server:
        anyio.run(work)


def test_a_model_without_function_calling():
    """The agent writes its actions as text; its tool calls are recorded all the same."""

    async def work():
        steps = (
            'text:Thought: look\nAction: weather\nAction Input: {"city": "Oslo"}',
            "text:Thought: I know\nFinal Answer: It rains.",
        )
        async with open_scene(server, *steps) as scene:
            agent = CrewAgent(AgentSetup(engine=scene.engine, base_url=server.base_url))
            crew = agent.crew("s1", "How is Oslo?")
            llm = crew.agents[0].llm
            object.__setattr__(llm, "supports_function_calling", lambda: False)
            assert (await crew.akickoff()).raw == "It rains."
            (call,) = (await scene.document("s1")).session.tool_state.tool_calls
            assert (call.tool, call.args_digest, call.task_id) == ("weather", {"city": "Oslo"}, str(crew.tasks[0].id))
            assert agent.adapter.report.problems == ()

    with ScriptedServer() as server:
        anyio.run(work)
