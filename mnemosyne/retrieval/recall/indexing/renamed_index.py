"""Wraps an index so that its scopes (sessions and worlds) have other names: a call for one scope reads another scope."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from mnemosyne.protocols import Index, Vectors
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import Hits, IndexFilter, TextSearch
from mnemosyne.schema.record import SequencedEntry


class RenamedIndex(Index):
    """An `Index` that passes each call for a scope on to `index`, with the scope's name replaced by `name_of`.
    `maintain` and `close` do nothing, because the owner of `index` calls them.
    """

    def __init__(self, index: Index, name_of: Callable[[str], str]) -> None:
        self._index, self._name_of = index, name_of

    async def add(
        self,
        scope: str,
        entries: Sequence[SequencedEntry],
        vectors: Vectors | None,
        *,
        keys: Sequence[str] | None = None,
        model: str = "",
    ) -> None:
        """See `Index.add`."""
        await self._index.add(self._name_of(scope), entries, vectors, keys=keys, model=model)

    async def watermark(self, scope: str, chain: Chain) -> int:
        """See `Index.watermark`."""
        return await self._index.watermark(self._name_of(scope), chain)

    async def count(self, scope: str) -> int:
        """See `Index.count`."""
        return await self._index.count(self._name_of(scope))

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """See `Index.newest_ids`."""
        return await self._index.newest_ids(self._name_of(scope), chain, limit)

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """See `Index.unembedded_ids`."""
        return await self._index.unembedded_ids(self._name_of(scope), model, limit)

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """See `Index.search_text`."""
        return await self._index.search_text(text, self._rename(where), limit)

    async def search_texts(self, searches: Sequence[TextSearch]) -> list[Hits]:
        """See `Index.search_texts`."""
        named = [
            each._replace(where=self._rename(each.where), beside=tuple(map(self._rename, each.beside)))
            for each in searches
        ]
        return await self._index.search_texts(named)

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """See `Index.search_vector`."""
        return await self._index.search_vector(vector, self._rename(where), limit, model=model)

    def _rename(self, where: IndexFilter) -> IndexFilter:
        return replace(where, scope=self._name_of(where.scope))

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """See `Index.degradations_for`."""
        return self._index.degradations_for(map(self._name_of, scopes))

    def faults(self) -> tuple[str, ...]:
        """See `Index.faults`."""
        return self._index.faults()

    async def drop(self, scope: str) -> None:
        """See `Index.drop`."""
        await self._index.drop(self._name_of(scope))

    async def maintain(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""
