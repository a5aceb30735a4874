"""Defines the protocols of memory search: embedders, entry sources, indexes, retrievers, and index data that hosts share.

An embedder is a model that converts texts to vectors. A scope is one session or one world. A chain is one kind of entries in a
scope (lore, narrative, event, history). A sequence is the running number of a written entry. A segment is a part of the index rows
of a scope, for other hosts. Recall reads a store only through `EntrySource`. This module must not import another module of
protocols.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import Hits, IndexFilter, Recall, RetrievalQuery, TextSearch
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.values import dataclass

Vectors = npt.NDArray[np.float32]
"""Array of float32: one vector of shape (dimensions,), or several as the rows of shape (vectors, dimensions)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EmbeddedText:
    """The vector of an entry's text, with the text's hash."""

    entry_id: str
    text_hash: bytes
    vector: Vectors | None
    """The vector, or None if the model does not know the language of the text."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexBase:
    """The end of a stored list of segments: the last segment that its reader has seen."""

    owner: int
    """Number of the session that has the list of segments (0: a world)."""
    token: str
    """Name of the last segment (empty: there is none)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSegments:
    """The segments of a scope, oldest first, and the end of their list."""

    base: IndexBase
    bodies: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SegmentRows:
    """A segment to add: index rows of a scope."""

    base: IndexBase
    """Segment after which this one is added: the last one that the writer has seen."""
    marks: Mapping[str, int]
    """Highest sequence of each chain when the rows were read."""
    body: bytes
    """All rows that changed since `base`."""
    is_whole: bool = False
    """True if the body has all rows of the scope. The segment then replaces all segments before it."""


class Embedder(Protocol):
    """Converts text to unit vectors. Implementations run their work off the event loop.

    1. `embed` returns one row per text, float32, of length 1, in the order of the texts.
    2. The same text gives the same vector.
    3. A model that is not available raises EmbedderUnavailableError from `warm` or `embed`, never at construction.
    """

    name: str

    async def warm(self) -> None:
        """Load the parts that are slow to load. Raises EmbedderUnavailableError if the model is not available."""
        ...

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, 0..1. Below 0.5 the vector of the text is useless."""
        ...

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return a float32 array of shape (len(texts), dimensions). Raises EmbedderUnavailableError if the model is
        not available.
        """
        ...


@runtime_checkable
class ParallelEmbedder(Embedder, Protocol):
    """An `Embedder` that can answer several calls of `embed` at the same time."""

    @property
    def lanes(self) -> int:
        """Return how many calls of `embed` are worth making at the same time."""
        ...


@runtime_checkable
class LoadingEmbedder(Embedder, Protocol):
    """An `Embedder` that loads its model with its first call."""

    @property
    def is_cold(self) -> bool:
        """True if loading the model was not tried yet, so that the next call waits until the model is loaded."""
        ...


def is_cold(embedder: Embedder) -> bool:
    """Return whether the next call of `embedder` waits until a model is loaded. Return False if it is not a `LoadingEmbedder`."""
    # A check against the protocol would take twenty times as long, several times in each turn.
    return bool(getattr(embedder, "is_cold", False))


