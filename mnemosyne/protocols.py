"""The seams of mnemosyne. An implementer keeps the numbered rules; the shipped contract suites test each by its number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from mnemosyne.query import Hit, IndexFilter, Recall, RetrievalQuery
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.record import (
    ImportedTurn,
    Prefetch,
    SequencedEntry,
    SessionStart,
    SessionWindow,
    TurnCommit,
    TurnRecord,
)
from mnemosyne.schema.session import SessionHead

Vectors = npt.NDArray[np.float32]


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """Return the present as an aware datetime."""
        ...


class TokenEstimator(Protocol):
    """Counts tokens. Pure and synchronous; the same text always has the same count."""

    name: str

    def estimate(self, text: str) -> int:
        """Return the tokens of `text` (0 for the empty text)."""
        ...


class Store(Protocol):
    """Keeps sessions. Every method is one transaction, run off the event loop.

    1. What a method has returned survives a kill of the process.
    2. A method that raises has changed nothing.
    3. A write with a stale `expected_version` raises VersionConflictError.
    4. The same turn id written twice is written once; the second call returns what the first did.
    5. The cost of a window does not grow with the length of the session.
    6. Only committed turns on the path to the head are ever in a window or a listing of a branch.
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

    async def save_prepared(self, record: TurnRecord, *, expected_version: int) -> SessionHead:
        """Write a prepared turn (user message, plan, receipt, prompt) at once; it becomes the pending turn of its head.

        An older pending turn of the same head is marked abandoned unless it is the same turn, which is replaced.
        """
        ...

    async def commit_turn(self, session_id: str, commit: TurnCommit, *, expected_version: int) -> SessionHead:
        """Commit a prepared turn: reply, ops, state and entries at once. The head moves to it.

        TurnNotFoundError; TurnNotPendingError when it was abandoned. A turn already committed returns the present head.
        """
        ...

    async def commit_numerical(
        self, record: TurnRecord, state: Mapping[str, Any], *, expected_version: int
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

    async def settle(self) -> None:
        """Write out what is held back and tidy files when it is due. Takes long; never called inside a turn."""
        ...

    async def close(self) -> None:
        """Write out what is held back and release files."""
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
