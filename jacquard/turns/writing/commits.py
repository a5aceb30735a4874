"""Writes the replies of the main model into the store, complete or joined from chunks.

Chunks are kept in the store, so any process can finish a reply. Every method except `ReplyCommitter.add` and `abort`
runs while its session is locked. This module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.input_limits import check_reply, check_reply_chars
from jacquard.config.sections import RuntimeConfig
from jacquard.core.degradations import DegradationCode
from jacquard.core.errors import ChunkConflictError, MissingChunksError
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
from mnemosyne.chains.event import CLOSED
from mnemosyne.chains.unanswered_inputs import is_closed_unanswered
from mnemosyne.core.errors import NoPendingTurnError, TurnNotPendingError, VersionConflictError
from mnemosyne.core.off_loop import run_off_loop
from mnemosyne.evidence.documents import index_documents
from mnemosyne.schema.event import EventType
from mnemosyne.schema.memory import THREAD, Chain
from mnemosyne.schema.query import EvidenceFilter
from mnemosyne.schema.record import TurnCommit, TurnRecord
from mnemosyne.schema.replies import ChunkLimits, ChunkOutcome, ReplyChunk, UnfinishedReply
from mnemosyne.schema.session import Message, Ref, Role, TurnStatus

T = TypeVar("T")

MAX_CHUNKS = 100_000
"""Maximum number of chunks of one reply. The limit on characters does not stop empty chunks."""

MOST_OF_A_SESSION = 8
"""Maximum number of unfinished replies of one session."""


async def retry_on_conflict(decide: Callable[..., Awaitable[T]], session_id: str, emitter: EventEmitter) -> T:
    """Return the result of `decide`. If another writer came first, call it once more on the session's new version.

    The second call gets the degradation code `version_conflict` as its argument.
    """
    try:
        return await decide()
    except VersionConflictError as error:
        await emit_error(emitter, session_id, None, error)
        return await decide(DegradationCode.VERSION_CONFLICT.value)


class ReplyCommitter:
    """Commits replies that arrive complete, and joins and commits replies that arrive in chunks."""

    def __init__(
        self,
        parts: EngineParts,
        emitter: EventEmitter,
        config: RuntimeConfig,
        worlds: WorldSource,
    ) -> None:
        self._parts, self._emitter, self._worlds = parts, emitter, worlds
        self._config, self._limits = config, config.limits
        self._lifetime = timedelta(seconds=config.chunks.expire_seconds)

    async def commit(self, session_id: str, reply: Message, turn_id: str | None, refs: tuple[Ref, ...]) -> CommitResult:
        """Commit a complete reply to the turn `turn_id` (None: the pending turn) and return the result. If another
        writer came first, try once more. `refs` are the pieces of evidence that the reply cites.
        """

        async def commit(*_: str) -> CommitResult:
            return await self._commit(session_id, reply, turn_id, refs)

        return await retry_on_conflict(commit, session_id, self._emitter)

    async def add(self, session_id: str, turn_id: str | None, message_id: str, index: int, text: str) -> None:
        """Write one chunk and emit an event.

        Raises ChunkConflictError if the index is not valid, if another text has it, or if the chunks would exceed
        `chunks.max_chars`. Raises InputTooLargeError if the reply becomes longer than a reply may be. `turn_id` is the
        turn (None: the pending turn).
        """
        if not 0 <= index < MAX_CHUNKS:
            most_chunks = f"a reply has at most {MAX_CHUNKS:,} chunks; send longer ones"
            reason = "its index is negative; count from 0" if index < 0 else most_chunks
            raise ChunkConflictError(session_id, turn_id or "(pending)", index, reason)
        now, limits, most = self._parts.clock.now(), self._limits, self._config.chunks.max_chars
        chunk = ReplyChunk(turn_id=turn_id, message_id=message_id, index=index, text=text, at=now)
        added = await self._parts.store.add_chunk(
            session_id,
            chunk,
            ChunkLimits(
                chars=min(most, limits.reply_chars), replies=MOST_OF_A_SESSION, expired_before=now - self._lifetime
            ),
        )
        await self._emit_dropped(session_id, added.dropped)
        if added.outcome is ChunkOutcome.CONFLICTING:
            raise ChunkConflictError(session_id, added.turn_id, index, "another text has this index already")
        if added.outcome is ChunkOutcome.TOO_LONG:
            check_reply_chars(added.chars, limits)
            raise ChunkConflictError(session_id, added.turn_id, index, f"the reply would pass {most:,} characters")
        await self._emitter.emit(
            EventType.ASSISTANT_CHUNK_RECEIVED,
            session_id,
            added.turn_id,
            chunk_index=index,
            chars=len(text),
            duplicate=added.outcome is ChunkOutcome.REPEATED,
            message_id=message_id,
        )

    async def finish(
        self, session_id: str, turn_id: str | None, message_id: str, refs: tuple[Ref, ...]
    ) -> CommitResult:
        """Join the chunks of a reply, commit the reply, and return the result. The chunks are dropped when the reply
        has been written.

        If the reply was finished before, return the result of that commit. Raises MissingChunksError if a chunk is
        missing, or if there are no chunks. `turn_id` is the turn (None: the pending turn).
        """
        reply = await self._find_unfinished(session_id, turn_id, message_id)
        if reply is None:
            return await self._answer_finished(session_id, turn_id or await self._last_turn(session_id))
        chunks, turn = reply.chunks, reply.turn_id
        if missing := tuple(index for index in range(max(chunks)) if index not in chunks):
            raise MissingChunksError(session_id, turn, missing)
        text = "".join(chunks[index] for index in range(len(chunks)))
        result = await self.commit(session_id, Message(role=Role.ASSISTANT, content=text), turn, refs)
        await self._parts.store.drop_unfinished(session_id, turn, message_id)
        await self._emitter.emit(
            EventType.ASSISTANT_MESSAGE_FINALIZED,
            session_id,
            turn,
            chunks=len(chunks),
            chars=len(text),
            message_id=message_id,
        )
        return result

    async def abort(self, session_id: str, turn_id: str | None, message_id: str) -> int:
        """Drop the chunks of a reply and return their number. `turn_id` is the turn (None: the pending turn)."""
        return await self._parts.store.drop_unfinished(session_id, turn_id, message_id)

    async def _find_unfinished(self, session_id: str, turn_id: str | None, message_id: str) -> UnfinishedReply | None:
        """Return a reply with chunks; one that has expired is dropped."""
        reply = await self._parts.store.unfinished_reply(session_id, turn_id, message_id)
        if reply is None or reply.changed_at >= self._parts.clock.now() - self._lifetime:
            return reply
        await self._parts.store.drop_unfinished(session_id, reply.turn_id, message_id)
        await self._emit_dropped(session_id, ((reply.turn_id, message_id),))
        return None

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
        commit, result = await run_off_loop(decide, record, state, reply)
        if unchanged is not None and UNTAGGED in (commit.report or {}):
            # Such changes are compared with the prompt, which is not cached for a waiting turn.
            record = (await self._load_waiting(session_id, record.turn_id)).record
            commit, result = await run_off_loop(decide, record, state, reply)
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
        """Return a commit that names the subjects of its threads, and ends the threads that the turn resolves.

        Threads are promises, debts and questions that the story left open. Most turns have none.
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

    async def _answer_finished(self, session_id: str, turn_id: str) -> CommitResult:
        """Answer a second call for a written reply; raises MissingChunksError if there was none."""
        record = await self._parts.store.turn(session_id, turn_id)
        if record.status is not TurnStatus.COMMITTED:
            raise MissingChunksError(session_id, turn_id)
        head = await self._parts.store.head(session_id, record.branch_id)
        return read_commit_result(record, head.version)

    async def _last_turn(self, session_id: str) -> str:
        """Return the pending turn, else the last one."""
        window = await self._parts.store.window(session_id, message_limit=1)
        if (turn := window.pending or window.previous) is None:
            raise NoPendingTurnError(session_id)
        return turn.turn_id

    async def _emit_dropped(self, session_id: str, replies: Sequence[tuple[str, str]]) -> None:
        for turn_id, message_id in replies:
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
