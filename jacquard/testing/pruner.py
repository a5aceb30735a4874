"""Contract suite of `jacquard.core.protocols.Pruner`: subclass `PrunerContract`, override `make_pruner`, run pytest.

    from jacquard.testing.pruner import PrunerContract

    class TestMyPruner(PrunerContract):
        def make_pruner(self) -> Pruner:
            return MyPruner()

A pruner decides which blocks of a prompt are dropped if the prompt is too long. The docstring of each test names the
rule of the protocol that it checks. The sets of blocks are random with a fixed seed, so a failure can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from jacquard import BudgetExceededError, PlacedBlock, PruneBudget, Pruner, PruneResult, PruneRules
from jacquard.core.block_kinds import FLESH_SLOT, BlockKind
from jacquard.core.blocks import Block, BlockOrigin, BlockPlace, Sensitivity
from jacquard.core.receipt import Action
from mnemosyne import BlockType, Priority, Ref

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of all samples."""
_PLACE = BlockPlace(slot=FLESH_SLOT)
TIERS = (Priority.HIGH, Priority.MEDIUM, Priority.LOW)
"""Priorities of blocks that may be dropped."""


def sample_block(
    name: str,
    tokens: int,
    priority: Priority = Priority.MEDIUM,
    *,
    rank: int = 0,
    group: str | None = None,
    block_type: BlockType = BlockType.MEMORY,
    kind: BlockKind = BlockKind.MEMORY,
    **origin: Any,
) -> PlacedBlock:
    """Return a block that has `tokens` tokens. `origin` are fields of its `BlockOrigin`."""
    block = Block(
        block_id=name,
        kind=kind,
        block_type=block_type,
        content=name,
        place=_PLACE,
        origin=BlockOrigin(source="test", **origin),
        priority=priority,
        rank=rank,
        group=group,
        tokens=tokens,
    )
    return PlacedBlock(block=block, placement=_PLACE.placement, tokens=tokens)


def sample_sets(cases: int, seed: int) -> Iterator[tuple[list[PlacedBlock], PruneRules]]:
    """Yield `cases` random sets of blocks, each with rules.

    They contain groups, blocks with the same evidence, and old and sensitive blocks, but no blocks that must be kept.
    """
    random = Random(seed)
    for _ in range(cases):
        blocks = [_block(random, number) for number in range(random.randint(0, 14))]
        rules = PruneRules(
            now=NOW,
            ttl_seconds={Priority.LOW: 3600} if random.random() < 0.4 else {},
            max_sensitivity=random.choice((Sensitivity.SECRET, Sensitivity.SECRET, Sensitivity.INTERNAL)),
            mask=random.random() < 0.5,
        )
        yield blocks, rules


def _block(random: Random, number: int) -> PlacedBlock:
    return sample_block(
        f"b{number}",
        random.choice((0, 1, 5, 20, 60, 200)),
        random.choice(TIERS),
        block_type=random.choice((BlockType.CONVERSATION, BlockType.EVIDENCE, BlockType.STATE)),
        rank=random.randint(0, 4),
        group=random.choice((None, None, None, "g", "h")),
        refs=random.choice(((), (), (Ref(evidence_id="e1"),), (Ref(evidence_id="e2"),))),
        at=random.choice((None, NOW - timedelta(minutes=5), NOW - timedelta(days=2))),
        sensitivity=random.choice((Sensitivity.PUBLIC, Sensitivity.PUBLIC, Sensitivity.CONFIDENTIAL)),
    )


def _ungroup(placed: PlacedBlock) -> PlacedBlock:
    block = placed.block
    return sample_block(
        block.block_id,
        placed.tokens,
        block.priority,
        rank=block.rank,
        block_type=block.block_type,
        at=block.origin.at,
        sensitivity=block.origin.sensitivity,
    )


