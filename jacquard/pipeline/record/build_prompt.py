"""Makes the prompt of a turn and the receipt (why each block is in the prompt), as the last step of `prepare_turn`.

The prompt consists of blocks from two streams. Stream A makes the skeleton (blocks from templates and history), and Stream B
chooses the memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from jacquard.core.block_kinds import INPUT_ID
from jacquard.core.blocks import Block, BlockKind, PlacedBlock, SkeinTemplate
from jacquard.core.calibration import correction_of
from jacquard.core.degradations import Degradation
from jacquard.core.plan import plan_to_json
from jacquard.core.protocols import Pruner
from jacquard.core.receipt import BY_SELECTOR, BudgetReport, Report
from jacquard.pipeline.curation.stream import Curation, build_stream_report
from jacquard.pipeline.record.package import conversation_blocks_of, evidence_of, is_passage, is_stored_with_turn
from jacquard.pipeline.record.prepared_turn import PreparedTurn, encode_prompt
from jacquard.pipeline.record.prompt_forms import PromptForms
from jacquard.pipeline.record.prompt_snapshot import PromptSnapshot, config_to_plain
from jacquard.pipeline.record.provider_messages import find_attachments
from jacquard.pipeline.record.redactions import find_redactions
from jacquard.pipeline.record.stored_turn import report_damage
from jacquard.pipeline.skeleton.automation import Skeleton
from jacquard.pipeline.skeleton.history import smooth_other_tokens
from jacquard.pipeline.skeleton.world_info import activation_decisions
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.weaving.assemble import (
    ROLE_MESSAGES,
    Assembler,
    name_of_assembler,
    prefix,
)
from jacquard.pipeline.weaving.authored_cuts import describe_cuts
from jacquard.pipeline.weaving.layers import share
from jacquard.pipeline.weaving.pieces import join_messages
from jacquard.pipeline.weaving.policies import choose_pruner, rules_of, tier_tokens_of
from jacquard.pipeline.weaving.prompt import Prompt, PromptLayout, complete, lay_out
from jacquard.pipeline.weaving.standing import appends_blocks
from mnemosyne.chains.uris import entry_uri
from mnemosyne.core.codec import replace_struct
from mnemosyne.evidence.redactions import redaction_of
from mnemosyne.host_parts import HashText, hash_with_sha256
from mnemosyne.protocols import TokenEstimator
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.redaction import RedactionRecord
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptParts:
    """Parts of an engine that are needed to make prompts."""

    estimator: TokenEstimator
    pruner: Pruner | Mapping[str, Pruner] | None = None
    """Pruners of the host, which choose the blocks that fit the budget: one pruner, or several by name (None: the
    built-in pruners).
    """
    assembler: Assembler = ROLE_MESSAGES
    hash_text: HashText = hash_with_sha256


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptInputs:
    """Results of both streams of a turn, from which the prompt is made."""

    turn: Turn
    skeleton: Skeleton
    curation: Curation
    flesh: tuple[Block, ...]
    """Blocks that are not in the skeleton. Their ids are unique."""
    layout: SkeinTemplate
    evidence_ids: Mapping[str, str]
    """Address of a recalled entry -> id of its evidence. An entry whose evidence has the id of the entry is left out."""
    degradations: tuple[Degradation, ...]
    """Degradations (simplified or failed steps) of the turn so far."""
    at: datetime
    """Time from which ages are computed."""

    @property
    def correction(self) -> float:
        """The provider's token count divided by our estimate, as measured in earlier turns."""
        return correction_of(self.turn.window.usages, self.turn.config.model_hint)

    @property
    def limit_tokens(self) -> int:
        """Maximum tokens of the prompt as our estimator counts them, without the reserves for reply and tail."""
        return self.turn.config.budget.prompt_tokens(self.correction)


