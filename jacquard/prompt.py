"""From the blocks of both streams to one prompt inside one budget: weave, prune, truncate, assemble. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from jacquard.assemble import MESSAGE_OVERHEAD_TOKENS, Assembled, assemble
from jacquard.protocols import Pruner
from jacquard.report import Action, BlockDecision
from jacquard.skein import PromptBlock, Skein, SkeinTemplate
from jacquard.weave import truncate, weave


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One finished prompt: its text, one decision for every block of both streams, and the skein at every stage."""

    assembled: Assembled
    decisions: tuple[BlockDecision, ...]
    stages: tuple[Skein, ...]


def build_prompt(
    blocks: Sequence[PromptBlock],
    history: Sequence[PromptBlock],
    user_input: PromptBlock,
    *,
    layout: SkeinTemplate,
    pruner: Pruner,
    limit_tokens: int,
    count: Callable[[str], int],
    layer_attributes: Mapping[str, Mapping[str, str]] | None = None,
) -> Prompt:
    """Weave all blocks and keep what fits into `limit_tokens`, the frame between blocks included.

    `history` is oldest first; `count` gives the tokens of a text. BudgetExceededError when what must stay does not fit.
    """
    priced = [replace(block, tokens=count(block.content)) for block in blocks]
    talk = [replace(block, tokens=count(block.content) + MESSAGE_OVERHEAD_TOKENS) for block in history]
    spoken = replace(user_input, tokens=count(user_input.content))
    woven = weave(priced, talk, spoken, layout, layer_attributes)
    frame_tokens = assemble(woven.skein, count).frame_tokens
    pruned = pruner.prune(woven.skein.blocks(), limit_tokens - frame_tokens)
    skein = truncate(woven.skein, {block.block_id for block in pruned.kept})
    assembled = assemble(skein, count)
    return Prompt(
        assembled=assembled,
        decisions=_with_real_tokens((*pruned.decisions, *woven.dropped), assembled),
        stages=(*woven.stages, skein),
    )


def _with_real_tokens(decisions: Sequence[BlockDecision], assembled: Assembled) -> tuple[BlockDecision, ...]:
    """Tokens of kept blocks are those of their spans, so that the receipt adds up to the prompt."""
    spent: dict[str, int] = {}
    for span in assembled.spans:
        spent[span.block_id] = spent.get(span.block_id, 0) + span.tokens
    return tuple(replace(d, tokens=spent.get(d.block_id, 0)) if d.action is Action.KEPT else d for d in decisions)
