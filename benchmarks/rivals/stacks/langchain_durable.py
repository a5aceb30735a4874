"""LangChain with a session that survives the process: SQLChatMessageHistory, and a LangGraph graph with SqliteSaver.

What is recalled is in memory, as in `langchain_stack`. Each stands as its library opens it on SQLite.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_community.chat_message_histories import SQLChatMessageHistory
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from sqlalchemy import create_engine

from benchmarks.rivals.stacks.langchain_stack import LangChain, to_messages
from benchmarks.rivals.stacks.stack import Model, Turn, TurnRequest
from mnemosyne.formats.corpora.corpus import CorpusDocument

_SESSION = "bench"


class LangChainSqlite(LangChain):
    """`SQLChatMessageHistory` is read before each prompt; a commit writes both messages in one transaction."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._folder = tempfile.TemporaryDirectory(prefix="jacquard-rivals-")
        self._sessions = 0

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Fill the retrievers, and a new database with the session so far."""
        await super().index(documents, talk)
        self._dispose()
        self._sessions += 1
        self._database = create_engine(f"sqlite:///{Path(self._folder.name) / f'chat-{self._sessions}.db'}")
        self._stored = SQLChatMessageHistory(session_id=_SESSION, connection=self._database)
        self._stored.add_messages(to_messages(self._lines.roles))

    async def close(self) -> None:
        """Close and remove the database."""
        self._dispose()
        self._folder.cleanup()

    def read_history(self) -> Sequence[BaseMessage]:
        """Return what the table holds."""
        return list(self._stored.messages)

    def append_history(self, messages: Sequence[BaseMessage]) -> None:
        """Write both messages."""
        self._stored.add_messages(messages)

    def _dispose(self) -> None:
        if self._sessions:
            self._database.dispose()


class _State(MessagesState):
    """The state of the graph: the messages, and what the turn has found for the prompt, as in the guides."""

    context: str


class LangGraphSqlite(LangChain):
    """A graph whose state SqliteSaver keeps: a turn adds the user's message and runs the node that makes the prompt.

    The reply is put into the state by `update_state`. The state has only the newest messages: older ones are removed
    with each commit, as the guide to long conversations recommends.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._folder = tempfile.TemporaryDirectory(prefix="jacquard-rivals-")
        self._sessions = 0
        self._asked = TurnRequest(query="", limit=1, tokens=1)
        self._made: Turn | None = None

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Fill the retrievers, and a new database with the session so far."""
        await super().index(documents, talk)
        self._disconnect()
        self._sessions += 1
        file = Path(self._folder.name) / f"graph-{self._sessions}.db"
        self._connection = sqlite3.connect(file, check_same_thread=False)
        graph = StateGraph(_State)
        graph.add_node("prompt", self._run_node)
        graph.add_edge(START, "prompt")
        graph.add_edge("prompt", END)
        self._graph: Any = graph.compile(checkpointer=SqliteSaver(self._connection))
        self._thread: Any = {"configurable": {"thread_id": _SESSION}}
        self._graph.update_state(self._thread, {"messages": self._name(self._history), "context": ""}, as_node="prompt")
        self._turn = 0

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt that the node has made; an input that was not committed is replaced."""
        self._asked = ask
        said = HumanMessage(ask.query, id=f"input-{self._turn}")
        self._graph.invoke({"messages": [said]}, self._thread)
        if self._made is None:
            raise RuntimeError("the node of the graph did not run")
        return self._made

    async def close(self) -> None:
        """Close and remove the database."""
        self._disconnect()
        self._folder.cleanup()

    def read_history(self) -> Sequence[BaseMessage]:
        """Return the messages of the state, without the input."""
        return self._history

    def append_history(self, messages: Sequence[BaseMessage]) -> None:
        """Put the reply into the state and take the oldest messages out of it."""
        user, reply = messages
        self._turn += 1
        kept = self._graph.get_state(self._thread).values["messages"][:-1]
        surplus = kept[: max(len(kept) + 2 - self._window, 0)]
        said = [
            HumanMessage(user.content, id=f"input-{self._turn - 1}"),
            AIMessage(reply.content, id=f"reply-{self._turn}"),
        ]
        removed = [RemoveMessage(id=each.id) for each in surplus]
        self._graph.update_state(self._thread, {"messages": [*said, *removed]}, as_node="prompt")

    def _run_node(self, state: _State) -> dict[str, str]:
        self._history = list(state["messages"][:-1])
        self._made = self.build_turn(self._asked)
        return {"context": self._made.messages[0][1]}

    def _name(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        return [each.model_copy(update={"id": f"start-{place}"}) for place, each in enumerate(messages)]

    def _disconnect(self) -> None:
        if self._sessions:
            self._connection.close()
