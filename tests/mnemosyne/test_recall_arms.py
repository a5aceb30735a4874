"""The one list of arms: each has a signal of its own, and its weight."""

from __future__ import annotations

import math

import pytest

from mnemosyne import ALL_ARMS, BM25, VECTOR, Chain, Hit, RetrievalQuery
from mnemosyne.retrieval.recall.arms import ARMS, build_arm
from mnemosyne.retrieval.recall.fusion import WEIGHTS
from mnemosyne.retrieval.recall.query_features import find_query_features, lexical_terms
from mnemosyne.schema.query import SIGNAL_NAMES

QUERY = RetrievalQuery(text="Where did the wolf go?", world_id="forest")
FEATURES = find_query_features(QUERY, lexical_terms(QUERY))
HITS = (Hit("a", 2.0), Hit("b", 0.5))


def test_every_arm_has_a_signal_of_its_own() -> None:
    signals = [traits.signal for traits in ARMS.values()]
    assert set(signals) <= set(SIGNAL_NAMES)
    assert len(set(signals)) == len(signals)
    assert {BM25, VECTOR} == ALL_ARMS


def test_words_count_one_and_vectors_what_the_model_knows() -> None:
    words = build_arm(BM25, HITS, features=FEATURES, chain=Chain.LORE, fitness=0.1)
    assert (words.weight, words.dense, words.hits) == (1.0, False, HITS)
    half = build_arm(VECTOR, HITS, features=FEATURES, chain=Chain.LORE, fitness=0.5, weights=WEIGHTS)
    whole = build_arm(VECTOR, HITS, features=FEATURES, chain=Chain.LORE, fitness=1.0)
    assert half.dense
    assert math.isclose(half.weight * 2, whole.weight)


def test_an_arm_alone_counts_one_and_an_unknown_one_is_an_error() -> None:
    alone = build_arm(VECTOR, HITS, features=FEATURES, chain=Chain.LORE, fitness=0.3, is_alone=True)
    assert alone.weight == 1.0
    with pytest.raises(KeyError):
        build_arm("smell", HITS, features=FEATURES, chain=Chain.LORE, fitness=1.0)
