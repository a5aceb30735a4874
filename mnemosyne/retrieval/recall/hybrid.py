"""Recalls memory for a turn: searches a world's lore and a session's entries by words and by vectors.

Words and vectors are searched concurrently in each chain (kind of memory), and the results are fused by `fuse`. The scores are
then weighted by chain, by recency and by nearness on the quest graph. An embedder is a model that makes vectors of texts. This
module must not import a concrete index, embedder or store.
"""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import lru_cache, partial
from time import perf_counter
from typing import Any
from uuid import uuid4

import anyio
import numpy as np
from anyio import to_thread

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import (
    Embedder,
    EntrySource,
    Index,
    TokenEstimator,
    VectorStore,
    is_cold,
)
from mnemosyne.retrieval.recall.arms import ALL_ARMS, BM25, VECTOR
from mnemosyne.retrieval.recall.entities import TALK_CHARS, find_bridges
from mnemosyne.retrieval.recall.fusion import FusionWeights, find_weights
from mnemosyne.retrieval.recall.indexing.encoders import Encoder, Encoders, OpenEncoder
from mnemosyne.retrieval.recall.indexing.indexer import FIT, Progress
from mnemosyne.retrieval.recall.indexing.rebuild import RebuildResult
from mnemosyne.retrieval.recall.indexing.renamed_index import RenamedIndex
from mnemosyne.retrieval.recall.multi_query import split_query
from mnemosyne.retrieval.recall.overview import list_entries, spread_over_time
from mnemosyne.retrieval.recall.query_features import lexical_terms, vector_texts
from mnemosyne.retrieval.recall.recall_state import Pool, RecallState, merge_hops, merge_rankings
from mnemosyne.retrieval.recall.rerank_features import warm_text_features
from mnemosyne.retrieval.text.lexical import term_weights
from mnemosyne.retrieval.text.persons import PersonFinder, Relation, find_relation
from mnemosyne.retrieval.text.preview import preview, preview_window
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, overlay_scope
from mnemosyne.schema.query import Candidate, RatedEntry, Recall, RetrievalQuery, Signals, TextSearch

_FACET_LIMIT = 50
_PERSON_LIMIT = 20
_HOP_ENTRIES = 10
"""Maximum number of entries that are read for a name, among the best hits and among those about a person."""
_TRIES = 3

Fetched = dict[tuple[str, str], MemoryEntry]
"""Entries that a recall has read, by scope and id."""
_CHARS_A_HIT = 12
"""Cost of ranking one hit, in characters for `calculate` (1,000 hits take about 1 ms)."""
_CHARS_A_CANDIDATE = 200
"""Cost of reranking one entry (20 µs)."""
_COST_A_CHAR = 2
"""Cost of reading the features of a text, for each of its characters."""


