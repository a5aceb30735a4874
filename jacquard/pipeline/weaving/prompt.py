"""Makes one prompt within a token limit from the blocks of both streams (Stream A: fixed rules, Stream B: memories).

1. `lay_out` orders the blocks and decides which are kept, degraded (shortened, cut or masked) or dropped.
2. The caller shortens and masks the degraded blocks (`jacquard.pipeline.weaving.degrade`).
3. `complete` cuts the authors' blocks that are too long, joins all blocks into messages, and counts the tokens.

If the joined prompt still exceeds the limit, an emergency cut decides again with a smaller budget. A prompt over its limit is
never returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jacquard.core.blocks import MESSAGE_OVERHEAD_TOKENS, Block, PlacedBlock, Skein, SkeinTemplate
from jacquard.core.errors import BudgetExceededError
from jacquard.core.protocols import NO_RULES, PruneBudget, Pruner, PruneResult, PruneRules
from jacquard.core.receipt import Action, BlockDecision, decide_block
from jacquard.pipeline.weaving.assemble import ROLE_MESSAGES, AssembledPrompt, Assembler, assemble_checked
from jacquard.pipeline.weaving.authored_cuts import cut_block
from jacquard.pipeline.weaving.packing import CUT
from jacquard.pipeline.weaving.weave import WovenSkein, truncate, weave
from mnemosyne.core.codec import replace_struct
from mnemosyne.schema.evidence import Priority
from mnemosyne.values import dataclass

EMERGENCY = "emergency_cut"


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """Complete prompt, with one decision for every block of both streams, and the skein (ordered blocks) of every
    stage.
    """

    assembled: AssembledPrompt
    decisions: tuple[BlockDecision, ...]
    stages: tuple[Skein, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptLayout:
    """Ordered blocks of a prompt with a decision on each, before anything is shortened."""

    woven: WovenSkein
    assembled: AssembledPrompt
    """Prompt with all blocks, before pruning."""
    pruned: PruneResult
    budget: PruneBudget
    rules: PruneRules
    pruner: Pruner
    count: Callable[[str], int]
    limit_tokens: int
    left_out: tuple[BlockDecision, ...] = ()
    """Decisions on blocks that were left out before the blocks were ordered."""
    assembler: Assembler = ROLE_MESSAGES

    @property
    def orders(self) -> tuple[tuple[PlacedBlock, BlockDecision], ...]:
        """(block, decision) for each block that the caller must shorten or mask, in reading order."""
        degraded = {each.block.block_id: each for each in self.pruned.degraded}
        return tuple(
            (degraded[d.block_id], d) for d in self.pruned.decisions if d.action is Action.DEGRADED and d.code != CUT
        )


def lay_out(
    blocks: Sequence[Block],
    history: Sequence[Block],
    user_input: Block,
    *,
    layout: SkeinTemplate,
    pruner: Pruner,
    limit_tokens: int,
    count: Callable[[str], int],
    tier_tokens: Mapping[Priority, int] | None = None,
    rules: PruneRules = NO_RULES,
    layer_attributes: Mapping[str, Mapping[str, str]] | None = None,
    left_out: tuple[BlockDecision, ...] = (),
    assembler: Assembler = ROLE_MESSAGES,
) -> PromptLayout:
    """Order all blocks, and decide which fit into `limit_tokens` together with the frame (our own text between blocks).

    Args:
        blocks: blocks of both streams without the conversation.
        history: messages of the conversation, oldest first.
        user_input: block of the user's input.
        layout: places of the slots.
        pruner: decides which blocks fit.
        limit_tokens: maximum tokens of the prompt.
        count: returns the tokens of a text.
        tier_tokens: maximum tokens of the blocks of each priority (None: no limits).
        rules: further rules of pruning.
        layer_attributes: layer -> attributes of its wrapper (None: no attributes).
        left_out: decisions on blocks that are not among `blocks`, for the receipt.
        assembler: joins the blocks into messages.

    Raises BudgetExceededError if the blocks that must be kept do not fit, and AssemblerError if an assembler of the host breaks
    its rules.
    """
    woven = weave(blocks, history, user_input, layout, layer_attributes)
    assembled = assemble_checked(assembler, woven.skein, count)
    # The frame of all blocks: with fewer blocks it can only become smaller.
    budget = PruneBudget(max_tokens=limit_tokens - assembled.frame_tokens, tier_tokens=tier_tokens or {})
    return PromptLayout(
        woven=woven,
        assembled=assembled,
        pruned=prune_checked(pruner, woven.skein.blocks(), budget, rules),
        budget=budget,
        rules=rules,
        pruner=pruner,
        count=count,
        limit_tokens=limit_tokens,
        left_out=left_out,
        assembler=assembler,
    )


def prune_checked(pruner: Pruner, blocks: Sequence[PlacedBlock], budget: PruneBudget, rules: PruneRules) -> PruneResult:
    """Return what `pruner` decides, with a `BlockDecision` for each block, although a pruner of the host may give less."""
    made = pruner.prune(blocks, budget, rules)
    if made.decisions and all(isinstance(each, BlockDecision) and each.code for each in made.decisions):
        return made
    told = {each.block_id: each for each in made.decisions}
    kept = {each.block_id for each in made.kept}
    actions = {
        each.block_id: Action(told[each.block_id].action)
        if each.block_id in told
        else (Action.KEPT if each.block_id in kept else Action.DROPPED)
        for each in blocks
    }
    codes = {Action.KEPT: "kept", Action.DROPPED: "dropped", Action.DEGRADED: "shortened"}

    def pick(action: Action) -> tuple[PlacedBlock, ...]:
        return tuple(each for each in blocks if actions[each.block_id] is action)

    return PruneResult(
        kept=pick(Action.KEPT),
        degraded=pick(Action.DEGRADED),
        dropped=pick(Action.DROPPED),
        decisions=tuple(
            decide_block(
                each.block,
                actions[each.block_id],
                codes[actions[each.block_id]],
                getattr(told.get(each.block_id), "reason", "") or "The pruner of the host gives no reason.",
                getattr(told.get(each.block_id), "token_estimate", each.tokens),
            )
            for each in blocks
        ),
    )


def complete(prompt_layout: PromptLayout, degraded_blocks: Mapping[str, Block] | None = None) -> Prompt:
    """Return the complete prompt of `prompt_layout`, the result of `lay_out`. `degraded_blocks` maps the ids of blocks
    to their shortened or masked versions.

    A block of `prompt_layout.orders` that is not in `degraded_blocks` is dropped. Raises BudgetExceededError if the blocks that
    must be kept do not fit.
    """
    shorter = degraded_blocks or {}
    pruned = prompt_layout.pruned
    prompt = _assemble_prompt(prompt_layout, pruned, shorter)
    room = prompt_layout.budget.max_tokens
    while (over := _count_needed_tokens(prompt.assembled, prompt_layout.count) - prompt_layout.limit_tokens) > 0:
        room -= over
        budget = replace(prompt_layout.budget, max_tokens=room)
        try:
            blocks = prompt_layout.woven.skein.blocks()
            again = prune_checked(prompt_layout.pruner, blocks, budget, prompt_layout.rules)
        except BudgetExceededError as error:
            needed = prompt_layout.limit_tokens + over
            raise BudgetExceededError(prompt_layout.limit_tokens, needed, error.blocks) from error
        prompt = _assemble_prompt(prompt_layout, _mark_emergency_cut(again, prompt_layout.pruned), shorter)
    return prompt


def _assemble_prompt(prompt_layout: PromptLayout, pruned: PruneResult, degraded_blocks: Mapping[str, Block]) -> Prompt:
    placed_blocks = {each.block.block_id: each for each in prompt_layout.woven.skein.blocks()}
    standing: dict[str, PlacedBlock] = {}
    decisions, whole = [], True
    for decision in pruned.decisions:
        placed = placed_blocks[decision.block_id]
        # A pruner of the host may not know kinds.
        if decision.kind is not placed.block.kind:
            decision = replace(decision, kind=placed.block.kind)
        if decision.action is Action.DEGRADED:
            block = degraded_blocks.get(decision.block_id)
            if decision.code == CUT:
                block = cut_block(placed, decision.tokens, prompt_layout.count)
            if block is None:
                reason = f"{decision.reason} That could not be done."
                decision = replace(decision, action=Action.DROPPED, code=f"not_{decision.code}", reason=reason)
            else:
                placed = replace_struct(placed, block=block, tokens=block.tokens)
        whole = whole and decision.action is Action.KEPT
        if decision.action is not Action.DROPPED:
            standing[decision.block_id] = placed
        decisions.append(decision)
    skein = truncate(prompt_layout.woven.skein, standing)
    assembled = prompt_layout.assembled
    if not whole:
        assembled = assemble_checked(prompt_layout.assembler, skein, prompt_layout.count)
    return Prompt(
        assembled=assembled,
        decisions=_set_real_tokens((*decisions, *prompt_layout.woven.dropped, *prompt_layout.left_out), assembled),
        stages=(*prompt_layout.woven.stages, skein),
    )


def _count_needed_tokens(assembled: AssembledPrompt, count: Callable[[str], int]) -> int:
    """Return the tokens of the prompt, counted by blocks or by complete messages, whichever is more."""
    pieces: dict[int, list[int]] = {}
    for span in assembled.spans:
        if span.end > span.start:
            pieces.setdefault(span.message, []).append(span.tokens)
    whole = 0
    for place, message in enumerate(assembled.messages):
        own = pieces.get(place, [])
        whole += MESSAGE_OVERHEAD_TOKENS + (own[0] if len(own) == 1 else count(message.content))
    return max(assembled.tokens, whole)


def _mark_emergency_cut(again: PruneResult, before: PruneResult) -> PruneResult:
    """Return the result with a reason on every block that only the emergency cut dropped."""
    stood = {d.block_id for d in before.decisions if d.action is not Action.DROPPED}
    reason = "The finished prompt counted more than its blocks; this was cut so that it fits."
    decisions = tuple(
        replace(d, code=EMERGENCY, reason=reason) if d.action is Action.DROPPED and d.block_id in stood else d
        for d in again.decisions
    )
    return replace(again, decisions=decisions)


def _set_real_tokens(decisions: Sequence[BlockDecision], assembled: AssembledPrompt) -> tuple[BlockDecision, ...]:
    """Set the tokens of kept blocks to those of their spans, so that the receipt adds up to the prompt."""
    spent: dict[str, int] = {}
    for span in assembled.spans:
        spent[span.block_id] = spent.get(span.block_id, 0) + span.tokens
    return tuple(
        [
            d
            if d.action is Action.DROPPED or d.tokens == (tokens := spent.get(d.block_id, 0))
            else replace(d, tokens=tokens)
            for d in decisions
        ]
    )
