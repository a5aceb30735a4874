"""How memory is searched: embedders, indexes and retrievers.

Recall reads a store through `EntrySource` alone. It must not import another module of protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import Hit, IndexFilter, Recall, RetrievalQuery
from mnemosyne.schema.record import SequencedEntry

Vectors = npt.NDArray[np.float32]


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

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return those of these (scope, chain) that `entries_after` has something of after the sequence given with each."""
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

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the entries of this chain written last, oldest first."""
        ...

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
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

    async def maintain(self) -> None:
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
