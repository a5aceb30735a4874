"""The vectors of one embedder in a `VectorStore`, asked and kept by entry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from mnemosyne.protocols import EmbeddedText, Vectors, VectorStore
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.schema.memory import MemoryEntry


class SharedVectors:
    """What hosts share of the vectors of `encoder`."""

    def __init__(self, vectors: VectorStore, encoder: str) -> None:
        self._vectors, self._encoder = vectors, encoder

    async def find(self, scope: str, entries: Iterable[MemoryEntry]) -> Mapping[str, Vectors | None]:
        """Return by id the known vectors of entries; None for a text that the embedder does not know."""
        return await self._vectors.get(scope, self._encoder, {each.entry_id: text_hash(each) for each in entries})

    def claim(self, scope: str) -> AbstractAsyncContextManager[None]:
        """Let one host at a time embed texts of a scope, until the block ends."""
        return self._vectors.claim(scope)

    async def keep(self, scope: str, entries: Sequence[MemoryEntry], vectors: Sequence[Vectors | None]) -> None:
        """Keep the vectors of entries for all hosts."""
        texts = [
            EmbeddedText(entry_id=entry.entry_id, text_hash=text_hash(entry), vector=vector)
            for entry, vector in zip(entries, vectors, strict=True)
        ]
        await self._vectors.put(scope, self._encoder, texts)
