"""Rebuilds a recorded prompt: unchanged from its snapshot, with today's templates, or under another configuration.
Pure.

A snapshot has the inputs of a prompt, stored with its turn. A rebuilt prompt should have the same bytes as the recorded
one; `find_differences` states any difference. `compare_templates` states which blocks today's templates change. Under
another configuration, these are computed again: layout, template, budget, pruning, history, and the number of memories.
The memories themselves and the plan stay the same. This module must not import a store, an index or a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jacquard.authoring.replay.line_diff import diff_lines
from jacquard.config.sections import RuntimeConfig
from jacquard.core.block_kinds import CURATION_SOURCE, TEMPLATE_SOURCE
from jacquard.core.blocks import Block, SkeinTemplate
from jacquard.core.errors import ConfigError
from jacquard.core.receipt import BY_HEURISTIC, NOT_ADDED, SHOWN_BY_CLIENT, BlockDecision, CurationPath
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot, config_to_plain
from jacquard.pipeline.record.stored_turn import report_damage, report_of
from jacquard.pipeline.skeleton.automation import render_blocks
from jacquard.pipeline.skeleton.naming import rename_duplicates
from jacquard.pipeline.weaving.layers import share
from jacquard.pipeline.weaving.pieces import join_messages
from jacquard.pipeline.weaving.policies import choose_pruner, rules_of, tier_tokens_of
from jacquard.pipeline.weaving.prompt import Prompt, PromptLayout, complete, lay_out
from jacquard.templating.sets import TemplateSet
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

Count = Callable[[str], int]
"""Returns the tokens of a text."""
PLAYED = (
    "layout",
    "template_id",
    "budget",
    "prune",
    "history",
    "layers",
    "curation.enabled",
    "curation.select_limit",
    "curation.fallback_limit",
)
"""Settings whose effect a replay shows."""
_SILENT = frozenset(
    {"observability", "tags", "limits", "locks", "chunks", "package", "experiments", "curation.background_seconds"}
)
"""Settings that change no prompt."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateChange:
    """Block that today's templates render differently.

    `file` is the template of the block, and `diff` contains the lines of a unified diff of its text. `before_tokens` is
    None if the block did not exist when the turn was recorded. `after_tokens` is None if the block does not exist now.
    """

    block_id: str
    file: str
    before_tokens: int | None
    after_tokens: int | None
    diff: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateComparison:
    """Recorded templates compared with today's: changed, added and removed files, and the blocks that differ."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    blocks: tuple[TemplateChange, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DecisionChange:
    """Decisions on one block in two prompts, such as `kept`, `dropped (code)` or `shortened (code)`.

    A decision is None if the prompt did not have the block.
    """

    block_id: str
    title: str
    before: str | None
    after: str | None
    before_tokens: int
    after_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnDiff:
    """Difference of one turn under two configurations.

    Fields `before_…` are about the recorded turn, and fields `after_…` about the turn under the other configuration.
    `…_shared` are the tokens at the beginning of the prompt that are the same as in the previous turn.
    """

    turn_id: str
    before_tokens: int
    after_tokens: int
    before_shared: int
    after_shared: int
    decisions: tuple[DecisionChange, ...] = ()
    moved: bool = False
    """True if the prompts do not have the same blocks in the same order and messages."""
    fault: str = ""
    """Reason why the turn could not be replayed, such as a budget that is too small; '' if it was replayed."""


def replay_prompt(snapshot: PromptSnapshot, count: Count) -> Prompt:
    """Return the prompt of a snapshot, rebuilt.

    Raises BudgetExceededError if the blocks that must be kept do not fit. Raises ConfigError if a pruner of the host
    made the prompt and is not registered here, or if an assembler of the host made it.
    """
    return complete(
        _lay_out_snapshot(snapshot, snapshot.runtime, snapshot.layout, count),
        {block.block_id: block for block in snapshot.carried},
    )


def find_differences(record: TurnRecord, prompt: Prompt) -> tuple[str, ...]:
    """Return one sentence for each difference between the recorded prompt and `prompt`. Return an empty tuple if the
    prompts are the same.
    """
    stored = record.prompt or {}
    report = report_of(record)
    found: list[str] = []
    with report_damage(record, "prompt"):
        messages = join_messages(stored.get("messages", ()))
    if len(messages) != len(prompt.assembled.messages):
        found.append(f"It had {len(messages)} messages and has {len(prompt.assembled.messages)} now.")
    for place, (old, new) in enumerate(zip(messages, prompt.assembled.messages, strict=False)):
        if old != new:
            found.append(
                f"Message {place} ({old.role}) differs from character {_find_first_difference(old.content, new.content)} on."
            )
    if report.spans and report.spans != prompt.assembled.spans:
        found.append("The spans of the blocks, or their tokens, differ.")
    # The proxy adds only a part of this prompt to a client's call, depending on the client's messages.
    held_back = {each.block_id for each in report.decisions if each.code in (NOT_ADDED, SHOWN_BY_CLIENT)}
    then, now = (
        [each for each in decided if each.block_id not in held_back] for decided in (report.decisions, prompt.decisions)
    )
    if report.decisions and then != now:
        found.append("The decisions differ.")
    return tuple(found)


def compare_templates(snapshot: PromptSnapshot, templates: TemplateSet, count: Count) -> TemplateComparison:
    """Compare the recorded blocks of a snapshot with the blocks that today's `templates` make of the same inputs.
    Raises TemplateError if a template has a fault.
    """
    then, now = snapshot.source.digests, templates.digests
    old = {block.block_id: block for block in snapshot.blocks if block.origin.source.startswith(TEMPLATE_SOURCE)}
    new = {block.block_id: block for block in render_blocks(templates, snapshot.source, count)}
    names = list(dict.fromkeys([*old, *new]))
    return TemplateComparison(
        changed=tuple(name for name in then if name in now and now[name] != then[name]),
        added=tuple(name for name in now if name not in then),
        removed=tuple(name for name in then if name not in now),
        blocks=tuple(
            _block_change(name, old.get(name), new.get(name), count)
            for name in names
            if _text(old.get(name)) != _text(new.get(name))
        ),
    )


def select_untemplated_blocks(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Return the blocks that no template made: memories, results of tools, and instructions of the host."""
    return tuple(block for block in blocks if not block.origin.source.startswith(TEMPLATE_SOURCE))


