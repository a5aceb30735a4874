"""The seams of mnemosyne. An implementer keeps the numbered rules; the shipped contract suites test each by its number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from mnemosyne.query import BlockFilter, EvidenceFilter, Hit, IndexFilter, Recall, RetrievalQuery
from mnemosyne.schema.document import ModelUsage, SessionDocument, Task, ToolCall
from mnemosyne.schema.erasure import AuditRecord, Erasure, ErasureOutcome
from mnemosyne.schema.event import Event
from mnemosyne.schema.evidence import ContextBlock, Evidence, EvidenceLinks, EvidenceSource, EvidenceType
from mnemosyne.schema.ingest import Ingested, IngestOptions
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.record import (
    ImportedTurn,
    Leftovers,
    PathSummary,
    Prefetch,
    PutResult,
    SequencedEntry,
    SessionStart,
    SessionWindow,
    TurnCommit,
    TurnRecord,
)
from mnemosyne.schema.redaction import RedactionRules, RedactResult, SensitiveSpan
from mnemosyne.schema.session import Message, SessionHead

Vectors = npt.NDArray[np.float32]


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """Return the present as an aware datetime."""
        ...


class EventBus(Protocol):
    """Tells of what happens (seed 002 section 9.2).

    1. Handlers of one kind are told of that kind alone, those of all of every event, each once, in the order of `on`.
    2. A handler that fails harms neither the sender nor another handler.
    3. When `emit` returns, every handler has been told; async ones have ended.
    """

    async def emit(self, event: Event) -> None:
        """Tell every handler of one event."""
        ...

    def on(self, event_type: str, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Tell `handler` of events of this kind."""
        ...

    def off(self, event_type: str, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Tell `handler` no more of events of this kind."""
        ...

    def on_all(self, handler: Callable[[Event], Awaitable[None] | None]) -> None:
        """Tell `handler` of every event."""
        ...


class SessionLocks(Protocol):
    """Lets one caller at a time work on a session, among all processes that use one store.

    1. While one holds a session nobody else does; different sessions never wait for each other.
    2. A holder that dies, in whatever way, holds nothing any more.
    3. The event loop is not held up by waiting.
    4. Who waited too long gets StoreBusyError and holds nothing.
    """

    def hold(self, session_id: str) -> AbstractAsyncContextManager[None]:
        """Hold a session as long as the block lasts."""
        ...

    async def close(self) -> None:
        """Release what is open."""
        ...


class TokenEstimator(Protocol):
    """Counts tokens. Pure and synchronous; the same text always has the same count."""

    name: str

    def estimate(self, text: str) -> int:
        """Return the tokens of `text` (0 for the empty text)."""
        ...


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
    """

    async def close(self) -> None:
        """Release files and threads."""
        ...

    async def create_session(self, start: SessionStart) -> SessionHead:
        """Create a session with its first turns; an existing one raises SessionExistsError."""
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

    async def replace_world(self, world_id: str, digest: str, lore: Sequence[MemoryEntry]) -> int:
        """Bring a world's lore up to date; returns how many entries were added, changed or removed (0 = same digest)."""
        ...

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return full entries in the order asked; unknown ids are left out. History entries are messages."""
        ...

    async def restricted(self, scopes: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return the entries of these scopes that carry viewers or conditions, ordered by id."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return entries of committed turns (or lore) written after `sequence`, in the order of writing."""
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

    async def leftovers(self, session_id: str) -> Leftovers:
        """Return what no window shows: abandoned turns with all that was stored of them, and every rolling summary."""
        ...

    async def keep_leftovers(self, session_id: str, leftovers: Leftovers) -> None:
        """Write the leftovers of a session that was copied from elsewhere. No version moves.

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

    async def occurrences(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the places (`table/key`) where any of these texts stands, by a search through everything that is kept."""
        ...


class Embedder(Protocol):
    """Turns text into unit vectors. Implementations run their work off the event loop.

    1. `embed` returns one row a text, float32, of length 1, in order.
    2. The same text gives the same vector.
    3. A model that cannot be had raises EmbedderUnavailableError from `warm` or `embed`, never at construction.
    """

    name: str

    async def warm(self) -> None:
        """Load what is slow to load."""
        ...

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, 0..1; below 0.5 its vectors are noise."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return an array of shape (len(texts), dimensions)."""
        ...


class EntrySource(Protocol):
    """The part of a Store that recall reads: entries in the order of writing, and by id."""

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return full entries in the order asked; unknown ids are left out."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return entries written after `sequence`, in the order of writing."""
        ...


class Index(Protocol):
    """Finds entries of many scopes by words and by vectors, one scope a search.

    1. What `add` was given is found by the next search.
    2. A search returns only what its filter admits, best first, at most `limit`; ties by entry id.
    3. Adding an entry id again replaces it.
    4. Chinese and English words are found alike.
    5. Vectors of two models are never compared.
    6. A folder that cannot be read or written is named by `faults`; searching goes on with what is left.
    7. What `drop` was given is gone, damaged files too, and can be added anew; its faults are forgotten.
    """

    async def add(
        self,
        scope: str,
        entries: Sequence[SequencedEntry],
        vectors: Vectors | None,
        *,
        keys: Sequence[str] | None = None,
        model: str = "",
    ) -> None:
        """Add, replace or remove (deleted) entries.

        `vectors` has one row an entry (a row of NaN: none for this one) or is None. `keys`, one an entry, are the texts
        to find them by, in place of their own. `model` names the embedder that looked at them (empty: none did).
        """
        ...

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that `add` has seen for this chain of the scope (0 = none)."""
        ...

    async def count(self, scope: str) -> int:
        """Return how many entries the scope holds."""
        ...

    async def newest(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the entries of this chain written last, oldest first."""
        ...

    async def unseen(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return ids of entries that this model has not looked at, in the order of writing."""
        ...

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> tuple[Hit, ...]:
        """Return the best by BM25; `text` may be given as terms with their weights."""
        ...

    async def search_vector(
        self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = ""
    ) -> tuple[Hit, ...]:
        """Return the best by cosine among the vectors of `model`; `vector` has shape (dimensions,)."""
        ...

    def faults(self) -> tuple[str, ...]:
        """Return what has gone wrong so far, one sentence each: what, where and what to do."""
        ...

    async def drop(self, scope: str) -> None:
        """Remove all that is held of a scope; one that is not there is no error. IndexUnavailableError when files stay."""
        ...

    async def settle(self) -> None:
        """Write out what is held back and tidy files when it is due. Takes long; never called inside a turn."""
        ...

    async def close(self) -> None:
        """Write out what is held back and release files."""
        ...


class Redactor(Protocol):
    """Takes out of a text what must not be kept (seed 002 section 6.8).

    1. What its rules find is not in the result.
    2. Redacting a result again changes nothing.
    3. A text without anything to find comes back as it is.
    4. A search that cannot be finished raises RedactionError; nothing half searched is ever returned.
    5. The event loop is not held up.
    """

    async def redact(self, text: str, rules: RedactionRules | None = None) -> RedactResult:
        """Return the text without what the rules (None: the redactor's own) find; RedactionError."""
        ...


class PiiDetector(Protocol):
    """Finds personal data that patterns alone do not; runs its work off the event loop.

    1. Spans lie inside the text and are not empty; their `rule` begins with `pii_` (lower-case letters and underscores).
    2. The same text has the same spans, and a placeholder `[redacted:…]` has none.
    """

    name: str

    async def detect(self, text: str) -> tuple[SensitiveSpan, ...]:
        """Return what was found, in any order; spans may overlap."""
        ...


class OriginalVault(Protocol):
    """Keeps originals apart from what redaction made of them (seed 002 section 8.4). Nothing here reads them for a prompt."""

    async def put(self, session_id: str, evidence_id: str, original: str) -> None:
        """Keep an original; OSError where it cannot be kept."""
        ...

    async def get(self, session_id: str, evidence_id: str) -> str | None:
        """Return an original, or None."""
        ...

    async def drop(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Forget the originals of sessions (of `evidence_ids` alone in them), and all that hold one of `texts`; how many."""
        ...

    async def count(
        self, *, session_ids: Sequence[str] = (), evidence_ids: Sequence[str] = (), texts: Sequence[str] = ()
    ) -> int:
        """Return how many `drop` would forget."""
        ...


class EvidenceIngestor(Protocol):
    """Takes text in as evidence (seed 002 section 6.3).

    1. What the redactor finds is never stored; where it fails the text is withheld, unless the call lets it pass.
    2. The same text of the same source is one evidence; the second call returns the first one's.
    3. Text that the prompt had shown never becomes new evidence.
    4. Evidence that has expired counts for nothing: not as a duplicate either.
    """

    async def ingest(
        self,
        session_id: str,
        content: str,
        source: EvidenceSource,
        evidence_type: EvidenceType,
        *,
        links: EvidenceLinks | None = None,
        metadata: Mapping[str, Any] | None = None,
        options: IngestOptions | None = None,
    ) -> Ingested:
        """Keep a text; SessionNotFoundError, EvidenceNotFoundError (`derived_from`), ValueError (confidence, ttl)."""
        ...


class Retriever(Protocol):
    """Recalls candidates for a turn.

    1. Candidates are best first, at most `query.limit`, each id once.
    2. Nothing in `query.exclude` and nothing off the path to the head is ever returned.
    3. Work that cannot be done (no model, no index) is left out and named in `degradations`; it never raises for it.
    """

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates of one query."""
        ...
