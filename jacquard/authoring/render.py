"""Renders the prompt of a turn with any set of templates, and compares two such prompts. Only template files are read.

The prompt is made by parts of the engine: Stream A (templates), the weaving of blocks, a pruner and the assembler.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jacquard.authoring.replay.line_diff import diff_lines
from jacquard.authoring.target import TemplateTarget
from jacquard.authoring.turns import AuthorTurn
from jacquard.core.block_kinds import FLESH_LAYER
from jacquard.core.blocks import FRAME, SkeinTemplate
from jacquard.core.errors import BudgetExceededError
from jacquard.pipeline.curation.memory_blocks import labels_of, render_memories
from jacquard.pipeline.skeleton.automation import AutomationStream, Skeleton, make_block_ids_unique
from jacquard.pipeline.skeleton.state_fit import StateLimit
from jacquard.pipeline.weaving.layers import share
from jacquard.pipeline.weaving.policies import choose_pruner, load_turn_layout, rules_of, tier_tokens_of
from jacquard.pipeline.weaving.prompt import Prompt, complete, lay_out
from jacquard.templating import open_templates
from jacquard.templating.profiles import find_profile_id, load_profile, with_profile
from mnemosyne.protocols import TokenEstimator
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockRow:
    """One block of a rendering. `source` names the template or part that made the block, and `slot` names the place of
    the block in the layout.

    `tokens` is the number of tokens of its text, and `kept` is true if the block is in the prompt.
    """

    block_id: str
    title: str
    source: str
    slot: str
    tokens: int
    kept: bool
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    """Prompt of one turn, rendered with one set of templates."""

    label: str
    template_id: str
    layout: str
    prompt: Prompt
    rows: tuple[BlockRow, ...]
    """Blocks in reading order, with the dropped blocks last.

    The tokens of the kept rows and `frame_tokens` (tags and blank lines between blocks) add up to `tokens`.
    """
    frame_tokens: int

    @property
    def tokens(self) -> int:
        """Tokens of the whole prompt."""
        return self.prompt.assembled.tokens

    @property
    def text(self) -> str:
        """The prompt as one XML text."""
        return self.prompt.assembled.text

    def to_json(self) -> dict[str, Any]:
        """Return the rendering as `--json` prints it."""
        return {
            "turn": self.label,
            "template_id": self.template_id,
            "layout": self.layout,
            "tokens": self.tokens,
            "frame_tokens": self.frame_tokens,
            "blocks": [
                {
                    "block_id": row.block_id,
                    "title": row.title,
                    "source": row.source,
                    "slot": row.slot,
                    "tokens": row.tokens,
                    "kept": row.kept,
                }
                for row in self.rows
            ],
            "messages": [{"role": m.role, "content": m.content} for m in self.prompt.assembled.messages],
            "text": self.text,
        }


def render_turn(
    turn: AuthorTurn, target: TemplateTarget, estimator: TokenEstimator, *, layout: str | None = None
) -> Rendering:
    """Return the prompt of a turn, rendered with the templates of `target`. `layout` is the id of the layout (None: the
    layout of the turn).

    Raises TemplateError with file and line if a template cannot be rendered, and LayoutError if the layout is unknown.
    Raises BudgetExceededError if the blocks that must be kept do not fit.
    """
    profile = load_profile(turn.profile or find_profile_id(turn.config.profile, turn.request.world), target.roots)
    is_planned = not turn.recorded and with_profile(turn.request.world, profile) is not turn.request.world
    template_id = target.template_id or (profile.template if is_planned else turn.template_id)
    config = replace(turn.request.config, template_id=template_id)
    request = replace(turn.request, config=config, profile=profile)
    chosen = load_turn_layout(replace(request, config=turn.config), target.roots, layout or turn.layout)
    stream = AutomationStream(estimator, target.roots[-1])
    limit = StateLimit(int(turn.limit_tokens * turn.config.budget.state_share))
    while True:
        skeleton = stream.render_with(open_templates(target.roots), request, limit.tokens)
        try:
            prompt = _weave_prompt(turn, skeleton, chosen, estimator)
            break
        except BudgetExceededError as error:
            limit.reduce(skeleton.state_tokens, error)
    return rendering_of(prompt, turn.label, template_id, chosen.layout_id)


def rendering_of(prompt: Prompt, label: str, template_id: str, layout: str) -> Rendering:
    """Return a prompt as a rendering: its blocks in reading order, with their tokens."""
    return Rendering(
        label=label,
        template_id=template_id,
        layout=layout,
        prompt=prompt,
        rows=_rows(prompt),
        frame_tokens=sum(span.tokens for span in prompt.assembled.spans if span.block_id == FRAME),
    )


def _weave_prompt(turn: AuthorTurn, skeleton: Skeleton, layout: SkeinTemplate, estimator: TokenEstimator) -> Prompt:
    flesh = turn.fixed
    if flesh is None:
        flesh = render_memories(
            turn.selection,
            turn.entries,
            estimator,
            turn.config.curation.max_entry_tokens,
            labels=labels_of(turn.request),
        )
    skeleton, flesh = make_block_ids_unique(skeleton, flesh)
    blocks, history, left_out = share([*skeleton.blocks, *flesh], skeleton.history, turn.config.layers)
    prompt_layout = lay_out(
        blocks,
        history,
        skeleton.user_input,
        layout=layout,
        pruner=choose_pruner(turn.config),
        limit_tokens=turn.limit_tokens,
        count=estimator.estimate,
        tier_tokens=tier_tokens_of(turn.config),
        rules=rules_of(turn.config, turn.at),
        layer_attributes={FLESH_LAYER: {"model": turn.model}},
        left_out=left_out,
    )
    return complete(prompt_layout, turn.carried)


def _rows(prompt: Prompt) -> tuple[BlockRow, ...]:
    final, whole = prompt.stages[-1].blocks(), prompt.stages[-2].blocks()
    spent = {decision.block_id: decision.tokens for decision in prompt.decisions}
    kept = {each.block.block_id for each in final}
    gone = [each for each in whole if each.block.block_id not in kept]
    return tuple(
        BlockRow(
            block_id=block.block_id,
            title=block.origin.title,
            source=block.origin.source,
            slot=block.place.slot,
            tokens=spent.get(block.block_id, tokens),
            kept=block.block_id in kept,
            content=block.content,
        )
        for block, tokens in [(each.block, each.tokens) for each in (*final, *gone)]
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockChange:
    """Difference of one block between two renderings.

    `old_tokens` or `new_tokens` is None if the block does not exist in the old or the new rendering. `lines` is a
    unified diff of the texts.
    """

    block_id: str
    old_tokens: int | None
    new_tokens: int | None
    lines: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnChange:
    """Difference of one turn's prompts with two sets of templates. If `changes` is empty, the prompts have the same
    blocks.
    """

    label: str
    old_template: str
    new_template: str
    old_tokens: int
    new_tokens: int
    changes: tuple[BlockChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the change as `--json` prints it."""
        return {
            "turn": self.label,
            "old_template": self.old_template,
            "new_template": self.new_template,
            "old_tokens": self.old_tokens,
            "new_tokens": self.new_tokens,
            "changes": [
                {"block_id": c.block_id, "old_tokens": c.old_tokens, "new_tokens": c.new_tokens, "diff": list(c.lines)}
                for c in self.changes
            ],
        }


