"""The Store protocol over ledgers, wherever they are stored.

The memory store and the file store differ only in how a ledger is loaded and how its changes are saved
(`StorageBackend`). It must not import a backend.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord, Erasure, ErasureOutcome
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import BlockFilter, EvidenceFilter
from mnemosyne.schema.record import (
    HiddenRecords,
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
from mnemosyne.stores.ledger.erase import Dataset, RewritePlan, erase, find_text
from mnemosyne.stores.ledger.ledger import Ledger

T = TypeVar("T")


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


class LedgerStore:
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
        """Create a session with its first turns and entries; SessionExistsError."""
        return await self._backend.write(
            session_scope(start.session_id),
            "create_session",
            lambda ledger: ledger_writes.create_session(ledger, start),
        )

    async def adopt_world(
        self,
        session_id: str,
        world_id: str,
        locale: str,
        state: Mapping[str, Any],
        *,
        instead_of: Collection[str] = ("",),
    ) -> SessionHead:
        """Move a session from one of the worlds `instead_of` to another, as if it had begun there."""
        return await self._write(session_id, ledger_writes.adopt_world, world_id, locale, state, instead_of)

    async def append_turns(
        self, session_id: str, turns: Sequence[ImportedTurn], entries: Sequence[MemoryEntry] = ()
    ) -> SessionHead:
        """Commit finished turns after the active head; turns and entries that exist already are skipped."""
        return await self._write(session_id, ledger_writes.append_turns, turns, entries)

    async def sessions(self) -> tuple[str, ...]:
        """Return all session ids, sorted."""
        return await self._backend.read_all(lambda dataset: dataset.session_ids())

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        """Return the head of the active branch, or of `branch_id`."""
        return await self._read(session_id, ledger_reads.read_head, branch_id)

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        """Return what a turn needs; `previous` and `pending` come with plan, prompt and receipt."""
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
        """Write a prepared turn and the parts of its prompt; it becomes the pending turn of its head."""

        def work(ledger: Ledger, session_id: str) -> SessionHead:
            head = ledger_writes.save_prepared(ledger, session_id, record, expected_version)
            ledger_documents.hold_prompt_parts(ledger, evidences, blocks, usages)
            return head

        return await self._write(record.session_id, work)

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        """Commit the pending turn: reply, ops, state and entries at once."""
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
        """Write and commit a numerical turn in one step."""

        def work(ledger: Ledger, session_id: str) -> SessionHead:
            head = ledger_writes.commit_numerical(ledger, session_id, record, state, expected_version)
            ledger_documents.hold_prompt_parts(ledger, evidences, blocks, usages)
            return head

        return await self._write(record.session_id, work)

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        """Return one turn with everything stored of it."""
        return await self._read(session_id, ledger_reads.read_turn, turn_id)

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        """Return the newest committed turns on the path, oldest first, without prompt, receipt and report."""
        return await self._read(session_id, ledger_reads.read_turns, limit, branch_id, before_depth)

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Return the head of every branch: the active one first, the others as they were opened."""
        return await self._read(session_id, ledger_reads.read_branches)

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        """Open a branch after `turn_id` (None = before the first turn) and make it the active one."""
        return await self._write(session_id, ledger_writes.fork, turn_id, branch_id)

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Make another branch the active one."""
        return await self._write(session_id, ledger_writes.switch, branch_id)

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        """Return the state as it was after a committed turn (None = before the first)."""
        return (await self._read(session_id, ledger_reads.rebuild_state, turn_id))[0]

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        """Store a late result for the next turn of its branch; None deletes those of the session."""
        await self._write(session_id, ledger_writes.save_prefetch, prefetch)

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        """Make a version of a world the current one, lore and pack at once; return how many entries changed."""
        return await self._backend.write(
            world_scope(world_id),
            "replace_world",
            lambda ledger: ledger_entries.replace_world(ledger, world_id, digest, lore, pack),
        )

    async def worlds(self) -> Mapping[str, str]:
        """Return the digest of the current version of every world, by world id, sorted."""
        return await self._backend.read_all(_worlds)

    async def world_digest(self, world_id: str) -> str | None:
        """Return the digest of the current version of a world, or None."""
        return await self._backend.read((world_scope(world_id),), lambda found: ledger_entries.read_digest(found[0]))

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        """Return the stored pack of this version of a world, or None."""
        return await self._backend.read(
            (world_scope(world_id),), lambda found: ledger_entries.read_pack(found[0], digest)
        )

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return complete entries in the order of `entry_ids`; unknown ids are left out."""
        return await self._backend.read((scope,), lambda found: ledger_reads.read_entries(found[0], scope, entry_ids))

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of these scopes that have viewers or conditions, ordered by id."""
        return await self._backend.read(tuple(dict.fromkeys(scopes)), ledger_reads.read_gated_entries)

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return entries written after `sequence`, in the order of writing."""
        return await self._backend.read(
            (scope,), lambda found: ledger_reads.read_entries_after(found[0], scope, chain, sequence, limit)
        )

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return those of the given (scope, chain) in which something was written after the sequence given with each."""
        scopes = tuple(dict.fromkeys(scope for scope, _ in after))
        return await self._backend.read(
            scopes, lambda found: ledger_reads.read_chains_written_after(dict(zip(scopes, found, strict=True)), after)
        )

    async def append_entries(self, session_id: str, entries: Sequence[MemoryEntry]) -> int:
        """Add entries of committed turns, skipping existing ones; return how many were new."""
        return await self._write(session_id, ledger_entries.append_entries, entries)

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        """Store a rolling summary of a committed turn's path."""
        await self._write(session_id, ledger_writes.save_summary, summary)

    async def hidden_records(self, session_id: str) -> HiddenRecords:
        """Return abandoned turns and every rolling summary."""
        return await self._read(session_id, ledger_hidden_records.read_hidden_records)

    async def save_hidden_records(self, session_id: str, hidden: HiddenRecords) -> None:
        """Write the hidden records of a session that was copied from another store."""
        await self._write(session_id, ledger_hidden_records.save_hidden_records, hidden)

    async def get_session(self, session_id: str, *, branch_id: str | None = None) -> SessionDocument | None:
        """Return the whole session as a document, or None."""
        return await self._read(session_id, ledger_documents.get_session, branch_id)

    async def put_session(
        self, session_id: str, document: SessionDocument, *, expected_version: int | None = None
    ) -> PutResult:
        """Write a whole document; differing messages become a branch."""
        return await self._write(session_id, ledger_documents.put_session, document, expected_version)

    async def append_messages(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> PutResult:
        """Commit messages as one turn after the active head; a key that was used before writes nothing."""
        work = ledger_documents.append_messages
        return await self._write(session_id, work, messages, idempotency_key, expected_version)

    async def patch_session(
        self, session_id: str, patch: Mapping[str, Any], *, expected_version: int | None = None
    ) -> PutResult:
        """Apply a JSON merge patch to the document."""
        return await self._write(session_id, ledger_documents.patch_session, patch, expected_version)

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        """Write or replace an evidence item; the same item again changes nothing."""
        return await self._write(session_id, ledger_documents.put_evidence, evidence)

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        """Return an evidence item, or None."""
        return await self._read(session_id, ledger_documents.get_evidence, evidence_id)

    async def find_evidence(self, session_id: str, *, uri: str, content_hash: str) -> Evidence | None:
        """Return the oldest evidence item with this source uri and content hash, or None."""
        return await self._read(session_id, ledger_documents.find_evidence, uri, content_hash)

    async def list_evidences(self, session_id: str, where: EvidenceFilter | None = None) -> tuple[Evidence, ...]:
        """Return evidence items in the order of first writing."""
        return await self._read(session_id, ledger_documents.list_evidences, where)

    async def put_context_blocks(
        self, session_id: str, blocks: Sequence[ContextBlock], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace blocks by id."""
        return await self._write(session_id, ledger_documents.put_context_blocks, blocks, expected_version)

    async def list_context_blocks(self, session_id: str, where: BlockFilter | None = None) -> tuple[ContextBlock, ...]:
        """Return blocks in the order of first writing."""
        return await self._read(session_id, ledger_documents.list_context_blocks, where)

    async def append_tool_calls(
        self, session_id: str, tool_calls: Sequence[ToolCall], *, expected_version: int | None = None
    ) -> PutResult:
        """Append tool calls; one with an existing id replaces that in its place."""
        return await self._write(session_id, ledger_documents.append_tool_calls, tool_calls, expected_version)

    async def append_model_usage(
        self, session_id: str, usages: Sequence[ModelUsage], *, expected_version: int | None = None
    ) -> PutResult:
        """Append model calls; one with an existing id replaces that in its place."""
        return await self._write(session_id, ledger_documents.append_model_usage, usages, expected_version)

    async def upsert_tasks(
        self, session_id: str, tasks: Sequence[Task], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace tasks by id, new ones at the end."""
        return await self._write(session_id, ledger_documents.upsert_tasks, tasks, expected_version)

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        """Erase everywhere in the store, and leave an audit record."""
        return await self._backend.rewrite(partial(erase, erasure=erasure))

    async def audits(self) -> tuple[AuditRecord, ...]:
        """Return the audit records, oldest first."""
        return await self._backend.read_all(lambda dataset: dataset.audits)

    async def find_text(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the places (`table/key`) that contain any of these texts, by a search through everything that is
        stored.
        """
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