class EntrySource(Protocol):
    """Gives recall the entries of a store: in the order of writing, or by id."""

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return complete entries in the order of `entry_ids`; unknown ids are left out."""
        ...

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return at most `limit` entries of a chain with a sequence above `sequence`, in the order of writing.
        Deleted entries are among them, marked as deleted.
        """
        ...

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return the pairs (scope, chain) of `after` in which an entry was written after the given sequence."""
        ...


class Index(Protocol):
    """Finds entries by words and by vectors, one scope per search.

    An implementation inherits from this class. The methods from `search_texts` on have bodies, which suit an index that
    holds each scope as a whole, in this process, with vectors of one embedder.

    1. Entries given to `add` are found by the next search.
    2. A search returns only entries that its filter admits, best first, at most `limit`. Ties are ordered by entry
       id.
    3. Adding an entry id again replaces the entry.
    4. Chinese and English words are both found.
    5. Vectors of two models are never compared.
    6. A folder that cannot be read or written is named by `faults`; searching continues with the rest.
    7. `drop` removes a scope with its damaged files and its staged scope, and clears its faults. The scope can be
       added again.
    8. A scope has one embedder: the one that made the vectors that were added last.
    9. `adopt` gives the scope the rows of the staged scope and removes the staged scope. (A staged scope is a second
       copy with the vectors of another embedder.)
    10. A damaged row is found by no search, and its id is not among `newest_ids`. `faults` names the row until
        `remove_lost`.
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
        """Add, replace or remove entries. An entry marked as deleted is removed.

        Args:
            vectors: One row per entry (a row of NaN: this entry has no vector), or None for no vectors at all.
            keys: One text per entry, under which the entry is found in place of its own text.
            model: Name of the embedder that has processed the entries (empty: none).
        """
        ...

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that `add` has seen for `chain` of the scope (0: none)."""
        ...

    async def count(self, scope: str) -> int:
        """Return the number of entries of the scope."""
        ...

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of `chain` that were written last, oldest first."""
        ...

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that the embedder `model` has not processed, in the order of writing."""
        ...

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best entries by BM25 score (>= 0). `text` is a text, or a mapping from terms to their weights."""
        ...

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best entries by cosine (-1..1) among the vectors of `model`. `vector` has shape (dimensions,)."""
        ...

    def faults(self) -> tuple[str, ...]:
        """Return the faults so far. Each is one sentence with the fault, its place and a remedy."""
        ...

    async def drop(self, scope: str) -> None:
        """Remove everything of a scope, if the scope exists. Raises IndexUnavailableError if files cannot be removed."""
        ...

    async def maintain(self) -> None:
        """Write pending rows, and compact files that had many writes. This takes long, so it is never called inside a turn."""
        ...

    async def close(self) -> None:
        """Write pending rows and release files."""
        ...

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[Hits]:
        """Return the hits of `search_text` for each search, in the order of `searches`.

        An index may do all searches in one worker thread. For a scope that is searched in memory, the statistics of
        words count over the scope and the scopes in `TextSearch.beside` together.
        """
        return [await self.search_text(*each[:3]) for each in searches]

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes that apply when these scopes are searched."""
        return ()

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder that made the vectors of a scope.

        The name is empty if the scope has no vectors or the index does not know their embedder. Then no staged scope
        is made for this scope.
        """
        return ""

    async def adopt(self, scope: str, staged: str) -> None:
        """Replace the rows of `scope` by the rows of its staged scope `staged`, which has at least the same entries. The caller
        prevents other writes to both.

        Raises:
            IndexUnavailableError: if files cannot be written. The scope may then have entries of both; another call
                finishes the change.
        """
        await self.drop(staged)

    def snapshot_of(self, scope: str) -> str:
        """Return the id of the published snapshot in which a scope is searched; empty if the scope is in none.

        The scope then has the vectors of the snapshot. A snapshot is never changed: entries that are added stay in
        memory.
        """
        return ""

    async def export(self, scope: str, target: Path) -> bool | None:
        """Write all rows of a scope, with its graph, as one table into the empty folder `target`, for a snapshot. This
        takes long.

        Return True if the rows have the sequence numbers of this store, False if they have those of another store. Return None, and
        write nothing, if the index has no files of the scope. Raises IndexUnavailableError if the rows cannot be read or written.
        """
        return None

    async def has_lost(self, scope: str) -> bool:
        """Return whether damaged rows of a scope were left out when the scope was read."""
        return False

    async def remove_lost(self, scope: str) -> bool:
        """Delete the damaged rows of a scope for good. Call this method after their entries were added again.

        Return False if another process has written to the scope meanwhile, so that the scope is read again at its next use.
        Return True otherwise.
        """
        return True

    async def refresh(self, scope: str) -> bool:
        """Remove `scope` from memory if another host has dropped it, for example in an erasure. Return whether it was removed.

        No error is raised.
        """
        return False

    async def warm(self) -> None:
        """Load the packages that the scopes of the index need, so that no search waits for them."""
        return

    async def evict(self) -> int:
        """Remove the scopes from memory that were used longest ago, until the limits of the index are met. Scopes of which many
        rows are only in memory are written to disk, too.

        A removed scope is read again at its next use. Return the number of scopes that were beyond the limits. If no scope was
        and nothing must be written, the call takes almost no time.
        """
        return 0


class VectorStore(Protocol):
    """Keeps the vector of each embedded text for all hosts, so that each text is embedded once.

    1. `get` returns the last vector given to `put` for this scope, encoder and entry, rounded to float16, if the hash
       of the text is the same.
    2. If the model does not know the language of a text, None is stored in place of a vector.
    3. A damaged row is not returned and is named by `faults`. The next `put` of its entry replaces the row.
    4. `put` stores nothing for an entry that the store no longer has with this text.
    5. If the store cannot be reached, `get` returns nothing, and `put` stores nothing and returns False. Neither
       raises, and `faults` reports the store until it can be reached again.
    """

    async def get(self, scope: str, encoder: str, wanted: Mapping[str, bytes]) -> Mapping[str, Vectors | None]:
        """Return the stored vectors by entry id, as float32 of shape (dimensions,). `wanted` maps each entry id to the hash of the
        entry's text. A value of None means that the model does not know the language of the text.
        """
        ...

    async def put(self, scope: str, encoder: str, texts: Sequence[EmbeddedText]) -> bool:
        """Store vectors of length 1, or None, in place of earlier ones of the same entries. Return whether the store
        was reached.
        """
        ...

    def claim(self, scope: str) -> AbstractAsyncContextManager[None]:
        """Let only this host embed texts of `scope` until the block ends. Wait at most a minute for other hosts; then the block
        runs anyway. No error is raised.
        """
        ...

    async def drop(self, scope: str, entry_ids: Sequence[str] | None = None) -> None:
        """Remove the vectors that any encoder made for the entries `entry_ids` of a scope (None: for all entries).
        Raises StoreError if the store cannot be used.
        """
        ...

    def faults(self) -> tuple[str, ...]:
        """Return the present faults. Each is one sentence with the fault, its place and a remedy."""
        ...


class SegmentStore(Protocol):
    """Keeps the index rows of scopes for all hosts, in segments.

    Each scope has a list of segments. If several segments have a row for an entry, the row in the last segment counts.

    1. A segment is added after its `base`. If other segments were added after `base` meanwhile, the segment is added only if its
       marks are not below the marks of these. If the marks of these are not below its marks, the list already has its rows.
    2. Rows that were read before an erasure or a `drop` are not added after it.
    """

    async def load(self, scope: str) -> StoredSegments:
        """Return the segments of a scope, oldest first; there may be none. Raises StoreError if the store cannot be used."""
        ...

    async def append(self, scope: str, rows: SegmentRows) -> IndexBase | None:
        """Add a segment and return the new end of the list. Raises StoreError if the store cannot be used.

        Return `rows.base` if nothing can be added for now. Return None if the rows are outdated; the caller must then read the
        scope again.
        """
        ...

    async def is_current(self, scope: str, base: IndexBase) -> bool:
        """Return whether the scope still has the segment that was its last when `base` was returned. Raises
        StoreError if the store cannot be used.
        """
        ...

    async def drop(self, scope: str) -> None:
        """Remove all segments of a scope. Raises StoreError if the store cannot be used."""
        ...


class Retriever(Protocol):
    """Recalls candidates for a turn: the memory entries that fit the input, with scores.

    1. Candidates are best first, at most `query.limit`, each id once.
    2. No entry in `query.exclude` and no entry outside the path to the head is ever returned.
    3. Work that cannot be done (no model, no index) is left out and named in `degradations`. No exception is raised
       for it.
    """

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates of one query, best first. Never raises for a missing model or index."""
        ...


@runtime_checkable
class OverlaidRetriever(Retriever, Protocol):
    """A `Retriever` that can also recall entries that are not in its store and index."""

    def overlay(
        self, source: EntrySource, own_scopes: Callable[[], Collection[str]]
    ) -> AbstractAsyncContextManager[Retriever]:
        """Open a retriever that recalls like this one, but reads the scopes that `own_scopes` returns from `source`.
        At the end of the block nothing of these scopes is left.
        """
        ...


def overlay_of(
    retriever: Retriever, source: EntrySource, own_scopes: Callable[[], Collection[str]]
) -> AbstractAsyncContextManager[Retriever]:
    """Return the overlay of a retriever, or the retriever itself if it cannot have one."""
    return retriever.overlay(source, own_scopes) if isinstance(retriever, OverlaidRetriever) else nullcontext(retriever)