def compare(old: Rendering, new: Rendering) -> TurnChange:
    """Return the difference from `old` to `new`, block by block.

    The blocks are in the reading order of `new`; blocks that only `old` has come last.
    """
    before = {row.block_id: row for row in old.rows if row.kept}
    after = {row.block_id: row for row in new.rows if row.kept}
    changes = [
        change_of(name, before.get(name), after.get(name)) for name in (*after, *(n for n in before if n not in after))
    ]
    return TurnChange(
        label=new.label,
        old_template=old.template_id,
        new_template=new.template_id,
        old_tokens=old.tokens,
        new_tokens=new.tokens,
        changes=tuple(change for change in changes if change is not None),
    )


def change_of(name: str, old: BlockRow | None, new: BlockRow | None) -> BlockChange | None:
    """Return the difference of the block `name`. `old` or `new` is None if the block does not exist in this rendering.
    Return None if the texts are equal.
    """
    if old is not None and new is not None and old.content == new.content:
        return None
    return BlockChange(
        block_id=name,
        old_tokens=old.tokens if old else None,
        new_tokens=new.tokens if new else None,
        lines=diff_lines(_lines_of(old), _lines_of(new)),
    )


def _lines_of(row: BlockRow | None) -> list[str]:
    return row.content.split("\n") if row is not None and row.content else []


def compare_turns(
    turns: Iterable[AuthorTurn],
    old: TemplateTarget,
    new: TemplateTarget,
    estimator: TokenEstimator,
    *,
    layout: str | None = None,
) -> tuple[TurnChange, ...]:
    """Return the difference of each turn, rendered with the templates `old` and `new`. Raises the errors of
    `render_turn`. `layout` is the id of the layout (None: the layout of each turn).
    """
    changes: list[TurnChange] = []
    for turn in turns:
        before, after = (render_turn(turn, each, estimator, layout=layout) for each in (old, new))
        changes.append(compare(before, after))
    return tuple(changes)


def sum_changes(changes: Sequence[TurnChange]) -> dict[str, int]:
    """Return the totals of `changes`: number of turns, number of changed turns, and tokens with the old and the new
    templates.
    """
    return {
        "turns": len(changes),
        "changed": sum(bool(change.changes) for change in changes),
        "old_tokens": sum(change.old_tokens for change in changes),
        "new_tokens": sum(change.new_tokens for change in changes),
    }