def lay_out_with(
    snapshot: PromptSnapshot,
    config: RuntimeConfig,
    count: Count,
    *,
    layout: SkeinTemplate,
    templates: TemplateSet | None = None,
    history: Sequence[Block] | None = None,
    stream_b: CurationPath | None = None,
) -> PromptLayout:
    """Return the prompt of a snapshot's turn under another configuration and layout, with the decision on each block.

    The caller carries out the decisions to shorten and mask; `complete` drops the blocks for which this was not done.
    Raises BudgetExceededError if the blocks that must be kept do not fit.

    Args:
        snapshot: snapshot of the turn.
        config: the other configuration.
        count: returns the tokens of a text.
        layout: the other layout.
        templates: today's templates, needed if `config` names another template (None: none are needed).
        history: messages of the history under the other configuration (None: the history stays the same).
        stream_b: path by which the memories were chosen, which decides the limit of `curation` that applies (None:
            unknown).
    """
    blocks = list(snapshot.blocks)
    template_id = config.template_id or snapshot.source.template_id
    if template_id != snapshot.source.template_id and templates is not None:
        rendered = render_blocks(templates, replace(snapshot.source, template_id=template_id), count)
        blocks = [*rendered, *select_untemplated_blocks(blocks)]
    memories = _limit_memories(blocks, config, stream_b)
    # The input comes first, because the first block with an id keeps it.
    named = rename_duplicates([snapshot.user_input, *memories, *(snapshot.history if history is None else history)])[1:]
    played = replace(
        snapshot,
        blocks=named[: len(memories)],
        history=named[len(memories) :],
        limit_tokens=_limit(snapshot, config),
    )
    return _lay_out_snapshot(played, config, layout, count)


def reuse_degraded_blocks(snapshot: PromptSnapshot, config: RuntimeConfig) -> dict[str, Block]:
    """Return block id -> recorded shortened or masked block, if `config` has the same budget and pruning as the
    snapshot. Otherwise return an empty dict.
    """
    own = snapshot.runtime
    same = own.prune == config.prune and own.budget == config.budget
    return {block.block_id: block for block in snapshot.carried} if same else {}


def compare_decisions(before: Sequence[BlockDecision], after: Sequence[BlockDecision]) -> tuple[DecisionChange, ...]:
    """Return the blocks whose decision or tokens differ, in the order of `before`. Blocks that only `after` has come
    last.
    """
    old, new = {d.block_id: d for d in before}, {d.block_id: d for d in after}
    changes = []
    for name in dict.fromkeys([*old, *new]):
        then, now = old.get(name), new.get(name)
        said = (_describe_decision(then), _describe_decision(now))
        tokens = (_tokens(then), _tokens(now))
        if said[0] != said[1] or tokens[0] != tokens[1]:
            known = then or now
            changes.append(
                DecisionChange(
                    block_id=name,
                    title=known.title if known is not None else "",
                    before=said[0],
                    after=said[1],
                    before_tokens=tokens[0],
                    after_tokens=tokens[1],
                )
            )
    return tuple(changes)


