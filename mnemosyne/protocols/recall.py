"""Protocols of memory search: embedders, entry sources, indexes and retrievers, and the data that hosts share.

Recall reads a store only through `EntrySource`. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import Hits, IndexFilter, Recall, RetrievalQuery, TextSearch
from mnemosyne.schema.record import SequencedEntry

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedText:
    """The vector of an entry's text, with the text's hash."""

    entry_id: str
    text_hash: bytes
    vector: Vectors | None
    """None if the model does not know the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexBase:
    """The end of a chain of segments."""

    owner: int
    """Number of the session that has the chain (0: a world)."""
    token: str
    """Name of the last segment (empty: there is none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSegments:
    """A chain of segments, oldest first, and its end."""

    base: IndexBase
    bodies: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentRows:
    """A segment to add."""

    base: IndexBase
    """Segment on which its rows build."""
    marks: Mapping[str, int]
    """Highest sequence of each chain when the rows were read."""
    body: bytes
    """All rows that changed since `base`."""
    is_whole: bool = False
    """Whether it has the rows of the whole chain and replaces it."""


class Embedder(Protocol):
    """Converts text to unit vectors. Implementations run their work off the event loop.

    1. `embed` returns one row per text, float32, of length 1, in order.
    2. The same text gives the same vector.
    3. A model that is not available raises EmbedderUnavailableError from `warm` or `embed`, never at construction.
    """

    name: str

    async def warm(self) -> None:
        """Load the slow parts; EmbedderUnavailableError if the model is not available."""
        ...

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, 0..1; below 0.5 its vectors are noise."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return a float32 array of shape (len(texts), dimensions); EmbedderUnavailableError when the model is not
        available.
        """
        ...


@runtime_checkable
class ParallelEmbedder(Embedder, Protocol):
    """An `Embedder` that answers several calls of `embed` at a time."""

    @property
    def lanes(self) -> int:
        """Return how many calls of `embed` are worth making at a time."""
        ...


@runtime_checkable
class LoadingEmbedder(Embedder, Protocol):
    """An `Embedder` that loads its model with its first call."""

    @property
    def is_cold(self) -> bool:
        """Return whether loading the model was not tried yet, so that the first call waits for it."""
        ...


class EntrySource(Protocol):
    """The part of a Store that recall reads: entries in the order of writing, and entries by id."""

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return complete entries in the order of `entry_ids`; unknown ids are left out."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return at most `limit` entries written after `sequence`, in the order of writing, deleted ones marked."""
        ...

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return the given (scope, chain) pairs in which something was written after their sequence."""
        ...


class Index(Protocol):
    """Finds entries by words and by vectors, one scope per search.

    An implementation inherits from it: the methods from `search_texts` on have bodies that serve an index which holds each scope
    whole, in this process, with vectors of one embedder.

    1. Entries given to `add` are found by the next search.
    2. A search returns only entries that its filter admits, best first, at most `limit`; ties are ordered by entry id.
    3. Adding an entry id again replaces it.
    4. Chinese and English words are both found.
    5. Vectors of two models are never compared.
    6. A folder that cannot be read or written is named by `faults`; searching continues with the rest.
    7. After `drop` a scope is gone, damaged files and what is staged for it included, and can be added again; its faults are
       cleared.
    8. A scope has one embedder: that of the entries with vectors that were added last.
    9. After `adopt` the scope has what the staged scope had, and the staged scope is gone.
    10. A damaged row is found by no search, its id is not among `newest_ids`, and `faults` names it until `remove_lost`.
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

        Args:
            vectors: One row per entry (a row of NaN: no vector for this one), or None.
            keys: One text per entry by which it is found, in place of its own.
            model: Name of the embedder that has processed the entries (empty: none).
        """
        ...

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that `add` has seen for this chain of the scope (0: none)."""
        ...

    async def count(self, scope: str) -> int:
        """Return the number of entries of the scope."""
        ...

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of this chain that were written last, oldest first."""
        ...

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that this model has not processed, in the order of writing."""
        ...

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best entries by BM25 (>= 0); `text` may also be terms with their weights."""
        ...

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best entries by cosine (-1..1) among the vectors of `model`; `vector` has shape (dimensions,)."""
        ...

    def faults(self) -> tuple[str, ...]:
        """Return the faults so far, one sentence each: the fault, its place and a remedy."""
        ...

    async def drop(self, scope: str) -> None:
        """Remove everything of a scope, if it exists; IndexUnavailableError if files cannot be removed."""
        ...

    async def maintain(self) -> None:
        """Write pending rows and compact files when it is due. Takes long; never called inside a turn."""
        ...

    async def close(self) -> None:
        """Write pending rows and release files."""
        ...

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[Hits]:
        """Return the hits of `search_text` for each search, in their order, from one switch of threads where the index can. Scopes
        that are searched in place count together with the others of their group (`TextSearch.beside`).
        """
        return [await self.search_text(*each[:3]) for each in searches]

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched."""
        return ()

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder whose vectors the scope has; empty if it has none, or the index does not know it: then
        nothing is staged for the scope.
        """
        return ""

    async def adopt(self, scope: str, staged: str) -> None:
        """Replace a scope by its staged scope, which has at least the same entries; the caller keeps others from
        writing to both.

        Raises:
            IndexUnavailableError: the scope may then have entries of both; another call finishes the change.
        """
        await self.drop(staged)

    def snapshot_of(self, scope: str) -> str:
        """Return the id of the published snapshot in which a scope is searched, whose vectors it then has; empty if it is in none.
        A snapshot is not changed: what is added stays in memory.
        """
        return ""

    async def export(self, scope: str, target: Path) -> bool | None:
        """Write all rows of a scope, with its graph, as one table into an empty folder, for a snapshot; return whether they have
        the sequences of this store, or None, with nothing written, if the index has no files of it. Takes long.
        IndexUnavailableError.
        """
        return None

    async def has_lost(self, scope: str) -> bool:
        """Return whether rows of a scope were damaged and left out when it was read."""
        return False

    async def remove_lost(self, scope: str) -> bool:
        """Delete the damaged rows of a scope for good, after their entries were added again; return False if another process has
        written to the scope meanwhile, which is read again then.
        """
        return True

    async def refresh(self, scope: str) -> bool:
        """Forget everything held of a scope if another host has dropped it since, as an erasure does; return whether it was
        forgotten. Never raises.
        """
        return False

    async def evict(self) -> int:
        """Write what is due, and take the scopes that were used longest ago out of memory, beyond the limits of the index; they are
        read again at their next use. Return the number of scopes beyond the limits; costs next to nothing if there are none.
        """
        return 0