class HybridRetriever:
    """A `Retriever` over any entry source, index and embedder. Raises ValueError if `arms` is empty or has an unknown arm.

    If the vectors of a scope were made by a former embedder, `open_former` opens that embedder by its name, or returns None. The
    scope is searched with the former embedder until `feed` has made vectors with the configured one (`Encoders`).

    Args:
        arms: Ways of searching. With one arm (`bm25` or `vector`) recall ranks only by the scores of this arm, for comparisons.
            With all arms recall ranks by all signals.
        inline_vectors: Maximum number of new entries that a recall embeds itself. If there are more, they are left to `feed`
            and `sync`. Give 0 if the host calls `feed` after its turns.
        inline_entries: Maximum number of new entries that a recall adds to the index.
        weights: Numbers of fusion and reranking. If None, the numbers that were fitted to the serving embedder are used, or
            the numbers for words if a recall has no vector of its query.
        vector_patience_seconds: Maximum time that a recall waits for the query's vector before it continues only with
            words.
        vectors: Keeps vectors for all hosts of a store, so that each text is embedded once.
        persons: Finds names of persons in messages, next to the rules (`ChineseNames`). A message that was indexed with another
            finder keeps its names until `rebuild`.

    Degradations:

    - `no_embedder`: no embedder is configured.
    - `embedder_unavailable`: the model cannot be used.
    - `embedder_loading`: a query with `patience_seconds` does not wait until a model is loaded.
    - `vectors_unfit`: the model does not know the language of the query.
    - `vectors_late`: the query's vector was not ready in time.
    - `no_vectors`: no vector was found, for example because nothing is embedded yet.
    - `vectors_behind`: some entries are not embedded yet.
    - `vectors_unshared`: the shared vectors cannot be used, or are damaged.
    - `encoder_changed`: the vectors of a former embedder serve.
    - `encoder_missing`: the embedder that made the vectors is not available.
    - `index_behind`: some entries are not in the index yet.
    - `index_damaged`: the index has faults.
    """

    def __init__(
        self,
        source: EntrySource,
        index: Index,
        embedder: Embedder | None,
        estimator: TokenEstimator,
        *,
        arms: frozenset[str] = ALL_ARMS,
        inline_vectors: int = 8,
        inline_entries: int = 2_000,
        vector_patience_seconds: float = 1.0,
        weights: FusionWeights | None = None,
        open_former: OpenEncoder = lambda name: None,
        vectors: VectorStore | None = None,
        persons: PersonFinder | None = None,
    ) -> None:
        if not arms or not arms <= ALL_ARMS:
            raise ValueError(f"arms are {sorted(ALL_ARMS)}, at least one of them; got {sorted(arms)}")
        self._source, self._index, self._estimator = source, index, estimator
        self._embedder = embedder if VECTOR in arms else None
        self._arms = arms
        self._inline_vectors, self._patience_seconds = inline_vectors, vector_patience_seconds
        self._inline_entries = inline_entries
        self._weights = weights
        # A single arm returns what it has, however little the model knows the language.
        self._least_fitness = 0.0 if arms == frozenset({VECTOR}) else FIT
        self._vectors = None if self._embedder is None else vectors
        self._encoders = Encoders(
            source,
            index,
            self._embedder,
            least_fitness=self._least_fitness,
            open_former=open_former,
            vectors=self._vectors,
            persons=persons,
        )
        self._feeds, self._held = set[anyio.CancelScope](), 0
        self._own_scopes: Callable[[], Collection[str]] | None = None
        self._preview = lru_cache(maxsize=4096)(partial(preview, estimator=estimator))

    @asynccontextmanager
    async def overlay(
        self, source: EntrySource, own_scopes: Callable[[], Collection[str]]
    ) -> AsyncIterator[HybridRetriever]:
        """Open a retriever that recalls like this one, but reads the scopes that `own_scopes` returns from `source`.

        The entries of these scopes are indexed in memory, and are forgotten at the end of the block.
        """
        token, used = uuid4().hex, set[str]()

        def name_of(scope: str) -> str:
            if scope not in own_scopes():
                return scope
            used.add(scope)
            return overlay_scope(scope, token)

        index = RenamedIndex(self._index, name_of)
        made = HybridRetriever(
            source,
            index,
            self._embedder,
            self._estimator,
            arms=self._arms,
            inline_vectors=self._inline_vectors,
            inline_entries=self._inline_entries,
            vector_patience_seconds=self._patience_seconds,
            weights=self._weights,
        )
        made._encoders, made._own_scopes = self._encoders.overlay(source, index, own_scopes), own_scopes
        try:
            yield made
        finally:
            with anyio.CancelScope(shield=True):
                for scope in used:
                    await index.drop(scope)

    async def warm(self) -> None:
        """Load the embedding models in use. A model that is not available is skipped, because recall works without vectors."""
        for embedder in self._encoders.embedders():
            with suppress(EmbedderUnavailableError):
                await embedder.warm()

    async def sync(self, scope: str, progress: Progress | None = None, *, change_encoder: bool = True) -> int:
        """Index everything that was written to a scope since the last call, with vectors, and maintain the index.
        Return the number of new entries.

        Do not call this inside a turn, because embedding takes long. A retriever from `overlay` indexes only its own scopes.

        Args:
            progress: Called with (entries done, entries known so far).
            change_encoder: If True, and the vectors of a former embedder are in use, make the vectors of the configured
                embedder, too. If False, leave this to `feed`.
        """
        if self._own_scopes is not None and scope not in self._own_scopes():
            return 0
        entries = 0
        for _ in range(_TRIES):
            serving = await self._encoders.find_serving(scope)
            result = await serving.indexer.index_new(scope, progress=progress)
            await serving.indexer.mend(scope)
            if not result.fault:
                await serving.indexer.fill_vectors(scope, progress)
            if change_encoder:
                await self._encoders.change(scope, progress)
            await self._index.maintain()
            entries += result.entries
            # Else another process has dropped the scope, which is noticed when it is written.
            if not await serving.indexer.find_unindexed((scope,)):
                break
        return entries

    async def feed(self, scopes: Sequence[str], before_vectors: Callable[[], Awaitable[None]] | None = None) -> None:
        """Index the new entries of those `scopes` that this retriever has searched before: first words, then vectors.
        `before_vectors` is awaited before the vectors of each scope are made.

        If the vectors of a scope were made by a former embedder, all its vectors are then made again with the configured embedder.
        A recall during this call finds the new entries by words. The call may be cancelled; the next call continues. Raises
        IndexUnavailableError if the index cannot be written.
        """
        with anyio.CancelScope() as running:
            self._feeds.add(running)
            try:
                for scope in scopes if self._held == 0 else ():
                    await self._index.refresh(scope)
                    await self._encoders.feed(scope, before_vectors)
                await self._index.evict()
            finally:
                self._feeds.discard(running)

    @contextmanager
    def hold_feed(self) -> Iterator[None]:
        """Stop a running `feed`, and make calls of `feed` inside the block do nothing. The next call after the block
        continues.
        """
        self._held += 1
        for running in self._feeds:
            running.cancel()
        try:
            yield
        finally:
            self._held -= 1

    async def rebuild(self, scope: str, *, force: bool = False, progress: Progress | None = None) -> RebuildResult:
        """Make the index of `scope` match the store, with vectors of the configured embedder.

        If `force`, the index is dropped and made again. Otherwise only if it does not match; see `Indexer.rebuild`.
        """
        self._preview.cache_clear()
        if force:
            self._encoders.forget(scope)
        serving = self._encoders.configured if force else await self._encoders.find_serving(scope)
        result = await serving.indexer.rebuild(scope, force=force, progress=progress)
        if serving is self._encoders.configured or result.fault:
            return result
        former = "" if serving.embedder is None else serving.embedder.name
        fault = await self._encoders.change(scope, progress)
        return replace(result, fault=fault, former_encoder=former)

    async def index_into(self, scope: str, index: Index) -> None:
        """Index `scope` into `index` instead of the index of this retriever; see `Encoders.index_into`."""
        await self._encoders.index_into(scope, index)

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates for `query`, best first, at most `query.limit`, each with all parts of its score.

        A missing model or index does not raise an error; the result names it as a degradation. Independent questions are
        recalled one by one (`split_query`). If `query.rate` is given, the entries are listed for an overview instead of searched.
        """
        if query.rate is not None:
            return await self._list(query, query.rate)
        size = size_of(query.text)
        parts = await calculate(split_query, query, size=size) if self._arms == ALL_ARMS else (query,)
        fetched: Fetched = {}
        states: dict[int, RecallState] = {}

        async def search(place: int, part: RetrievalQuery) -> None:
            states[place] = await self._search(part, fetched)

        await _run_together([partial(search, place, part) for place, part in enumerate(parts)])
        ordered = [states[place] for place in range(len(parts))]
        started = perf_counter()
        await self._fetch(query, fetched, [place for state in ordered for place in state.found.places])
        texts = [query.text, *query.recent, *[entry.text for entry in fetched.values()]]
        size = len(fetched) * _CHARS_A_CANDIDATE + _COST_A_CHAR * sum(map(len, texts))
        candidates = await calculate(self._choose, query, ordered, fetched, size=size)
        timings = _merge_timings(ordered)
        timings["rank"] += (perf_counter() - started) * 1000.0
        return Recall(
            candidates=candidates,
            queries=tuple(dict.fromkeys([text for part in parts for text in (part.text, *part.keywords)])),
            degradations=tuple(dict.fromkeys([code for state in ordered for code in state.degradations.values()])),
            timings_ms=timings,
        )

    async def _list(
        self, query: RetrievalQuery, rate: Callable[[Sequence[MemoryEntry]], Sequence[RatedEntry]]
    ) -> Recall:
        """Return the candidates of an overview."""
        started = perf_counter()
        entries = await list_entries(self._source, query, query.written or {})

        def choose() -> tuple[Candidate, ...]:
            kept = spread_over_time(rate(entries), query.limit)
            return tuple(self._candidate(each.entry, each.worth, Signals()) for each in kept)

        candidates = await to_thread.run_sync(choose)
        return Recall(
            candidates=candidates,
            queries=(query.text, *query.keywords),
            timings_ms={"list": (perf_counter() - started) * 1000.0},
        )

    async def _search(self, query: RetrievalQuery, fetched: Fetched) -> RecallState:
        """Return the found entries of a query."""
        size = size_of(query.text, query.recent)
        state = await calculate(partial(_begin_recall, whole=self._arms == ALL_ARMS), query, size=size)
        ready = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(self._search_words, state, ready, fetched)
            group.start_soon(self._search_vectors, state, ready)
        started = perf_counter()
        weights = self._weights_for(state)
        state.found = await calculate(state.rank_finds, weights, size=state.count_hits() * _CHARS_A_HIT)
        state.record_ms("rank", started)
        if self._index.faults():
            state.add_degradation("index_damaged")
        if self._vectors is not None and self._vectors.faults():
            state.add_degradation("vectors_unshared")
        for code in self._index.degradations_for({pool.scope for pool in state.pools}):
            state.add_degradation(code)
        return state

    def degradations_for(self, scopes: Iterable[str]) -> tuple[str, ...]:
        """Return the degradation codes of the index for these scopes."""
        return self._index.degradations_for(scopes)

    async def close(self) -> None:
        """Write the index's pending rows and release it."""
        await self._index.close()

    async def _embed_query(self, state: RecallState, serving: Encoder) -> None:
        """Embed the query for the scopes that an encoder serves."""
        embedder = serving.embedder
        texts = await calculate(vector_texts, state.query, size=size_of(state.query.text))
        if VECTOR not in self._arms or not texts:
            return
        if embedder is None:
            state.add_degradation("no_embedder")
            return
        if embedder.name in state.vectors:
            return
        started = perf_counter()
        patience = state.query.patience_seconds
        with anyio.move_on_after(
            self._patience_seconds if patience is None else min(patience, self._patience_seconds)
        ) as waiting:
            try:
                fitness = await embedder.fitness(state.query.text)
                state.fitness = max(fitness, state.fitness)
                if fitness < FIT:
                    state.add_degradation("vectors_unfit")
                if fitness < self._least_fitness:
                    return
                if patience is not None and is_cold(embedder):
                    # Loading takes the processor from the search by words, which is ready long before.
                    state.add_degradation("embedder_loading")
                else:
                    total = np.array([*texts.values()]) @ await embedder.embed([*texts], "query")
                    state.vectors[embedder.name] = np.asarray(total / np.linalg.norm(total), dtype=np.float32)
            except EmbedderUnavailableError as error:
                self._encoders.give_up(serving)
                state.add_degradation(f"embedder_unavailable: {error}" if error.is_refusal else "embedder_unavailable")
        if waiting.cancelled_caught:
            state.add_degradation("vectors_late")
        state.record_ms("embed", started)

    async def _search_words(self, state: RecallState, ready: anyio.Event, fetched: Fetched) -> None:
        started = perf_counter()
        for serving, scopes in await self._encoders.group_scopes(dict.fromkeys(pool.scope for pool in state.pools)):
            behind = await serving.indexer.find_unindexed(scopes, state.query.written)
            for scope, chains in behind.items():
                result = await serving.indexer.index_new(
                    scope, chains=chains, vector_limit=self._inline_vectors, entry_limit=self._inline_entries
                )
                if result.fault:
                    state.add_degradation("embedder_unavailable")
                if result.behind:
                    state.add_degradation("index_behind")
        # A search costs a task even if there is nothing to find.
        state.pools = [pool for pool in state.pools if await self._index.watermark(pool.scope, pool.chain)]
        state.record_ms("feed", started)
        ready.set()
        started = perf_counter()
        words = state.pools if BM25 in self._arms and state.terms else []
        facets = state.pools if state.whole and state.facets else []
        named = [pool for pool in state.pools if pool.chain is Chain.LORE] if state.names else []
        about = [pool for pool in state.pools if pool.chain is Chain.HISTORY] if state.persons else []
        found = await self._index.search_texts(
            [
                *(TextSearch(state.terms, pool.where, state.depth, state.beside(pool)) for pool in words),
                *(TextSearch(state.facets, pool.where, _FACET_LIMIT) for pool in facets),
                *(TextSearch(state.names, pool.where, _FACET_LIMIT) for pool in named),
                *(TextSearch(state.persons, pool.where, _PERSON_LIMIT) for pool in about),
            ]
        )
        for pool, hits in zip(words, found, strict=False):
            state.add_hits(BM25, pool, hits, self._weights_for(state))
        for pool, hits in zip(facets, found[len(words) :], strict=False):
            pool.near = hits
        for pool, hits in zip((*named, *about), found[len(words) + len(facets) :], strict=True):
            pool.named = hits
        if state.whole and (relation := find_relation(state.query.text[-TALK_CHARS:], state.query.speaker)) is not None:
            await self._follow_relation(state, relation, words, fetched)
        state.record_ms("words", started)
        if state.whole and self._embedder is not None and not state.vectors:
            # Most of the best word hits will be kept: they are read while the query's vector is still computed.
            texts = [entry.text for entry in await self._fetch(state.query, fetched, state.likely_places())]
            await calculate(warm_text_features, texts, size=_COST_A_CHAR * sum(map(len, texts)))

    async def _follow_relation(
        self, state: RecallState, relation: Relation, words: Sequence[Pool], fetched: Fetched
    ) -> None:
        """Search words again with the name of the person whom the question means by a relation instead of the relation, if one of
        the best hits has the name.

        Only entries that the viewer may know can give the name.
        """
        places = state.likely_places()[:_HOP_ENTRIES]
        places += [(pool.scope, name) for pool in state.pools for name in pool.named.entry_ids[:_HOP_ENTRIES]]
        await self._fetch(state.query, fetched, places)
        entries = [entry for place in places if (entry := fetched.get(place)) and state.query.admits(entry)]
        size = size_of(state.query.text) + _COST_A_CHAR * sum([len(entry.text) for entry in entries])
        names = await calculate(find_bridges, state.query, relation, entries, size=size)
        if not names:
            return
        terms = {**state.terms, **term_weights(" ".join(names))}
        for term in term_weights(f"{relation.person} {' '.join(relation.words)} {relation.name}"):
            terms.pop(term, None)
        found = await self._index.search_texts(
            [TextSearch(terms, pool.where, state.depth, state.beside(pool)) for pool in words]
        )
        for pool, hits in zip(words, merge_hops([pool.arms[BM25].hits for pool in words], found), strict=True):
            state.add_hits(BM25, pool, hits, self._weights_for(state))

    async def _search_vectors(self, state: RecallState, ready: anyio.Event) -> None:
        groups = await self._encoders.group_scopes(dict.fromkeys(pool.scope for pool in state.pools))
        if len(groups) > 1:
            # Rare, so it is worth waiting to learn for which of them there is anything to search.
            await ready.wait()
            searched = {pool.scope for pool in state.pools}
            groups = [(serving, scopes) for serving, scopes in groups if not searched.isdisjoint(scopes)]
        for serving, _ in groups:
            await self._embed_query(state, serving)
        # New entries must be in the index before it is searched.
        await ready.wait()
        if not state.vectors:
            return
        started = perf_counter()
        shown = {pool.scope: pool.where.exclude for pool in state.pools}
        searches = []
        for serving, scopes in groups:
            await serving.indexer.wait_for_write(scopes)
            model = "" if serving.embedder is None else serving.embedder.name
            if model in state.vectors:
                searches += [
                    partial(self._vectors_of, state, pool, model) for pool in state.pools if pool.scope in scopes
                ]
        await _run_together(searches)
        await self._say_what_lacks(state, groups, shown)
        state.record_ms("vectors", started)

    async def _say_what_lacks(
        self, state: RecallState, groups: Sequence[tuple[Encoder, list[str]]], shown: Mapping[str, frozenset[str]]
    ) -> None:
        """Note missing vectors, or vectors of a former embedder."""
        if any(self._encoders.is_former(serving) for serving, _ in groups):
            state.add_degradation("encoder_changed")
        if any([await self._encoders.lacks_encoder(scope) for scope in shown]):
            state.add_degradation("encoder_missing")
        if not any(VECTOR in pool.arms for pool in state.pools):
            state.add_degradation("no_vectors")
            return
        for serving, scopes in groups:
            for scope in scopes:
                if scope in shown and await serving.indexer.lacks_vectors(scope, besides=shown[scope]):
                    state.add_degradation("vectors_behind")

    async def _vectors_of(self, state: RecallState, pool: Pool, model: str) -> None:
        hits = await self._index.search_vector(state.vectors[model], pool.where, state.depth, model=model)
        if hits:
            state.add_hits(VECTOR, pool, hits, self._weights or find_weights(model))

    def _weights_for(self, state: RecallState) -> FusionWeights:
        """Return the given weights, else those of the embedder that made a vector of the query, else those for
        words.
        """
        return self._weights or find_weights(next(iter(state.vectors), ""))

    async def _fetch(
        self, query: RetrievalQuery, fetched: Fetched, places: Iterable[tuple[str, str]]
    ) -> list[MemoryEntry]:
        """Fetch the entries at some places that this recall has not fetched yet; return the newly fetched ones."""
        found: list[MemoryEntry] = []
        missing: dict[str, list[str]] = {}
        for scope, entry_id in dict.fromkeys(places):
            if (scope, entry_id) not in fetched:
                entry = query.kept_entries.get(scope, EMPTY).get(entry_id)
                if entry is None:
                    missing.setdefault(scope, []).append(entry_id)
                else:
                    found.append(entry)
        found += [entry for scope, ids in missing.items() for entry in await self._source.entries(scope, ids)]
        fetched.update({(entry.scope, entry.entry_id): entry for entry in found})
        return found

    def _choose(self, query: RetrievalQuery, states: Sequence[RecallState], fetched: Fetched) -> tuple[Candidate, ...]:
        """Rerank the fetched entries of each question and return the best of all; takes some ms, so it runs off the event loop."""
        admitted = {place: entry for place, entry in fetched.items() if query.admits(entry)}
        rankings = [state.rank_entries(admitted, self._weights_for(state)) for state in states]
        merged = merge_rankings(rankings, query.limit)
        return tuple([self._candidate(each.entries[at], score, each.signals(at)) for score, each, at in merged])

    def _candidate(self, entry: MemoryEntry, score: float, signals: Signals) -> Candidate:
        return Candidate(
            entry_id=entry.entry_id,
            scope=entry.scope,
            chain=entry.chain,
            kind=entry.kind,
            title=entry.title,
            preview=self._preview(preview_window(entry.text)),
            score=score,
            signals=signals,
            tags=entry.tags,
            entities=entry.entities,
            depth=entry.depth,
            turn_id=entry.turn_id,
            trust=entry.trust,
            keys=entry.keys,
        )


def _begin_recall(query: RetrievalQuery, *, whole: bool) -> RecallState:
    return RecallState(query=query, terms=lexical_terms(query), whole=whole)


def _merge_timings(states: Sequence[RecallState]) -> dict[str, float]:
    """Return the longest time of each step, because questions are searched side by side."""
    steps = dict.fromkeys(step for state in states for step in state.timings_ms)
    return {step: max([state.timings_ms.get(step, 0.0) for state in states]) for step in steps}


async def _run_together(searches: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run searches concurrently; a single one needs no task of its own."""
    if len(searches) == 1:
        await searches[0]()
        return
    async with anyio.create_task_group() as group:
        for search in searches:
            group.start_soon(search)
