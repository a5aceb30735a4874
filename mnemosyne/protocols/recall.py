"""Searching memory: embedders, entry sources, indexes and retrievers, and what hosts share of them.

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
    """The vector of an entry's text (None: the model does not know it), with the text's hash."""

    entry_id: str
    text_hash: bytes
    vector: Vectors | None


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexBase:
    """The end of a chain of segments: `owner` numbers the session that has it (0: a world), `token` names its last segment
    (empty: it has none).
    """

    owner: int
    token: str


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSegments:
    """A chain of segments, oldest first, and its end."""

    base: IndexBase
    bodies: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentRows:
    """A segment to add: all rows that changed since `base`, as they are when everything up to `marks` (the highest sequence of
    each chain) was read. `is_whole`: it has the rows of the whole chain, and takes its place.
    """

    base: IndexBase
    marks: Mapping[str, int]
    body: bytes
    is_whole: bool = False


class Embedder(Protocol):
    """Converts text to unit vectors. Implementations run their work off the event loop.

    1. `embed` returns one row per text, float32, of length 1, in order.
    2. The same text gives the same vector.
    3. A model that is not available raises EmbedderUnavailableError from `warm` or `embed`, never at construction.
    """

    name: str

    async def warm(self) -> None:
        """Load what is slow to load; EmbedderUnavailableError when the model is not available."""
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
        """How many calls of `embed` are worth making at a time."""
        ...


@runtime_checkable
class LoadingEmbedder(Embedder, Protocol):
    """An `Embedder` that loads its model with its first call."""

    @property
    def is_cold(self) -> bool:
        """Whether loading the model was not tried yet, so that the first call waits for it."""
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
        """Return those of the given (scope, chain) in which something was written after the sequence given with each."""
        ...


class Index(Protocol):
    """Finds entries by words and by vectors, one scope per search.

    1. What `add` was given is found by the next search.
    2. A search returns only entries that its filter admits, best first, at most `limit`; ties are ordered by entry id.
    3. Adding an entry id again replaces it.
    4. Chinese and English words are both found.
    5. Vectors of two models are never compared.
    6. A folder that cannot be read or written is named by `faults`; searching continues with what is left.
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

        `vectors` has one row per entry (a row of NaN: no vector for this one) or is None. `keys`, one per entry, are
        the texts by which the entries are found, in place of their own. `model` names the embedder that has processed
        them (empty: none).
        """
        ...

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that `add` has seen for this chain of the scope (0 = none)."""
        ...

    async def count(self, scope: str) -> int:
        """Return how many entries the scope holds."""
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
        """Return the faults so far, one sentence each: what, where and what to do."""
        ...

    async def drop(self, scope: str) -> None:
        """Remove everything of a scope; an unknown scope is no error. IndexUnavailableError when files cannot be
        removed.
        """
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
    2. After `adopt` the scope has what the staged scope had, and the staged scope is gone.
    3. `drop` removes what is staged for the scope, too.
    """

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder whose vectors the scope has; empty where it has none."""
        ...

    async def adopt(self, scope: str, staged: str) -> None:
        """Put the staged scope, which holds at least the entries of `scope`, in its place; the caller keeps others from
        writing to both. IndexUnavailableError; then the scope may have entries of both, and another call finishes the change.
        """
        ...


@runtime_checkable
class BatchIndex(Index, Protocol):
    """An `Index` that answers several searches for words at once, so that a recall costs it one switch of threads."""

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[tuple[Hit, ...]]:
        """Return what `search_text` returns for each search, in their order. Scopes that are searched in place count with those
        beside them (`TextSearch.beside`).
        """
        ...


@runtime_checkable
class MendableIndex(Index, Protocol):
    """An `Index` that notices damaged rows when it reads a scope, and does without them until they are made again.

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

    1. Of a part, each entry has its own id, sequence and chain, and `watermark` is one up to which the part was written.
    2. What is added to a part is in the whole.
    """

    async def read_stored(self, scope: str) -> None:
        """Search from here on what is stored of a scope, all of it and checked, whatever was made of it to start quickly."""
        ...

    async def wait_until_whole(self, scope: str) -> bool:
        """Return when the whole of a scope is searched, and whether a part was searched before. Call it before anything that looks
        for what is missing in the scope.
        """
        ...


