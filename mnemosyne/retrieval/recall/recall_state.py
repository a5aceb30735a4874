"""Keeps the state of one recall: the hits of all searches in each chain, fused, weighted and cut to the limit.

An arm is one way of searching (by words or by vectors). A pool is one chain (kind of memory) in one scope (session or world).
The module `hybrid` queries index, embedder and store, and passes the results to this state. This module does no I/O and must
not import an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import isnan
from operator import itemgetter
from time import perf_counter

import numpy as np
import numpy.typing as npt

from mnemosyne.core.codec import Struct
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.engines.rows import own_words
from mnemosyne.retrieval.recall.arms import ARMS, BM25, build_arm
from mnemosyne.retrieval.recall.entities import (
    asks_for_several,
    find_addresses,
    find_subject_shares,
    name_terms,
    person_terms,
    spread_moments,
)
from mnemosyne.retrieval.recall.fusion import (
    Arm,
    FoundColumns,
    FusionWeights,
    boost_neighbours,
    fuse,
    neighbour_share,
    score_unit,
    shared_tops,
)
from mnemosyne.retrieval.recall.graph import facet_terms, find_nearness, find_recency, weigh_by_context
from mnemosyne.retrieval.recall.query_features import RECALLED, chain_weights, find_query_features
from mnemosyne.retrieval.recall.rerank_features import add_rerank_features
from mnemosyne.retrieval.text.lexical import Postings, Scores
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import NO_HITS, EntryPlace, Hits, IndexFilter, RetrievalQuery, Signals
from mnemosyne.schema.session import BranchSpan
from mnemosyne.values import dataclass

_NEAR = "near"
"""Name of the search for entries near on the graph, among the arms."""
_NAMED = "named"
"""Name of the search for entries about a named subject, among the arms."""
_SEAT_SHARE = 10
_HOP_SHARE = 0.9


@dataclass(kw_only=True, slots=True)
class Pool:
    """The entries of one chain in one scope, and the hits of each arm among them."""

    scope: str
    chain: Chain
    weight: float
    where: IndexFilter
    arms: dict[str, Arm] = field(default_factory=dict)
    near: Hits = NO_HITS
    named: Hits = NO_HITS


class FoundEntries(Struct, frozen=True, kw_only=True):
    """Entries that a recall found, after fusion, best first, as columns."""

    places: list[tuple[str, str]]
    """Scope and id of each entry."""
    fused: Scores
    """NaN if no arm returned the entry."""
    weights: Scores
    """Weight of each entry's chain."""
    units: Scores
    """Unit in which features are added to each score later. It is 0 for an entry that is only near on the graph."""
    persons: Scores
    """Score of each message for the persons that the query names, relative to the best one (0..1)."""
    by_arm: dict[str, Scores]
    """Scores of each arm; NaN for entries that the arm did not return."""


_NONE: Scores = np.zeros(0)
_NOTHING_FOUND = FoundEntries(places=[], fused=_NONE, weights=_NONE, units=_NONE, persons=_NONE, by_arm={})


class RankedEntries(Struct, frozen=True, kw_only=True):
    """Entries that may become candidates, best first, with the parts of their scores, as columns."""

    entries: list[MemoryEntry]
    scores: list[float]
    fused: list[float]
    recencies: list[float | None]
    near: list[float]
    persons: list[float]
    by_arm: dict[str, list[float]]

    def signals(self, place: int) -> Signals:
        """Return the score parts of the entry at `place`."""
        arms = {ARMS[name].signal: _known(scores[place]) for name, scores in self.by_arm.items()}
        near = self.near[place]
        return Signals(
            **arms,
            fused=_known(self.fused[place]),
            recency=self.recencies[place],
            graph=near if near > 0.0 else None,
            person=self.persons[place] or None,
        )


