"""Where sessions are stored: the protocol that every store implements (seed 002 section 6.1).

The protocol is long because a store is one contract. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord, Erasure, ErasureOutcome
from mnemosyne.schema.evidence import ContextBlock, Evidence
from mnemosyne.schema.memory import Chain, MemoryEntry
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


class Store(Protocol):
    """Keeps sessions of one tenant. Every method is one transaction, run off the event loop.

    1. What a method has returned survives a kill of the process.
    2. A method that raises has changed nothing.
    3. A write with a stale `expected_version` raises VersionConflictError.
    4. The same turn id written twice is written once; the second call returns what the first did.
    5. The cost of a window does not grow with the length of the session.
    6. Only committed turns on the path to the head are ever in a window or a listing of a branch.
    7. Several processes may use one store at once: writes to a session happen one after the other, none is lost.
    8. Tenants never see each other.
    9. A session document and the turn tree are two views of one thing: what one writes, the other shows.
    10. Lore and pack of a world are of one version: `replace_world` writes both or neither.
    """

    async def close(self) -> None:
        """Release files and threads."""
        ...

    async def create_session(self, start: SessionStart) -> SessionHead:
        """Create a session with its first turns; an existing one raises SessionExistsError."""
        ...

    async def adopt_world(
        self,
        session_id: str,
        world_id: str,
        locale: str,
        state: Mapping[str, Any],
        *,
        instead_of: Collection[str] = ("",),
    ) -> SessionHead:
        """Give a session that lives in one of the worlds `instead_of` (`""`: in none) another, as if it had begun there.

        Its state is `state` on every branch, before the first turn and since. A session of `world_id` is left as it is.
        WorldNotAdoptedError when it lives in any other world, or when a turn has changed its state.
        """
        ...

    async def append_turns(
        self, session_id: str, turns: Sequence[ImportedTurn], entries: Sequence[MemoryEntry] = ()
    ) -> SessionHead:
        """Commit finished turns after the head (imports); known turn ids are skipped."""
        ...

    async def sessions(self) -> tuple[str, ...]:
        """Return all session ids, sorted."""
        ...

    async def head(self, session_id: str, branch_id: str | None = None) -> SessionHead:
        """Return the head of the active branch, or of `branch_id`; SessionNotFoundError, BranchNotFoundError."""
        ...

    async def window(self, session_id: str, *, message_limit: int, branch_id: str | None = None) -> SessionWindow:
        """Return what a turn needs: head, newest messages, state, the previous and the pending turn."""
        ...

    async def save_prepared(
        self,
        record: TurnRecord,
        *,
        expected_version: int,
        evidences: Sequence[Evidence] = (),
        blocks: Sequence[ContextBlock] = (),
        usages: Sequence[ModelUsage] = (),
    ) -> SessionHead:
        """Write a prepared turn (user message, plan, receipt, prompt) at once; it becomes the pending turn of its head.

        `evidences` and `blocks` are what its prompt holds, `usages` the model calls that made it; they are written or replaced
        by id in the same transaction.

        An older pending turn of the same head is marked abandoned unless it is the same turn, which is replaced.
        """
        ...

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        """Commit a prepared turn: reply, ops, state and entries at once. The head moves to it.

        TurnNotFoundError; TurnNotPendingError when it was abandoned. A turn already committed returns the present head.
        """
        ...

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
        ...

    async def turn(self, session_id: str, turn_id: str) -> TurnRecord:
        """Return one turn with its record; TurnNotFoundError."""
        ...

    async def turns(
        self, session_id: str, *, limit: int, branch_id: str | None = None, before_depth: int | None = None
    ) -> tuple[TurnRecord, ...]:
        """Return the newest committed turns on the path to the head, oldest first, without prompt, receipt and report."""
        ...

    async def branches(self, session_id: str) -> tuple[SessionHead, ...]:
        """Return the head of every branch, the active one first."""
        ...

    async def fork(self, session_id: str, turn_id: str | None, branch_id: str) -> SessionHead:
        """Open a branch whose head is `turn_id` (None = before the first turn) and make it the active one.

        BranchExistsError, TurnNotFoundError (also for a turn that is not committed).
        """
        ...

    async def switch(self, session_id: str, branch_id: str) -> SessionHead:
        """Make another branch the active one; BranchNotFoundError."""
        ...

    async def state_at(self, session_id: str, turn_id: str | None) -> Mapping[str, Any]:
        """Rebuild the state as it was after a committed turn (None = before the first)."""
        ...

    async def save_prefetch(self, session_id: str, prefetch: Prefetch | None) -> None:
        """Keep a late result for the next turn of its branch (one a branch); None forgets those of the session."""
        ...

    async def replace_world(
        self, world_id: str, digest: str, lore: Sequence[MemoryEntry], pack: Mapping[str, Any] | None = None
    ) -> int:
        """Make a version of a world the present one, lore and pack at once; returns how many entries of lore were added, changed
        or removed.

        `pack` is a JSON value that is kept whole under its digest; of the version before nothing is kept. The same digest with
        the same pack, or without one, is no work (0). Another digest without a pack leaves the world without one. ValueError
        for an entry that stands there twice or is of another scope.
        """
        ...

    async def worlds(self) -> Mapping[str, str]:
        """Return the digest of the present version of every world, by world id, sorted."""
        ...

    async def world_digest(self, world_id: str) -> str | None:
        """Return the digest of the present version of a world: '' where one is missing by all that is known, None where there is
        no such world.
        """
        ...

    async def pack(self, world_id: str, digest: str) -> Mapping[str, Any] | None:
        """Return the pack that is kept of this version of a world, or None."""
        ...

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return full entries in the order asked; unknown ids are left out. History entries are messages."""
        ...

    async def gated_entries(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of these scopes that carry viewers or conditions, ordered by id."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return entries of committed turns (or lore) written after `sequence`, in the order of writing."""
        ...

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return those of these (scope, chain) that `entries_after` has something of after the sequence given with each."""
        ...

    async def append_entries(self, session_id: str, entries: Sequence[MemoryEntry]) -> int:
        """Add entries that were made after their turn was committed (summaries, events of consolidation).

        Each names a committed turn by `turn_id`, whose branch and depth it takes. Entries that are there already are
        skipped; returns how many were new. No version moves. TurnNotFoundError.
        """
        ...

    async def save_summary(self, session_id: str, summary: PathSummary) -> None:
        """Keep a rolling summary of a committed turn's path (one a turn, the last wins). No version moves. TurnNotFoundError."""
        ...

    async def hidden_records(self, session_id: str) -> HiddenRecords:
        """Return what no window shows: abandoned turns with all that was stored of them, and every rolling summary."""
        ...

    async def save_hidden_records(self, session_id: str, hidden: HiddenRecords) -> None:
        """Write the hidden records of a session that was copied from elsewhere. No version moves.

        Turns whose id is there already are passed over; a summary takes the place of its turn. BranchNotFoundError,
        TurnNotFoundError.
        """
        ...

    async def get_session(self, session_id: str, *, branch_id: str | None = None) -> SessionDocument | None:
        """Return the whole session as a document, or None; its messages are those on the path to the head."""
        ...

    async def put_session(
        self, session_id: str, document: SessionDocument, *, expected_version: int | None = None
    ) -> PutResult:
        """Write a whole document; a session that is not there is made (bare, without a world; `expected_version` 0 or None).

        Messages that go on from those of the head are appended as one turn. A document that tells an older message
        otherwise, or leaves newer ones out, becomes a new branch from the last whole turn that both share: nothing said is
        lost. Everything else is replaced by what the document says. A pending turn of the head is abandoned.
        VersionConflictError; SchemaValidationError when the document's `session_id` is another.
        """
        ...

    async def append_messages(
        self,
        session_id: str,
        messages: Sequence[Message],
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> PutResult:
        """Commit messages as one turn after the active head; a key that was used already writes nothing.

        Without a key each call is a new turn. SessionNotFoundError, VersionConflictError.
        """
        ...

    async def patch_session(
        self, session_id: str, patch: Mapping[str, Any], *, expected_version: int | None = None
    ) -> PutResult:
        """Apply a JSON merge patch (RFC 7386) to the document, by its JSON names; checked whole before anything is written.

        SchemaValidationError, VersionConflictError.
        """
        ...

    async def put_evidence(self, session_id: str, evidence: Evidence) -> str:
        """Write or replace an evidence; the same again changes nothing. Returns its id."""
        ...

    async def get_evidence(self, session_id: str, evidence_id: str) -> Evidence | None:
        """Return an evidence, or None."""
        ...

    async def find_evidence(self, session_id: str, *, uri: str, content_hash: str) -> Evidence | None:
        """Return the oldest evidence with this source uri and content hash, or None (deduplication)."""
        ...

    async def list_evidences(self, session_id: str, where: EvidenceFilter | None = None) -> tuple[Evidence, ...]:
        """Return evidences in the order of first writing."""
        ...

    async def put_context_blocks(
        self, session_id: str, blocks: Sequence[ContextBlock], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace blocks by id."""
        ...

    async def list_context_blocks(self, session_id: str, where: BlockFilter | None = None) -> tuple[ContextBlock, ...]:
        """Return blocks in the order of first writing."""
        ...

    async def append_tool_calls(
        self, session_id: str, tool_calls: Sequence[ToolCall], *, expected_version: int | None = None
    ) -> PutResult:
        """Append tool calls; one whose id is there already replaces it in its place (a call that has ended)."""
        ...

    async def append_model_usage(
        self, session_id: str, usages: Sequence[ModelUsage], *, expected_version: int | None = None
    ) -> PutResult:
        """Append model calls; one whose id is there already replaces it in its place."""
        ...

    async def upsert_tasks(
        self, session_id: str, tasks: Sequence[Task], *, expected_version: int | None = None
    ) -> PutResult:
        """Write or replace tasks by id, new ones at the end."""
        ...

    async def erase(self, erasure: Erasure) -> ErasureOutcome:
        """Forget in one transaction, everywhere in the store, and leave an audit record (seed 002 section 13)."""
        ...

    async def audits(self) -> tuple[AuditRecord, ...]:
        """Return the audit records, oldest first."""
        ...

    async def find_text(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the places (`table/key`, `packs/…` in a world pack) where any of these texts stands, by a search through
        everything that is kept.
        """
        ...
