"""Writes replies of the main model, complete or in chunks, into the store.

Each function runs while its session is locked (adding chunks needs no lock, because they are only in memory). This module must
not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.input_limits import check_reply
from jacquard.config.sections import RuntimeConfig
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import MissingChunksError
from jacquard.core.names import NameDictionary
from jacquard.memory.path_entries import load_path_entries
from jacquard.memory.threads import (
    build_keeping,
    find_keeping,
    find_kept,
    make_threads,
    name_entities,
    open_threads,
)
from jacquard.pipeline.record.commit import CommitResult, build_commit, read_commit_result
from jacquard.pipeline.record.events import emit_error
from jacquard.pipeline.record.tools import resolve_refs
from jacquard.pipeline.refusals import UNTAGGED
from jacquard.pipeline.worlds import WorldSource
from jacquard.turns.host.waiting import WaitingTurn, agent_of
from jacquard.turns.parts import EngineParts
from jacquard.turns.writing.chunks import ChunkBuffer, Key
from mnemosyne.chains.event import CLOSED
from mnemosyne.chains.unanswered_inputs import is_closed_unanswered
from mnemosyne.core.errors import NoPendingTurnError, TurnNotPendingError, VersionConflictError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.evidence.documents import index_documents
from mnemosyne.schema.event import EventType
from mnemosyne.schema.memory import THREAD, Chain
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import TurnCommit, TurnRecord
from mnemosyne.schema.session import Message, Ref, Role, TurnStatus

T = TypeVar("T")


async def retry_on_conflict(decide: Callable[..., Awaitable[T]], session_id: str, emitter: EventEmitter) -> T:
    """Return the result of `decide`; if another writer came first, call it again on the new version.

    The second call gets the code `version_conflict` as its argument.
    """
    try:
        return await decide()
    except VersionConflictError as error:
        await emit_error(emitter, session_id, None, error)
        return await decide(DegradationCode.VERSION_CONFLICT.value)


class ReplyCommitter:
    """Commits replies, and joins those that come in chunks."""

    def __init__(
        self,
        parts: EngineParts,
        emitter: EventEmitter,
        config: RuntimeConfig,
        worlds: WorldSource,
    ) -> None:
        self._parts, self._emitter, self._worlds = parts, emitter, worlds
        self._config, self._limits, chunks = config, config.limits, config.chunks
        self._chunks = ChunkBuffer(
            expire_seconds=chunks.expire_seconds, max_chars=chunks.max_chars, limits=self._limits
        )

    async def commit(self, session_id: str, reply: Message, turn_id: str | None, refs: tuple[Ref, ...]) -> CommitResult:
        """Write a complete reply; once more if another writer came first."""

        async def commit(*_: str) -> CommitResult:
            return await self._commit(session_id, reply, turn_id, refs)

        return await retry_on_conflict(commit, session_id, self._emitter)

    async def add(self, session_id: str, turn_id: str | None, message_id: str, index: int, chunk: str) -> None:
        """Add a chunk and emit it."""
        turn = turn_id or await self._turn(session_id, message_id, pending=True)
        if not self._chunks.has((session_id, turn, message_id)):
            # The turn must exist.
            await self._parts.store.turn(session_id, turn)
        is_new = self._chunks.add((session_id, turn, message_id), index, chunk, self._parts.clock.now())
        await self._emit_expired()
        kind = EventType.ASSISTANT_CHUNK_RECEIVED
        await self._emitter.emit(
            kind, session_id, turn, chunk_index=index, chars=len(chunk), duplicate=not is_new, message_id=message_id
        )

    async def finish(
        self, session_id: str, turn_id: str | None, message_id: str, refs: tuple[Ref, ...]
    ) -> CommitResult:
        """Join the chunks of a reply and write it; they are dropped once it is written."""
        turn = turn_id or await self._turn(session_id, message_id)
        key = (session_id, turn, message_id)
        text = self._chunks.whole(key, self._parts.clock.now())
        await self._emit_expired()
        if text is None:
            return await self._answer_finished(key)
        result = await self.commit(session_id, Message(role=Role.ASSISTANT, content=text), turn, refs)
        chunks = self._chunks.drop(key)
        await self._emitter.emit(
            EventType.ASSISTANT_MESSAGE_FINALIZED,
            session_id,
            turn,
            chunks=chunks,
            chars=len(text),
            message_id=message_id,
        )
        return result

    async def abort(self, session_id: str, turn_id: str | None, message_id: str) -> int:
        """Drop the chunks of a reply; return their number."""
        turn = turn_id or await self._turn(session_id, message_id)
        return self._chunks.drop((session_id, turn, message_id))

    async def _commit(
        self, session_id: str, reply: Message, turn_id: str | None, refs: tuple[Ref, ...]
    ) -> CommitResult:
        store = self._parts.store
        unchanged = await self._find_waiting(session_id, turn_id)
        waiting = unchanged or await self._load_waiting(session_id, turn_id)
        record, state = waiting.record, waiting.state
        if record.status is TurnStatus.COMMITTED:
            return read_commit_result(record, waiting.version)
        check_reply(reply.content, self._limits)
        refs = await resolve_refs(store, session_id, refs or reply.refs)
        at = self._parts.clock.now()
        decide = partial(_decide, agent=waiting.agent, at=at, refs=refs, config=self._config)
        commit, result = await calculate(decide, record, state, reply, size=size_of(reply.content, state))
        if unchanged is not None and UNTAGGED in (commit.report or {}):
            # Such changes are compared with the prompt, which is not cached for a waiting turn.
            record = (await self._load_waiting(session_id, record.turn_id)).record
            commit, result = await calculate(decide, record, state, reply, size=size_of(reply.content, state))
        commit = await self._follow_threads(record, commit, at)
        head = await store.commit_turn(session_id, commit, expected_version=waiting.version)
        self._parts.waiting.drop(session_id)
        if unchanged is None:
            # Documents that the turn found are memory from now on.
            await index_documents(store, session_id, EvidenceFilter(turn_ids=frozenset({record.turn_id})))
        emitter = self._emitter_of(record)
        await emitter.emit(EventType.MESSAGE_APPENDED, session_id, record.turn_id, role="assistant", messages=1)
        await emitter.emit(
            EventType.PERSISTED,
            session_id,
            record.turn_id,
            what="committed",
            version=head.version,
            ops=len(result.ops),
            refused=result.refused is not None,
            corrections=len(result.corrections),
            set_aside=len(result.set_aside),
        )
        return replace(result, version=head.version)

    async def _follow_threads(self, record: TurnRecord, commit: TurnCommit, at: datetime) -> TurnCommit:
        """Return a commit that names the subjects of its threads, and ends the threads that the turn keeps; most turns have
        neither.
        """
        told = commit.messages[-1].content
        keeping = find_keeping("\n".join(each.content for each in record.messages if each.role is Role.USER), told)
        ends = bool(keeping) or any(CLOSED.intersection(each.tags) for each in commit.entries)
        if not ends and all(each.kind != THREAD for each in commit.entries):
            return commit
        head = await self._parts.store.head(record.session_id, record.branch_id)
        lexicon = NameDictionary((await self._worlds.world(head.world_id)).entities)
        entries = [*(each for each in commit.entries if each.kind != THREAD)]
        entries += name_entities([each for each in commit.entries if each.kind == THREAD], lexicon)
        if ends:
            before = open_threads(await load_path_entries(self._parts.store, head, Chain.EVENT))
            kept = find_kept(before, keeping, commit.entries)
            entries += [
                build_keeping(record, f"{record.turn_id}.kept.{number}", thread, text, at)
                for number, (thread, text) in enumerate(kept, start=1)
            ]
        return replace(commit, entries=tuple(entries))

    async def _find_waiting(self, session_id: str, turn_id: str | None) -> WaitingTurn | None:
        """Return the waiting turn that this engine prepared, if nothing was written to the session since."""
        held = self._parts.waiting.find(session_id, turn_id)
        if held is None:
            return None
        head = await self._parts.store.head(session_id, None if turn_id is None else held.record.branch_id)
        is_current = head.version == held.version and head.branch_id == held.record.branch_id
        return held if is_current else None

    async def _load_waiting(self, session_id: str, turn_id: str | None) -> WaitingTurn:
        """Return the pending turn, or `turn_id`, which may be committed already, from the store."""
        store = self._parts.store
        if turn_id is None:
            window = await store.window(session_id, message_limit=1)
            if window.pending is None:
                raise NoPendingTurnError(session_id)
            record = window.pending
        else:
            record = await store.turn(session_id, turn_id)
            window = await store.window(session_id, message_limit=1, branch_id=record.branch_id)
        if is_closed_unanswered(record):
            raise TurnNotPendingError(session_id, record.turn_id)
        is_over = record.status is TurnStatus.COMMITTED
        agent = "" if is_over else agent_of(await self._worlds.world(window.head.world_id))
        return WaitingTurn(record=record, state=window.state, agent=agent, version=window.head.version)

    def _emitter_of(self, record: TurnRecord) -> EventEmitter:
        """Return an emitter with the tags of a turn, which may have had its own configuration."""
        tags = (record.receipt or {}).get("tags")
        return self._emitter.with_tags(tags) if isinstance(tags, Mapping) and tags else self._emitter

    async def _answer_finished(self, key: Key) -> CommitResult:
        """Answer a second call for a written reply; raises MissingChunksError if there was none."""
        session_id, turn_id, _ = key
        record = await self._parts.store.turn(session_id, turn_id)
        if record.status is not TurnStatus.COMMITTED:
            raise MissingChunksError(session_id, turn_id)
        head = await self._parts.store.head(session_id, record.branch_id)
        return read_commit_result(record, head.version)

    async def _turn(self, session_id: str, message_id: str, *, pending: bool = False) -> str:
        """Return the turn of a reply without a turn id: the one with chunks, else the pending one.

        If none is pending it is the last one, unless `pending` is required.
        """
        under_way = [turn for turn, message in self._chunks.turns(session_id) if message == message_id]
        if len(under_way) == 1:
            return under_way[0]
        window = await self._parts.store.window(session_id, message_limit=1)
        if window.pending is not None:
            return window.pending.turn_id
        if window.previous is not None and not pending:
            return window.previous.turn_id
        raise NoPendingTurnError(session_id)

    async def _emit_expired(self) -> None:
        for session_id, turn_id, message_id in self._chunks.pop_expired(self._parts.clock.now()):
            await self._emitter.emit(
                EventType.DEGRADED,
                session_id,
                turn_id,
                reason=DegradationCode.CHUNKS_EXPIRED.value,
                message_id=message_id,
            )


def _decide(
    record: TurnRecord, state: Mapping[str, Any], reply: Message, *, at: datetime, **how: Any
) -> tuple[TurnCommit, CommitResult]:
    """Return the result of `build_commit`, with the threads that the turn leaves open."""
    commit, result = build_commit(record, state, reply, at=at, **how)
    threads = make_threads(record, commit.messages[-1], at)
    return (replace(commit, entries=(*commit.entries, *threads)) if threads else commit), result