class RecallState:
    """The state of one recall. `terms` are the terms of the query with their weights.

    If `whole`, all arms and all other signals count. Otherwise the entries are ranked only by the score of one arm.
    """

    def __init__(self, *, query: RetrievalQuery, terms: Mapping[str, float], whole: bool) -> None:
        self.query, self.terms, self.whole = query, terms, whole
        self.features = find_query_features(query, terms)
        self.facets = facet_terms(query)
        self.names = name_terms(query) if whole else {}
        self.persons = person_terms(query) if whole else {}
        self.weights = chain_weights(query)
        self.pools = _build_pools(query, self.weights)
        self.depth = max(3 * query.limit, 100)
        self.found = _NOTHING_FOUND
        self.vectors: dict[str, Vectors] = {}
        self.fitness = 0.0
        self.degradations: dict[str, str] = {}
        self.timings_ms: dict[str, float] = {}

    def add_degradation(self, code: str) -> None:
        """Record a degradation: `code` is its code, or `CODE: DETAIL`. Each code is recorded only once."""
        self.degradations.setdefault(code.partition(": ")[0], code)

    def record_ms(self, step: str, started: float) -> None:
        """Record how long a step took, in ms. `started` is the `perf_counter` value at its begin."""
        self.timings_ms[step] = (perf_counter() - started) * 1000.0

    def add_hits(self, name: str, pool: Pool, hits: Hits, weights: FusionWeights) -> None:
        """Add the hits of the arm `name` to `pool`. `weights` are the numbers by which the arm is weighted for this query."""
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
        """Return the filters of the pools that have the same chain as `pool` in other scopes.

        Pools of one chain share their word statistics, for example the lore of a world and the documents of its session.
        """
        return tuple(each.where for each in self.pools if each.chain is pool.chain and each is not pool)

    def likely_places(self) -> list[tuple[str, str]]:
        """Return (scope, entry id) of the best hits by words: for each scope, at most as many as the query's limit."""
        hits: dict[str, list[tuple[float, str]]] = {}
        for pool in self.pools:
            if BM25 in pool.arms:
                words = pool.arms[BM25].hits
                hits.setdefault(pool.scope, []).extend(zip(words.scores, words.entry_ids, strict=True))
        return [
            (scope, name)
            for scope, found in hits.items()
            for _, name in sorted(found, key=itemgetter(0), reverse=True)[: self.query.limit]
        ]

    def count_hits(self) -> int:
        """Return the number of hits of all arms together."""
        return sum([len(arm.hits) for pool in self.pools for arm in pool.arms.values()])

    def rank_finds(self, weights: FusionWeights) -> FoundEntries:
        """Return the best entries of all pools by fused score, best first, and all entries near the focused quest."""
        ids: list[str] = []
        owners: list[int] = []
        parts: list[Scores] = []
        near: list[npt.NDArray[np.bool_]] = []
        units: list[Scores] = []
        persons: list[Scores] = []
        by_arm: dict[str, list[Scores]] = {name: [] for pool in self.pools for name in pool.arms}
        for number, (pool, tops) in enumerate(
            zip(self.pools, shared_tops([pool.arms for pool in self.pools]), strict=True)
        ):
            arms = {name: arm.hits for name, arm in pool.arms.items()}
            columns = FoundColumns.collect({**arms, _NEAR: pool.near, _NAMED: pool.named})
            beside = neighbour_share(self.features, pool.chain, weights) if self.whole else 0.0
            fused, unit = _fuse_pool(pool.arms, columns, tops, beside)
            size = len(columns.entry_ids)
            is_near = np.zeros(size, dtype=np.bool_)
            is_near[columns.places[_NEAR]] = True
            is_named = np.zeros(size, dtype=np.bool_)
            is_named[columns.places[_NAMED]] = True
            about = np.zeros(size)
            if pool.chain is Chain.HISTORY and pool.named:
                about[columns.places[_NAMED]] = np.array(pool.named.scores) / pool.named.scores[0]
            for name, scores in by_arm.items():
                own = np.full(size, np.nan)
                if name in pool.arms:
                    own[columns.places[name]] = pool.arms[name].hits.scores
                scores.append(own)
            ids += columns.entry_ids
            owners += [number] * size
            parts.append(fused)
            persons.append(about)
            near.append(is_near | is_named)
            units.append(np.where(np.isnan(fused) & ~is_named, 0.0, unit))
        if not ids:
            return _NOTHING_FOUND
        fused, of_pool = np.concatenate(parts), np.array([pool.weight for pool in self.pools])[owners]
        best = _cut(ids, -np.nan_to_num(fused) * of_pool, np.concatenate(near), 2 * self.query.limit)
        fused = fused[best]
        return FoundEntries(
            places=[(self.pools[owners[row]].scope, ids[row]) for row in best],
            fused=fused,
            weights=of_pool[best],
            units=np.concatenate(units)[best],
            persons=np.concatenate(persons)[best],
            by_arm={name: np.concatenate(scores)[best] for name, scores in by_arm.items()},
        )

    def rank_entries(self, admitted: Mapping[tuple[str, str], MemoryEntry], weights: FusionWeights) -> RankedEntries:
        """Return the found entries that are in `admitted`, best first, at most the query's limit.

        `admitted` has the entries by (scope, id). Their scores are weighted by features of the text (`weights`), chain, recency
        and nearness.
        """
        query, found = self.query, self.found
        rows = [row for row, place in enumerate(found.places) if place in admitted]
        entries = [admitted[found.places[row]] for row in rows]
        fused, units, chain_weights = found.fused[rows], found.units[rows], found.weights[rows]
        persons = found.persons[rows]
        by_arm = {name: scores[rows] for name, scores in found.by_arm.items()}
        looks = np.zeros(len(rows))
        is_several = False
        if self.whole:
            looks = add_rerank_features(query, self.features, entries, weights)
            looks += weights.person * persons
            looks += weights.subject * find_subject_shares(query, entries)
            if is_several := asks_for_several(self.features, query.text):
                looks += weights.address * find_addresses(query, entries)
        if self.whole and (extra := self._find_extra()):
            words = self._score_extra(extra)
            best = max([arm.top for pool in self.pools if (arm := pool.arms.get(BM25))], default=0.0)
            told = np.array([score > 0.0 for score in words])
            entries += extra
            fused = np.append(fused, [score / max(best, score) if score > 0.0 else np.nan for score in words])
            units, looks, persons = (np.append(each, np.zeros(len(extra))) for each in (units, looks, persons))
            chain_weights = np.append(chain_weights, [self.weights.get(entry.chain, 0.0) for entry in extra])
            by_arm.setdefault(BM25, np.full(len(rows), np.nan))
            for name in by_arm:
                by_arm[name] = np.append(by_arm[name], np.where(told & (name == BM25), words, np.nan))
        recent, near = find_recency(entries, query.depth), [0.0] * len(entries)
        scores = np.nan_to_num(fused) + looks * units
        if self.whole:
            near = find_nearness(entries, query.quest_distances, query.entities)
            scores = weigh_by_context(scores, entries, near, recent, query.temporal)
        scores *= chain_weights
        if is_several:
            scores = spread_moments(entries, scores)
        live = [row for row in range(len(entries)) if row < len(rows) or scores[row] > 0.0]
        kept = _allot_places(entries, scores, live, query.limit, self.weights)
        return RankedEntries(
            entries=[entries[row] for row in kept],
            scores=scores[kept].tolist(),
            fused=fused[kept].tolist(),
            recencies=[recent[row] for row in kept],
            near=[near[row] for row in kept],
            persons=persons[kept].tolist(),
            by_arm={name: each[kept].tolist() for name, each in by_arm.items()},
        )

    def _find_extra(self) -> list[MemoryEntry]:
        """Return the entries given with the query that are not excluded."""
        return [entry for entry in self.query.extra if entry.entry_id not in self.query.excluded_ids(entry.scope)]

    def _score_extra(self, entries: Sequence[MemoryEntry]) -> Scores:
        """Return the BM25 score (>= 0) of each of a few entries, in order, with statistics of these entries only."""
        postings = Postings()
        postings.append([word_tokens(own_words(entry)) for entry in entries])
        return postings.scores(self.terms, np.ones(len(entries), dtype=np.bool_))


