"""Reads and writes the vectors of memory entries in a `VectorStore`, so that several hosts share them.

A host is a process that serves sessions. All vectors are made by one embedder (embedding model).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager

from mnemosyne.protocols import EmbeddedText, Vectors, VectorStore
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.schema.memory import MemoryEntry

_MOST_LEFT = 4_096


class SharedVectors:
    """The shared vectors of the embedder named `encoder`. If vectors could not be stored, at most the newest 4,096 are kept
    in memory and stored later.
    """

    def __init__(self, vectors: VectorStore, encoder: str) -> None:
        self._vectors, self._encoder = vectors, encoder
        self._left: dict[tuple[str, str], EmbeddedText] = {}

    async def find(self, scope: str, entries: Iterable[MemoryEntry]) -> Mapping[str, Vectors | None]:
        """Return the stored vectors of `entries`, by entry id. The value is None for a text that the embedder cannot embed."""
        return await self._vectors.get(scope, self._encoder, {each.entry_id: text_hash(each) for each in entries})

    def claim(self, scope: str) -> AbstractAsyncContextManager[None]:
        """Let one host at a time embed texts of a scope, until the block ends."""
        return self._vectors.claim(scope)

    async def keep(self, scope: str, entries: Sequence[MemoryEntry], vectors: Sequence[Vectors | None]) -> None:
        """Store the vectors of entries for all hosts."""
        texts = [
            EmbeddedText(entry_id=entry.entry_id, text_hash=text_hash(entry), vector=vector)
            for entry, vector in zip(entries, vectors, strict=True)
        ]
        # Before the call, which may be cancelled.
        self._left.update(((scope, text.entry_id), text) for text in texts)
        await self._put(scope, texts)
        while len(self._left) > _MOST_LEFT:
            del self._left[next(iter(self._left))]

    async def keep_left(self, scope: str) -> None:
        """Store the vectors of `scope` that earlier calls could not store, because the store was not reached or the call was
        cancelled.
        """
        left = {text.entry_id: text for (place, _), text in self._left.items() if place == scope}
        if left:
            # A call that failed may have been finished by the store.
            known = await self._vectors.get(
                scope, self._encoder, {text.entry_id: text.text_hash for text in left.values()}
            )
            self._settle(scope, [text for text in left.values() if text.entry_id in known])
            await self._put(scope, [text for text in left.values() if text.entry_id not in known])

    async def _put(self, scope: str, texts: Sequence[EmbeddedText]) -> None:
        if await self._vectors.put(scope, self._encoder, texts):
            self._settle(scope, texts)

    def _settle(self, scope: str, texts: Iterable[EmbeddedText]) -> None:
        for text in texts:
            # Else it has another vector meanwhile.
            if self._left.get((scope, text.entry_id)) is text:
                del self._left[scope, text.entry_id]

    def forget(self, scope: str) -> None:
        """Forget the vectors of a scope that are not stored yet."""
        self._left = {key: text for key, text in self._left.items() if key[0] != scope}
