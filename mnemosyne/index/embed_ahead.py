"""An embedder that may be told of a query before it is asked: the vector of the player's words is made while a turn is planned.

The room exists so that a retriever need not know of it: it asks as ever, and finds the work under way or done. What is waiting
is known by a hash, not by its words, and is gone once it was fetched. It must not import a concrete embedder.
"""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import anyio
import numpy as np

from mnemosyne.errors import EmbedderUnavailableError
from mnemosyne.index.ask import vector_texts
from mnemosyne.index.feed import FIT
from mnemosyne.index.several import separate
from mnemosyne.protocols import Embedder, Vectors
from mnemosyne.query import RetrievalQuery

_log = logging.getLogger(__name__)
WAITING = 32
"""So many queries at most are made ahead and not yet fetched; older ones are forgotten."""


@dataclass(slots=True)
class _Ahead:
    done: anyio.Event = field(default_factory=anyio.Event)
    vector: Vectors | None = None


class AheadEmbedder:
    """Passes everything on to an embedder; a query text that `expect` was told of is embedded once."""

    def __init__(self, inner: Embedder) -> None:
        self.name = inner.name
        self._inner = inner
        self._waiting: OrderedDict[str, _Ahead] = OrderedDict()

    async def warm(self) -> None:
        """Load what is slow to load."""
        await self._inner.warm()

    async def fitness(self, text: str) -> float:
        """Return the share of `text` that the model knows, 0..1."""
        return await self._inner.fitness(text)

    async def expect(self, text: str, recent: Sequence[str] = (), keywords: Sequence[str] = ()) -> None:
        """Embed what a recall of `text` with these keywords after this talk (oldest first) will ask for; it never raises.

        A recall that asks for other texts has them made.
        """
        query = RetrievalQuery(text=text, world_id="", recent=tuple(recent), keywords=tuple(keywords))
        for part in separate(query):
            await self._expect(part.text, vector_texts(part))

    async def _expect(self, text: str, texts: Sequence[str]) -> None:
        made = {each: _Ahead() for each in texts if _key(each) not in self._waiting}
        if not made:
            return
        self._waiting.update((_key(each), ahead) for each, ahead in made.items())
        while len(self._waiting) > WAITING:
            self._waiting.popitem(last=False)
        try:
            if await self._inner.fitness(text) >= FIT:
                vectors = await self._inner.embed(tuple(made), "query")
                for ahead, vector in zip(made.values(), vectors, strict=True):
                    ahead.vector = vector
        except EmbedderUnavailableError:
            return
        except Exception:
            _log.exception("a query could not be embedded ahead")
        finally:
            for each, ahead in made.items():
                if ahead.vector is None and self._waiting.get(_key(each)) is ahead:
                    del self._waiting[_key(each)]
                ahead.done.set()

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return an array of shape (len(texts), dimensions), made ahead where it was expected."""
        if purpose == "document":
            return await self._inner.embed(texts, purpose)
        known = {text: vector for text in texts if (vector := await self._fetched(text)) is not None}
        missing = [text for text in texts if text not in known]
        if missing:
            known.update(zip(missing, await self._inner.embed(missing, purpose), strict=True))
        return np.stack([known[text] for text in texts])

    async def _fetched(self, text: str) -> Vectors | None:
        ahead = self._waiting.get(_key(text))
        if ahead is None:
            return None
        await ahead.done.wait()
        self._waiting.pop(_key(text), None)
        return ahead.vector


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
