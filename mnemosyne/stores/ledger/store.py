"""The Store protocol over ledgers, wherever they are stored.

The memory store and the file store differ only in how a ledger is loaded and how its changes are saved
(`StorageBackend`). It must not import a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from mnemosyne.chains.messages.exchanges import exchange_digests
from mnemosyne.protocols import Store
from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord, Erasure, ErasureOutcome, ErasurePreview, StoredRow
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import (
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
    TurnRecord,
)
from mnemosyne.schema.session import Message, SessionHead
from mnemosyne.stores.ledger import documents as ledger_documents
from mnemosyne.stores.ledger import entries as ledger_entries
from mnemosyne.stores.ledger import hidden_records as ledger_hidden_records
from mnemosyne.stores.ledger import reads as ledger_reads
from mnemosyne.stores.ledger import writes as ledger_writes
from mnemosyne.stores.ledger.erase import Dataset, RewritePlan, erase, find_text, preview, walk_rows
from mnemosyne.stores.ledger.ledger import Ledger

T = TypeVar("T")

MOST_TURNS_READ = 200
"""Newest turns of each branch that are searched for exchanges: these stores are for few sessions, and have no index of them."""


class StorageBackend(Protocol):
    """Stores the ledgers of one tenant by scope, and runs work on them one after the other.

    Work is synchronous and must not change a ledger that it only reads.
    """

    async def read(self, scopes: Sequence[str], work: Callable[[Sequence[Ledger]], T]) -> T:
        """Return what `work` returns, given the current ledgers of these scopes (an empty one where there is none)."""
        ...

    async def write(self, scope: str, name: str, work: Callable[[Ledger], T]) -> T:
        """Run `work` in `Ledger.run` and store what it changed before returning; a journal records `name` as the kind
        of write.
        """
        ...

    async def read_all(self, work: Callable[[Dataset], T]) -> T:
        """Return what `work` returns, given all ledgers and audit records for reading."""
        ...

    async def rewrite(self, work: Callable[[Dataset], tuple[T, RewritePlan]]) -> T:
        """Let `work` replace ledgers; all are replaced at once, and nothing of the old ones is left."""
        ...

    async def close(self) -> None:
        """Release files and threads."""
        ...


class LedgerStore(Store):
    """A Store over a backend of ledgers. For what a method does and raises, see `mnemosyne.protocols.Store`."""

    def __init__(self, backend: StorageBackend) -> None:
        self._backend = backend

    async def _read(self, session_id: str, work: Callable[..., T], *args: Any) -> T:
        return await self._backend.read((session_scope(session_id),), lambda found: work(found[0], session_id, *args))

    async def _write(self, session_id: str, work: Callable[..., T], *args: Any) -> T:
        return await self._backend.write(
            session_scope(session_id), work.__name__, lambda ledger: work(ledger, session_id, *args)
        )

    async def close(self) -> None:
        """Wait for running work, then release files and threads. A second call does nothing."""
        await self._backend.close()

    async def create_session(self, start: SessionStart) -> SessionHead:
        def create(ledger: Ledger) -> SessionHead:
            head = ledger_writes.create_session(ledger, start)
            ledger_documents.hold_prompt_parts(ledger, start.evidences, start.blocks, ())
            return head

        return await self._backend.write(session_scope(start.session_id), "create_session", create)

    async def adopt_world(
        self,
        session_id: str,
        world_id: str,
        locale: str,
        state: Mapping[str, Any],
        *,
        instead_of: Collection[str] = ("",),
    ) -> SessionHead:
        return await self._write(session_id, ledger_writes.adopt_world, world_id, locale, state, instead_of)

    async def append_turns(
        self,
        session_id: str,
        turns: Sequence[ImportedTurn],
        entries: Sequence[MemoryEntry] = (),
        *,
        branch_id: str | None = None,
    ) -> SessionHead:
        return await self._write(session_id, ledger_writes.append_turns, turns, entries, branch_id)

    async def add_branches(self, session_id: str, branches: Sequence[ImportedBranch]) -> int:
        return await self._write(session_id, ledger_writes.add_branches, branches)

    async def committed_turns(self, session_id: str, turn_ids: Sequence[str]) -> frozenset[str]:
        return await self._read(session_id, ledger_reads.read_committed, turn_ids)

    async def sessions(self) -> tuple[str, ...]:
        return await self._backend.read_all(lambda dataset: dataset.session_ids())

    async def find_exchanges(self, digests: Sequence[str]) -> frozenset[tuple[str, str]]:
        wanted, found = frozenset(digests), set[tuple[str, str]]()
        for session_id in await self.sessions() if wanted else ():
            for head in await self.branches(session_id):
                for turn in await self.turns(session_id, limit=MOST_TURNS_READ, branch_id=head.branch_id):
                    told = exchange_digests(turn.messages)
                    found.update((digest, session_id) for _, digest in told if digest in wanted)
        return frozenset(found)

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        return await self._read(session_id, ledger_reads.read_head, branch_id)

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        return await self._read(session_id, ledger_reads.read_window, message_limit, branch_id)

    async def save_prepared(
        self,
        record: TurnRecord,
        *,
        expected_version: int,
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
    ) -> SessionHead:
        def work(ledger: Ledger, session_id: str) -> SessionHead:
            head = ledger_writes.save_prepared(ledger, session_id, record, expected_version)
            ledger_documents.hold_prompt_parts(ledger, evidences, blocks, usages)
            return head

        return await self._write(record.session_id, work)

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        return await self._write(session_id, ledger_writes.commit_turn, commit, expected_version)

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
        def work(ledger: Ledger, session_id: str) -> SessionHead:
            head = ledger_writes.commit_numerical(ledger, session_id, record, state, expected_version)
            ledger_documents.hold_prompt_parts(ledger, evidences, blocks, usages)
            return head

        return await self._write(record.session_id, work)

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        return await self._read(session_id, ledger_reads.read_turn, turn_id)

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        return await self._read(session_id, ledger_reads.read_turns, limit, branch_id, before_depth)

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        return await self._read(session_id, ledger_reads.read_branches)

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        return await self._write(session_id, ledger_writes.fork, turn_id, branch_id)

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        return await self._write(session_id, ledger_writes.switch, branch_id)

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        return (await self._read(session_id, ledger_reads.rebuild_state, turn_id))[0]

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        await self._write(session_id, ledger_writes.save_prefetch, prefetch)

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        return await self._backend.write(
            world_scope(world_id),
            "replace_world",
            lambda ledger: ledger_entries.replace_world(ledger, world_id, digest, lore, pack),
        )

    async def worlds(self) -> Mapping[str, str]:
        return await self._backend.read_all(_worlds)

    async def world_digest(self, world_id: str) -> str | None:
        return await self._backend.read((world_scope(world_id),), lambda found: ledger_entries.read_digest(found[0]))

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        return await self._backend.read(
            (world_scope(world_id),), lambda found: ledger_entries.read_pack(found[0], digest)
        )

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        return await self._backend.read((scope,), lambda found: ledger_reads.read_entries(found[0], scope, entry_ids))

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        return await self._backend.read(tuple(dict.fromkeys(scopes)), ledger_reads.read_gated_entries)

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        return await self._backend.read(
            (scope,), lambda found: ledger_reads.read_entries_after(found[0], scope, chain, sequence, limit)
        )

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        scopes = tuple(dict.fromkeys(scope for scope, _ in after))
        return await self._backend.read(
            scopes, lambda found: ledger_reads.read_chains_written_after(dict(zip(scopes, found, strict=True)), after)
        )

    async def append_entries(self, session_id: str, entries: Sequence[MemoryEntry]) -> int:
        return await self._write(session_id, ledger_entries.append_entries, entries)

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        await self._write(session_id, ledger_writes.save_summary, summary)

    async def hidden_records(self, session_id: str) -> HiddenRecords:
        return await self._read(session_id, ledger_hidden_records.read_hidden_records)

    async def save_hidden_records(self, session_id: str, hidden: HiddenRecords) -> None:
        await self._write(session_id, ledger_hidden_records.save_hidden_records, hidden)

    async def get_session(self, session_id: str, *, branch_id: str | None = None) -> SessionDocument | None:
        return await self._read(session_id, ledger_documents.get_session, branch_id)

    async def put_session(
        self, session_id: str, document: SessionDocument, *, expected_version: int | None = None
    ) -> PutResult:
        return await self._write(session_id, ledger_documents.put_session, document, expected_version)

    async def append_messages(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> PutResult:
        work = ledger_documents.append_messages
        return await self._write(session_id, work, messages, idempotency_key, expected_version)

    async def patch_session(
        self, session_id: str, patch: Mapping[str, Any], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._write(session_id, ledger_documents.patch_session, patch, expected_version)

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        return await self._write(session_id, ledger_documents.put_evidence, evidence)

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        return await self._read(session_id, ledger_documents.get_evidence, evidence_id)

    async def find_evidence(self, session_id: str, *, uri: str, content_hash: str) -> Evidence | None:
        return await self._read(session_id, ledger_documents.find_evidence, uri, content_hash)

    async def list_evidences(self, session_id: str, where: EvidenceFilter | None = None) -> tuple[Evidence, ...]:
        return await self._read(session_id, ledger_documents.list_evidences, where)

    async def put_context_blocks(
        self, session_id: str, blocks: Sequence[ContextBlock], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._write(session_id, ledger_documents.put_context_blocks, blocks, expected_version)

    async def list_context_blocks(self, session_id: str, where: BlockFilter | None = None) -> tuple[ContextBlock, ...]:
        return await self._read(session_id, ledger_documents.list_context_blocks, where)

    async def append_tool_calls(
        self, session_id: str, tool_calls: Sequence[ToolCall], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._write(session_id, ledger_documents.append_tool_calls, tool_calls, expected_version)

    async def tool_call(self, session_id: str, tool_call_id: str) -> ToolCall | None:
        return await self._read(session_id, ledger_documents.find_tool_call, tool_call_id)

    async def append_model_usage(
        self, session_id: str, usages: Sequence[ModelUsage], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._write(session_id, ledger_documents.append_model_usage, usages, expected_version)

    async def upsert_tasks(
        self, session_id: str, tasks: Sequence[Task], *, expected_version: int | None = None
    ) -> PutResult:
        return await self._write(session_id, ledger_documents.upsert_tasks, tasks, expected_version)

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        return await self._backend.rewrite(partial(erase, erasure=erasure))

    async def audits(self) -> tuple[AuditRecord, ...]:
        return await self._backend.read_all(lambda dataset: dataset.audits)

    async def preview_erasure(self, erasure: Erasure) -> ErasurePreview:
        return await self._backend.read_all(lambda dataset: preview(dataset, erasure))

    async def walk_rows(
        self,
        visit: Callable[[StoredRow], bool],
        *,
        sessions: Collection[str] | None = None,
        without: Collection[str] = (),
        likely: Callable[[bytes], bool] | None = None,
    ) -> None:
        await self._backend.read_all(
            lambda dataset: walk_rows(dataset, visit, sessions=sessions, without=without, likely=likely)
        )

    async def find_text(self, texts: Sequence[str]) -> tuple[str, ...]:
        return await self._backend.read_all(lambda dataset: find_text(dataset, texts))


def _worlds(dataset: Dataset) -> dict[str, str]:
    """Return the digests of all worlds; only their own ledgers are read."""
    found = {
        scope: ledger_entries.read_digest(dataset.ledgers[scope])
        for scope in dataset.ledgers
        if scope.startswith(world_scope(""))
    }
    names = {scope.removeprefix(world_scope("")): digest for scope, digest in found.items() if digest is not None}
    return dict(sorted(names.items()))
