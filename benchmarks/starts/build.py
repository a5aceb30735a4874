"""Builds stores to start on: a session of made-up talk whose index has made-up vectors under the name of a real model.

So a turn embeds its query with the model and searches as many vectors as there are messages, without hours of embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from benchmarks.conversation import session_of
from benchmarks.recall import SEED, MadeUpVectors
from jacquard import open_runtime
from jacquard.wiring.runtime import open_embedder
from mnemosyne import CalibratedEstimator, Embedder, open_store
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.stores.locate import locate_store

Progress = Callable[[str, int, int], None]


class DrawnDocuments:
    """A model's name with drawn vectors, for building an index; queries are not embedded."""

    def __init__(self, inner: Embedder) -> None:
        self.name = inner.name
        self._made = MadeUpVectors(SEED)

    async def warm(self) -> None:
        """Do nothing."""

    async def fitness(self, text: str) -> float:
        """Return 1: every text has a vector."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return one drawn vector a text."""
        return self._made.draw(len(texts))


def session_name(messages: int) -> str:
    """Return the id of the session of this size."""
    return f"talk-{messages}"


async def build(folder: Path, messages: int, embedder: str, progress: Progress) -> None:
    """Make a store with a session of so many messages, and its index; nothing is done where it is there already."""
    if (folder / "built").exists():
        return
    async with open_runtime(str(folder), embedder="none", bare=True) as runtime:
        await runtime.import_session(session_of(messages, seed=SEED, session_id=session_name(messages)))
    inner = None if embedder == "none" else open_embedder(embedder)
    location = locate_store(str(folder))
    assert location.index is not None
    index, store = TieredIndex(location.index), open_store(str(folder))
    drawn = None if inner is None else DrawnDocuments(inner)
    try:
        retriever = HybridRetriever(store, index, drawn, CalibratedEstimator())
        scope = f"session:{session_name(messages)}"
        await retriever.sync(scope, lambda done, total: progress(f"indexing {messages:,}", done, total))
    finally:
        await index.close()
        await store.close()
    (folder / "built").touch()
