"""Keeps an index up to date with the store: adds new entries, removes deleted ones, and adds vectors.

Each entry is indexed together with its neighbours (the messages around it), which are found while the chain is read. This
module must not import a concrete store, index or embedder.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio

from mnemosyne.core.off_loop import calculate
from mnemosyne.protocols import Embedder, EntrySource, Index, VectorStore
from mnemosyne.retrieval.engines.rows import FINDER_FACET, name_persons, neighbour_key, own_words
from mnemosyne.retrieval.recall.adjacency import ConversationTail, LinkedEntry, has_neighbours, join_neighbours
from mnemosyne.retrieval.recall.indexing.linking import TailCache, link_page, read_linked
from mnemosyne.retrieval.recall.indexing.missing import MissingVectors
from mnemosyne.retrieval.recall.indexing.rebuild import RebuildResult, compare_index
from mnemosyne.retrieval.recall.indexing.text_vectors import PAGE_TEXTS, TextVectors
from mnemosyne.retrieval.recall.query_features import RECALLED
from mnemosyne.retrieval.text.persons import PersonFinder
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import IndexFilter, TextSearch
from mnemosyne.schema.record import SequencedEntry
from mnemosyne.values import dataclass

FIT = 0.5
"""Least share of a text that the embedder must know (`Embedder.fitness`) for the text to be embedded."""
_PAGE = 1_000
_FALLS = 3
_BATCH = 8
"""Number of texts embedded at a time after turns: a query that arrives meanwhile waits for one batch at most."""

_COST_A_CHAR = 6
"""Cost of finding the persons of a message, for each of its characters (0.5 µs)."""
_FINDER_COST = 100
_ALL = 2**31 - 1
_MOST_SCOPES = 4_096

Progress = Callable[[int, int], None]
"""Called with (entries done, entries known so far)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexResult:
    """Outcome of an update."""

    entries: int
    """Number of new entries."""
    fault: str = ""
    """Reason why vectors are missing ('' if none are missing)."""
    behind: bool = False
    """True if there are more entries to index, which were left for another call."""


