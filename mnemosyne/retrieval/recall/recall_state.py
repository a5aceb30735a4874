"""State of one recall: the hits of each chain's arms, fused, weighted and cut to the limit.

Calculation only; `hybrid` queries indexes, embedder and source and passes the results to it. Must not import an engine.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from time import perf_counter
from typing import NamedTuple

import numpy as np

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.rows import own_words
from mnemosyne.retrieval.recall.arms import ARMS, BM25, build_arm
from mnemosyne.retrieval.recall.fusion import (
    Arm,
    FusionWeights,
    boost_neighbours,
    fuse,
    neighbour_share,
    score_unit,
    shared_tops,
)
from mnemosyne.retrieval.recall.graph import context_factor, facet_terms, nearness, recency
from mnemosyne.retrieval.recall.query_features import RECALLED, chain_weights, find_query_features
from mnemosyne.retrieval.recall.rerank_features import add_rerank_features
from mnemosyne.retrieval.text.lexical import Postings
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import EntryPlace, Hit, IndexFilter, RetrievalQuery, Signals, place_of
from mnemosyne.schema.session import BranchSpan

_SEAT_SHARE = 10


@dataclass(kw_only=True, slots=True)
class Pool:
    """The entries of one chain in one scope, and the hits of each arm among them."""

    scope: str
    chain: Chain
    weight: float
    where: IndexFilter
    arms: dict[str, Arm] = field(default_factory=dict)
    near: tuple[Hit, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FusedPool:
    """The hits of one pool after fusion: scores by id, each arm's own scores, the ids of all hits."""

    pool: Pool
    fused: Mapping[str, float]
    unit: float
    by_arm: Mapping[str, Mapping[str, float]]
    found: Collection[str]

    @classmethod
    def from_pool(cls, pool: Pool, tops: Mapping[str, float], beside: float) -> FusedPool:
        """Fuse a pool's arms; neighbours pass on the share `beside` of their scores."""
        fused, unit = fuse(pool.arms, tops), score_unit(pool.arms, tops)
        best = max(fused.values(), default=0.0)
        if beside > 0.0 and best > 0.0:
            fused = boost_neighbours(fused, [hit for arm in pool.arms.values() for hit in arm.hits], beside)
            # What neighbours within a chain add must not raise the chain above the others.
            shrunk = best / max(fused.values())
            fused, unit = {entry_id: score * shrunk for entry_id, score in fused.items()}, unit * shrunk
        by_arm = {name: {hit.entry_id: hit.score for hit in arm.hits} for name, arm in pool.arms.items()}
        return cls(
            pool=pool,
            fused=fused,
            unit=unit,
            by_arm=by_arm,
            found={hit.entry_id for hit in pool.near}.union(*by_arm.values()),
        )

    def score_of(self, entry_id: str) -> ScoredEntry:
        """Return one hit with the score of each arm."""
        fused = self.fused.get(entry_id)
        return ScoredEntry(
            self.pool.scope,
            entry_id,
            fused,
            self.pool.weight,
            self.unit if fused is not None else 0.0,
            {name: scores[entry_id] for name, scores in self.by_arm.items() if entry_id in scores},
        )


class ScoredEntry(NamedTuple):
    """An entry after fusion, before it is fetched; `fused` is None if no arm returned it, `by_arm` has the score of
    each arm that did.
    """

    scope: str
    entry_id: str
    fused: float | None
    weight: float
    unit: float
    by_arm: Mapping[str, float]


class RankedEntry(NamedTuple):
    """An entry with its final score and the parts of it."""

    entry: MemoryEntry
    score: float
    found: ScoredEntry
    recency: float | None
    near: float = 0.0

    @property
    def signals(self) -> Signals:
        """The score parts of the entry."""
        found = self.found
        near = self.near if self.near > 0.0 else None
        by_signal = {ARMS[name].signal: score for name, score in found.by_arm.items()}
        return Signals(**by_signal, fused=found.fused, recency=self.recency, graph=near)


