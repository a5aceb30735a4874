"""Calls the engine of a service by the methods of `jacquard.ContextEngine` (class `RemoteEngine`).

    from jacquard.client import RemoteEngine

    async with RemoteEngine("http://127.0.0.1:8321") as engine:
        turn = await engine.prepare_turn("s1", "Hello.")

Arguments, results and errors are the same as in `ContextEngine`, with one exception: a prepared turn is a `RemoteTurn`,
which has only the parts that the client asked for (`include`). This module needs httpx, but no part of the service.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import httpx

from jacquard import ChatMessage, CommitResult, ContextEngine, RuntimeConfig
from jacquard.client.connection import Connection, address_of, call_operation, remote
from jacquard.client.verbs import RemoteVerbs
from jacquard.memory.consolidate.consolidator import ConsolidationResult
from jacquard.remote.operations import BY_NAME
from jacquard.remote.wire import RemoteTurn as RemoteTurn
from jacquard.remote.wire import ShortReport as ShortReport
from jacquard.remote.wire import receive_turn
from mnemosyne import Event, EvidenceLinks, EvidenceSource, EvidenceType, IngestOptions, Ref
from mnemosyne.core import codec
from mnemosyne.schema.ingest import IngestResult
from mnemosyne.schema.memory import EMPTY
from mnemosyne.schema.session import SessionHead
from mnemosyne.schema.world import WorldPack
from mnemosyne.world.pack_json import pack_to_json

_DATA = b"data: "


class RemoteEngine:
    """Engine of a service. Use it in `async with`, or call `close` at the end.

    Args:
        url: address of the service, or the addresses of several hosts of one service over one database. A session's
            calls then go to the session's host (`jacquard.client.connection.Connection`).
        token: token of the caller, needed if the service has tenants.
        config: settings for all turns that are prepared without a `runtime_config`. They override the service's
            settings. Only settings that differ from their defaults are sent.
        include: parts that each turn has in addition to its messages, ids and short report
            (`jacquard.remote.wire.PARTS`, or `all`).
        timeout_seconds: maximum time to wait for one answer.
        transport: transport of httpx, for tests.

    Calls raise the engine's errors. They raise ServiceUnreachableError if the service does not answer, and ServiceError
    for errors that only a service has (such as a wrong token or a limit).
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
        self._caller = {"include": ",".join(include)} if include else {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. The service keeps running."""
        await self._connection.close()

    assemble = remote(ContextEngine.assemble)
    estimate_messages = remote(ContextEngine.estimate_messages)
    commit_assistant_chunk = remote(ContextEngine.commit_assistant_chunk)
    abort_assistant_message = remote(ContextEngine.abort_assistant_message)
    record_tool_call = remote(ContextEngine.record_tool_call)
    record_model_usage = remote(ContextEngine.record_model_usage)
    summarize = remote(ContextEngine.summarize)
    repair_state = remote(ContextEngine.repair_state)
    branches = remote(ContextEngine.branches)
    switch = remote(ContextEngine.switch)
    rollback = remote(ContextEngine.rollback)
    edit_message = remote(ContextEngine.edit_message)
    adopt_messages = remote(ContextEngine.adopt_messages)
    remember = remote(ContextEngine.remember)
    user_facts = remote(ContextEngine.user_facts)
    upsert_tasks = remote(ContextEngine.upsert_tasks)
    tasks = remote(ContextEngine.tasks)

    async def start_session(self, session_id: str, world: WorldPack) -> SessionHead:
        """Call `ContextEngine.start_session`. The service keeps the pack as the present version of its world."""
        await self._call("put_world", {"world_id": world.world_id, **pack_to_json(world)})
        head: SessionHead = await self._call("start_session", {"session_id": session_id, "world_id": world.world_id})
        return head

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
        given = {
            "session_id": session_id,
            "message": user_message,
            "config": self._settings(runtime_config),
            "turn_id": turn_id,
            "branch_id": branch_id,
            "dry_run": dry_run,
        }
        # The same input after the same turn is the same turn already; a key would make it another one.
        return receive_turn(await self._call("prepare_turn", given, keyed=False))

    async def commit_assistant_message(
        self,
        session_id: str,
        assistant_message: ChatMessage,
        refs: Sequence[Ref] | None = None,
        *,
        turn_id: str | None = None,
    ) -> CommitResult:
        """Call `ContextEngine.commit_assistant_message`."""
        given = {"session_id": session_id, "message": assistant_message, "refs": refs, "turn_id": turn_id}
        # Without a turn's id, a reply that arrived would be taken for that to the next turn.
        result: CommitResult = await self._call("commit_assistant_message", given, once=turn_id is None)
        return result

    async def finalize_assistant_message(
        self, session_id: str, refs: Sequence[Ref] | None = None, *, turn_id: str | None = None, message_id: str = ""
    ) -> CommitResult:
        """Call `ContextEngine.finalize_assistant_message`."""
        given = {"session_id": session_id, "refs": refs, "turn_id": turn_id, "message_id": message_id}
        result: CommitResult = await self._call("finalize_assistant_message", given, once=turn_id is None)
        return result

    def verbs(self, *, author: str | None = None, viewer: str | None = None) -> RemoteVerbs:
        """Return the memory verbs (operations on memory by hand) of the service. `author` is the author of the edits.
        `viewer` is the character whose knowledge limits the caller (None: no limit).
        """
        return RemoteVerbs(self._connection, author=author, viewer=viewer)

    def ingestor_of(self, session_id: str) -> RemoteIngestor:
        """Call `ContextEngine.ingestor_of`."""
        return RemoteIngestor(self._connection, session_id)

    async def consolidate(
        self, session_id: str, *, branch_id: str | None = None, chapter_ends: bool = False
    ) -> ConsolidationResult:
        """Call `ContextEngine.consolidate`. Progress is not reported."""
        given = {"session_id": session_id, "branch_id": branch_id, "chapter_ends": chapter_ends}
        result: ConsolidationResult = await self._call("consolidate", given)
        return result

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str | None = None) -> SessionHead:
        """Call `ContextEngine.fork`."""
        given = {"session_id": session_id, "turn_id": turn_id, "branch_id": branch_id}
        head: SessionHead = await self._call("fork", given, once=branch_id is not None)
        return head

    async def swipe(
        self, session_id: str, runtime_config: RuntimeConfig | None = None, *, turn_id: str | None = None
    ) -> RemoteTurn:
        """Call `ContextEngine.swipe`."""
        given = {"session_id": session_id, "config": self._settings(runtime_config), "turn_id": turn_id}
        return receive_turn(await self._call("swipe", given))

    async def retry(self, session_id: str, runtime_config: RuntimeConfig | None = None) -> RemoteTurn:
        """Call `ContextEngine.retry`."""
        given = {"session_id": session_id, "config": self._settings(runtime_config)}
        return receive_turn(await self._call("retry", given))

    @asynccontextmanager
    async def events(self, session_id: str) -> AsyncIterator[AsyncIterator[Event]]:
        """Yield an iterator over the events of a session, from now on and as they happen."""
        async with self._connection.stream(address_of(BY_NAME["stream_events"], {"session_id": session_id})) as lines:
            yield _read_events(lines)

    async def _call(self, name: str, given: Mapping[str, Any], **how: Any) -> Any:
        return await call_operation(self, BY_NAME[name], given, **how)

    def _settings(self, given: RuntimeConfig | None) -> dict[str, Any] | None:
        config = given or self._config
        return None if config is None else _differences(codec.to_plain(config), codec.to_plain(RuntimeConfig()))


class RemoteIngestor:
    """Stores texts from outside as evidence in a session of a service, like `SessionIngestor`."""

    _caller: Mapping[str, str] = EMPTY

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
        """Call `SessionIngestor.ingest`."""
        given = {
            "session_id": self._session_id,
            "content": content,
            "source": source,
            "evidence_type": evidence_type,
            "links": links,
            "metadata": dict(metadata or {}),
            "options": options,
        }
        result: IngestResult = await call_operation(self, BY_NAME["ingest"], given)
        return result


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