class Indexer:
    """Updates the scopes of one index from one source.

    Words are indexed at once. Texts are embedded while no lock is held, so that a recall never waits for a model. Entries
    that were indexed only by words are remembered, and `embed_waiting` adds their vectors.

    A text gets no vector if the embedder knows a smaller share of the text than `least_fitness` (`Embedder.fitness`). `vectors`
    keeps vectors for other hosts. `persons` finds more persons in messages; `rebuild` indexes a scope again that another finder has
    indexed. A vector that `vectors` has is not made again. All vectors are rounded in the same way.
    """

    def __init__(
        self,
        source: EntrySource,
        index: Index,
        embedder: Embedder | None,
        *,
        least_fitness: float = FIT,
        vectors: VectorStore | None = None,
        persons: PersonFinder | None = None,
    ) -> None:
        self._persons = persons
        self._source, self._index, self._embedder = source, index, embedder
        self._vectors = TextVectors(embedder, least_fitness=least_fitness, shared=vectors)
        self._tails = TailCache(source, index)
        self._locks: dict[str, anyio.Lock] = {}
        self._missing = MissingVectors(index, "" if embedder is None else embedder.name)
        self._used: dict[str, None] = {}

    async def find_unindexed(
        self, scopes: Iterable[str], written: Mapping[tuple[str, Chain], int] | None = None
    ) -> dict[str, tuple[Chain, ...]]:
        """Return, by scope, the chains with entries that are not indexed yet. Scopes without any are left out.

        `written` has the newest sequence of each (scope, chain), as far as the caller knows them. If `written` has a sequence for
        every chain, the source is not read. Otherwise the source is asked once, for all chains.
        """
        seen = {
            (scope, chain): await self._index.watermark(scope, chain) for scope in scopes for chain in _chains(scope)
        }
        for scope in dict.fromkeys(scope for scope, _ in seen):
            self.use(scope)
        found: dict[str, tuple[Chain, ...]] = {}
        if written is not None and seen.keys() <= written.keys():
            new = {place for place, sequence in seen.items() if written[place] > sequence}
        else:
            new = {*await self._source.chains_written_after(seen)}
        for scope, chain in seen:
            if (scope, chain) in new:
                found[scope] = (*found.get(scope, ()), chain)
        return found

    async def index_new(
        self,
        scope: str,
        *,
        chains: Sequence[Chain] | None = None,
        vector_limit: int | None = None,
        entry_limit: int | None = None,
        progress: Progress | None = None,
    ) -> IndexResult:
        """Index the entries that were written to `chains` (None: to all chains) since the last call, at most about
        `entry_limit` (None: without limit).

        If more than `vector_limit` entries are new, they get no vectors now (None: all entries get vectors). If the model fails,
        entries stay without vectors until `fill_vectors` adds them. `progress` is called with (entries done, entries known so
        far). Raises IndexUnavailableError if the index cannot be written.
        """
        self.use(scope)
        total = await self._count_new(scope) if progress else 0
        done, falls, fault = 0, 0, ""
        for chain in _chains(scope) if chains is None else chains:
            after = await self._index.watermark(scope, chain)
            size = _PAGE if vector_limit is not None else PAGE_TEXTS * self._vectors.lanes
            while page := await self._source.entries_after(scope, chain, after, size):
                if entry_limit is not None and done >= entry_limit:
                    return IndexResult(entries=done, fault=fault, behind=True)
                if not fault and (vector_limit is None or len(page) <= vector_limit):
                    texts = [None if item.deleted else item.entry for item in page]
                    fault = await self._vectors.embed_page(scope, texts)
                last = page[-1].sequence
                async with self._lock(scope):
                    mark = await self._index.watermark(scope, chain)
                    # Else another call has indexed the page meanwhile.
                    if added := mark == after:
                        mark = await self._add(scope, chain, page)
                        done += len(page) if mark == last else 0
                if progress:
                    progress(done, max(total, done))
                # The watermark falls back if another process has dropped the scope meanwhile: then it is indexed again.
                falls += mark <= after if added else mark < after
                if vector_limit is None:
                    # Not within a turn: what is made so far outlives this process.
                    await self._index.evict()
                after = mark
                if falls > _FALLS:
                    return IndexResult(entries=done, fault=fault, behind=True)
                if after == last and len(page) < size:
                    break
        if not fault and (vector_limit is None or len(self._missing.waiting(scope)) <= vector_limit):
            # Neighbours that this process has not embedded before.
            fault = await self.embed_waiting(scope)
        return IndexResult(entries=done, fault=fault)

    async def feed(self, scope: str, before_vectors: Callable[[], Awaitable[None]] | None = None) -> IndexResult:
        """Index the new entries of `scope`: first by words, then with vectors. Do nothing if `scope` was not searched or indexed
        here before. `before_vectors` is awaited between words and vectors.

        Vectors that an earlier run left out are added, too. The call may be cancelled at any time; the next call continues.
        """
        if not self.is_used(scope):
            return IndexResult(entries=0)
        new = (await self.find_unindexed((scope,))).get(scope, ())
        result = await self.index_new(scope, chains=new, vector_limit=0)
        await self.mend(scope)
        if before_vectors is not None:
            await before_vectors()
        fault = await self.embed_waiting(scope)
        if not fault and not self._missing.is_complete(scope):
            fault = (await self.fill_vectors(scope, batch=_BATCH)).fault
        await self._vectors.share(scope)
        return replace(result, fault=fault)

    async def embed_waiting(self, scope: str) -> str:
        """Add the vectors of the entries of `scope` that were indexed only by words.

        Return '' if all were added, else the reason for the failure.
        """
        while linked := list(self._missing.waiting(scope).values())[:_BATCH]:
            if fault := await self._vectors.embed(scope, _entries_of(linked)):
                return fault
            async with self._lock(scope):
                waiting = self._missing.waiting(scope)
                # Meanwhile an entry may have gained a neighbour.
                ids = [each.item.entry.entry_id for each in linked]
                await self._write_present(scope, [waiting[entry_id] for entry_id in ids if entry_id in waiting])
        return ""

    async def fill_vectors(
        self, scope: str, progress: Progress | None = None, *, batch: int = PAGE_TEXTS
    ) -> IndexResult:
        """Add the missing vectors of the entries of `scope` that the embedder has not processed, `batch` at a time.

        An interrupted call is continued by the next one.
        """
        if self._embedder is None:
            return IndexResult(entries=0)
        unseen = frozenset(await self._index.unembedded_ids(scope, self._embedder.name, 2**31 - 1))
        done = set[str]()
        for chain in _chains(scope):
            mark = await self._index.watermark(scope, chain)
            # An entry embedded with a neighbour that was not is embedded again, with it.
            is_wanted = partial(_concerns, unseen)
            async for linked in read_linked(self._source, scope, chain, is_wanted, is_done=lambda: done == unseen):
                fault = await self._vectors.embed(scope, _entries_of(linked), batch)
                async with self._lock(scope):
                    fallen = await self._index.watermark(scope, chain) < mark
                    if not fallen:
                        await self._write_present(scope, linked)
                if fault or fallen:
                    # Another process has dropped the scope meanwhile: its entries must be indexed first.
                    return IndexResult(entries=len(done), fault=fault, behind=fallen)
                done.update(unseen.intersection(each.item.entry.entry_id for each in linked))
                await self._index.evict()
                if progress and linked:
                    progress(len(done), len(unseen))
        self._missing.complete(scope)
        return IndexResult(entries=len(done))

    async def mend(self, scope: str) -> int:
        """Write the rows of `scope` again that the index has lost by damage, and return their number.

        The rows have no vectors until `fill_vectors` adds them.
        Raises IndexUnavailableError if the index cannot be written.
        """
        if not await self._index.has_lost(scope):
            return 0
        made = 0
        for chain in _chains(scope):
            mark = await self._index.watermark(scope, chain)
            held = frozenset(await self._index.newest_ids(scope, chain, 2**31 - 1))
            is_wanted = partial(_is_missing, held, mark)
            async for linked in read_linked(self._source, scope, chain, is_wanted):
                async with self._lock(scope):
                    await self._write_present(scope, linked)
                made += len(linked)
        await self._index.remove_lost(scope)
        self._missing.doubt(scope)
        return made

    async def lacks_vectors(self, scope: str, *, besides: Collection[str] = ()) -> bool:
        """Return whether `scope` has entries, other than those with ids in `besides`, that the embedder has not processed.

        The index is searched only once; after that, the answer is kept up to date in memory.
        """
        return await self._missing.has_any(scope, besides=besides)

    async def wait_for_write(self, scopes: Iterable[str]) -> None:
        """Wait until vectors that are already made are written to the index. The call does not wait for embedding."""
        for scope in scopes:
            if (lock := self._locks.get(scope)) is not None and lock.locked():
                async with lock:
                    pass

    async def rebuild(self, scope: str, *, force: bool = False, progress: Progress | None = None) -> RebuildResult:
        """Make the index of `scope` match the source. An interrupted run is continued.

        Damaged rows are written again. The index of the scope is dropped and rebuilt if it cannot be read, has other
        entries than the source, or lacks an entry that it should have. If `force`, it is always rebuilt. Raises
        IndexUnavailableError if the folder cannot be written.
        """
        if not force:
            await self.mend(scope)
        async with self._lock(scope):
            known = None if force else await compare_index(self._source, self._index, scope, _chains(scope))
            if known is not None and not await self._has_names_of_finder(scope):
                known = None
            rebuilt = known is None or bool(self._index.faults())
            if rebuilt:
                await self._index.drop(scope)
                self.forget(scope)
        result = await self.index_new(scope, progress=progress)
        filled = result if result.fault else await self.fill_vectors(scope, progress)
        await self._index.maintain()
        return RebuildResult(
            scope=scope,
            kept=0 if rebuilt or known is None else known,
            added=result.entries,
            rebuilt=rebuilt and not force,
            fault=result.fault or filled.fault or "; ".join(self._index.faults()),
        )

    async def _has_names_of_finder(self, scope: str) -> bool:
        """Return whether the persons of all indexed messages of a scope were found by the finder in use (by none if None)."""
        name = "" if self._persons is None else self._persons.name
        where = IndexFilter(scope=scope, chains=frozenset({Chain.HISTORY}), lineage=None, exclude=frozenset())
        (hits,) = await self._index.search_texts([TextSearch({FINDER_FACET + name: 1.0}, where, _ALL)])
        return len(hits) == (len(await self._index.newest_ids(scope, Chain.HISTORY, _ALL)) if name else 0)

    @asynccontextmanager
    async def hold(self, scope: str) -> AsyncIterator[None]:
        """Keep others from writing to a scope through this indexer while the block lasts."""
        async with self._lock(scope):
            yield

    def is_used(self, scope: str) -> bool:
        """Return whether a scope was searched or indexed here before."""
        return scope in self._used

    def use(self, scope: str) -> None:
        """Record that a scope was searched here, so that `feed` accepts it. Beyond 4,096 scopes, the one used least
        recently is forgotten.
        """
        self._used.pop(scope, None)
        self._used[scope] = None
        if len(self._used) > _MOST_SCOPES:
            oldest = next(iter(self._used))
            if (lock := self._locks.get(oldest)) is None or not lock.locked():
                self._locks.pop(oldest, None)
                del self._used[oldest]
                self.forget(oldest)

    def forget(self, scope: str) -> None:
        """Drop the caches of a scope: its texts, vectors and last messages."""
        self._missing.forget(scope)
        self._tails.forget(scope)
        self._vectors.forget(scope)

    def _lock(self, scope: str) -> anyio.Lock:
        return self._locks.setdefault(scope, anyio.Lock())

    async def _count_new(self, scope: str) -> int:
        total = 0
        for chain in _chains(scope):
            after = await self._index.watermark(scope, chain)
            while page := await self._source.entries_after(scope, chain, after, _PAGE):
                total, after = total + len(page), page[-1].sequence
        return total

    async def _add(self, scope: str, chain: Chain, page: Sequence[SequencedEntry]) -> int:
        """Index a page that follows the watermark; return the new watermark, which is not the page's last sequence if
        another process has written meanwhile.
        """
        goes_on = any(has_neighbours(item.entry) for item in page)
        tail = await self._tails.take(scope, chain) if goes_on else ConversationTail()
        linked = link_page(chain, page, tail)
        await self._vectors.take_known(scope, _entries_of(linked))
        await self._write(scope, linked)
        mark = await self._index.watermark(scope, chain)
        if mark != page[-1].sequence:
            # What waits here for its vectors was linked without the messages that follow it now.
            self._missing.forget(scope)
        elif goes_on:
            self._tails.keep(scope, chain, mark, tail)
        return mark

    async def _write_present(self, scope: str, linked: Sequence[LinkedEntry]) -> None:
        """Index entries that were read before their texts were embedded, without those that have changed or gone since."""
        entries = await self._source.entries(scope, [each.item.entry.entry_id for each in linked])
        present = {entry.entry_id: entry for entry in entries}
        marks = {chain: await self._index.watermark(scope, chain) for chain in _chains(scope)}
        waiting = self._missing.waiting(scope)
        kept = []
        for each in linked:
            item = each.item
            # Above the watermark: the scope was dropped, and its entries must be indexed first.
            if item.entry == present.get(item.entry.entry_id) and item.sequence <= marks[item.entry.chain]:
                kept.append(waiting.get(item.entry.entry_id, each))
            else:
                waiting.pop(item.entry.entry_id, None)
        await self._write(scope, kept)

    async def _write(self, scope: str, linked: Sequence[LinkedEntry]) -> None:
        """Index entries under their keys, with the finished vectors; the others wait for `embed_waiting`."""
        gone = [each for each in linked if each.item.deleted]
        ready = [each for each in linked if not each.item.deleted and self._vectors.is_made(scope, each.item.entry)]
        bare = [each for each in linked if not each.item.deleted and not self._vectors.is_made(scope, each.item.entry)]
        if (
            bare
            and ready
            and max(each.item.sequence for each in ready) > min(each.item.sequence for each in (*gone, *bare))
        ):
            # The first batch must not raise the watermark above what is still to be written.
            ready, bare = [], [each for each in linked if not each.item.deleted]
        if bare:
            await self._write_batch(scope, ready, with_vectors=True)
            await self._write_batch(scope, [*gone, *bare], with_vectors=False)
        else:
            await self._write_batch(scope, [*gone, *ready], with_vectors=True)

    async def _write_batch(self, scope: str, linked: Sequence[LinkedEntry], *, with_vectors: bool) -> None:
        if not linked:
            return
        keys = [
            own_words(each.item.entry) if each.neighbours is None else neighbour_key(each.item.entry, each.neighbours)
            for each in linked
        ]
        vectors = join_neighbours(linked, partial(self._vectors.find, scope)) if with_vectors else None
        if vectors is not None:
            vectors = self._vectors.round(vectors)
        model = self._embedder.name if with_vectors and self._embedder is not None else ""
        size = _COST_A_CHAR * sum([len(each.item.entry.text) for each in linked])
        if self._persons is not None:
            size *= _FINDER_COST
        items = await calculate(_name_persons, linked, self._persons, size=size)
        await self._index.add(scope, items, vectors, keys=keys, model=model)
        made = [each for each in linked if model and all(self._vectors.is_made(scope, entry) for entry in each.entries)]
        embedded = {each.item.entry.entry_id for each in made}
        self._missing.note(scope, linked, embedded, by_model=bool(model))


def _name_persons(linked: Sequence[LinkedEntry], finder: PersonFinder | None) -> list[SequencedEntry]:
    """Return the entries to index, messages with the persons whom they mean."""
    return [
        replace(each.item, entry=name_persons(each.item.entry, (each.neighbours or ())[: each.before], finder))
        for each in linked
    ]


def _chains(scope: str) -> tuple[Chain, ...]:
    return (Chain.LORE,) if scope.startswith("world:") else RECALLED


def _concerns(unseen: frozenset[str], each: LinkedEntry) -> bool:
    """Return whether an entry or one of its neighbours is unseen."""
    return not unseen.isdisjoint(entry.entry_id for entry in each.entries)


def _is_missing(held: frozenset[str], mark: int, each: LinkedEntry) -> bool:
    """Return whether the index, which has seen everything up to a sequence, lacks an entry."""
    item = each.item
    return not item.deleted and item.sequence <= mark and item.entry.entry_id not in held


def _entries_of(linked: Sequence[LinkedEntry]) -> list[MemoryEntry]:
    return [entry for each in linked for entry in each.entries]
