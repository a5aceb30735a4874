"""Makes the vectors of the texts that an indexer writes. A vector that was made before, here or by another host, is reused."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import nullcontext

import anyio

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.protocols import Embedder, ParallelEmbedder, Vectors, VectorStore
from mnemosyne.retrieval.engines.rows import round_vectors, spoken_words, text_hash
from mnemosyne.retrieval.recall.indexing.shared_vectors import SharedVectors
from mnemosyne.schema.memory import MemoryEntry

PAGE_TEXTS = 128
"""Number of texts that are embedded at a time."""

_CACHED = 4_096


class TextVectors:
    """Makes vectors by `embedder` and caches those of the last texts. If `embedder` is None, no vectors are made.

    A text is unfit, and gets no vector, if the embedder knows a smaller share of the text than `least_fitness`. `shared` keeps
    vectors for other hosts. A vector that `shared` has is not made again. All vectors are rounded in the same way.
    """

    def __init__(self, embedder: Embedder | None, *, least_fitness: float, shared: VectorStore | None) -> None:
        self._embedder, self._least_fitness = embedder, least_fitness
        self._shared = None if embedder is None or shared is None else SharedVectors(shared, embedder.name)
        self.lanes = embedder.lanes if isinstance(embedder, ParallelEmbedder) else 1
        """Number of `embed` calls that are worth making at a time."""
        self._known: dict[tuple[str, str], tuple[str, Vectors | None]] = {}
        self._elsewhere: OrderedDict[bytes, tuple[str, Vectors]] = OrderedDict()
        """By the hash of a text, the scope for which it was embedded and its vector; those used last are at the end."""

    def is_made(self, scope: str, entry: MemoryEntry) -> bool:
        """Return whether the entry's text was embedded or found unfit."""
        return self._known.get((scope, entry.entry_id), (None, None))[0] == entry.text

    def find(self, scope: str, entry: MemoryEntry) -> Vectors | None:
        """Return the vector of the text of `entry`. Return None if it is not made yet, or the text is unfit."""
        return self._known[scope, entry.entry_id][1] if self.is_made(scope, entry) else None

    def round(self, vectors: Vectors) -> Vectors:
        """Return vectors in the precision in which hosts share them."""
        return vectors if self._shared is None else round_vectors(vectors)

    async def embed(self, scope: str, entries: Iterable[MemoryEntry], batch: int = PAGE_TEXTS) -> str:
        """Embed the texts of `entries` that are not embedded yet, `batch` at a time. Return '' if all were embedded, else the
        reason for the failure.
        """
        return await self._embed_parts(scope, [entries], batch)

    async def embed_page(self, scope: str, entries: Sequence[MemoryEntry | None]) -> str:
        """Embed the texts of `entries`, in as many parallel calls as the embedder supports. A deleted entry is None.

        The result is the same as for `embed`. The positions in `entries` decide which texts are embedded in one call, because
        a model's vector of a text may depend on the other texts in the call.
        """
        parts = [entries[start : start + PAGE_TEXTS] for start in range(0, len(entries), PAGE_TEXTS)]
        present = [[entry for entry in part if entry is not None] for part in parts]
        if self.lanes == 1:
            present = [[entry for part in present for entry in part]]
        return await self._embed_parts(scope, present, PAGE_TEXTS)

    async def take_known(self, scope: str, entries: Iterable[MemoryEntry]) -> None:
        """Read the vectors of `entries` that are stored for all hosts, so that these are not made again."""
        if self._shared is None:
            return
        if len(self._known) > 4 * _CACHED:
            self._known.clear()
        lacking = {entry.entry_id: entry for entry in entries if not self.is_made(scope, entry)}
        if lacking:
            for entry_id, vector in (await self._shared.find(scope, lacking.values())).items():
                self._known[scope, entry_id] = (lacking[entry_id].text, vector)

    async def share(self, scope: str) -> None:
        """Store the vectors of a scope for other hosts that could not be stored when they were made."""
        if self._shared is not None:
            await self._shared.keep_left(scope)

    def forget(self, scope: str) -> None:
        """Forget the texts of a scope."""
        if self._shared is not None:
            self._shared.forget(scope)
        self._known = {key: known for key, known in self._known.items() if key[0] != scope}
        self._elsewhere = OrderedDict((text, kept) for text, kept in self._elsewhere.items() if kept[0] != scope)

    async def _embed_parts(self, scope: str, parts: Iterable[Iterable[MemoryEntry]], batch: int) -> str:
        """Embed the missing texts of several parts, side by side; for the result see `embed`."""
        if (embedder := self._embedder) is None:
            return ""
        if len(self._known) > _CACHED:
            self._known.clear()
        wanted = [{entry.entry_id: entry for entry in part} for part in parts]
        every = [entry for part in wanted for entry in part.values()]
        await self.take_known(scope, every)
        if all(self.is_made(scope, entry) for entry in every):
            return ""
        faults: list[str] = []

        async def make(part: Iterable[MemoryEntry]) -> None:
            try:
                await self._make(scope, embedder, [entry for entry in part if not self.is_made(scope, entry)], batch)
            except EmbedderUnavailableError as error:
                faults.append(str(error))

        async with nullcontext() if self._shared is None else self._shared.claim(scope):
            # What another host has embedded meanwhile.
            await self.take_known(scope, every)
            await self._copy(scope, every)
            async with anyio.create_task_group() as group:
                for part in wanted:
                    group.start_soon(make, part.values())
        return next(iter(faults), "")

    async def _copy(self, scope: str, entries: Iterable[MemoryEntry]) -> None:
        """Take the vectors of texts that another scope has too: all sessions of a world begin with the same messages."""
        found = list[tuple[MemoryEntry, Vectors]]()
        for entry in entries:
            kept = None if self.is_made(scope, entry) else self._elsewhere.get(text := text_hash(entry))
            # Within a scope each text is embedded with those of its page, however the pages are divided among workers.
            if kept is not None and kept[0] != scope:
                self._elsewhere.move_to_end(text)
                found.append((entry, kept[1]))
        await self._keep(scope, [entry for entry, _ in found], [vector for _, vector in found])

    async def _make(self, scope: str, embedder: Embedder, entries: Sequence[MemoryEntry], batch: int) -> None:
        texts, unfit = list[MemoryEntry](), list[MemoryEntry]()
        for entry in entries:
            is_fit = entry.text.strip() and await embedder.fitness(entry.text) >= self._least_fitness
            (texts if is_fit else unfit).append(entry)
        await self._keep(scope, unfit, [None] * len(unfit))
        for part in (texts[start : start + batch] for start in range(0, len(texts), batch)):
            made = self.round(await embedder.embed([spoken_words(entry) for entry in part], "document"))
            await self._keep(scope, part, list(made))
            # A copy: a row of an array keeps all of it in memory.
            self._elsewhere.update((text_hash(each), (scope, row.copy())) for each, row in zip(part, made, strict=True))
        while len(self._elsewhere) > _CACHED:
            self._elsewhere.popitem(last=False)

    async def _keep(self, scope: str, entries: Sequence[MemoryEntry], vectors: Sequence[Vectors | None]) -> None:
        for entry, vector in zip(entries, vectors, strict=True):
            self._known[scope, entry.entry_id] = (entry.text, vector)
        if self._shared is not None:
            await self._shared.keep(scope, entries, vectors)