def lay_out_prompt(inputs: PromptInputs, parts: PromptParts) -> PromptLayout:
    """Return the ordered blocks of the prompt, and a decision for each block: keep, shorten or drop. Nothing is
    shortened yet.

    Raises BudgetExceededError if the blocks that must be kept do not fit.
    """
    config, blocks = inputs.turn.config, [*inputs.skeleton.blocks, *inputs.flesh]
    seen, history, left_out = share(blocks, inputs.skeleton.history, config.layers)
    return lay_out(
        seen,
        history,
        inputs.skeleton.user_input,
        layout=inputs.layout,
        pruner=choose_pruner(config, parts.pruner),
        limit_tokens=inputs.limit_tokens,
        count=parts.estimator.estimate,
        tier_tokens=tier_tokens_of(config),
        rules=rules_of(config, inputs.at),
        layer_attributes={} if appends_blocks(inputs.layout) else layer_attributes(inputs.curation),
        left_out=left_out,
        assembler=parts.assembler,
    )


def build_turn_prompt(
    inputs: PromptInputs, parts: PromptParts, laid: PromptLayout, carried: Mapping[str, Block]
) -> PreparedTurn:
    """Return the prepared turn, without its timings. `laid` is the result of `lay_out_prompt`. `carried` maps the id of
    each shortened or masked block in `laid` to its new version.

    Raises BudgetExceededError if the blocks that must be kept do not fit.
    """
    turn, correction, prompt = inputs.turn, inputs.correction, complete(laid, carried)
    left_out = () if turn.history is None else turn.history.left_out
    report = Report(
        turn_id=turn.turn_id,
        session_id=turn.session_id,
        layout=inputs.layout.layout_id,
        template_id=turn.plan.template_id,
        stream_b=build_stream_report(inputs.curation),
        decisions=prompt.decisions,
        budget=BudgetReport(
            limit_tokens=laid.limit_tokens,
            used_tokens=prompt.assembled.tokens,
            counter=parts.estimator.name,
            correction=correction,
            tail_tokens=int(turn.config.budget.reserved_tail_tokens / correction),
        ),
        prefix=prefix(
            prompt.assembled,
            _previous_messages(turn.window),
            laid.count,
            {each.block.block_id for each in prompt.stages[-1].blocks() if each.is_volatile},
        ),
        spans=prompt.assembled.spans,
        degradations=(*inputs.degradations, *describe_cuts(prompt.decisions, laid.woven.skein.blocks())),
        conflicts=inputs.skeleton.results.conflicts,
        tags=dict(turn.config.tags),
        plan=plan_to_json(turn.plan),
        errors=list(inputs.skeleton.results.errors),
        state_cut=inputs.skeleton.state_cut,
        evidence=inputs.skeleton.results.decisions,
        left_out=(
            *left_out,
            *inputs.skeleton.left_out,
            *inputs.skeleton.results.left_out,
            *inputs.curation.left_out,
        ),
        redactions=find_redactions(
            [each.block for each in prompt.stages[-1].blocks()],
            prompt.decisions,
            inputs.skeleton.results.redactions,
            _said_redactions(turn),
        ),
        profile=turn.profile.profile_id,
        as_written=bool(inputs.layout.boundary),
        activation=activation_decisions(turn),
    )
    return _build_prepared_turn(inputs, parts, prompt, report, _snapshot_prompt(inputs, parts, laid, prompt, carried))