class RecallState:
    """The state of one recall. `whole`: all arms and all signals count; otherwise only one arm ranks."""

    def __init__(self, *, query: RetrievalQuery, terms: Mapping[str, float], whole: bool) -> None:
        self.query, self.terms, self.whole = query, terms, whole
        self.features = find_query_features(query, terms)
        self.facets = facet_terms(query)
        self.weights = chain_weights(query)
        self.pools = _pools(query, self.weights)
        self.depth = max(3 * query.limit, 100)
        self.scored: list[ScoredEntry] = []
        self.fetched: dict[tuple[str, str], MemoryEntry] = {}
        self.vectors: dict[str, Vectors] = {}
        self.fitness = 0.0
        self.degradations: dict[str, str] = {}
        self.timings_ms: dict[str, float] = {}

    def add_degradation(self, code: str) -> None:
        """Record a degradation (`code` or `code: detail`), once."""
        self.degradations.setdefault(code.partition(": ")[0], code)

    def record_ms(self, step: str, started: float) -> None:
        """Record the duration of a step that began at `started` (`perf_counter`), in ms."""
        self.timings_ms[step] = (perf_counter() - started) * 1000.0

    def add_hits(self, name: str, pool: Pool, hits: Sequence[Hit], weights: FusionWeights) -> None:
        """Note the hits of an arm in a pool, weighed for this query."""
        pool.arms[name] = build_arm(
            name,
            hits,
            features=self.features,
            chain=pool.chain,
            fitness=self.fitness,
            weights=weights,
            is_alone=not self.whole,
        )

    def beside(self, pool: Pool) -> tuple[IndexFilter, ...]:
        """Return the filters for a pool's chain in other scopes: the lore of a world counts with a few documents of its
        session.
        """
        return tuple(each.where for each in self.pools if each.chain is pool.chain and each is not pool)

    def likely_ids(self) -> list[tuple[str, list[str]]]:
        """Return, for each scope, the ids of its best word hits in all chains, as many as the query's limit."""
        hits: dict[str, list[Hit]] = {}
        for pool in self.pools:
            if BM25 in pool.arms:
                hits.setdefault(pool.scope, []).extend(pool.arms[BM25].hits)
        limit = self.query.limit
        return [
            (scope, [hit.entry_id for hit in sorted(found, key=lambda hit: -hit.score)[:limit]])
            for scope, found in hits.items()
            if found
        ]

    def count_hits(self) -> int:
        """Return how many hits all arms have."""
        return sum(len(arm.hits) for pool in self.pools for arm in pool.arms.values())

    def rank_finds(self, weights: FusionWeights) -> list[ScoredEntry]:
        """Return the best of all pools by fused score, and everything near on the graph, best first."""
        scored: list[tuple[float, str, FusedPool]] = []
        near: set[tuple[str, str]] = set()
        for pool, tops in zip(self.pools, shared_tops([pool.arms for pool in self.pools]), strict=True):
            beside = neighbour_share(self.features, pool.chain, weights) if self.whole else 0.0
            pooled = FusedPool.from_pool(pool, tops, beside)
            fused, weight = pooled.fused, pool.weight
            scored.extend([(-fused.get(entry_id, 0.0) * weight, entry_id, pooled) for entry_id in pooled.found])
            near.update((pool.scope, hit.entry_id) for hit in pool.near)
        scored.sort(key=itemgetter(0, 1))
        cut = 2 * self.query.limit
        kept = scored[:cut] + [each for each in scored[cut:] if (each[2].pool.scope, each[1]) in near]
        return [pooled.score_of(entry_id) for _, entry_id, pooled in kept]

    def rerank_scores(self, entries: Sequence[MemoryEntry], weights: FusionWeights) -> list[float]:
        """Return the addition of reranking to each fetched entry, in their order."""
        return add_rerank_features(self.query, self.features, entries, weights) if self.whole else [0.0] * len(entries)

    def rank(self, entry: MemoryEntry, each: ScoredEntry, look: float) -> RankedEntry:
        """Return a fetched entry with its final score: reranked, and weighted by chain, recency and nearness."""
        fused = each.fused or 0.0
        if not self.whole:
            return RankedEntry(entry, fused * each.weight, each, recency(entry.depth, self.query.depth))
        return self._weigh(entry, each, fused + look * each.unit, each.weight)

    def rank_fetched(self, weights: FusionWeights) -> list[RankedEntry]:
        """Return the entries that were fetched for `scored` and may be candidates, best first, at most the query's limit."""
        seen = [
            (each, entry)
            for each in self.scored
            if (entry := self.fetched.get((each.scope, each.entry_id))) is not None and self.query.admits(entry)
        ]
        looks = self.rerank_scores([entry for _, entry in seen], weights)
        ranked = [self.rank(entry, each, look) for (each, entry), look in zip(seen, looks, strict=True)]
        if self.whole:
            ranked.extend(self.rank_extra())
        return allot_places(drop_repeats(ranked), self.query.limit, self.weights)

    def rank_extra(self) -> list[RankedEntry]:
        """Return the entries given with the query, scored by words and nearness; those with neither are left out."""
        admitted = [entry for entry in self.query.extra if entry.entry_id not in self.query.excluded_ids(entry.scope)]
        best = max((arm.hits[0].score for pool in self.pools if (arm := pool.arms.get(BM25)) and arm.hits), default=0.0)
        found = []
        for entry, words in zip(admitted, score_extra(admitted, self.terms), strict=True):
            fused, weight = words / max(best, words) if words > 0.0 else 0.0, self.weights.get(entry.chain, 0.0)
            scored = ScoredEntry(
                entry.scope, entry.entry_id, fused or None, weight, 0.0, {BM25: words} if words else {}
            )
            each = self._weigh(entry, scored, fused, weight)
            if each.score > 0.0:
                found.append(each)
        return found

    def _weigh(self, entry: MemoryEntry, each: ScoredEntry, fused: float, weight: float) -> RankedEntry:
        query = self.query
        near = nearness(entry, query.quest_distances, query.entities)
        recent = recency(entry.depth, query.depth)
        factor, bonus = context_factor(entry.chain, near, recent, query.temporal)
        return RankedEntry(entry, (fused * factor + bonus) * weight, each, recent, near)


