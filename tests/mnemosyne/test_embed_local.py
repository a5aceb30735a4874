"""Which texts share a forward pass of a local model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.retrieval.embedding.local import plan_batches


def ends(lengths: list[int], most: int = 32) -> list[int]:
    return [stretch.stop for stretch in plan_batches(lengths, most)]


@given(lengths=st.lists(st.integers(0, 3_000), max_size=80), most=st.integers(1, 40))
def test_every_text_is_in_one_pass_and_none_is_too_big(lengths: list[int], most: int) -> None:
    longest_first = sorted(lengths, reverse=True)
    found = list(plan_batches(longest_first, most))
    assert [place for stretch in found for place in range(len(lengths))[stretch]] == list(range(len(lengths)))
    assert all(0 < stretch.stop - stretch.start <= most for stretch in found)


@given(lengths=st.lists(st.integers(0, 3_000), max_size=80), most_bytes=st.integers(1, 4_000))
def test_a_pass_of_several_texts_is_never_larger_than_its_limit_with_padding(
    lengths: list[int], most_bytes: int
) -> None:
    longest_first = sorted(lengths, reverse=True)
    found = list(plan_batches(longest_first, 32, most_bytes))
    assert [place for stretch in found for place in range(len(lengths))[stretch]] == list(range(len(lengths)))
    sizes = [(each.stop - each.start, longest_first[each.start]) for each in found]
    assert all(texts == 1 or texts * longest <= most_bytes for texts, longest in sizes)


@pytest.mark.parametrize(
    ("lengths", "cuts"),
    [
        ([520, 40], [1, 2]),  # a query and the talk before it
        ([60, 20], [2]),  # padding that costs less than a pass
        ([300, 160, 151], [3]),
        ([300, 290, 140, 130], [2, 4]),
        ([900, *[100] * 40], [1, 33, 41]),
    ],
)
def test_short_texts_are_not_padded_to_a_long_one(lengths: list[int], cuts: list[int]) -> None:
    assert ends(lengths) == cuts
