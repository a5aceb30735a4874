"""Computes the vectors of a query before they are needed.

After a turn, the recent messages are embedded. While a turn is planned, the user's message is embedded. A retriever calls `embed`
as usual, and the vector is then ready or being computed. The cache contains hashes of texts, not the texts. This module must not
import a concrete embedder.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import field
from typing import Literal

import anyio
import numpy as np

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Embedder, ParallelEmbedder, Vectors, is_cold
from mnemosyne.retrieval.recall.indexing.indexer import FIT
from mnemosyne.retrieval.recall.multi_query import split_query
from mnemosyne.retrieval.recall.query_features import recent_text, vector_texts
from mnemosyne.schema.query import RetrievalQuery
from mnemosyne.values import dataclass

_log = open_log(__name__)
KEPT = 512
"""Maximum number of texts whose vectors are kept. The least recently used are dropped."""


@dataclass(slots=True)
class _PrefetchedVector:
    """A text's vector: under way, or once `done` the vector, or None if it could not be computed. `stays`: it is kept
    after it was fetched.
    """

    stays: bool
    done: anyio.Event = field(default_factory=anyio.Event)
    vector: Vectors | None = None


class PrefetchingEmbedder:
    """Wraps an embedder. A text given to `prefetch` is embedded once. Vectors of recent messages are kept for later turns."""

    def __init__(self, inner: Embedder) -> None:
        self.name = inner.name
        self._inner = inner
        self._kept: OrderedDict[str, _PrefetchedVector] = OrderedDict()

    @property
    def lanes(self) -> int:
        """Number of `embed` calls that are worth making at the same time, as stated by the wrapped embedder."""
        return self._inner.lanes if isinstance(self._inner, ParallelEmbedder) else 1

    @property
    def is_cold(self) -> bool:
        """Whether the wrapped embedder has a model that was not loaded yet."""
        return is_cold(self._inner)

    async def warm(self) -> None:
        """Load the parts that are slow to load. Raises EmbedderUnavailableError if the model is not available."""
        await self._inner.warm()

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, 0..1."""
        return await self._inner.fitness(text)

    def forget(self) -> None:
        """Drop all vectors computed so far."""
        self._kept.clear()

    async def prefetch(self, text: str, recent: Sequence[str] = (), keywords: Sequence[str] = ()) -> None:
        """Embed the texts that a recall of `text`, with `keywords` and the messages `recent` (oldest first), will need.

        No error is raised. If a recall needs other texts, it embeds them itself. Nothing is done while the model is not loaded,
        because loading would slow down the running turn.
        """
        if self.is_cold:
            return
        query = RetrievalQuery(text=text, world_id="", recent=tuple(recent), keywords=tuple(keywords))
        size = size_of(text)
        for part in await calculate(split_query, query, size=size):
            texts = await calculate(vector_texts, part, size=size)
            await self._make([*texts], judged=part.text, recent=recent_text(part.recent))

    async def prefetch_recent(self, recent: Sequence[str]) -> None:
        """Embed the messages `recent` (oldest first), because the next input may refer to them. No error is raised."""
        text = recent_text(recent)
        await self._make((text,) if text else (), judged=text, recent=text)

    async def _make(self, texts: Sequence[str], *, judged: str, recent: str) -> None:
        """Embed those of `texts` that are not cached, if the model knows enough of `judged`."""
        made = {each: _PrefetchedVector(stays=each == recent) for each in texts if _key(each) not in self._kept}
        if not made:
            return
        self._kept.update((_key(each), ahead) for each, ahead in made.items())
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        try:
            if await self._inner.fitness(judged) >= FIT:
                vectors = await self._inner.embed(tuple(made), "query")
                for ahead, vector in zip(made.values(), vectors, strict=True):
                    ahead.vector = vector
        except EmbedderUnavailableError:
            return
        except Exception:
            _log.exception("a query could not be embedded ahead")
        finally:
            for each, ahead in made.items():
                if ahead.vector is None and self._kept.get(_key(each)) is ahead:
                    del self._kept[_key(each)]
                ahead.done.set()

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return the vectors of `texts`, of shape (len(texts), dimensions). A prefetched vector is not computed again.

        Raises EmbedderUnavailableError in the same cases as the wrapped embedder.
        """
        if purpose == "document":
            return await self._inner.embed(texts, purpose)
        known = {text: vector for text in texts if (vector := await self._take_prefetched(text)) is not None}
        missing = [text for text in texts if text not in known]
        if missing:
            known.update(zip(missing, await self._inner.embed(missing, purpose), strict=True))
        return np.stack([known[text] for text in texts])

    async def _take_prefetched(self, text: str) -> Vectors | None:
        key = _key(text)
        ahead = self._kept.get(key)
        if ahead is None:
            return None
        await ahead.done.wait()
        if self._kept.get(key) is ahead:
            if ahead.stays:
                self._kept.move_to_end(key)
            else:
                del self._kept[key]
        return ahead.vector


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
