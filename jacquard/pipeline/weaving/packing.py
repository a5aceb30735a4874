"""Decides for all pruners which blocks of a prompt fit into a token budget. Pure; it must not import a pruner.

A unit is one or several blocks that are kept or dropped together. A step adds tokens of one unit to the prompt. The
order of the steps does not depend on the budget, and the first step that does not fit ends the packing. A bigger budget
therefore keeps everything that a smaller budget keeps. For the same reason, a block counts as oversize if it is much
longer than the other blocks; the budget has no effect on this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from math import ceil

from filament.boundaries import split_content
from jacquard.core.block_kinds import AUTHORED
from jacquard.core.blocks import Block, PlacedBlock, Sensitivity
from jacquard.core.errors import BudgetExceededError
from jacquard.core.protocols import PruneBudget, PruneResult, PruneRules
from jacquard.core.receipt import Action, BlockDecision, decide_block
from mnemosyne.core.codec import Struct
from mnemosyne.schema.evidence import BlockType, Priority

TIERS = (Priority.MUST, Priority.HIGH, Priority.MEDIUM, Priority.LOW)
SHORTENED = "shortened"
CUT = "cut"
MASKED = "masked"
_RANK = {priority: place for place, priority in enumerate(TIERS)}
_GUARD = {level: place for place, level in enumerate(Sensitivity)}
OVERSIZE_TOKENS = 1_500
"""A block of at most this length is never oversize."""

OVERSIZE_TIMES = 8
"""An oversize block is longer than the median length of the blocks times this number."""

PART_TOKENS = 512
"""Maximum tokens of the first part of an author's long block. The first part is packed together with the other blocks
of the same priority; the rest of the block is packed after them.
"""

LEAST_PART_TOKENS = 48
"""Minimum useful length of a part of an authored block."""

_MARK_TOKENS = 8
"""Tokens of the mark of a shortened element."""
_SHORTENABLE = frozenset({BlockType.CONVERSATION, BlockType.EVIDENCE, BlockType.MEMORY})

Grouping = Callable[[Sequence[PlacedBlock]], list[list[int]]]
"""Returns the units: for each unit, the indexes of its blocks. Every index occurs once."""


Step = tuple[int, int, bool, int]
"""One step of packing: (index of the unit, tokens to add, whether this step completes the unit, minimum useful part of
the tokens).

