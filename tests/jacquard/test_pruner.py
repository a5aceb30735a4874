"""The three pruners: the shipped contract suite for each, what each does of its own, and monotone packing as a law."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jacquard import BudgetExceededError, GreedyPriorityPruner, PruneBudget, PruneRules
from jacquard.core.block_kinds import BlockKind
from jacquard.core.blocks import Sensitivity
from jacquard.core.receipt import Action
from jacquard.pipeline.weaving.pruners.degrade import DegradeToSummaryPruner
from jacquard.pipeline.weaving.pruners.group_aware import GroupAwarePruner
from jacquard.testing.pruner import PrunerContract
from jacquard.testing.pruner import sample_block as block
from mnemosyne import BlockType, Priority, Ref

GREEDY, GROUPS, DEGRADE = GreedyPriorityPruner(), GroupAwarePruner(), DegradeToSummaryPruner()
ALL = pytest.mark.parametrize("pruner", [GREEDY, GROUPS, DEGRADE], ids=["greedy", "groups", "degrade"])
NOW = datetime(2026, 11, 21, tzinfo=UTC)


class TestGreedyPriority(PrunerContract):
    def make_pruner(self):
        return GreedyPriorityPruner()


class TestGroupAware(PrunerContract):
    def make_pruner(self):
        return GroupAwarePruner()


class TestDegradeToSummary(PrunerContract):
    def make_pruner(self):
        return DegradeToSummaryPruner()


def room(tokens, **tiers):
    return PruneBudget(max_tokens=tokens, tier_tokens={Priority(name): most for name, most in tiers.items()})


def ids(blocks):
    return [each.block.block_id for each in blocks]


def codes(result):
    return [decision.code for decision in result.decisions]


def test_priority_comes_before_rank_and_rank_before_place():
    blocks = [block("low", 10, Priority.LOW), block("second", 10, rank=2), block("first", 10, rank=1)]
    assert ids(GREEDY.prune(blocks, room(20)).kept) == ["second", "first"]
    assert ids(GREEDY.prune(blocks, room(10)).kept) == ["first"]


def test_dropped_blocks_say_what_was_missing():
    result = GREEDY.prune([block("a", 10), block("b", 25), block("c", 1)], room(30))
    assert codes(result) == ["fits", "over_budget", "after_cut"]
    assert "25" in result.decisions[1].reason
    assert "20" in result.decisions[1].reason


@ALL
def test_a_call_and_its_result_are_never_parted(pruner):
    state = [
        block("call", 10, Priority.HIGH, group="t", block_type=BlockType.STATE),
        block("result", 30, Priority.LOW, group="t", block_type=BlockType.STATE),
    ]
    assert len(pruner.prune(state, room(39)).kept) == 0
    assert len(pruner.prune(state, room(40)).kept) == 2


def test_a_quota_closes_a_tier_and_leaves_room_for_the_next():
    blocks = [block("a", 10, Priority.HIGH), block("b", 10, Priority.HIGH), block("c", 10, Priority.LOW)]
    result = GREEDY.prune(blocks, room(100, high=15))
    assert ids(result.kept) == ["a", "c"]
    assert codes(result) == ["fits", "over_quota", "fits"]
    assert "high" in result.decisions[1].reason


def test_blocks_of_one_evidence_live_or_die_together():
    one, two = (Ref(evidence_id="e1"),), (Ref(evidence_id="e2"),)
    blocks = [
        block("a", 10, Priority.HIGH, refs=one),
        block("b", 10, Priority.HIGH, rank=1, refs=two),
        block("c", 30, Priority.LOW, refs=(Ref(evidence_id="e1", selector="lines:1-2"),)),
    ]
    assert ids(GREEDY.prune(blocks, room(25)).kept) == ["a", "b"]
    assert ids(GROUPS.prune(blocks, room(39)).kept) == []
    assert ids(GROUPS.prune(blocks, room(40)).kept) == ["a", "c"]


def test_evidence_that_is_shared_joins_groups():
    chain = [
        block("a", 10, refs=(Ref(evidence_id="e1"), Ref(evidence_id="e2"))),
        block("b", 10, refs=(Ref(evidence_id="e2"), Ref(evidence_id="e3"))),
        block("c", 10, refs=(Ref(evidence_id="e3"),), group="g"),
        block("d", 10, group="g"),
    ]
    assert ids(GROUPS.prune(chain, room(39)).kept) == []
    assert ids(GROUPS.prune(chain, room(40)).kept) == ["a", "b", "c", "d"]


def test_degrading_gives_every_block_a_place_before_any_gets_all_its_words():
    blocks = [block(name, 100, rank=rank) for rank, name in enumerate("abc")]
    tight = DEGRADE.prune(blocks, room(80))
    assert codes(tight) == ["shortened", "shortened", "shortened"]
    assert [d.tokens for d in tight.decisions] == [25, 25, 25]
    wider = DEGRADE.prune(blocks, room(160))
    assert [(d.action, d.tokens) for d in wider.decisions] == [
        (Action.KEPT, 100),
        (Action.DEGRADED, 25),
        (Action.DEGRADED, 25),
    ]
    assert codes(DEGRADE.prune(blocks, room(60))) == ["shortened", "shortened", "over_budget"]


def test_only_what_can_be_told_in_fewer_words_is_degraded():
    state = block("state", 100, block_type=BlockType.STATE)
    assert codes(DEGRADE.prune([state, block("short", 10)], room(50))) == ["over_budget", "after_cut"]


def test_what_is_too_old_is_shortened_last():
    old = block("old", 100, Priority.HIGH, at=NOW - timedelta(days=9))
    rules = PruneRules(now=NOW, ttl_seconds={Priority.HIGH: 86_400})
    result = DEGRADE.prune([old, block("low", 50, Priority.LOW)], room(1_000), rules)
    assert codes(result) == ["shortened", "fits"]
    assert codes(GREEDY.prune([old], room(1_000), rules)) == ["expired"]
    assert codes(DEGRADE.prune([old, block("low", 50, Priority.LOW)], room(60), rules)) == ["over_budget", "fits"]


def test_a_guarded_block_takes_its_group_along_when_it_is_dropped():
    pair = [block("call", 5, group="t"), block("result", 5, group="t", sensitivity=Sensitivity.SECRET)]
    rules = PruneRules(max_sensitivity=Sensitivity.INTERNAL, mask=False)
    assert codes(GREEDY.prune(pair, room(100), rules)) == ["with_group", "sensitive"]
    assert codes(GREEDY.prune(pair, room(100), replace(rules, mask=True))) == ["fits", "masked"]


blocks_strategy = st.lists(
    st.fixed_dictionaries(
        {
            "tokens": st.integers(0, 120) | st.sampled_from([1_600, 5_000]),
            "priority": st.sampled_from([Priority.HIGH, Priority.MEDIUM, Priority.LOW]),
            "rank": st.integers(0, 4),
            "group": st.sampled_from([None, None, "a", "b"]),
            "refs": st.sampled_from([(), (Ref(evidence_id="e1"),), (Ref(evidence_id="e2"),)]),
            "block_type": st.sampled_from([BlockType.MEMORY, BlockType.STATE]),
            "kind": st.sampled_from([BlockKind.MEMORY, BlockKind.TEMPLATE]),
        }
    ),
    max_size=14,
).map(lambda rows: [block(f"b{n}", **each) for n, each in enumerate(rows)])
quota_strategy = st.dictionaries(st.sampled_from([Priority.HIGH, Priority.MEDIUM, Priority.LOW]), st.integers(0, 200))


@ALL
def test_one_oversize_block_does_not_starve_those_after_it(pruner):
    small = [block(f"b{n}", 100, Priority.LOW, rank=n, block_type=BlockType.STATE) for n in range(5)]
    state = [block("long", 20_000, Priority.HIGH, block_type=BlockType.STATE), *small]
    result = pruner.prune(state, room(1_000))
    assert ids(result.kept) == ids(small)
    assert "20000" in result.decisions[0].reason
    assert len(pruner.prune(state, room(21_000)).kept) == 6


@ALL
@given(
    blocks=blocks_strategy,
    quotas=quota_strategy,
    limit=st.integers(0, 500) | st.integers(0, 9_000),
    more=st.integers(0, 500),
)
def test_a_bigger_budget_never_gives_a_worse_set(pruner, blocks, quotas, limit, more):
    small = pruner.prune(blocks, PruneBudget(max_tokens=limit, tier_tokens=quotas))
    large = pruner.prune(blocks, PruneBudget(max_tokens=limit + more, tier_tokens=quotas))
    assert set(ids(small.kept)) <= set(ids(large.kept))
    assert set(ids(small.degraded)) <= set(ids(large.kept)) | set(ids(large.degraded))
    for before, after in zip(small.decisions, large.decisions, strict=True):
        assert after.action is Action.DROPPED or before.action is Action.DROPPED or before.tokens <= after.tokens
    for result, budget in ((small, limit), (large, limit + more)):
        shown = [each for each in result.decisions if each.action is not Action.DROPPED]
        assert sum(each.tokens for each in shown) <= budget


@ALL
@pytest.mark.parametrize("whole", [60, 400, 1_400, 20_000])
def test_an_authored_block_that_is_too_long_is_cut_and_not_dropped(pruner, whole):
    persona = block("persona", whole, Priority.HIGH, kind=BlockKind.TEMPLATE, block_type=BlockType.INSTRUCTION)
    talk = [block(f"m{n}", 20, Priority.HIGH, rank=n + 1, block_type=BlockType.STATE) for n in range(5)]
    for limit in (48, whole // 2 + 24, whole - 1):
        (own, *others) = pruner.prune([persona, *talk], room(limit)).decisions
        spoken = sum(each.tokens for each in others if each.action is Action.KEPT)
        assert own.code == "cut"
        assert (limit - spoken) * 0.85 <= own.tokens <= limit - spoken
        assert spoken == (100 if limit > 612 else own.tokens == 512 and (limit - 512) // 20 * 20)
    assert codes(pruner.prune([persona, *talk], room(47))) == ["over_budget", *["after_cut"] * 5]
    assert len(pruner.prune([persona, *talk], room(whole + 100)).kept) == 6


@ALL
def test_an_authored_block_that_must_stay_is_never_cut(pruner):
    rules = block("rules", 500, Priority.MUST, kind=BlockKind.TEMPLATE)
    with pytest.raises(BudgetExceededError, match="rules"):
        pruner.prune([rules], room(400))