class VectorStore(Protocol):
    """Keeps the vector of each embedded text for all hosts, so that it is embedded once.

    1. `get` returns the last vector given to `put` for this scope, encoder and entry, rounded to float16, if the hash
       of the text is the same.
    2. A text without a vector (its model does not know it) is stored as such: None.
    3. A damaged row is not returned and is named by `faults`; the next `put` of its entry replaces it.
    4. `put` stores nothing for an entry that the store no longer has with this text.
    5. If the store cannot be reached, `get` returns nothing, `put` stores nothing and returns False; neither raises,
       and `faults` reports it until it can be reached again.
    """

    async def get(self, scope: str, encoder: str, wanted: Mapping[str, bytes]) -> Mapping[str, Vectors | None]:
        """Return by entry id the known vectors, float32 of shape (dimensions,); `wanted` has the hash of each entry's text."""
        ...

    async def put(self, scope: str, encoder: str, texts: Sequence[EmbeddedText]) -> bool:
        """Store vectors of length 1, or None, in place of earlier ones of the same entries; return whether the store
        was reached.
        """
        ...

    def claim(self, scope: str) -> AbstractAsyncContextManager[None]:
        """Let one host at a time embed texts of a scope, until the block ends; never raises, and waits no longer than a minute."""
        ...

    async def drop(self, scope: str, entry_ids: Sequence[str] | None = None) -> None:
        """Remove the vectors of every encoder, of some entries of a scope or of all (None). StoreError."""
        ...

    def faults(self) -> tuple[str, ...]:
        """Return the present faults, one sentence each: the fault, its place and a remedy."""
        ...


class SegmentStore(Protocol):
    """Keeps the rows of scopes' indexes for all hosts, as a chain of segments; the last segment with an entry counts.

    1. A segment is added after its `base`. If others were added since, it is added if its marks are not below theirs;
       if theirs are not below its own, the chain already has its rows.
    2. Rows that were read before an erasure or `drop` are not added after it.
    """

    async def load(self, scope: str) -> StoredSegments:
        """Return the chain of a scope, oldest segment first; it may be empty. StoreError."""
        ...

    async def append(self, scope: str, rows: SegmentRows) -> IndexBase | None:
        """Add a segment and return the chain's end. StoreError.

        `rows.base`: nothing can be added for now. None: the caller's rows are useless and the scope has to be read
        again.
        """
        ...

    async def is_current(self, scope: str, base: IndexBase) -> bool:
        """Return whether the chain still has the segment that it ended with when `base` was returned. StoreError."""
        ...

    async def drop(self, scope: str) -> None:
        """Remove the chain of a scope. StoreError."""
        ...


class Retriever(Protocol):
    """Recalls candidates for a turn.

    1. Candidates are best first, at most `query.limit`, each id once.
    2. Nothing in `query.exclude` and nothing outside the path to the head is ever returned.
    3. Work that cannot be done (no model, no index) is left out and named in `degradations`; it is never raised.
    """

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates of one query, best first; never raises for a missing model or index."""
        ...


@runtime_checkable
class OverlaidRetriever(Retriever, Protocol):
    """A `Retriever` that can also recall entries that are not in its store and index."""

    def overlay(
        self, source: EntrySource, own_scopes: Callable[[], Collection[str]]
    ) -> AbstractAsyncContextManager[Retriever]:
        """Open a retriever that recalls like this one, but has the scopes that `own_scopes` returns from `source`;
        nothing of them is left at the end.
        """
        ...


def overlay_of(
    retriever: Retriever, source: EntrySource, own_scopes: Callable[[], Collection[str]]
) -> AbstractAsyncContextManager[Retriever]:
    """Return the overlay of a retriever, or the retriever itself if it has none."""
    return retriever.overlay(source, own_scopes) if isinstance(retriever, OverlaidRetriever) else nullcontext(retriever)
