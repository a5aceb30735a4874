"""Protocols of memory search: embedders, entry sources, indexes and retrievers, and the data that hosts share.

Recall reads a store only through `EntrySource`. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import Hit, IndexFilter, Recall, RetrievalQuery, TextSearch
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

    1. Entries given to `add` are found by the next search.
    2. A search returns only entries that its filter admits, best first, at most `limit`; ties are ordered by entry id.
    3. Adding an entry id again replaces it.
    4. Chinese and English words are both found.
    5. Vectors of two models are never compared.
    6. A folder that cannot be read or written is named by `faults`; searching continues with the rest.
    7. After `drop` a scope is gone, damaged files included, and can be added again; its faults are cleared.
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

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> tuple[Hit, ...]:
        """Return the best entries by BM25 (>= 0); `text` may also be terms with their weights."""
        ...

    async def search_vector(
        self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = ""
    ) -> tuple[Hit, ...]:
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


@runtime_checkable
class ReencodableIndex(Index, Protocol):
    """An `Index` whose scopes can be given the vectors of another embedder while the present ones serve.

    1. A scope has one embedder: that of the entries with vectors that were added last.
    2. After `adopt` the scope has the content of the staged scope, and the staged scope is gone.
    3. `drop` also removes the staged replacement of the scope.
    """

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder whose vectors the scope has; empty if it has none."""
        ...

    async def adopt(self, scope: str, staged: str) -> None:
        """Replace a scope by its staged scope, which has at least the same entries; the caller keeps others from
        writing to both.

        Raises:
            IndexUnavailableError: the scope may then have entries of both; another call finishes the change.
        """
        ...


@runtime_checkable
class BatchIndex(Index, Protocol):
    """An `Index` that answers several searches for words at once, so that a recall costs it one switch of threads."""

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[tuple[Hit, ...]]:
        """Return the hits of each search, in their order, like `search_text`. Scopes that are searched in place count
        with their `TextSearch.beside`.
        """
        ...


@runtime_checkable
class MendableIndex(Index, Protocol):
    """An `Index` that notices damaged rows when it reads a scope, and works without them until they are made again.

    1. A damaged row is found by no search, and its id is not among `newest_ids`.
    2. `faults` names the damage until `remove_lost`.
    """

    async def has_lost(self, scope: str) -> bool:
        """Return whether rows of a scope were damaged and left out when it was read."""
        ...

    async def remove_lost(self, scope: str) -> None:
        """Delete the damaged rows of a scope for good, after their entries were added again."""
        ...


@runtime_checkable
class PartialIndex(Index, Protocol):
    """An `Index` that may search a part of a scope while it reads the rest.

    1. Each entry of a part has its own id, sequence and chain; every entry up to the part's `watermark` is in it.
    2. An entry that is added to a part is in the whole.
    """

    async def read_stored(self, scope: str) -> None:
        """Search only the stored rows of a scope from now on, complete and checked, not a copy made for a quick
        start.
        """
        ...

    async def wait_until_whole(self, scope: str) -> bool:
        """Wait until the whole of a scope is searched; return whether only a part was searched before.

        Call it before anything that looks for missing entries of the scope.
        """
        ...


@runtime_checkable
class SnapshotIndex(Index, Protocol):
    """An `Index` that may search a scope in a published snapshot. The snapshot is not changed: added entries stay in
    memory.
    """

    def snapshot_of(self, scope: str) -> str:
        """Return the id of the snapshot in which a scope is searched, whose vectors it then has; empty if there is
        none.
        """
        ...


@runtime_checkable
class EvictingIndex(Index, Protocol):
    """An `Index` that keeps scopes in memory."""

    async def evict(self) -> None:
        """Remove the scopes that were used longest ago from memory, beyond the index's limit; they are read again at
        their next use.

        It costs next to nothing if the limit is kept.
        """
        ...


@runtime_checkable
class SharedIndex(Index, Protocol):
    """An `Index` whose rows other hosts may change."""

    async def refresh(self, scope: str) -> None:
        """Forget the rows of a scope if another host has dropped it since, as an erasure does; never raises."""
        ...


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


@runtime_checkable
class SharedIndexStore(Protocol):
    """A store for several hosts, which share vectors and index rows in it."""

    @property
    def vectors(self) -> VectorStore:
        """Return the vectors of this store's tenant."""
        ...

    @property
    def segments(self) -> SegmentStore:
        """Return the index rows of this store's tenant."""
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