def changed_settings(snapshot: PromptSnapshot, config: RuntimeConfig) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (applied, ignored): the names of the settings in which `config` differs from the configuration of the
    snapshot.

    A replay applies the settings in `applied` and cannot apply those in `ignored`. Settings that change no prompt are
    in neither list.
    """
    old, new = _list_settings(snapshot.runtime), _list_settings(config)
    names = [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name)]
    return (
        tuple(name for name in names if name in PLAYED),
        tuple(name for name in names if name not in PLAYED and name not in _SILENT),
    )


def _list_settings(config: RuntimeConfig) -> dict[str, Any]:
    """Return the settings by name; those of `curation` one by one, because a replay applies only some of them."""
    plain = config_to_plain(config)
    curation = plain.pop("curation", {})
    return {**plain, **{f"curation.{name}": value for name, value in curation.items()}}


def list_block_order(prompt: Prompt) -> tuple[tuple[int, str], ...]:
    """Return (message number, block id) for every piece of a prompt, in reading order."""
    return tuple((span.message, span.block_id) for span in prompt.assembled.spans)


def _lay_out_snapshot(
    snapshot: PromptSnapshot, config: RuntimeConfig, layout: SkeinTemplate, count: Count
) -> PromptLayout:
    if snapshot.assembler:
        raise ConfigError(
            f"This prompt was assembled by {snapshot.assembler}, a part of its host; a replay has only the built-in assembler. "
            "The prompt itself is in the turn's record."
        )
    blocks, history, left_out = share(snapshot.blocks, snapshot.history, config.layers)
    return lay_out(
        blocks,
        history,
        snapshot.user_input,
        layout=layout,
        pruner=choose_pruner(config),
        limit_tokens=snapshot.limit_tokens,
        count=count,
        tier_tokens=tier_tokens_of(config),
        rules=rules_of(config, snapshot.at),
        layer_attributes=snapshot.layer_attributes,
        left_out=left_out,
    )


def _limit(snapshot: PromptSnapshot, config: RuntimeConfig) -> int:
    """Return the token limit of another budget, corrected by the same factor as the snapshot's."""
    own, other = _prompt_limit(snapshot.runtime), _prompt_limit(config)
    return snapshot.limit_tokens if own == other else int(other * snapshot.limit_tokens / own)


def _prompt_limit(config: RuntimeConfig) -> int:
    budget = config.budget
    return budget.max_input_tokens - budget.reserved_reply_tokens - budget.reserved_tail_tokens


def _limit_memories(blocks: Sequence[Block], config: RuntimeConfig, stream_b: CurationPath | None) -> list[Block]:
    """Return the blocks without the memories that another configuration would not have taken."""
    settings = config.curation
    limit = settings.fallback_limit if stream_b in BY_HEURISTIC else settings.select_limit
    memories = sorted(
        (block for block in blocks if block.origin.source.startswith(CURATION_SOURCE) and block.origin.refs), key=_rank
    )
    kept = {block.block_id for block in memories[: limit if settings.enabled else 0]}
    return [
        block
        for block in blocks
        if not block.origin.source.startswith(CURATION_SOURCE)
        or block.block_id in kept
        or (kept and not block.origin.refs)
    ]


def _rank(block: Block) -> int:
    return block.rank


def _block_change(name: str, old: Block | None, new: Block | None, count: Count) -> TemplateChange:
    known = new or old
    file = known.origin.source.removeprefix(TEMPLATE_SOURCE) if known is not None else ""
    lines = diff_lines(_text(old).splitlines(), _text(new).splitlines(), around=1)
    return TemplateChange(
        block_id=name,
        file=file,
        before_tokens=None if old is None else count(old.content),
        after_tokens=None if new is None else count(new.content),
        diff=(*(("--- recorded", "+++ now") if lines else ()), *lines),
    )


def _text(block: Block | None) -> str:
    return "" if block is None else block.content


def _describe_decision(decision: BlockDecision | None) -> str | None:
    if decision is None:
        return None
    return decision.action.value if decision.action.value == "kept" else f"{decision.action.value} ({decision.code})"


def _tokens(decision: BlockDecision | None) -> int:
    return 0 if decision is None or decision.action.value == "dropped" else decision.tokens


def _find_first_difference(old: str, new: str) -> int:
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