The last number is 0 if the step must be taken completely or not at all.
"""


class Unit(Struct, kw_only=True):
    """Blocks that are kept or dropped together, by their places in the input, with their packing state."""

    members: Sequence[int]
    priority: Priority
    key: tuple[int, int, int]
    tokens: int
    short_tokens: int
    """Tokens of the unit if its blocks are shortened or cut as far as possible; equal to `tokens` if that is not possible."""
    must: bool
    """True if the unit must be in the prompt."""
    out: str = ""
    """Code of the reason why the unit must not be in the prompt at any budget ('': the unit may be in the prompt)."""
    only_short: bool = False
    """True if the unit has expired, so that it may be shown only in shortened form."""
    least_tokens: int = 0
    """Minimum useful tokens of a part (0: the unit is not cut into parts)."""
    level: int = 0
    """0: the unit is dropped. 1: it is shortened to `packed_tokens`. 2: it is complete."""
    code: str = "after_cut"
    room: int = 0
    packed_tokens: int = 0


def group_by_name(blocks: Sequence[PlacedBlock]) -> list[list[int]]:
    """Return the units as indexes of blocks: blocks with the same `group` (a tool call and its result) are one unit."""
    groups: dict[str, list[int]] = {}
    for place, each in enumerate(blocks):
        group = each.block.group
        groups.setdefault(f"group:{group}" if group else f"block:{place}", []).append(place)
    return list(groups.values())


def build_units(
    blocks: Sequence[PlacedBlock], rules: PruneRules, grouping: Grouping, *, shorten: bool = False
) -> tuple[Unit, ...]:
    """Return the units in packing order. Units that must be kept come first. All others are ordered by the priority,
    rank and place of their best block.

    `grouping` puts the blocks into units, and `rules` are the rules of pruning. If `shorten` is true, blocks may be
    shortened.
    """
    return tuple(
        sorted((_unit(blocks, places, rules, shorten) for places in grouping(blocks)), key=lambda unit: unit.key)
    )


def build_steps(units: Sequence[Unit]) -> list[Step]:
    """Return the steps of packing, one priority after the other.

    In each priority, every unit is first added in its short form, or completely if it has none. Then the rest of each
    shortened unit is added. Oversize units come last.
    """
    steps: list[Step] = []
    for tier in TIERS:
        shorter: list[Step] = []
        for place, unit in enumerate(units):
            if unit.must or unit.out or unit.only_short or unit.priority is not tier:
                continue
            rest = unit.tokens - unit.short_tokens
            steps.append((place, unit.short_tokens, rest <= 0, unit.least_tokens))
            if rest > 0:
                shorter.append((place, rest, True, min(unit.least_tokens, 1)))
        steps += shorter
    for place, unit in enumerate(units):
        if unit.only_short and not unit.must and not unit.out:
            steps.append((place, unit.short_tokens, False, 0))
    return _defer_oversize(steps, units)


def _defer_oversize(steps: list[Step], units: Sequence[Unit]) -> list[Step]:
    """Return the steps in their order, but those that add an oversize length after all others.

    The first step that does not fit ends packing, so a block of 20,000 tokens would keep everything after it out. The part of a
    block that may be cut stays in its place up to the oversize length.
    """
    sizes = sorted([unit.tokens for unit in units if not unit.must and not unit.out])
    if not sizes:
        return steps
    limit = max(OVERSIZE_TOKENS, OVERSIZE_TIMES * sizes[(len(sizes) - 1) // 2])
    late = {unit for unit, tokens, whole, _ in steps if not whole and tokens > limit}
    first: list[Step] = []
    last: list[Step] = []
    for step in steps:
        unit, tokens, whole, least_tokens = step
        if tokens > limit and least_tokens:
            first.append((unit, limit, False, least_tokens))
            last.append((unit, tokens - limit, whole, 1))
        else:
            (last if tokens > limit or unit in late else first).append(step)
    return first + last


def pack(
    blocks: Sequence[PlacedBlock],
    units: Sequence[Unit],
    steps: Iterable[Step],
    budget: PruneBudget,
    rules: PruneRules,
) -> PruneResult:
    """Take `steps` in order until one does not fit into `budget`, and return the decision on every block.

    `units` and `steps` are the results of `build_units` and `build_steps` for `blocks`. A priority whose limit is
    reached takes no further steps; the other priorities go on. Raises BudgetExceededError if the blocks that must be
    kept do not fit.
    """
    used = _keep_must(blocks, units, budget)
    tiers: dict[Priority, int] = {}
    closed: set[Priority] = set()
    # After the first step that does not fit, no later one is taken, neither of the tier nor of all: smaller blocks would fill
    # the gap, and a
    # larger budget could then give a worse set.
    full = False
    for place, tokens, whole, least_tokens in steps:
        unit = units[place]
        spent = tiers.get(unit.priority, 0)
        quota = budget.tier_tokens.get(unit.priority)
        if unit.priority in closed or (quota is not None and spent + tokens > quota):
            if unit.priority not in closed and quota is not None:
                unit.room = max(0, quota - spent)
                used += _take_part(unit, least_tokens, 0 if full else min(unit.room, budget.max_tokens - used))
            closed.add(unit.priority)
            unit.code = "over_quota"
            continue
        tiers[unit.priority] = spent + tokens
        if full or used + tokens > budget.max_tokens:
            if not full:
                unit.code, unit.room = "over_budget", budget.max_tokens - used
                used += _take_part(unit, least_tokens, unit.room)
            full = True
            continue
        used += tokens
        unit.level, unit.packed_tokens = 2 if whole else 1, unit.packed_tokens + tokens
    decisions: dict[int, BlockDecision] = {}
    sorted_blocks: dict[Action, dict[int, PlacedBlock]] = {action: {} for action in Action}
    for unit in units:
        for place in unit.members:
            block = blocks[place]
            decision = decisions[place] = _decide(block, unit, rules)
            sorted_blocks[decision.action][place] = block
    kept, degraded, dropped = (
        tuple([members[place] for place in sorted(members)])
        for members in (sorted_blocks[Action.KEPT], sorted_blocks[Action.DEGRADED], sorted_blocks[Action.DROPPED])
    )
    ordered = tuple([decisions[place] for place in range(len(blocks))])
    return PruneResult(kept=kept, degraded=degraded, dropped=dropped, decisions=ordered)


def _take_part(unit: Unit, least_tokens: int, room: int) -> int:
    """Give a unit the part of a step that fits; return its tokens, 0 if the part is too small to be useful.

    The part is rounded down to four binary digits, so that its text does not change with each token of the rest of the prompt.
    """
    if not least_tokens or room < least_tokens:
        return 0
    grain = 1 << max(0, room.bit_length() - 4)
    part = room // grain * grain
    unit.level, unit.packed_tokens = 1, unit.packed_tokens + part
    return part


def is_over_guarded(block: Block, rules: PruneRules) -> bool:
    """Return whether a block is more sensitive than `rules` allow."""
    return _GUARD[block.origin.sensitivity] > _GUARD[rules.max_sensitivity]


def _keep_must(blocks: Sequence[PlacedBlock], units: Sequence[Unit], budget: PruneBudget) -> int:
    used = 0
    for unit in units:
        if unit.must:
            used, unit.level = used + unit.tokens, 2
    if used > budget.max_tokens:
        must = [blocks[place] for unit in units if unit.must for place in unit.members]
        named = sorted(((each.block.block_id, each.tokens) for each in must), key=lambda pair: (-pair[1], pair[0]))
        raise BudgetExceededError(budget.max_tokens, used, tuple(named))
    return used


def _unit(blocks: Sequence[PlacedBlock], places: Sequence[int], rules: PruneRules, shorten: bool) -> Unit:
    first, tokens, must = (len(TIERS), 0, 0), 0, False
    for place in places:
        block = blocks[place].block
        first = min(first, (_RANK[block.priority], block.rank, place))
        tokens += blocks[place].tokens
        must = must or block.priority in rules.must_keep
    if must:
        key = (0, *first[1:])
        return Unit(members=places, priority=TIERS[first[0]], key=key, tokens=tokens, short_tokens=tokens, must=True)
    short, expired, guarded, most = 0, rules.now is not None, False, _GUARD[rules.max_sensitivity]
    for place in places:
        block = blocks[place].block
        short += estimate_short_tokens(blocks[place], rules) if shorten else blocks[place].tokens
        expired = expired and _is_expired(block, rules)
        guarded = guarded or _GUARD[block.origin.sensitivity] > most
    out = "sensitive" if guarded and not rules.mask else "expired" if expired and short == tokens else ""
    is_cut = len(places) == 1 and short == tokens > LEAST_PART_TOKENS
    is_cut = is_cut and blocks[places[0]].block.kind in AUTHORED and not guarded
    return Unit(
        members=places,
        priority=TIERS[first[0]],
        key=(1 + first[0], *first[1:]),
        tokens=tokens,
        short_tokens=min(short, PART_TOKENS) if is_cut else short,
        must=False,
        out=out,
        only_short=expired,
        least_tokens=LEAST_PART_TOKENS if is_cut else 0,
    )


def estimate_short_tokens(placed: PlacedBlock, rules: PruneRules) -> int:
    """Return the maximum tokens of a block after shortening. If the block cannot be shortened, return its own tokens.

    The tags of a block are kept, so only the tokens of its text count for the shortening.
    """
    block = placed.block
    if block.block_type not in _SHORTENABLE or is_over_guarded(block, rules):
        return placed.tokens
    tags = (
        0 if block.place.as_written else sum(len(each.source) for each in split_content(block.content) if each.is_tag)
    )
    frame = ceil(placed.tokens * tags / len(block.content)) + _MARK_TOKENS if tags else 0
    words = max(0, placed.tokens - frame)
    return min(placed.tokens, frame + max(rules.shorten_least_tokens, ceil(words * rules.shorten_to)))


def _is_expired(block: Block, rules: PruneRules) -> bool:
    if rules.now is None:
        return False
    at, expires_at = block.origin.at, block.origin.expires_at
    if expires_at is not None and expires_at <= rules.now:
        return True
    seconds = rules.ttl_seconds.get(block.priority)
    return seconds is not None and at is not None and rules.now - at > timedelta(seconds=seconds)


def _decide(placed: PlacedBlock, unit: Unit, rules: PruneRules) -> BlockDecision:
    block = placed.block
    action, code, reason, tokens, title = Action.KEPT, "fits", "", placed.tokens, block.origin.title
    guarded = is_over_guarded(block, rules)
    if guarded:
        title = block.block_type.value
    if unit.level == 0:
        action = Action.DROPPED
        code, reason = _explain_drop(block, unit, rules, guarded=guarded)
    elif guarded:
        action, code = Action.DEGRADED, MASKED
        reason = f"It is {block.origin.sensitivity.value}, and this reader may see no more than {rules.max_sensitivity.value}."
    elif unit.level == 1 and unit.least_tokens:
        action, code, tokens = Action.DEGRADED, CUT, unit.packed_tokens
        reason = f"It is cut to {tokens} tokens: there is no room for its whole text."
    elif unit.level == 1 and (short := estimate_short_tokens(placed, rules)) < placed.tokens:
        action, code, tokens = Action.DEGRADED, SHORTENED, short
        why = "it is too old to stand whole" if unit.only_short else "there is no room for its whole text"
        reason = f"It is shortened to {short} tokens: {why}."
    elif block.priority in rules.must_keep:
        code, reason = "must", "It must be in every prompt."
    elif unit.must:
        code, reason = "must", "It stands with a block that must be in every prompt."
    else:
        reason = f"It fits the budget ({block.priority!s} priority, rank {block.rank})."
    return decide_block(block, action, code, reason, tokens, title)


def _explain_drop(block: Block, unit: Unit, rules: PruneRules, *, guarded: bool) -> tuple[str, str]:
    if unit.out == "sensitive" and not guarded:
        return "with_group", "It stands with a block that is too guarded for this reader."
    if unit.out == "sensitive":
        level = block.origin.sensitivity.value
        sentence = f"It is {level}; this reader may see no more than {rules.max_sensitivity.value}."
        return unit.out, sentence
    if unit.out == "expired":
        return unit.out, "It is older than its priority may be, or its time is over."
    if unit.code == "over_quota":
        return "over_quota", f"The quota of {unit.priority.value} priority was full before its turn came."
    if unit.code == "over_budget":
        return "over_budget", f"It needs {unit.tokens} tokens and {max(unit.room, 0)} were left."
    return "after_cut", "The budget was full before its turn came."
