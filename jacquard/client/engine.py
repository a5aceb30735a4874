"""RemoteEngine: the engine of a service, with the methods of `jacquard.ContextEngine`.

    from jacquard.client import RemoteEngine

    async with RemoteEngine("http://127.0.0.1:8321") as engine:
        turn = await engine.prepare_turn("s1", "Hello.")

Arguments, results and errors are those of the engine, except that a turn is a `RemoteTurn`: it has the parts that were asked for.
It needs httpx and no part of the service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from jacquard import ChatMessage, CommitResult, ConsolidationResult, RepairResult, RuntimeConfig
from jacquard.client.connection import Connection
from jacquard.client.verbs import RemoteVerbs
from jacquard.client.wire import RemoteTurn, decode_turn, message_to_wire
from mnemosyne.core import codec
from mnemosyne.schema.document import ModelUsage, Summary, Task, ToolCall
from mnemosyne.schema.event import Event
from mnemosyne.schema.evidence import EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.ingest import IngestOptions, IngestResult
from mnemosyne.schema.memory import UserFact
from mnemosyne.schema.record import PutResult
from mnemosyne.schema.session import Ref, SessionHead
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.pack_json import pack_to_json

T = TypeVar("T")
_DATA = b"data: "


class RemoteEngine:
    """Engine of a service. Use it in `async with`, or call `close` at the end.

    Args:
        url: address, or several addresses of hosts of one service over one database. A session's calls then go to its host, and
            to the next one while
            that is unreachable (`jacquard.client.connection.Connection`).
        config: settings of every turn that has none of its own, over the service's; only differences from the defaults are
            sent.
        include: parts that each turn returns with its messages, its ids and its short report (`jacquard.client.wire.PARTS`, or
            `all`).

    Calls raise the engine's errors, ServiceUnreachableError if the service does not answer, and ServiceError for errors that
    only a service has (a token, a limit).
    """

    def __init__(
        self,
        url: str | Sequence[str],
        token: str | None = None,
        *,
        config: RuntimeConfig | None = None,
        include: Collection[str] = (),
        timeout_seconds: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = Connection(url, token, timeout_seconds=timeout_seconds, transport=transport)
        self._config = config
        self._include = {"include": ",".join(include)} if include else {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the service keeps running."""
        await self._connection.close()

    async def start_session(self, session_id: str, world: WorldPack) -> SessionHead:
        """Call `ContextEngine.start_session`; the pack becomes the present version of its world in the service."""
        await self._connection.call("PUT", ("worlds", world.world_id), pack_to_json(world))
        body = {"session_id": session_id, "world_id": world.world_id}
        return await self._ask(SessionHead, "POST", ("sessions",), body, once=True)

    async def continue_session(
        self,
        session_id: str,
        new_session_id: str,
        *,
        memory_ids: Sequence[str] | None = None,
        author: str = "host",
        viewer: str | None = None,
    ) -> SessionHead:
        """Call `ContextEngine.continue_session`."""
        verbs = self.verbs(author=author, viewer=viewer)
        return await verbs.continue_session(session_id, new_session_id, memory_ids=memory_ids)

    async def prepare_turn(
        self,
        session_id: str,
        user_message: ChatMessage,
        runtime_config: RuntimeConfig | None = None,
        *,
        turn_id: str | None = None,
        branch_id: str | None = None,
        dry_run: bool = False,
    ) -> RemoteTurn:
        """Call `ContextEngine.prepare_turn`."""
        body = {
            "message": message_to_wire(user_message),
            "config": self._settings(runtime_config),
            "turn_id": turn_id,
            "branch_id": branch_id,
            "dry_run": dry_run,
        }
        # The same input after the same turn is the same turn already; a key would make it another one.
        address = ("sessions", session_id, "turns")
        return decode_turn(await self._connection.call("POST", address, body, query=self._include, keyed=False))

    async def assemble(self, session_id: str, turn_id: str, tail: Sequence[Mapping[str, Any]] = ()) -> list[Any]:
        """Call `ContextEngine.assemble`."""
        address = ("sessions", session_id, "turns", turn_id, "assemble")
        told = await self._ask(dict, "POST", address, {"tail": [dict(each) for each in tail]})
        return list(told["messages"])

    async def estimate_messages(self, messages: Sequence[Any], model_hint: str | None = None) -> int:
        """Call `ContextEngine.estimate_messages`."""
        plain = [codec.to_plain(each) for each in messages]
        told = await self._ask(dict, "POST", ("estimate",), {"messages": plain, "model_hint": model_hint})
        return int(told["tokens"])

    async def commit_assistant_message(
        self,
        session_id: str,
        assistant_message: ChatMessage,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
    ) -> CommitResult:
        """Call `ContextEngine.commit_assistant_message`."""
        body = {"message": message_to_wire(assistant_message), "refs": refs, "turn_id": turn_id}
        # Without a turn's id, a reply that arrived would count as the reply to the next turn.
        return await self._ask(CommitResult, "POST", ("sessions", session_id, "reply"), body, once=turn_id is None)

    async def commit_assistant_chunk(
        self,
        session_id: str,
        chunk: str,
        chunk_index: int,
        *,
        turn_id: str | None = None,
        message_id: str = "",
    ) -> None:
        """Call `ContextEngine.commit_assistant_chunk`."""
        body = {"chunk": chunk, "chunk_index": chunk_index, "turn_id": turn_id, "message_id": message_id}
        await self._connection.call("POST", ("sessions", session_id, "reply", "chunks"), body)

    async def finalize_assistant_message(
        self, session_id: str, refs: Sequence[Ref] | None = None, *, turn_id: str | None = None, message_id: str = ""
    ) -> CommitResult:
        """Call `ContextEngine.finalize_assistant_message`."""
        address, body = (
            ("sessions", session_id, "reply", "finalize"),
            {"refs": refs, "turn_id": turn_id, "message_id": message_id},
        )
        return await self._ask(CommitResult, "POST", address, body, once=turn_id is None)

    async def abort_assistant_message(
        self, session_id: str, *, turn_id: str | None = None, message_id: str = ""
    ) -> int:
        """Call `ContextEngine.abort_assistant_message`."""
        body = {"turn_id": turn_id, "message_id": message_id}
        return int((await self._ask(dict, "POST", ("sessions", session_id, "reply", "abort"), body))["chunks"])

    def verbs(self, *, author: str | None = None, viewer: str | None = None) -> RemoteVerbs:
        """Return the memory verbs of the service for an editor `author` who may know what `viewer` may."""
        return RemoteVerbs(self._connection, author=author, viewer=viewer)

    def ingestor_of(self, session_id: str) -> RemoteIngestor:
        """Call `ContextEngine.ingestor_of`."""
        return RemoteIngestor(self._connection, session_id)

    async def record_tool_call(
        self,
        session_id: str,
        tool_call: ToolCall,
        result_evidence_ids: Sequence[str] | None = None,
        *,
        result: str | None = None,
        options: IngestOptions | None = None,
    ) -> PutResult:
        """Call `ContextEngine.record_tool_call`."""
        body = {
            "tool_call": tool_call,
            "result_evidence_ids": result_evidence_ids,
            "result": result,
            "options": options,
        }
        return await self._ask(PutResult, "POST", ("sessions", session_id, "tool-calls"), body)

    async def record_model_usage(
        self,
        session_id: str,
        model_usage: ModelUsage,
        llm_output_evidence_id: str | None = None,
        *,
        turn_id: str | None = None,
    ) -> PutResult:
        """Call `ContextEngine.record_model_usage`."""
        body = {"model_usage": model_usage, "llm_output_evidence_id": llm_output_evidence_id, "turn_id": turn_id}
        return await self._ask(PutResult, "POST", ("sessions", session_id, "model-usages"), body)

    async def consolidate(
        self, session_id: str, *, branch_id: str | None = None, chapter_ends: bool = False
    ) -> ConsolidationResult:
        """Call `ContextEngine.consolidate`, without its progress."""
        body = {"branch_id": branch_id, "chapter_ends": chapter_ends}
        return await self._ask(ConsolidationResult, "POST", ("sessions", session_id, "consolidate"), body)

    async def summarize(self, session_id: str, *, branch_id: str | None = None) -> Summary | None:
        """Call `ContextEngine.summarize`."""
        told = await self._connection.call("POST", ("sessions", session_id, "summarize"), {"branch_id": branch_id})
        return None if told == b"null" else codec.decode(told, Summary)

    async def repair_state(
        self, session_id: str, ops: Sequence[Any], *, reason: str = "", branch_id: str | None = None
    ) -> RepairResult:
        """Call `ContextEngine.repair_state`."""
        body = {"ops": [codec.to_plain(each) for each in ops], "reason": reason, "branch_id": branch_id}
        return await self._ask(RepairResult, "POST", ("sessions", session_id, "repair"), body, once=True)

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Call `ContextEngine.branches`."""
        return await self._ask(tuple[SessionHead, ...], "GET", ("sessions", session_id, "branches"))

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str | None = None) -> SessionHead:
        """Call `ContextEngine.fork`."""
        body = {"turn_id": turn_id, "branch_id": branch_id}
        return await self._ask(SessionHead, "POST", ("sessions", session_id, "fork"), body, once=branch_id is not None)

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Call `ContextEngine.switch`."""
        return await self._ask(SessionHead, "POST", ("sessions", session_id, "switch"), {"branch_id": branch_id})

    async def rollback(self, session_id: str, turn_id: str | None) -> SessionHead:
        """Call `ContextEngine.rollback`."""
        return await self._ask(
            SessionHead, "POST", ("sessions", session_id, "rollback"), {"turn_id": turn_id}, once=True
        )

    async def swipe(
        self, session_id: str, runtime_config: RuntimeConfig | None = None, *, turn_id: str | None = None
    ) -> RemoteTurn:
        """Call `ContextEngine.swipe`."""
        body = {"config": self._settings(runtime_config), "turn_id": turn_id}
        address = ("sessions", session_id, "swipe")
        return decode_turn(await self._connection.call("POST", address, body, query=self._include, once=True))

    async def retry(self, session_id: str, runtime_config: RuntimeConfig | None = None) -> RemoteTurn:
        """Call `ContextEngine.retry`."""
        body = {"config": self._settings(runtime_config)}
        address = ("sessions", session_id, "retry")
        return decode_turn(await self._connection.call("POST", address, body, query=self._include, once=True))

    async def edit_message(
        self, session_id: str, message_id: str, content: str, *, branch_id: str | None = None
    ) -> SessionHead:
        """Call `ContextEngine.edit_message`."""
        body = {"content": content, "branch_id": branch_id}
        return await self._ask(SessionHead, "PATCH", ("sessions", session_id, "messages", message_id), body, once=True)

    async def adopt_messages(self, session_id: str, messages: Sequence[ChatMessage]) -> SessionHead:
        """Call `ContextEngine.adopt_messages`."""
        body = {"messages": [message_to_wire(each) for each in messages]}
        return await self._ask(SessionHead, "POST", ("sessions", session_id, "adopt"), body)

    async def remember(self, user_id: str, facts: Sequence[UserFact], *, dry_run: bool = False) -> tuple[UserFact, ...]:
        """Call `ContextEngine.remember`."""
        body = {"facts": list(facts), "dry_run": dry_run}
        return await self._ask(tuple[UserFact, ...], "POST", ("users", user_id, "facts"), body)

    async def user_facts(self, user_id: str, *, at: datetime | None = None) -> tuple[UserFact, ...]:
        """Call `ContextEngine.user_facts`."""
        query = {} if at is None else {"at": at.isoformat()}
        return await self._ask(tuple[UserFact, ...], "GET", ("users", user_id, "facts"), query=query)

    async def upsert_tasks(self, session_id: str, tasks: Sequence[Task]) -> PutResult:
        """Call `ContextEngine.upsert_tasks`."""
        return await self._ask(PutResult, "PUT", ("sessions", session_id, "tasks"), {"tasks": list(tasks)})

    async def tasks(self, session_id: str) -> tuple[Task, ...]:
        """Call `ContextEngine.tasks`."""
        return await self._ask(tuple[Task, ...], "GET", ("sessions", session_id, "tasks"))

    @asynccontextmanager
    async def events(self, session_id: str) -> AsyncIterator[AsyncIterator[Event]]:
        """Yield the events of a session from now on, as they come."""
        async with self._connection.stream(("sessions", session_id, "events")) as lines:
            yield _read_events(lines)

    def _settings(self, given: RuntimeConfig | None) -> dict[str, Any] | None:
        config = given or self._config
        return None if config is None else _differences(codec.to_plain(config), codec.to_plain(RuntimeConfig()))

    async def _ask(
        self,
        kind: type[T],
        method: str,
        address: tuple[str, ...],
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        once: bool = False,
    ) -> T:
        return codec.decode(await self._connection.call(method, address, body, query=query, once=once), kind)


class RemoteIngestor:
    """Stores texts from outside in a session of a service as evidence, like `SessionIngestor`."""

    def __init__(self, connection: Connection, session_id: str) -> None:
        self._connection, self._session_id = connection, session_id

    async def ingest(
        self,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> IngestResult:
        """See `SessionIngestor.ingest`."""
        body = {
            "content": content,
            "source": source,
            "evidence_type": evidence_type,
            "links": links,
            "metadata": dict(metadata or {}),
            "options": options,
        }
        told = await self._connection.call("POST", ("sessions", self._session_id, "evidence"), body)
        return codec.decode(told, IngestResult)


async def _read_events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    async for line in lines:
        data = line.encode("utf-8")
        if data.startswith(_DATA):
            yield codec.decode(data.removeprefix(_DATA), Event)


def _differences(given: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that differ from their defaults, in the same nesting."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, dict) and isinstance(default.get(name), dict) and default[name]:
            value = _differences(value, default[name])
            if value:
                found[name] = value
        elif value != default.get(name):
            found[name] = value
    return found
