"""Where evidence was lost: each relevant document ends at one stage, the first that stopped it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evals.metrics import Outcome
from evals.reporting.losses import LossStage, count_stages, find_stages

IDS = st.sampled_from("abcdef")


def outcome(relevant, retrieved, selected):
    return Outcome(query_id="q", category="", relevant=relevant, retrieved=tuple(retrieved), selected=tuple(selected))


def test_each_stage():
    found = find_stages(
        outcome(dict.fromkeys("abcde", 1) | {"f": 0}, "bcd", "cd"), unreachable=["a"], shown=frozenset("d")
    )
    assert found == {
        "a": LossStage.NOT_INDEXED,
        "b": LossStage.NOT_SELECTED,
        "c": LossStage.PRUNED,
        "d": LossStage.DELIVERED,
        "e": LossStage.NOT_RECALLED,
    }
    assert list(count_stages(found.values()).values()) == [1, 1, 1, 1, 1]


def test_without_a_prompt_the_selection_is_what_is_delivered():
    assert find_stages(outcome({"a": 1}, "a", "a")) == {"a": LossStage.DELIVERED}


@given(st.dictionaries(IDS, st.integers(0, 2)), st.sets(IDS), st.sets(IDS), st.sets(IDS), st.sets(IDS) | st.none())
def test_every_relevant_document_is_counted_once(relevant, retrieved, selected, missing, shown):
    kept = None if shown is None else frozenset(shown)
    found = find_stages(outcome(relevant, retrieved, selected), unreachable=missing, shown=kept)
    assert set(found) == {name for name, grade in relevant.items() if grade > 0}
    assert sum(count_stages(found.values()).values()) == len(found)