class PrunerContract:
    """Tests of the rules that every Pruner keeps. The docstring of the module has an example.

    `cases` is the number of random sets of blocks in a test, and `seed` the seed of the random numbers.
    """

    cases = 120
    seed = 20

    def make_pruner(self) -> Pruner:
        """Return a new pruner. Override this."""
        raise NotImplementedError("return the pruner to test")

    def test_empty_blocks_returns_empty(self) -> None:
        """Check rule 3: without blocks the result is empty."""
        result = self.make_pruner().prune([], PruneBudget(max_tokens=0))
        assert (result.kept, result.degraded, result.dropped, result.decisions) == ((), (), (), ())

    def test_must_blocks_never_dropped(self) -> None:
        """Check rule 1: blocks with the priority MUST are kept, whatever the other blocks are, even if no other fits."""
        pruner, random = self.make_pruner(), Random(self.seed)
        for blocks, rules in sample_sets(self.cases, self.seed):
            must = [
                sample_block(f"must{n}", random.choice((1, 30)), Priority.MUST) for n in range(random.randint(1, 3))
            ]
            least = sum(block.tokens for block in must)
            line = [*blocks, *must]
            random.shuffle(line)
            free = [_ungroup(block) for block in line]
            result = pruner.prune(free, PruneBudget(max_tokens=least + random.choice((0, 7, 90))), rules)
            assert _ids(must) <= _ids(result.kept)

    def test_must_blocks_that_do_not_fit_are_named(self) -> None:
        """Check rule 1: blocks that must be kept and do not fit raise an error that names them, the biggest first."""
        blocks = [sample_block("small", 30, Priority.MUST), sample_block("big", 90, Priority.MUST)]
        with pytest.raises(BudgetExceededError) as caught:
            self.make_pruner().prune([*blocks, sample_block("other", 1)], PruneBudget(max_tokens=100))
        assert caught.value.blocks == (("big", 90), ("small", 30))

    def test_other_priorities_can_be_must(self) -> None:
        """Check rule 1: blocks with the priorities in `must_keep` are never dropped."""
        rules = PruneRules(must_keep=frozenset({Priority.MUST, Priority.LOW}))
        blocks = [sample_block("high", 50, Priority.HIGH), sample_block("low", 40, Priority.LOW)]
        assert "low" in _ids(self.make_pruner().prune(blocks, PruneBudget(max_tokens=40), rules).kept)

    def test_budget_respected(self) -> None:
        """Check rule 2: kept and degraded blocks together do not exceed the budget."""
        pruner, random = self.make_pruner(), Random(self.seed)
        for blocks, rules in sample_sets(self.cases, self.seed):
            limit = random.randint(0, 500)
            result = pruner.prune(blocks, PruneBudget(max_tokens=limit), rules)
            assert _count_spent_tokens(result) <= limit
            assert sum(block.tokens for block in result.kept) <= limit, "a block that is kept costs its own tokens"

    def test_quotas_respected(self) -> None:
        """Check rule 2: the blocks of one priority do not exceed its quota."""
        pruner, random = self.make_pruner(), Random(self.seed)
        for blocks, rules in sample_sets(self.cases, self.seed):
            free = [_ungroup(block) for block in blocks]
            quotas = {tier: random.randint(0, 150) for tier in TIERS if random.random() < 0.7}
            result = pruner.prune(free, PruneBudget(max_tokens=300, tier_tokens=quotas), rules)
            for tier, quota in quotas.items():
                own = _ids(each for each in free if each.block.priority is tier)
                assert _count_spent_tokens(result, own) <= quota

    def test_decisions_cover_all_blocks(self) -> None:
        """Check rule 3: each block has one decision, in the order of the blocks, and is kept, degraded or dropped."""
        pruner, random = self.make_pruner(), Random(self.seed)
        for blocks, rules in sample_sets(self.cases, self.seed):
            result = pruner.prune(blocks, PruneBudget(max_tokens=random.randint(0, 500)), rules)
            assert [d.block_id for d in result.decisions] == [each.block.block_id for each in blocks]
            assert all(decision.code and decision.reason for decision in result.decisions)
            for action, expected in (
                (Action.KEPT, result.kept),
                (Action.DEGRADED, result.degraded),
                (Action.DROPPED, result.dropped),
            ):
                places = [place for place, d in enumerate(result.decisions) if d.action is action]
                assert [blocks[place] for place in places] == list(expected)

    def test_groups_live_or_die_together(self) -> None:
        """Check rule 4: no block of a group is dropped while another block of this group is kept."""
        pruner, random = self.make_pruner(), Random(self.seed)
        for blocks, rules in sample_sets(self.cases, self.seed):
            result = pruner.prune(blocks, PruneBudget(max_tokens=random.randint(0, 500)), rules)
            gone = _ids(result.dropped)
            for name in ("g", "h"):
                assert len({each.block.block_id in gone for each in blocks if each.block.group == name}) <= 1

    def test_a_bigger_budget_never_gives_a_worse_set(self) -> None:
        """Check rule 5: with a bigger budget, every block stays at least in the form that it had with the smaller
        budget.
        """
        pruner, random = self.make_pruner(), Random(self.seed)
        for blocks, rules in sample_sets(self.cases, self.seed):
            limit = random.randint(0, 400)
            quotas = {tier: random.randint(0, 150) for tier in TIERS if random.random() < 0.3}
            small = pruner.prune(blocks, PruneBudget(max_tokens=limit, tier_tokens=quotas), rules)
            more = limit + random.choice((1, 5, 40, 300))
            large = pruner.prune(blocks, PruneBudget(max_tokens=more, tier_tokens=quotas), rules)
            assert _ids(small.kept) <= _ids(large.kept)
            assert _ids(small.degraded) <= _ids(large.kept) | _ids(large.degraded)

    def test_what_is_too_old_leaves(self) -> None:
        """Check rule 6: a block that has expired, or is older than its priority allows, is never kept unchanged.

        A block that must be kept is the exception.
        """
        old = NOW - timedelta(hours=2)
        blocks = [
            sample_block("old", 5, Priority.LOW, at=old),
            sample_block("fresh", 5, Priority.LOW, at=NOW),
            sample_block("timeless", 5, Priority.LOW),
            sample_block("over", 5, expires_at=NOW),
            sample_block("must", 5, Priority.MUST, at=old, expires_at=old),
        ]
        rules = PruneRules(now=NOW, ttl_seconds={Priority.LOW: 3600, Priority.MUST: 1})
        result = self.make_pruner().prune(blocks, PruneBudget(max_tokens=1000), rules)
        assert _ids(result.kept) == {"fresh", "timeless", "must"}

    def test_what_is_too_guarded_is_never_kept_as_it_is(self) -> None:
        """Check rule 7: a block that is too sensitive is masked or dropped. A block that must be kept is always masked."""
        blocks = [
            sample_block("secret", 5, sensitivity=Sensitivity.SECRET),
            sample_block("must", 5, Priority.MUST, sensitivity=Sensitivity.CONFIDENTIAL),
            sample_block("open", 5, sensitivity=Sensitivity.INTERNAL),
        ]
        for mask in (True, False):
            rules = PruneRules(max_sensitivity=Sensitivity.INTERNAL, mask=mask)
            result = self.make_pruner().prune(blocks, PruneBudget(max_tokens=1000), rules)
            assert _ids(result.kept) == {"open"}
            assert _ids(result.degraded) == ({"secret", "must"} if mask else {"must"})
            assert {d.code for d in result.decisions if d.action is Action.DEGRADED} == {"masked"}

    def test_it_is_pure(self) -> None:
        """Check that the same arguments give the same result, and that the arguments are not changed."""
        for blocks, rules in sample_sets(self.cases // 10, self.seed):
            given = list(blocks)
            first = self.make_pruner().prune(blocks, PruneBudget(max_tokens=100), rules)
            assert self.make_pruner().prune(blocks, PruneBudget(max_tokens=100), rules) == first
            assert blocks == given


def _ids(blocks: Iterable[PlacedBlock]) -> set[str]:
    return {each.block.block_id for each in blocks}


def _count_spent_tokens(result: PruneResult, own: set[str] | None = None) -> int:
    return sum(
        d.tokens for d in result.decisions if d.action is not Action.DROPPED and (own is None or d.block_id in own)
    )
