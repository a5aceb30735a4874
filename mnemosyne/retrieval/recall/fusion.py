"""Fuses the results of several searches into one order. The scores are added, with weights for the query and the chain.

An arm is one way of searching: by words or by vectors. Plain reciprocal rank fusion gives every arm the same weight, so a
poor arm spoils the result of the better one. Here the scores of the word arm are the unit. The scores of the vector arm are
added with a weight that depends on the language (the share of words that the model knows), on the chain and on the question.
Then the scores of entries next to good hits are raised.

The numbers are in `FusionWeights`; docs/decisions/0006 explains how they were found. This module does no I/O.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from mnemosyne.core.codec import Struct
from mnemosyne.retrieval.recall.query_features import QueryFeatures
from mnemosyne.retrieval.text.lexical import Scores
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import Hits
from mnemosyne.values import dataclass

Numbers = npt.NDArray[np.int64]

_USUAL_TERMS = 2.0
_BESIDE = 8
_STEPS = 4
_FADES = np.array([0.0, 0.7, 0.7**2, 0.7**3, 0.7**4, 0.0])
"""The share that is passed on, by the number of steps. Neighbours beyond `_STEPS` get nothing."""
_MOST = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class FusionWeights:
    """The numbers of fusion and of reranking.

    The fields from `vector` to `beside_terms`, except `vector_power`, are exponents: e to the power of their sum is a
    weight. The word arm has the weight 1.

    - `vector` and the other `vector` fields that apply give the weight of the vector arm. It is greater for questions and
      for statements that refer to the conversation, and smaller in the history chain. `vector_terms` is multiplied by the
      logarithm of the number of words.
    - `vector_power` is the exponent of the scaled vector scores (`Arm.power`).
    - `beside` and the other `beside` fields that apply give the share of a hit's score that is added to its neighbours. It
      is greater for long queries, and differs by chain.
    - The last thirteen fields are used by reranking. Each is multiplied by a feature (0..1) of an entry and added to its score.
      `length_answer` and `asking_answer` apply to questions, in conversations whose messages are short. `character_talk` and
      `longer_talk` are also multiplied by the share of the recent conversation in the query.
    """

    vector: float = -0.7
    vector_history: float = -0.45
    vector_question: float = 0.5
    vector_talk: float = 1.1
    vector_terms: float = -0.4
    vector_power: float = 1.0
    beside: float = -1.9
    beside_history: float = 0.2
    beside_event: float = -0.6
    beside_lore: float = -0.4
    beside_question: float = 0.3
    beside_terms: float = 0.65
    speaker: float = 0.2
    time: float = 0.2
    length: float = 0.2
    asking: float = -0.25
    length_answer: float = 0.8
    asking_answer: float = -0.75
    pair: float = 0.4
    character: float = 0.7
    character_talk: float = -1.2
    longer_talk: float = 0.75
    subject: float = 0.8
    person: float = 0.1
    address: float = -0.2


WEIGHTS = FusionWeights()
"""Weights for all-MiniLM-L6-v2, for models without weights of their own, and for a recall only by words."""

_FITTED: Mapping[str, FusionWeights] = MappingProxyType(
    {
        "multilingual-e5": FusionWeights(
            vector=-0.1, vector_question=0.7, vector_talk=1.2, vector_terms=0.0, vector_power=1.5
        ),
        "universal-sentence-encoder-multilingual": FusionWeights(vector_power=1.5),
    }
)
"""Weights fitted to an encoder, by a part of the names of its models."""


def find_weights(model: str) -> FusionWeights:
    """Return the weights that were fitted to the embedding model `model` (`Embedder.name`), or `WEIGHTS` if there are none."""
    name = model.lower().replace("_", "-")
    return next((weights for part, weights in _FITTED.items() if part in name), WEIGHTS)


class Arm(Struct, frozen=True, kw_only=True):
    """The hits of one arm (one way of searching), best first, with the numbers that fusion needs.

    - `weight`: the score of the best hit after fusion.
    - `dense`: whether the arm gives every entry a score, as a search by vectors does. In a dense arm, the score of the last
      hit counts as 0, and so does an entry that was not returned, because no cosine means "nothing in common". In another
      arm, an entry that was not returned has nothing in common with the query.
    - `power`: the exponent of the scaled scores (0..1). Above 1, the best hits have a greater lead.
    """

    hits: Hits
    weight: float = 1.0
    dense: bool = False
    power: float = 1.0

    @property
    def top(self) -> float:
        """The score of the best hit, at least 0."""
        scores = self.hits.scores
        return max(scores[0], 0.0) if scores else 0.0


class FoundColumns(Struct, frozen=True, kw_only=True):
    """Columns of the entries that some searches found. Each entry occurs once."""

    entry_ids: list[str]
    depths: Numbers
    """Depth of each entry's turn, or 0 for an entry without a turn."""
    sequences: Numbers
    places: Mapping[str, Numbers]
    """Places (indexes in the columns) of the hits of each search, by the name of the search."""

    @classmethod
    def collect(cls, found: Mapping[str, Hits]) -> FoundColumns:
        """Return the entries of all searches, in the order in which they first appear. `found` has the hits of each search, by
        its name.
        """
        names = dict.fromkeys([name for hits in found.values() for name in hits.entry_ids])
        numbers = dict(zip(names, range(len(names)), strict=True))
        places = {}
        for name, hits in found.items():
            places[name] = np.fromiter(map(numbers.__getitem__, hits.entry_ids), dtype=np.int64, count=len(hits))
        depths, sequences = np.zeros(len(numbers), dtype=np.int64), np.zeros(len(numbers), dtype=np.int64)
        for name, hits in found.items():
            depths[places[name]], sequences[places[name]] = hits.depths, hits.sequences
        return cls(entry_ids=[*numbers], depths=depths, sequences=sequences, places=places)


