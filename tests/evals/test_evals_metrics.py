"""Scores against values worked out by hand, and the laws that tie them together."""

from __future__ import annotations

from math import log2

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.metrics import METRICS, TOKEN_METRICS, Outcome, by_category, judge, mean
from evals.reporting.figures import percentiles
from evals.running.oracle import OracleSelector
from jacquard import PlanContext, SelectionRequest
from jacquard.core.plan import SearchIntent, Triage
from mnemosyne import (
    Candidate,
    Chain,
    Signals,
)

IDS = [f"d{number}" for number in range(60)]


def outcome(relevant, retrieved, selected=(), query_id="q", category="c"):
    return Outcome(
        query_id=query_id,
        category=category,
        relevant=relevant,
        retrieved=tuple(retrieved),
        selected=tuple(selected),
    )


def scores(relevant, retrieved, selected=()):
    return judge([outcome(relevant, retrieved, selected)])["q"]


def test_every_metric_of_one_ranking_by_hand():
    ranking = ["x1", "a", "x2", "b", *(f"y{n}" for n in range(20)), "c", *(f"z{n}" for n in range(20)), "d"]
    found = scores({"a": 2, "b": 1, "c": 1, "d": 1}, ranking, ["b", "x1", "a"])
    gain = 2 / log2(3) + 1 / log2(5)
    ideal = 2 / log2(2) + 1 / log2(3) + 1 / log2(4) + 1 / log2(5)
    assert {name: found[name] for name in METRICS} == pytest.approx(
        {
            "recall@5": 0.5,
            "recall@10": 0.5,
            "recall@25": 0.75,
            "recall@50": 1.0,
            "all@5": 0.0,
            "all@10": 0.0,
            "all@25": 0.0,
            "all@50": 1.0,
            "ndcg@5": gain / ideal,
            "precision@5": 0.4,
        }
    )
    assert tuple(found) == (*METRICS, *TOKEN_METRICS)


def test_precision_is_divided_by_five_however_few_were_chosen():
    assert scores({"a": 1}, ["a"], ["a"])["precision@5"] == pytest.approx(0.2)


def test_nothing_retrieved_and_nothing_chosen_is_all_zero():
    assert set(scores({"a": 1}, []).values()) == {0.0}


def test_a_relevant_document_out_of_reach_counts_as_missed():
    found = scores({"a": 1, "gone": 1}, ["a"])
    assert found["recall@50"] == pytest.approx(0.5)
    assert found["all@50"] == 0.0


def test_grade_zero_is_not_relevant():
    found = scores({"a": 1, "b": 0}, ["b", "a"], ["b", "a"])
    assert found["recall@5"] == 1.0
    assert found["precision@5"] == pytest.approx(0.2)
    assert found["ndcg@5"] == pytest.approx(1 / log2(3))


def test_a_query_without_anything_relevant_is_left_out():
    judged = judge([outcome({}, ["a"]), outcome({"a": 0}, ["a"], query_id="r"), outcome({"a": 1}, ["a"], query_id="s")])
    assert set(judged) == {"s"}


def test_nothing_scored_has_no_means():
    assert judge([]) == {}
    assert mean([]) == {}


def test_percentiles_interpolate():
    assert percentiles([10.0, 20.0, 30.0, 40.0], 50, 100) == (25.0, 40.0)
    assert percentiles([], 50, 95) == (0.0, 0.0)


outcomes = st.lists(
    st.tuples(
        st.sampled_from(["one", "two", "three"]),
        st.dictionaries(st.sampled_from(IDS), st.integers(0, 2), max_size=8),
        st.permutations(IDS).map(lambda ids: ids[:50]),
        st.integers(0, 5),
    ),
    min_size=1,
    max_size=8,
).map(
    lambda rows: [
        outcome(relevant, retrieved, retrieved[:count], query_id=f"q{place}", category=category)
        for place, (category, relevant, retrieved, count) in enumerate(rows)
    ]
)


@given(outcomes)
def test_recall_grows_with_the_cut_and_all_is_recall_made_whole(rows):
    for found in judge(rows).values():
        recalls = [found[f"recall@{cut}"] for cut in (5, 10, 25, 50)]
        assert recalls == sorted(recalls)
        assert all(found[f"all@{cut}"] == float(found[f"recall@{cut}"] > 1 - 1e-9) for cut in (5, 10, 25, 50))
        assert all(0 <= value <= 1 for value in found.values())


@given(outcomes)
def test_categories_add_up_to_the_whole(rows):
    judged = judge(rows)
    groups = by_category(rows, judged)
    assert sum(len(found) for found in groups.values()) == len(judged)
    if judged:
        whole = mean(judged.values())
        for name in METRICS:
            parts = sum(len(found) * mean(found)[name] for found in groups.values())
            assert parts / len(judged) == pytest.approx(whole[name])


@given(outcomes)
def test_no_choice_out_of_the_candidates_beats_the_oracle(rows):
    perfect = [
        outcome(each.relevant, each.retrieved, chosen(each.relevant, each.retrieved), query_id=each.query_id)
        for each in rows
    ]
    best, given_ = judge(perfect), judge(rows)
    assert all(best[name]["precision@5"] >= given_[name]["precision@5"] for name in given_)


def chosen(relevant, retrieved, limit=5):
    return anyio.run(OracleSelector(relevant).select, request_of(retrieved, limit)).entry_ids


def request_of(retrieved, limit=5):
    return SelectionRequest(
        user_message="?",
        recent=(),
        plan=PlanContext(
            triage=Triage.NARRATIVE,
            active_quest_id=None,
            current_goal="",
            template_id="chat",
            search_intent=SearchIntent(enabled=True),
        ),
        candidates=tuple(
            Candidate(
                entry_id=entry_id,
                scope="session:s",
                chain=Chain.LORE,
                kind="encyclopedia",
                title="",
                preview="",
                score=1.0,
                signals=Signals(),
            )
            for entry_id in retrieved
        ),
        limit=limit,
    )


def test_the_oracle_takes_the_highest_grades_first_and_nothing_else():
    assert chosen({"a": 1, "b": 2, "c": 1, "gone": 2}, ["x", "a", "c", "b"]) == ("b", "a", "c")
    assert chosen({"a": 1, "b": 2, "c": 1}, ["x", "a", "c", "b"], limit=2) == ("b", "a")
    assert chosen({"a": 1}, ["x", "y"]) == ()
    assert chosen({"a": 1}, []) == ()


def test_recall_within_a_budget_counts_whole_texts_in_the_order_of_the_ranking():
    row = Outcome(
        query_id="q",
        category="",
        relevant={"a": 1, "d": 2},
        retrieved=("a", "b", "c", "d"),
        selected=(),
        tokens=(250, 251, 499, 1),
    )
    found = judge([row])["q"]
    assert [found[name] for name in TOKEN_METRICS] == [0.5, 0.5, 0.5, 1.0]