def _pools(query: RetrievalQuery, weights: Mapping[Chain, float]) -> list[Pool]:
    scopes: list[tuple[str, tuple[Chain, ...], tuple[BranchSpan, ...] | None]] = []
    if query.world_id:
        scopes.append((world_scope(query.world_id), (Chain.LORE,), None))
    if query.session_id is not None:
        scopes.append((session_scope(query.session_id), RECALLED, query.lineage))
    return [
        Pool(
            scope=scope,
            chain=chain,
            weight=weights[chain],
            where=IndexFilter(
                scope=scope, chains=frozenset({chain}), lineage=lineage, exclude=query.excluded_ids(scope)
            ),
        )
        for scope, chains, lineage in scopes
        for chain in chains
        if weights[chain] > 0.0
    ]


def drop_repeats(ranked: Sequence[RankedEntry]) -> list[RankedEntry]:
    """Return the entries best first, each only once."""
    best: dict[EntryPlace, RankedEntry] = {}
    for each in sorted(ranked, key=lambda each: (-each.score, each.entry.entry_id)):
        best.setdefault(place_of(each.entry), each)
    return list(best.values())


def allot_places(ranked: Sequence[RankedEntry], limit: int, weights: Mapping[Chain, float]) -> list[RankedEntry]:
    """Return the best `limit` entries, but reserve a tenth of the places (if it has as many) for every chain that the
    plan weights.

    A selector can only choose what it sees, and the chains' scales are similar, not equal.
    """
    seats = limit // _SEAT_SHARE
    kept: list[RankedEntry] = []
    for chain in weights:
        kept.extend([each for each in ranked if each.entry.chain is chain][:seats])
    sure = {place_of(each.entry) for each in kept}
    kept.extend([each for each in ranked if place_of(each.entry) not in sure][: max(limit - len(kept), 0)])
    return sorted(kept, key=lambda each: (-each.score, each.entry.entry_id))[:limit]


def merge_rankings(rankings: Sequence[Sequence[RankedEntry]], limit: int) -> Sequence[RankedEntry]:
    """Return the rankings of several questions as one: scores relative to each question's best; of an entry in several,
    the greatest counts.
    """
    if len(rankings) == 1:
        return rankings[0]
    best: dict[EntryPlace, RankedEntry] = {}
    for ranking in rankings:
        top = max([each.score for each in ranking], default=0.0)
        for each in ranking:
            share, place = each.score / top if top > 0.0 else 0.0, place_of(each.entry)
            if place not in best or best[place].score < share:
                best[place] = each._replace(score=share)
    return sorted(best.values(), key=lambda each: (-each.score, each.entry.entry_id))[:limit]


def score_extra(entries: Sequence[MemoryEntry], terms: Mapping[str, float]) -> list[float]:
    """Return the BM25 score (>= 0) of each of a few entries, in order, with statistics of these entries only."""
    postings = Postings()
    postings.append([word_tokens(own_words(entry)) for entry in entries])
    return [float(score) for score in postings.scores(terms, np.ones(len(entries), dtype=np.bool_))]