def vector_weight(features: QueryFeatures, chain: Chain, fitness: float, weights: FusionWeights = WEIGHTS) -> float:
    """Return the weight of the best hit by vectors in `chain`, relative to the best hit by words.

    `features` are the features of the query, and `fitness` is the share (0..1) of the query that the model knows.
    """
    power = weights.vector + weights.vector_terms * (math.log(max(features.terms, 1)) - _USUAL_TERMS)
    if chain is Chain.HISTORY:
        power += weights.vector_history
    if features.question:
        power += weights.vector_question
    elif features.recent_share > 0.0:
        power += weights.vector_talk
    return fitness * math.exp(power)


def neighbour_share(features: QueryFeatures, chain: Chain, weights: FusionWeights = WEIGHTS) -> float:
    """Return the share (at most 0.8) of an entry's score that is added to the score of the entry next to it in `chain`."""
    by_chain = {
        Chain.HISTORY: weights.beside_history,
        Chain.EVENT: weights.beside_event,
        Chain.LORE: weights.beside_lore,
    }
    power = weights.beside + by_chain.get(chain, 0.0)
    power += weights.beside_terms * (math.log(max(features.terms, 1)) - _USUAL_TERMS)
    if features.question:
        power += weights.beside_question
    return min(math.exp(power), _MOST)


def fuse(arms: Mapping[str, Arm], columns: FoundColumns, tops: Mapping[str, float] | None = None) -> Scores:
    """Return the fused score of each entry in `columns`. The score is NaN if no arm with a weight returned the entry.

    The scores of an arm are scaled so that the arm's best score counts as 1, and then multiplied by the arm's weight. `tops`
    gives other scores that count as 1, by arm, so that several chains share a scale.
    """
    heard = {name: arm for name, arm in arms.items() if arm.weight > 0.0 and arm.top > 0.0}
    whole = sum([arm.weight for arm in heard.values()])
    fused = np.full(len(columns.entry_ids), np.nan)
    for name, arm in heard.items():
        scores = arm.hits.scores
        floor = max(scores[-1], 0.0) if arm.dense and len(scores) > 1 else 0.0
        most = arm.top if tops is None else tops[name]
        # One chain's best relative to the best of all; a dense arm's floor moves with its top.
        scale, span = arm.weight / whole * arm.top / most, max(arm.top - floor, 1e-9)
        share = np.maximum((np.array(scores) - floor) / span, 0.0)
        if arm.power != 1.0:
            # The power of the C library, because numpy's differs in the last bit between processors.
            share = np.array([each**arm.power for each in share.tolist()])
        own = fused[columns.places[name]]
        fused[columns.places[name]] = np.where(np.isnan(own), 0.0, own) + scale * share
    return fused


def score_unit(arms: Mapping[str, Arm], tops: Mapping[str, float]) -> float:
    """Return the score that a best hit by words has after fusion. Features that are added later are measured in this unit.

    `arms` are the arms of one chain. `tops` has, by arm, the scores that count as 1.
    """
    heard = {name: arm for name, arm in arms.items() if arm.top > 0.0}
    scale = max([arm.top / tops[name] for name, arm in heard.items()], default=0.0)
    return scale / max(sum([arm.weight for arm in heard.values()]), 1.0)


def boost_neighbours(own: Scores, depths: Numbers, written: Numbers, share: float) -> Scores:
    """Return the scores `own`, raised for entries near other hits, because a hit among hits is worth more than an isolated hit.

    Each hit raises the scores of entries up to four steps away, by `share` times its score times 0.7 to the power of the number
    of steps. One step leads to the entries of the turn before or after; `depths` are the depths of the turns. For entries of the
    same turn, and for entries without a turn, the number of steps is the difference of their sequences (`written`). An entry
    whose score is NaN stays NaN and is passed over.
    """
    heard = np.flatnonzero(~np.isnan(own))
    order = heard[np.lexsort((written[heard], depths[heard]))]
    scores, depths, written, last = own[order], depths[order], written[order], len(order) - 1
    more = np.zeros(len(order))
    steps = np.arange(1, min(_BESIDE, last) + 1)[:, None]
    # One row per step; entries beyond the last hit are not needed.
    others = np.minimum(np.arange(len(order)) + steps, last)
    near = _nearness(depths[others] - depths, written[others] - written)
    for step, lent_on in enumerate(near, start=1):
        more[:-step] += lent_on[:-step] * scores[step:]
        more[step:] += lent_on[:-step] * scores[:-step]
    total = own.copy()
    total[order] = scores + share * more
    return total


def shared_tops(chains: Sequence[Mapping[str, Arm]]) -> list[dict[str, float]]:
    """Return, for each chain, the score that counts as 1 in each arm when the chains are ranked together.

    This score is the geometric mean of the chain's own best score and the best score of all chains. So a chain whose best hit
    is poor ranks lower, but not as low as by its raw scores, because raw scores also depend on the number of entries in a chain.
    """
    bests: dict[str, float] = {}
    for arms in chains:
        for name, arm in arms.items():
            bests[name] = max(bests.get(name, 0.0), arm.top)
    return [
        {name: math.sqrt(arm.top * bests[name]) for name, arm in arms.items() if arm.hits.scores} for arms in chains
    ]


def _nearness(turns: Numbers, places: Numbers) -> Scores:
    apart = np.where(turns > 0, turns, np.maximum(places, 1))
    return _FADES[np.minimum(apart, _STEPS + 1)]
