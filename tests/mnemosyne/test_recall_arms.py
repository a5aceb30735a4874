"""The one list of arms: each has a signal of its own, and its weight."""

from __future__ import annotations

import math

import pytest
from recall_parts import WORLD, LetterEmbedder, entry, question

from mnemosyne import CalibratedEstimator, Chain, RetrievalQuery
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.retrieval.recall.arms import ALL_ARMS, ARMS, BM25, VECTOR, build_arm
from mnemosyne.retrieval.recall.entry_list import EntryList
from mnemosyne.retrieval.recall.fusion import WEIGHTS, FusionWeights, find_weights
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.recall.query_features import find_query_features, lexical_terms
from mnemosyne.schema.query import SIGNAL_NAMES, Hits

QUERY = RetrievalQuery(text="Where did the wolf go?", world_id="forest")
FEATURES = find_query_features(QUERY, lexical_terms(QUERY))
HITS = Hits(entry_ids=("a", "b"), scores=(2.0, 0.5), depths=(0, 0), sequences=(1, 2))


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


async def scores_of(text: str, name: str, weights: FusionWeights | None = None) -> dict[str, float]:
    """Return the score of each entry that recall finds with the vectors of a model of this name."""
    entries = [
        entry("a", "The wolf went north."),
        entry("b", "The wolves howl. 狼去了北方。"),
        entry("c", "A fox in a wood."),
    ]
    recalling = HybridRetriever(
        EntryList(entries),
        MemoryIndex(),
        LetterEmbedder(name),
        CalibratedEstimator(),
        vector_patience_seconds=60.0,
        weights=weights,
    )
    await recalling.sync(WORLD)
    return {each.entry_id: each.score for each in (await recalling.recall(question(text))).candidates}


@pytest.mark.anyio
async def test_recall_takes_the_weights_of_the_embedder_of_its_index() -> None:
    model = "multilingual-e5-tiny"
    found = await scores_of("Where did the wolf go?", model)
    assert found == await scores_of("Where did the wolf go?", "letters", find_weights(model))
    assert found != await scores_of("Where did the wolf go?", "letters")


@pytest.mark.anyio
async def test_a_recall_without_a_vector_has_the_weights_of_words_alone() -> None:
    assert await scores_of("狼去了哪里？", "multilingual-e5-tiny") == await scores_of("狼去了哪里？", "letters")
