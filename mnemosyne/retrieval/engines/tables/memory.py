"""Implements an index in memory, which is exact and quick to change. It is filled from a store or from an index on disk.

A scope is one session or one world. A staged scope is the copy of a scope that is filled anew and then replaces the scope. This
module must not import an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from anyio import to_thread

from mnemosyne.core.off_loop import calculate
from mnemosyne.protocols import Index, Vectors
from mnemosyne.retrieval.engines.rows import row_batch
from mnemosyne.retrieval.engines.tables.table import ScopeTable
from mnemosyne.retrieval.text.lexical import TermCounts, term_weights
from mnemosyne.schema.memory import EMPTY, Chain, staged_scope
from mnemosyne.schema.query import NO_HITS, Hits, IndexFilter, TextSearch
from mnemosyne.schema.record import SequencedEntry


class MemoryIndex(Index):
    """The `Index` of small scopes, with one table for each. Nothing outlives the process."""

    def __init__(self) -> None:
        self._tables: dict[str, ScopeTable] = {}

    def table(self, scope: str) -> ScopeTable:
        """Return the table of a scope. An empty table is created at first use."""
        table = self._tables.get(scope)
        if table is None:
            table = self._tables[scope] = ScopeTable()
        return table

    def keep(self, scope: str, table: ScopeTable) -> None:
        """Replace the table of a scope."""
        self._tables[scope] = table

    def holds(self, scope: str) -> bool:
        """Return whether the scope is in memory."""
        return scope in self._tables

    def touch(self, scope: str) -> None:
        """Mark a scope as the one used last."""
        self._tables[scope] = self._tables.pop(scope)

    def scopes(self) -> list[str]:
        """Return the scopes in memory, the one used last at the end."""
        return list(self._tables)

    def forget(self, scope: str) -> None:
        """Drop a scope from memory."""
        self._tables.pop(scope, None)

    async def add(
        self,
        scope: str,
        entries: Sequence[SequencedEntry],
        vectors: Vectors | None,
        *,
        keys: Sequence[str] | None = None,
        model: str = "",
    ) -> None:
        """Add, replace or remove entries; see `Index.add`."""
        table = self.table(scope)
        await to_thread.run_sync(lambda: table.put(row_batch(entries, vectors, keys, model)))

    async def watermark(self, scope: str, chain: Chain) -> int:
        """Return the highest sequence that was seen for `chain` of the scope (0: none)."""
        return self.table(scope).watermark(chain)

    async def count(self, scope: str) -> int:
        """Return the number of entries of the scope."""
        return self.table(scope).count()

    async def newest_ids(self, scope: str, chain: Chain, limit: int) -> tuple[str, ...]:
        """Return the ids of the `limit` entries of `chain` that were written last, oldest first."""
        return await to_thread.run_sync(self.table(scope).newest_ids, chain, limit)

    async def unembedded_ids(self, scope: str, model: str, limit: int) -> tuple[str, ...]:
        """Return at most `limit` ids of entries that the embedder `model` has not processed, in the order of writing."""
        return await to_thread.run_sync(self.table(scope).unembedded_ids, model, limit)

    async def encoder_of(self, scope: str) -> str:
        """Return the name of the embedder that made the vectors of the scope; empty if it has none."""
        return self.table(scope).model

    async def adopt(self, scope: str, staged: str) -> None:
        """Replace a scope by its staged scope."""
        self._tables[scope] = self._tables.pop(staged, ScopeTable())

    async def drop(self, scope: str) -> None:
        """Remove everything of a scope and of its staged scope."""
        self.forget(scope)
        self.forget(staged_scope(scope))

    async def search_text(self, text: str | Mapping[str, float], where: IndexFilter, limit: int) -> Hits:
        """Return the best entries by BM25. Word statistics count only the entries that the filter admits."""
        return (await self.search_texts((TextSearch(text, where, limit),)))[0]

    async def search_texts(
        self, searches: Sequence[TextSearch], others: Mapping[str, ScopeTable] = EMPTY
    ) -> list[Hits]:
        """Return the hits of each search. All searches run together, in a worker thread if the tables are large.

        `others` has tables with the words of scopes that are not in memory. They only count in the word statistics of scopes in
        memory (`TextSearch.beside`).
        """
        tables = [self.table(each.where.scope) for each in searches]
        if all(table.is_unused(each.where.chains) for table, each in zip(tables, searches, strict=True)):
            return [NO_HITS] * len(searches)
        known = {**self._tables, **others}
        scopes = {where.scope for each in searches for where in (each.where, *each.beside)}
        size = sum([known[scope].search_size for scope in scopes if scope in known])
        return await calculate(_search_all, tables, searches, known, size=size)

    async def search_vector(self, vector: Vectors, where: IndexFilter, limit: int, *, model: str = "") -> Hits:
        """Return the best entries by cosine.

        The search is exact up to 10,000 admitted vectors. Among more vectors, the likely ones are selected by the signs of their
        values, and only these are compared exactly (`VectorRows.nearest`). `model` is the embedder of `vector`.
        """
        table = self.table(where.scope)
        if table.is_unused(where.chains):
            return NO_HITS
        return await calculate(table.search_vector, vector, model, where, limit, size=table.search_size)

    def faults(self) -> tuple[str, ...]:
        """Return nothing, because there are no files."""
        return ()

    async def maintain(self) -> None:
        """Do nothing, because there are no files."""

    async def close(self) -> None:
        """Forget everything."""
        self._tables.clear()


def _search_all(
    tables: Sequence[ScopeTable], searches: Sequence[TextSearch], known: Mapping[str, ScopeTable]
) -> list[Hits]:
    """Return the hits of each search; those for the same terms in one table are made together."""
    terms = {id(each.text): term_weights(each.text) if isinstance(each.text, str) else each.text for each in searches}
    found = dict[tuple[int, IndexFilter], TermCounts]()
    groups = []
    for places in _group(searches):
        text, wheres = searches[places[0]].text, [searches[place].where for place in places]
        words = tables[places[0]].find_words(terms[id(text)], wheres)
        found.update(zip([(id(text), where) for where in wheres], words.counts, strict=True))
        groups.append((places, words))

    def count(each: TextSearch, where: IndexFilter) -> TermCounts:
        key = id(each.text), where
        if key not in found:
            found[key] = known[where.scope].find_words(terms[id(each.text)], (where,)).counts[0]
        return found[key]

    hits = dict[int, Hits]()
    for places, words in groups:
        counts = [
            sum([count(searches[place], other) for other in searches[place].beside if other.scope in known], start=own)
            for place, own in zip(places, words.counts, strict=True)
        ]
        text, limits = searches[places[0]].text, [searches[place].limit for place in places]
        hits.update(zip(places, words.rank(terms[id(text)], counts, limits), strict=True))
    return [hits[place] for place in range(len(searches))]


def _group(searches: Sequence[TextSearch]) -> list[list[int]]:
    """Return the places of searches that can be made together: for the same terms, with filters that differ only by chains."""
    groups: list[list[int]] = []
    for place, (text, where, _, _) in enumerate(searches):
        for places in groups:
            first = searches[places[0]]
            is_alike = text is first.text and where == replace(first.where, chains=where.chains)
            if is_alike and all(where.chains.isdisjoint(searches[other].where.chains) for other in places):
                places.append(place)
                break
        else:
            groups.append([place])
    return groups