def merge_hops(first: Sequence[Hits], second: Sequence[Hits]) -> list[Hits]:
    """Return the hits of two searches of some pools. The best hit of the second search gets nine tenths of the best score of the
    first, and an entry in both gets the greater score.
    """
    best, other = (max([hits.scores[0] for hits in found if hits], default=0.0) for found in (first, second))
    scale = _HOP_SHARE * best / other if other > 0.0 else 0.0
    merged: list[Hits] = []
    for own, more in zip(first, second, strict=True):
        rows = {row[0]: row for row in own.rows()}
        for name, score, depth, sequence in more.rows():
            if name not in rows or rows[name][1] < score * scale:
                rows[name] = name, score * scale, depth, sequence
        merged.append(Hits.from_rows(sorted(rows.values(), key=lambda row: (-row[1], row[0]))))
    return merged


def _build_pools(query: RetrievalQuery, weights: Mapping[Chain, float]) -> list[Pool]:
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


def _known(score: float) -> float | None:
    return None if isnan(score) else score


def _fuse_pool(
    arms: Mapping[str, Arm], columns: FoundColumns, tops: Mapping[str, float], beside: float
) -> tuple[Scores, float]:
    """Return the fused scores of a pool and its unit; neighbours pass on the share `beside` of their scores."""
    fused, unit = fuse(arms, columns, tops), score_unit(arms, tops)
    best = float(np.fmax.reduce(fused, initial=0.0))
    if beside > 0.0 and best > 0.0:
        fused = boost_neighbours(fused, columns.depths, columns.sequences, beside)
        # What neighbours within a chain add must not raise the chain above the others.
        shrunk = best / float(np.nanmax(fused))
        fused, unit = fused * shrunk, unit * shrunk
    return fused, unit


