"""The pruner's numbered rules (jacquard/protocols.py), and monotone packing as a law."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jacquard.errors import BudgetExceededError
from jacquard.pruners.greedy import GreedyPriorityPruner
from jacquard.report import Action
from jacquard.skein import PromptBlock
from mnemosyne.schema.evidence import BlockType, Priority

PRUNER = GreedyPriorityPruner()


def block(name, tokens, priority=Priority.MEDIUM, rank=0, group=None):
    return PromptBlock(
        block_id=name,
        block_type=BlockType.MEMORY,
        slot="flesh",
        source="test",
        content=name,
        priority=priority,
        rank=rank,
        group=group,
        tokens=tokens,
    )


blocks_strategy = st.lists(
    st.tuples(
        st.integers(0, 60),
        st.sampled_from([Priority.HIGH, Priority.MEDIUM, Priority.LOW]),
        st.integers(0, 4),
        st.sampled_from([None, None, "a", "b"]),
    ),
    max_size=14,
).map(lambda rows: [block(f"b{n}", *row) for n, row in enumerate(rows)])


def test_no_blocks_give_an_empty_result():
    result = PRUNER.prune([], 0)
    assert (result.kept, result.decisions) == ((), ())


def test_must_blocks_stay_when_everything_else_goes():
    result = PRUNER.prune([block("a", 50, Priority.HIGH), block("rules", 40, Priority.MUST)], 45)
    assert [b.block_id for b in result.kept] == ["rules"]
    assert [(d.block_id, d.code) for d in result.decisions] == [("a", "over_budget"), ("rules", "must")]


def test_must_blocks_that_do_not_fit_are_named_biggest_first():
    with pytest.raises(BudgetExceededError) as caught:
        PRUNER.prune([block("small", 30, Priority.MUST), block("big", 90, Priority.MUST)], 100)
    assert caught.value.blocks == (("big", 90), ("small", 30))
    assert "big 90" in str(caught.value)
    assert "100" in str(caught.value)


def test_priority_comes_before_rank_and_rank_before_place():
    blocks = [block("low", 10, Priority.LOW), block("second", 10, rank=2), block("first", 10, rank=1)]
    assert [b.block_id for b in PRUNER.prune(blocks, 20).kept] == ["second", "first"]
    assert [b.block_id for b in PRUNER.prune(blocks, 10).kept] == ["first"]


def test_a_group_lives_or_dies_together():
    call = [block("call", 10, Priority.HIGH, group="t"), block("result", 30, Priority.LOW, group="t")]
    assert len(PRUNER.prune(call, 39).kept) == 0
    assert len(PRUNER.prune(call, 40).kept) == 2


def test_dropped_blocks_say_what_was_missing():
    result = PRUNER.prune([block("a", 10), block("b", 25), block("c", 1)], 30)
    assert [d.code for d in result.decisions] == ["fits", "over_budget", "after_cut"]
    assert "25" in result.decisions[1].reason
    assert "20" in result.decisions[1].reason


@given(blocks_strategy, st.integers(0, 300))
def test_budget_is_kept_and_every_block_decided_once(blocks, limit):
    result = PRUNER.prune(blocks, limit)
    assert sum(b.tokens for b in result.kept) <= limit
    assert [d.block_id for d in result.decisions] == [b.block_id for b in blocks]
    kept = {d.block_id for d in result.decisions if d.action is Action.KEPT}
    assert kept == {b.block_id for b in result.kept}
    for name in ("a", "b"):
        fates = {b.block_id in kept for b in blocks if b.group == name}
        assert len(fates) <= 1


@given(blocks_strategy, st.integers(0, 300), st.integers(0, 300))
def test_a_bigger_budget_never_gives_a_worse_set(blocks, limit, more):
    small = {b.block_id for b in PRUNER.prune(blocks, limit).kept}
    large = {b.block_id for b in PRUNER.prune(blocks, limit + more).kept}
    assert small <= large