@runtime_checkable
class SnapshotIndex(Index, Protocol):
    """An `Index` that may search a scope in a published snapshot, which is not changed: what is added stays in memory."""

    def snapshot_of(self, scope: str) -> str:
        """Return the id of the snapshot in which a scope is searched, whose vectors it then has; empty where it is in none."""
        ...


@runtime_checkable
class EvictingIndex(Index, Protocol):
    """An `Index` that holds scopes in memory."""

    async def evict(self) -> None:
        """Take the scopes that were used longest ago out of memory, beyond what the index may hold; they are read again at
        their next use. Costs next to nothing where there is nothing to do.
        """
        ...


@runtime_checkable
class SharedIndex(Index, Protocol):
    """An `Index` whose rows other hosts may change."""

    async def refresh(self, scope: str) -> None:
        """Forget what is held of a scope if another host has dropped it since, as an erasure does; never raises."""
        ...


class VectorStore(Protocol):
    """Keeps the vector of each embedded text for all hosts, so that it is embedded once.

    1. `get` returns what `put` was given last for this scope, encoder and entry, rounded to float16, and only where the hash of
       the text is the same.
    2. A text without a vector (its model does not know it) is known as such: None.
    3. A damaged row is not returned and is named by `faults`; the next `put` of its entry replaces it.
    4. `put` keeps nothing of an entry that the store no longer has with this text.
    5. Where the store cannot be reached, `get` returns nothing and `put` keeps nothing and returns False; neither raises, and
       `faults` says so until it can be reached again.
    """

    async def get(self, scope: str, encoder: str, wanted: Mapping[str, bytes]) -> Mapping[str, Vectors | None]:
        """Return by entry id the known vectors, float32 of shape (dimensions,); `wanted` has the hash of each entry's text."""
        ...

    async def put(self, scope: str, encoder: str, texts: Sequence[EmbeddedText]) -> bool:
        """Keep vectors of length 1, or None, in place of earlier ones of the same entries; return whether the store was reached."""
        ...

    def claim(self, scope: str) -> AbstractAsyncContextManager[None]:
        """Let one host at a time embed texts of a scope, until the block ends; never raises, and waits no longer than a minute."""
        ...

    async def drop(self, scope: str, entry_ids: Sequence[str] | None = None) -> None:
        """Remove the vectors of every encoder, of some entries of a scope or of all (None). StoreError."""
        ...

    def faults(self) -> tuple[str, ...]:
        """Return the present faults, one sentence each: what, where and what to do."""
        ...


class SegmentStore(Protocol):
    """Keeps the rows of scopes' indexes for all hosts, as a chain of segments: of an entry in several the last one counts.

    1. A segment is added after the one that its rows were made of. Where others were added since, it is added if its marks are
       not below theirs; if theirs are not below its own, the chain has its rows already.
    2. After an erasure or `drop` nothing is added that was read before.
    """

    async def load(self, scope: str) -> StoredSegments:
        """Return the chain of a scope, oldest segment first; it may be empty. StoreError."""
        ...

    async def append(self, scope: str, rows: SegmentRows) -> IndexBase | None:
        """Add a segment and return the chain's end; `rows.base` where nothing can be added for now, None where the caller's rows
        are of no use any more and the scope has to be read again. StoreError.
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
        """The vectors of this store's tenant."""
        ...

    @property
    def segments(self) -> SegmentStore:
        """The index rows of this store's tenant."""
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
    """A `Retriever` that can recall what is not in its store and index."""

    def overlay(
        self, source: EntrySource, own_scopes: Callable[[], Collection[str]]
    ) -> AbstractAsyncContextManager[Retriever]:
        """Give a retriever that recalls as this one does, but has the scopes that `own_scopes` returns from `source`; nothing of
        them is left at the end.
        """
        ...


def overlay_of(
    retriever: Retriever, source: EntrySource, own_scopes: Callable[[], Collection[str]]
) -> AbstractAsyncContextManager[Retriever]:
    """Return the overlay of a retriever; of one that has none, the retriever itself."""
    return retriever.overlay(source, own_scopes) if isinstance(retriever, OverlaidRetriever) else nullcontext(retriever)