def _cut(ids: Sequence[str], costs: Scores, near: npt.NDArray[np.bool_], most: int) -> list[int]:
    """Return the rows of the `most` entries of the least cost, equal ones by id, and after them all that are near."""
    rows = np.arange(len(ids))
    if len(ids) > most:
        rows = np.flatnonzero((costs <= np.partition(costs, most)[most]) | near)
    numbers = rows.tolist()
    ranked = [
        row for _, _, row in sorted(zip(costs[rows].tolist(), [ids[row] for row in numbers], numbers, strict=True))
    ]
    return ranked[:most] + [row for row in ranked[most:] if near[row]]


def _allot_places(
    entries: Sequence[MemoryEntry], scores: Scores, rows: Sequence[int], limit: int, weights: Mapping[Chain, float]
) -> list[int]:
    """Return the best `limit` of some rows, best first and each entry once, but reserve a tenth of the places (if it has as many)
    for every chain that the plan weights. Of narratives with equal scores, the newer one comes first.

    A selector can only choose what it sees, and the chains' scales are similar, not equal.
    """
    best: dict[EntryPlace, int] = {}
    costs = (-scores).tolist()
    for _, _, name, row in sorted([(costs[row], _age_key(entries[row]), entries[row].entry_id, row) for row in rows]):
        best.setdefault(EntryPlace(entries[row].scope, entries[row].chain, name), row)
    seats, ranked = limit // _SEAT_SHARE, [*best.values()]
    kept = set[int]()
    for chain in weights:
        kept.update([row for row in ranked if entries[row].chain is chain][:seats])
    kept.update([row for row in ranked if row not in kept][: max(limit - len(kept), 0)])
    return [row for row in ranked if row in kept][:limit]


def _age_key(entry: MemoryEntry) -> int:
    """Return the sort key by which a later narrative comes before an earlier one of equal score."""
    return -entry.depth if entry.chain is Chain.NARRATIVE and entry.depth is not None else 0


def merge_rankings(rankings: Sequence[RankedEntries], limit: int) -> list[tuple[float, RankedEntries, int]]:
    """Merge the rankings of several questions. Return (score, ranking, index in the ranking) for each entry, best first, at
    most `limit`.

    The scores of a question are relative to its best score. An entry in several rankings gets the greatest of its
    scores. A single ranking is returned with its own scores.
    """
    if len(rankings) == 1:
        return [(score, rankings[0], place) for place, score in enumerate(rankings[0].scores)]
    best: dict[EntryPlace, tuple[float, RankedEntries, int]] = {}
    for ranking in rankings:
        top = max(ranking.scores, default=0.0)
        for place, (entry, score) in enumerate(zip(ranking.entries, ranking.scores, strict=True)):
            share, name = score / top if top > 0.0 else 0.0, EntryPlace(entry.scope, entry.chain, entry.entry_id)
            if name not in best or best[name][0] < share:
                best[name] = share, ranking, place
    ordered = sorted(
        [
            (-share, _age_key(ranking.entries[place]), name.entry_id, number)
            for number, (name, (share, ranking, place)) in enumerate(best.items())
        ]
    )
    merged = [*best.values()]
    return [merged[number] for *_, number in ordered[:limit]]
