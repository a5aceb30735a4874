"""The retriever: what should come to mind now, out of a world's lore and a session's memory (seed 004 section 6.2; spec B1).

Words and vectors are searched side by side in each chain, joined by `fuse`, weighed by the plan, by recency and by nearness
on the quest graph. It knows indexes, embedders and stores by protocol and must not import a concrete one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from time import perf_counter

import anyio
import numpy as np
from anyio import to_thread

from mnemosyne.errors import EmbedderUnavailableError
from mnemosyne.index.ask import RECALLED, chain_weights, lexical_terms, traits, vector_texts
from mnemosyne.index.extra import score_extra
from mnemosyne.index.feed import FIT, IndexFeeder, Progress
from mnemosyne.index.fuse import (
    WEIGHTS,
    Arm,
    FusionWeights,
    beside_weight,
    fuse,
    lent,
    score_unit,
    shared_tops,
    vector_weight,
)
from mnemosyne.index.graph import context_factor, facet_terms, nearness, recency
from mnemosyne.index.look import look_again
from mnemosyne.index.preview import preview, preview_window
from mnemosyne.index.restore import Restored
from mnemosyne.protocols import Embedder, EntrySource, Index, TokenEstimator, Vectors
from mnemosyne.query import Candidate, Hit, IndexFilter, Recall, RetrievalQuery, Signals
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.session import BranchSpan

BM25 = "bm25"
VECTOR = "vector"
BOTH_ARMS = frozenset({BM25, VECTOR})
_FACET_LIMIT = 50
_SEAT_SHARE = 10


class HybridRetriever:
    """A `Retriever` over any entry source, index and embedder.

    `arms`: with one arm alone (`bm25` or `vector`) recall ranks by it and by nothing else, for comparisons; with both, by
    everything. `inline_vectors`: a recall embeds at most so many new entries itself and leaves more to `sync`.
    `vector_patience_seconds`: how long a recall waits for the query's vector before it goes on by words.

    Degradations: `no_embedder`, `embedder_unavailable`, `vectors_unfit` (the model does not know the language of the
    query), `vectors_late`, `no_vectors` (nothing embedded yet), `vectors_behind` (not all is), `index_behind` (not all is
    in the index: a recall brings in `inline_entries` at most), `index_damaged`.
    """

    def __init__(
        self,
        source: EntrySource,
        index: Index,
        embedder: Embedder | None,
        estimator: TokenEstimator,
        *,
        arms: frozenset[str] = BOTH_ARMS,
        inline_vectors: int = 8,
        inline_entries: int = 2_000,
        vector_patience_seconds: float = 1.0,
        weights: FusionWeights = WEIGHTS,
    ) -> None:
        if not arms or not arms <= BOTH_ARMS:
            raise ValueError(f"arms are {sorted(BOTH_ARMS)}, at least one of them; got {sorted(arms)}")
        self._source, self._index, self._estimator = source, index, estimator
        self._embedder = embedder if VECTOR in arms else None
        self._arms = arms
        self._inline_vectors, self._patience_seconds = inline_vectors, vector_patience_seconds
        self._inline_entries = inline_entries
        self._weights = weights
        # An arm that is asked for alone gives what it has, however little it knows the language.
        self._least_fitness = 0.0 if arms == frozenset({VECTOR}) else FIT
        self._feeder = IndexFeeder(source, index, self._embedder, least_fitness=self._least_fitness)
        self._preview = lru_cache(maxsize=4096)(partial(preview, estimator=estimator))

    async def warm(self) -> None:
        """Load the embedding model; one that cannot be had is done without."""
        if self._embedder is not None:
            try:
                await self._embedder.warm()
            except EmbedderUnavailableError:
                return

    async def sync(self, scope: str, progress: Progress | None = None) -> int:
        """Index all that was written to a scope since, vectors too, and tidy the index; returns how many were new.

        `progress` is called with (done, known so far). Belongs outside a turn: embedding takes its time.
        """
        fed = await self._feeder.feed(scope, progress=progress)
        if not fed.fault:
            await self._feeder.fill_vectors(scope, progress)
        await self._index.settle()
        return fed.entries

    async def restore(self, scope: str, *, anew: bool = False, progress: Progress | None = None) -> Restored:
        """Bring the index of a scope to what the store holds, whatever state it is in; see `IndexFeeder.restore`."""
        self._preview.cache_clear()
        return await self._feeder.restore(scope, anew=anew, progress=progress)

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates of one query, best first, at most `query.limit`, each with all its signals."""
        state = _Recalling(query=query, terms=lexical_terms(query), whole=self._arms == BOTH_ARMS)
        async with anyio.create_task_group() as group:
            group.start_soon(self._embed_query, state)
            group.start_soon(self._search_words, state)
        await self._search_vectors(state)
        started = perf_counter()
        candidates = await self._candidates(state)
        state.took("rank", started)
        if self._index.faults():
            state.lacks("index_damaged")
        return Recall(
            candidates=candidates,
            queries=(query.text, *query.keywords),
            degradations=tuple(state.degradations),
            timings_ms=state.timings_ms,
        )

    async def close(self) -> None:
        """Write out what the index holds back and release it."""
        await self._index.close()

    async def _embed_query(self, state: _Recalling) -> None:
        texts = vector_texts(state.query)
        if VECTOR not in self._arms or not texts:
            return
        if self._embedder is None:
            state.lacks("no_embedder")
            return
        started = perf_counter()
        with anyio.move_on_after(self._patience_seconds) as waiting:
            try:
                state.fitness = await self._embedder.fitness(state.query.text)
                if state.fitness < FIT:
                    state.lacks("vectors_unfit")
                if state.fitness >= self._least_fitness:
                    parts = await self._embedder.embed(texts, "query")
                    total = parts.sum(axis=0)
                    state.vector = np.asarray(total / np.linalg.norm(total), dtype=np.float32)
            except EmbedderUnavailableError:
                state.lacks("embedder_unavailable")
        if waiting.cancelled_caught:
            state.lacks("vectors_late")
        state.took("embed", started)

    async def _search_words(self, state: _Recalling) -> None:
        started = perf_counter()
        for scope in dict.fromkeys(pool.scope for pool in state.pools):
            fed = await self._feeder.feed(scope, vector_limit=self._inline_vectors, entry_limit=self._inline_entries)
            if fed.fault:
                state.lacks("embedder_unavailable")
            if fed.behind:
                state.lacks("index_behind")
        state.took("feed", started)
        started = perf_counter()
        async with anyio.create_task_group() as group:
            for pool in state.pools:
                if BM25 in self._arms and state.terms:
                    group.start_soon(self._words_of, state, pool)
                if state.whole and state.facets:
                    group.start_soon(self._facets_of, state, pool)
        state.took("words", started)

    async def _words_of(self, state: _Recalling, pool: _Pool) -> None:
        hits = await self._index.search_text(state.terms, pool.where, state.depth)
        pool.arms[BM25] = Arm(hits=hits)

    async def _facets_of(self, state: _Recalling, pool: _Pool) -> None:
        pool.near = await self._index.search_text(state.facets, pool.where, _FACET_LIMIT)

    async def _search_vectors(self, state: _Recalling) -> None:
        if state.vector is None or self._embedder is None:
            return
        started = perf_counter()
        async with anyio.create_task_group() as group:
            for pool in state.pools:
                group.start_soon(self._vectors_of, state, pool, self._embedder.name)
        if not any(VECTOR in pool.arms for pool in state.pools):
            state.lacks("no_vectors")
        elif [scope for scope in {pool.scope for pool in state.pools} if await self._feeder.lacks_vectors(scope)]:
            state.lacks("vectors_behind")
        state.took("vectors", started)

    async def _vectors_of(self, state: _Recalling, pool: _Pool, model: str) -> None:
        if state.vector is not None:
            hits = await self._index.search_vector(state.vector, pool.where, state.depth, model=model)
            if hits:
                worth = vector_weight(state.traits, pool.chain, state.fitness, self._weights) if state.whole else 1.0
                pool.arms[VECTOR] = Arm(hits=hits, weight=worth, dense=True)

    async def _candidates(self, state: _Recalling) -> tuple[Candidate, ...]:
        scored = state.prelim(self._weights)
        entries: dict[tuple[str, str], MemoryEntry] = {}
        for scope in dict.fromkeys(each.scope for each in scored):
            ids = [each.entry_id for each in scored if each.scope == scope]
            found = await self._source.entries(scope, ids)
            entries.update({(scope, entry.entry_id): entry for entry in found if not state.query.shows(entry)})
        seen = [(each, entries[each.scope, each.entry_id]) for each in scored if (each.scope, each.entry_id) in entries]
        looks = await to_thread.run_sync(state.looks, [entry for _, entry in seen], self._weights)
        ranked = [state.ranked(entry, each, look) for (each, entry), look in zip(seen, looks, strict=True)]
        if state.whole:
            ranked.extend(state.ranked_extra())
        chosen = _seated(_unique(ranked), state.query.limit, state.weights)
        return await to_thread.run_sync(lambda: tuple(map(self._candidate, chosen)))

    def _candidate(self, each: _Ranked) -> Candidate:
        entry = each.entry
        return Candidate(
            entry_id=entry.entry_id,
            scope=entry.scope,
            chain=entry.chain,
            kind=entry.kind,
            title=entry.title,
            preview=self._preview(preview_window(entry.text)),
            score=each.score,
            signals=each.signals,
            tags=entry.tags,
            entities=entry.entities,
            depth=entry.depth,
            turn_id=entry.turn_id,
            trust=entry.trust,
        )


