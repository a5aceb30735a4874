"""Implements the Store protocol on a SQL database. Each method is one transaction.

A runner runs transactions; each store has one for reads and one for writes. SQLite and PostgreSQL share every statement and every
rule. Files, locks, connections and errors differ between databases, so the runners of the two stores handle these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from mnemosyne.damage import DamageLog
from mnemosyne.protocols import Store
from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord, Erasure, ErasureOutcome, ErasurePreview, StoredRow
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import (
    ChosenInputs,
    HiddenRecords,
    ImportedBranch,
    ImportedTurn,
    PathSummary,
    Prefetch,
    PutResult,
    SequencedEntry,
    SessionStart,
    SessionWindow,
    TurnCommit,
    TurnInputs,
    TurnRecord,
)
from mnemosyne.schema.replies import AddedChunk, ChunkLimits, ReplyChunk, UnfinishedReply
from mnemosyne.schema.session import Message, SessionHead, SessionOutline
from mnemosyne.stores.sql import documents as sql_documents
from mnemosyne.stores.sql import erase as sql_erase
from mnemosyne.stores.sql import parts as sql_parts
from mnemosyne.stores.sql import replies as sql_replies
from mnemosyne.stores.sql import sessions as sql_sessions
from mnemosyne.stores.sql.connection import Connection
from mnemosyne.stores.sql.read_bodies import BodyCache
from mnemosyne.stores.sql.reading import archives as sql_archives
from mnemosyne.stores.sql.reading import entries as sql_recall
from mnemosyne.stores.sql.reading import exchanges as sql_exchanges
from mnemosyne.stores.sql.reading import outlines as sql_outlines
from mnemosyne.stores.sql.reading import search as sql_search
from mnemosyne.stores.sql.reading import system_messages as sql_system_messages
from mnemosyne.stores.sql.reading import turn_inputs as sql_inputs
from mnemosyne.stores.sql.reading import turns as sql_turns
from mnemosyne.stores.sql.reading import window as sql_window
from mnemosyne.stores.sql.upkeep.store import OpeningRunner, Runner, SqlUpkeep
from mnemosyne.stores.sql.writing import hidden_records as sql_hidden_records
from mnemosyne.stores.sql.writing import turns as sql_writes
from mnemosyne.stores.sql.writing import worlds as sql_worlds


class SqlStore(SqlUpkeep, Store):
    """A Store on two runners, one for reads and one for writes. See `mnemosyne.protocols.Store` for the methods."""

    def __init__(self, reads: Runner, writes: Runner, log: DamageLog, cache: BodyCache) -> None:
        self._reads = OpeningRunner(reads, writes)
        self._writes = OpeningRunner(writes, writes)
        self._log = log
        self._cache = cache

    @property
    def damage_log(self) -> DamageLog:
        return self._log

    async def close(self) -> None:
        """Wait for running work, then release the database and the threads. A second call does nothing."""
        await self._reads.close()
        await self._writes.close()

    async def create_session(self, start: SessionStart) -> SessionHead:
        return await self._writes.run(lambda db: sql_writes.create_session(db, start, self._session_limit))

    async def adopt_world(
        self,
        session_id: str,
        world_id: str,
        locale: str,
        state: Mapping[str, Any],
        *,
        instead_of: Collection[str] = ("",),
    ) -> SessionHead:
        return await self._writes.run(
            lambda db: sql_writes.adopt_world(db, session_id, world_id, locale, state, instead_of)
        )

    async def append_turns(
        self,
        session_id: str,
        turns: Sequence[ImportedTurn],
        entries: Sequence[MemoryEntry] = (),
        *,
        branch_id: str | None = None,
    ) -> SessionHead:
        return await self._writes.run(lambda db: sql_writes.append_turns(db, session_id, turns, entries, branch_id))

    async def add_branches(self, session_id: str, branches: Sequence[ImportedBranch]) -> int:
        return await self._writes.run(lambda db: sql_writes.add_branches(db, session_id, branches))

    async def committed_turns(self, session_id: str, turn_ids: Sequence[str]) -> frozenset[str]:
        return await self._reads.run(lambda db: sql_sessions.read_committed(db, session_id, turn_ids))

    async def sessions(self) -> tuple[str, ...]:
        return await self._reads.run(sql_sessions.read_sessions)

    async def sessions_by_time(self) -> tuple[str, ...]:
        return await self._reads.run(sql_sessions.read_sessions_by_time)

    async def outlines(self) -> tuple[SessionOutline, ...]:
        return await self._reads.run(sql_outlines.read_outlines)

    async def find_exchanges(self, digests: Sequence[str]) -> frozenset[tuple[str, str]]:
        return await self._reads.run(lambda db: sql_exchanges.find_exchanges(db, digests))

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        return await self._reads.run(lambda db: sql_archives.read_head(db, session_id, branch_id))

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        return await self._reads.run(lambda db: sql_window.read_window(db, session_id, message_limit, branch_id))

    async def turn_inputs(
        self,
        session_id: str,
        *,
        message_limit: int,
        branch_id: str | None = None,
        evidences: Sequence[EvidenceFilter] = (),
        blocks: BlockFilter | None = None,
    ) -> TurnInputs:
        return await self._reads.run(
            lambda db: sql_inputs.read_turn_inputs(db, session_id, message_limit, branch_id, evidences, blocks)
        )

    async def chosen_inputs(
        self,
        session_id: str,
        entry_ids: Mapping[str, Sequence[str]],
        *,
        evidence_ids: Collection[str] = (),
        turn_ids: Sequence[str] = (),
    ) -> ChosenInputs:
        return await self._reads.run(
            lambda db: sql_inputs.read_chosen_inputs(db, session_id, entry_ids, evidence_ids, turn_ids)
        )

    async def save_prepared(
        self,
        record: TurnRecord,
        *,
        expected_version: int,
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
    ) -> SessionHead:
        def write(db: Connection) -> SessionHead:
            return sql_writes.save_prepared(db, record, expected_version)

        return await self._write_turn(
            record.session_id, write, evidences, blocks, usages, is_copy=record.origin_id is not None
        )

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        return await self._write_turn(
            session_id, lambda db: sql_writes.commit_turn(db, session_id, commit, expected_version)
        )

    async def _write_turn(
        self,
        session_id: str,
        write: Callable[[Connection], SessionHead],
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
        *,
        is_copy: bool = False,
    ) -> SessionHead:
        """Write a turn with the parts of its prompt. The cache of the session follows, unless the turn is a copy of
        another one, whose finds become known with it.
        """

        def work(db: Connection) -> tuple[SessionHead, Callable[[], None]]:
            before = sql_sessions.load_session(db, session_id)
            head = write(db)
            written = sql_parts.hold_prompt_parts(db, before, evidences, blocks, usages)
            return head, partial(
                db.bodies.scopes.follow, before.scope, before.key, before.version, head.version, *written
            )

        head, follow = await self._writes.run(work)
        if not is_copy:
            follow()
        return head

    async def commit_numerical(
        self,
        record: TurnRecord,
        state: Mapping[str, Any],
        *,
        expected_version: int,
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
    ) -> SessionHead:
        def write(db: Connection) -> SessionHead:
            return sql_writes.commit_numerical(db, record, state, expected_version)

        return await self._write_turn(record.session_id, write, evidences, blocks, usages)

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        return await self._reads.run(lambda db: sql_turns.read_turn(db, session_id, turn_id))

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        return await self._reads.run(lambda db: sql_turns.read_turns(db, session_id, limit, branch_id, before_depth))

    async def depths_with_system_messages(
        self, session_id: str, *, branch_id: str | None = None, after_depth: int = 0
    ) -> tuple[int, ...]:
        return await self._reads.run(lambda db: sql_system_messages.read_depths(db, session_id, branch_id, after_depth))

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        return await self._reads.run(lambda db: sql_archives.read_branches(db, session_id))

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        return await self._writes.run(lambda db: sql_writes.fork(db, session_id, turn_id, branch_id))

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        return await self._writes.run(lambda db: sql_writes.switch(db, session_id, branch_id))

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        return await self._reads.run(lambda db: sql_turns.read_state(db, session_id, turn_id))

    async def add_chunk(self, session_id: str, chunk: ReplyChunk, limits: ChunkLimits) -> AddedChunk:
        return await self._writes.run(lambda db: sql_replies.add_chunk(db, session_id, chunk, limits))

    async def unfinished_reply(self, session_id: str, turn_id: str | None, message_id: str) -> UnfinishedReply | None:
        return await self._reads.run(lambda db: sql_replies.read_unfinished(db, session_id, turn_id, message_id))

    async def drop_unfinished(self, session_id: str, turn_id: str | None, message_id: str) -> int:
        return await self._writes.run(lambda db: sql_replies.drop_unfinished(db, session_id, turn_id, message_id))

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        await self._writes.run(lambda db: sql_writes.save_prefetch(db, session_id, prefetch))

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        return await self._writes.run(lambda db: sql_worlds.replace_world(db, world_id, digest, lore, pack))

    async def worlds(self) -> Mapping[str, str]:
        return await self._reads.run(sql_worlds.read_worlds)

    async def world_digest(self, world_id: str) -> str | None:
        return await self._reads.run(lambda db: sql_worlds.read_digest(db, world_id))

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        return await self._reads.run(lambda db: sql_worlds.read_pack(db, world_id, digest))

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        return await self._reads.run(lambda db: sql_recall.read_entries(db, scope, entry_ids))

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        return await self._reads.run(lambda db: sql_recall.read_gated_entries(db, scopes))

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        return await self._reads.run(lambda db: sql_recall.read_entries_after(db, scope, chain, sequence, limit))

    async def entries_before(
        self, scope: str, chain: Chain, sequence: int | None, limit: int
    ) -> tuple[SequencedEntry, ...]:
        return await self._reads.run(lambda db: sql_recall.read_entries_before(db, scope, chain, sequence, limit))

    async def chain_sizes(self, scope: str) -> Mapping[Chain, int]:
        return await self._reads.run(lambda db: sql_recall.read_chain_sizes(db, scope))

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        return await self._reads.run(lambda db: sql_recall.read_chains_written_after(db, after))

    async def append_entries(self, session_id: str, entries: Sequence[MemoryEntry]) -> int:
        return await self._writes.run(lambda db: sql_writes.append_entries(db, session_id, entries))

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        await self._writes.run(lambda db: sql_writes.save_summary(db, session_id, summary))

    async def hidden_records(self, session_id: str) -> HiddenRecords:
        return await self._reads.run(lambda db: sql_hidden_records.read_hidden_records(db, session_id))

    async def save_hidden_records(self, session_id: str, hidden: HiddenRecords) -> None:
        await self._writes.run(lambda db: sql_hidden_records.save_hidden_records(db, session_id, hidden))

    async def get_session(self, session_id: str, *, branch_id: str | None = None) -> SessionDocument | None:
        return await self._reads.run(lambda db: sql_documents.get_session(db, session_id, branch_id))

    async def put_session(
        self, session_id: str, doc: SessionDocument, *, expected_version: int | None = None
    ) -> PutResult:
        return await self._writes.run(
            lambda db: sql_documents.put_session(db, session_id, doc, expected_version, self._session_limit)
        )

    async def append_messages(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> PutResult:
        return await self._writes.run(
            lambda db: sql_documents.append_messages(db, session_id, messages, idempotency_key, expected_version)
        )

    async def patch_session(
        self, session_id: str, patch: Mapping[str, Any], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._writes.run(lambda db: sql_documents.patch_session(db, session_id, patch, expected_version))

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        return await self._writes.run(lambda db: sql_parts.put_evidence(db, session_id, evidence))

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        return await self._reads.run(lambda db: sql_parts.get_evidence(db, session_id, evidence_id))

    async def find_evidence(self, session_id: str, *, uri: str, content_hash: str) -> Evidence | None:
        return await self._reads.run(lambda db: sql_parts.find_evidence(db, session_id, uri, content_hash))

    async def list_evidences(self, session_id: str, filter: EvidenceFilter | None = None) -> tuple[Evidence, ...]:
        return await self._reads.run(lambda db: sql_parts.list_evidences(db, session_id, filter))

    async def put_context_blocks(
        self, session_id: str, blocks: Sequence[ContextBlock], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._writes.run(lambda db: sql_parts.put_context_blocks(db, session_id, blocks, expected_version))

    async def list_context_blocks(self, session_id: str, filter: BlockFilter | None = None) -> tuple[ContextBlock, ...]:
        return await self._reads.run(lambda db: sql_parts.list_context_blocks(db, session_id, filter))

    async def append_tool_calls(
        self, session_id: str, tool_calls: Sequence[ToolCall], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._writes.run(
            lambda db: sql_parts.append_tool_calls(db, session_id, tool_calls, expected_version)
        )

    async def tool_call(self, session_id: str, tool_call_id: str) -> ToolCall | None:
        return await self._reads.run(lambda db: sql_parts.find_tool_call(db, session_id, tool_call_id))

    async def append_model_usage(
        self, session_id: str, usages: Sequence[ModelUsage], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._writes.run(lambda db: sql_parts.append_model_usage(db, session_id, usages, expected_version))

    async def upsert_tasks(
        self, session_id: str, tasks: Sequence[Task], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._writes.run(lambda db: sql_parts.upsert_tasks(db, session_id, tasks, expected_version))

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        try:
            return await self._writes.run(lambda db: sql_erase.erase(db, erasure))
        finally:
            self._cache.clear()

    async def audits(self) -> tuple[AuditRecord, ...]:
        return await self._reads.run(sql_search.read_audits)

    async def preview_erasure(self, erasure: Erasure) -> ErasurePreview:
        return await self._reads.run(lambda db: sql_erase.preview(db, erasure))

    async def walk_rows(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
        likely: Callable[[bytes], bool] | None = None,
    ) -> None:
        await self._reads.run(lambda db: sql_search.walk_rows(db, visit, sessions, without))

    async def find_text(self, texts: Sequence[str]) -> tuple[str, ...]:
        return await self._reads.run(lambda db: sql_search.find_text(db, texts))
