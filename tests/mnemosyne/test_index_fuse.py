from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.index.fuse import Arm, arm_weights, fuse, shared_tops, standout
from mnemosyne.query import Hit

SCORES = st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0.01, 50.0), min_size=1)


def hits(scores: dict[str, float]) -> tuple[Hit, ...]:
    ordered = sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Hit(entry_id=entry_id, score=score) for entry_id, score in ordered)


@given(SCORES, SCORES, st.sampled_from([0.25, 4.0, 1024.0]))
def test_rescaling_one_arm_moves_nothing(words: dict[str, float], cosines: dict[str, float], scale: float) -> None:
    plain = {"bm25": Arm(hits=hits(words)), "vector": Arm(hits=hits(cosines), dense=True)}
    scaled = {**plain, "bm25": Arm(hits=hits({name: score * scale for name, score in words.items()}))}
    assert fuse(scaled) == pytest.approx(fuse(plain))


@given(SCORES, SCORES)
def test_scores_are_0_to_1_and_cover_every_hit(words: dict[str, float], cosines: dict[str, float]) -> None:
    fused = fuse({"bm25": Arm(hits=hits(words)), "vector": Arm(hits=hits(cosines), dense=True)})
    assert set(fused) == set(words) | set(cosines)
    assert all(0.0 <= score <= 1.0 + 1e-9 for score in fused.values())


@given(SCORES, SCORES)
def test_an_arm_that_is_worth_nothing_is_not_heard(words: dict[str, float], cosines: dict[str, float]) -> None:
    alone = fuse({"bm25": Arm(hits=hits(words))})
    assert fuse({"bm25": Arm(hits=hits(words)), "vector": Arm(hits=hits(cosines), worth=0.0, dense=True)}) == alone
    assert sorted(alone, key=lambda name: (-alone[name], name)) == [hit.entry_id for hit in hits(words)]


@given(SCORES)
def test_what_is_best_in_both_arms_is_best(scores: dict[str, float]) -> None:
    best = hits(scores)[0].entry_id
    fused = fuse({"bm25": Arm(hits=hits(scores)), "vector": Arm(hits=hits(scores), dense=True)})
    assert fused[best] == max(fused.values())


def test_an_arm_whose_best_stands_out_weighs_more() -> None:
    sharp = Arm(hits=hits({"a": 10.0, **{f"x{number}": 1.0 for number in range(30)}}))
    flat = Arm(hits=hits({f"x{number:02}": 1.0 - number / 1000 for number in range(30)}), dense=True)
    weights = arm_weights({"bm25": sharp, "vector": flat})
    assert weights["bm25"] > weights["vector"] >= 0.25
    assert sum(weights.values()) == pytest.approx(1.0)
    assert standout(flat.hits, dense=True) < 0.02


def test_nothing_to_hear_gives_nothing() -> None:
    assert fuse({}) == {}
    assert fuse({"bm25": Arm(hits=())}) == {}
    assert standout((), dense=False) == 0.0


def test_a_chain_with_a_poor_best_falls_behind_but_not_off() -> None:
    rich = {"bm25": Arm(hits=hits({"a": 16.0, "b": 4.0}))}
    poor = {"bm25": Arm(hits=hits({"c": 4.0}))}
    tops = shared_tops([rich, poor])
    assert fuse(rich, tops[0])["a"] == pytest.approx(1.0)
    assert fuse(poor, tops[1])["c"] == pytest.approx(0.5)