def _build_prepared_turn(
    inputs: PromptInputs,
    parts: PromptParts,
    prompt: Prompt,
    report: Report,
    snapshot: PromptSnapshot,
) -> PreparedTurn:
    turn, blocks = inputs.turn, prompt.stages[-1].blocks()
    # What the pruner dropped is not evidence of this prompt.
    shown = {each.block.origin.uri for each in blocks if each.block.kind is BlockKind.MEMORY}
    memories = tuple(
        evidence_of(entry, inputs.evidence_ids, parts.hash_text)
        for entry in inputs.curation.entries
        if entry_uri(entry) in shown
    )
    # Competes with the window of the next turn; memories have a share of their own.
    shared_tokens = sum([b.tokens for b in blocks if b.block.kind in (BlockKind.MESSAGE, BlockKind.MEMORY)])
    head = turn.window.head
    report = replace(
        report,
        new_evidence_ids=tuple(each.evidence_id for each in memories if not is_passage(each)),
        # A block of the session's document keeps its id: a record of the prompt does not take its place.
        new_block_ids=(
            *(
                block.block_id
                for block in [each.block for each in blocks]
                if is_stored_with_turn(block) and block.block_id not in inputs.skeleton.results.document_ids
            ),
            *(each.block_id for each in conversation_blocks_of(blocks, turn.turn_id)),
        ),
    )
    forms = PromptForms(
        snapshot=snapshot,
        report=report,
        plan=turn.plan,
        memories=memories,
        assembled_text=prompt.assembled.text if snapshot.assembler else "",
        at_hand=prompt.stages[-1],
    )
    prepared = PreparedTurn(
        turn_id=turn.turn_id,
        session_id=head.session_id,
        branch_id=head.branch_id,
        depth=head.depth + 1,
        version=head.version,
        plan=turn.plan,
        messages=prompt.assembled.messages,
        report=report,
        forms=forms,
        reply=None if turn.action is None else turn.action.reply,
        reply_form=turn.profile.reply,
        attachments=find_attachments(
            report.spans,
            (each.message for each in (*turn.pinned, *(turn.shown or turn.window.messages))),
            turn.message,
        ),
        history_start=inputs.skeleton.history_start,
        newest_evidence=inputs.skeleton.results.newest,
        other_tokens=smooth_other_tokens(report.budget.used_tokens - shared_tokens, turn.window),
    )
    # Encoded here, because this runs off the event loop.
    return replace(prepared, recorded=encode_prompt(prepared))


def _snapshot_prompt(
    inputs: PromptInputs, parts: PromptParts, laid: PromptLayout, prompt: Prompt, carried: Mapping[str, Block]
) -> PromptSnapshot:
    """Return the snapshot of a prompt; `carried` are its degraded blocks by id."""
    woven = {each.block.block_id: each for each in laid.woven.skein.blocks()}
    standing = {each.block.block_id: each.block for each in prompt.stages[-1].blocks()}
    changed = {name: block for name, block in standing.items() if block is not woven[name].block}
    return PromptSnapshot(
        source=inputs.skeleton.source,
        blocks=(*inputs.skeleton.blocks, *inputs.flesh),
        history=inputs.skeleton.history,
        user_input=inputs.skeleton.user_input,
        layout=inputs.layout,
        config=config_to_plain(inputs.turn.config),
        counter=parts.estimator.name,
        limit_tokens=laid.limit_tokens,
        at=inputs.at,
        carried=tuple(_settle(block, woven[name]) for name, block in {**carried, **changed}.items()),
        dropped=tuple(name for name in woven if name not in standing),
        layer_attributes={} if appends_blocks(inputs.layout) else layer_attributes(inputs.curation),
        assembler=name_of_assembler(parts.assembler),
    )


def _settle(block: Block, placed: PlacedBlock) -> Block:
    """Return a degraded block with the place that it has in the prompt."""
    return replace_struct(
        block, place=replace_struct(block.place, placement=placed.placement, volatile=placed.is_volatile)
    )


def _said_redactions(turn: Turn) -> dict[str, RedactionRecord]:
    """Return the redactions of a turn's messages before they were stored, by the ids of their blocks."""
    said = {each.message.message_id: each.message for each in turn.shown or turn.window.messages}
    said[INPUT_ID] = turn.message
    return {name: record for name, each in said.items() if (record := redaction_of(each)) is not None}


def layer_attributes(curation: Curation) -> dict[str, dict[str, str]]:
    """Return layer -> attributes of the XML element around the layer. The attributes name the selector that chose the
    memories.
    """
    chose = curation.model if curation.path in BY_SELECTOR else None
    return {"probabilistic": {"model": chose or "heuristic"}}


def _previous_messages(window: SessionWindow) -> Sequence[Mapping[str, Any]]:
    if window.previous is None or window.previous.prompt is None:
        return ()
    with report_damage(window.previous, "prompt"):
        return join_messages(window.previous.prompt["messages"])