@dataclass(kw_only=True, slots=True)
class _Pool:
    """The entries of one chain in one scope, and what each arm found among them."""

    scope: str
    chain: Chain
    weight: float
    where: IndexFilter
    arms: dict[str, Arm] = field(default_factory=dict)
    near: tuple[Hit, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scored:
    """An entry after fusion, before it is fetched."""

    scope: str
    entry_id: str
    fused: float
    weight: float
    signals: Signals
    unit: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Ranked:
    """An entry with its final score."""

    entry: MemoryEntry
    score: float
    signals: Signals


class _Recalling:
    """One recall under way."""

    def __init__(self, *, query: RetrievalQuery, terms: Mapping[str, float], whole: bool) -> None:
        self.query, self.terms, self.whole = query, terms, whole
        self.traits = traits(query, terms)
        self.facets = facet_terms(query)
        self.weights = chain_weights(query)
        self.pools = _pools(query, self.weights)
        self.depth = max(3 * query.limit, 100)
        self.vector: Vectors | None = None
        self.fitness = 0.0
        self.degradations: dict[str, None] = {}
        self.timings_ms: dict[str, float] = {}

    def lacks(self, code: str) -> None:
        self.degradations[code] = None

    def took(self, step: str, started: float) -> None:
        self.timings_ms[step] = (perf_counter() - started) * 1000.0

    def prelim(self, weights: FusionWeights) -> list[_Scored]:
        """Return the best of all pools by fused score, and all that is near on the graph; best first."""
        scored: list[_Scored] = []
        near: set[tuple[str, str]] = set()
        for pool, tops in zip(self.pools, shared_tops([pool.arms for pool in self.pools]), strict=True):
            beside = beside_weight(self.traits, pool.chain, weights) if self.whole else 0.0
            scored.extend(_scored(pool, tops, fuse(pool.arms, tops), beside, self.query.depth))
            near.update((pool.scope, hit.entry_id) for hit in pool.near)
        scored.sort(key=lambda each: (-each.fused * each.weight, each.entry_id))
        cut = 2 * self.query.limit
        return scored[:cut] + [each for each in scored[cut:] if (each.scope, each.entry_id) in near]

    def looks(self, entries: Sequence[MemoryEntry], weights: FusionWeights) -> list[float]:
        """Return what a second look at fetched entries adds to each."""
        return look_again(self.query, self.traits, entries, weights) if self.whole else [0.0] * len(entries)

    def ranked(self, entry: MemoryEntry, each: _Scored, look: float) -> _Ranked:
        """Weigh a fetched entry by a second look, by its chain, by recency and by nearness."""
        if not self.whole:
            return _Ranked(entry=entry, score=each.fused * each.weight, signals=each.signals)
        return self._weighed(entry, each.fused + look * each.unit, each.weight, each.signals)

    def ranked_extra(self) -> list[_Ranked]:
        """Return the entries that came with the query, scored by words and nearness; those with neither are left out."""
        admitted = [entry for entry in self.query.extra if entry.entry_id not in self.query.exclude]
        best = max((arm.hits[0].score for pool in self.pools if (arm := pool.arms.get(BM25)) and arm.hits), default=0.0)
        found = []
        for entry, words in zip(admitted, score_extra(admitted, self.terms), strict=True):
            fused = words / max(best, words) if words > 0.0 else 0.0
            signals = Signals(fts=words or None, fused=fused or None, recency=recency(entry.depth, self.query.depth))
            each = self._weighed(entry, fused, self.weights.get(entry.chain, 0.0), signals)
            if each.score > 0.0:
                found.append(each)
        return found

    def _weighed(self, entry: MemoryEntry, fused: float, weight: float, signals: Signals) -> _Ranked:
        near = nearness(entry, self.query.quest_distances, self.query.entities)
        factor, bonus = context_factor(entry.chain, near, signals.recency, self.query.temporal)
        known = Signals(
            vector=signals.vector,
            fts=signals.fts,
            fused=signals.fused,
            recency=signals.recency,
            graph=near if near > 0.0 else None,
        )
        return _Ranked(entry=entry, score=(fused * factor + bonus) * weight, signals=known)


def _pools(query: RetrievalQuery, weights: Mapping[Chain, float]) -> list[_Pool]:
    scopes: list[tuple[str, tuple[Chain, ...], tuple[BranchSpan, ...] | None]] = []
    if query.world_id:
        scopes.append((world_scope(query.world_id), (Chain.LORE,), None))
    if query.session_id is not None:
        scopes.append((session_scope(query.session_id), RECALLED, query.lineage))
    return [
        _Pool(
            scope=scope,
            chain=chain,
            weight=weights[chain],
            where=IndexFilter(scope=scope, chains=frozenset({chain}), lineage=lineage, exclude=query.exclude),
        )
        for scope, chains, lineage in scopes
        for chain in chains
        if weights[chain] > 0.0
    ]


def _scored(
    pool: _Pool, tops: Mapping[str, float], fused: Mapping[str, float], beside: float, now: int
) -> Iterable[_Scored]:
    words = {hit.entry_id: hit.score for hit in pool.arms[BM25].hits} if BM25 in pool.arms else {}
    cosines = {hit.entry_id: hit.score for hit in pool.arms[VECTOR].hits} if VECTOR in pool.arms else {}
    depths = {hit.entry_id: hit.depth for arm in pool.arms.values() for hit in arm.hits}
    depths.update({hit.entry_id: hit.depth for hit in pool.near})
    unit, best = score_unit(pool.arms, tops), max(fused.values(), default=0.0)
    if beside > 0.0 and best > 0.0:
        fused = lent(fused, [hit for arm in pool.arms.values() for hit in arm.hits], beside)
        # What a chain lends within itself must not lift it above the others.
        shrunk = best / max(fused.values())
        fused, unit = {entry_id: score * shrunk for entry_id, score in fused.items()}, unit * shrunk
    for entry_id, depth in depths.items():
        signals = Signals(
            vector=cosines.get(entry_id),
            fts=words.get(entry_id),
            fused=fused.get(entry_id),
            recency=recency(depth, now),
        )
        yield _Scored(
            scope=pool.scope,
            entry_id=entry_id,
            fused=fused.get(entry_id, 0.0),
            weight=pool.weight,
            signals=signals,
            unit=unit if entry_id in fused else 0.0,
        )


def _unique(ranked: Sequence[_Ranked]) -> list[_Ranked]:
    """Return the entries best first, each id once."""
    best: dict[str, _Ranked] = {}
    for each in sorted(ranked, key=lambda each: (-each.score, each.entry.entry_id)):
        best.setdefault(each.entry.entry_id, each)
    return list(best.values())


def _seated(ranked: Sequence[_Ranked], limit: int, weights: Mapping[Chain, float]) -> list[_Ranked]:
    """Return the best `limit`, but a tenth of the places (if it has so many) for every chain that the plan weighs.

    A selector can only choose what it sees, and chains score on scales that are alike, not equal.
    """
    seats = limit // _SEAT_SHARE
    kept: list[_Ranked] = []
    for chain in weights:
        kept.extend([each for each in ranked if each.entry.chain is chain][:seats])
    sure = {each.entry.entry_id for each in kept}
    kept.extend([each for each in ranked if each.entry.entry_id not in sure][: max(limit - len(kept), 0)])
    return sorted(kept, key=lambda each: (-each.score, each.entry.entry_id))[:limit]
