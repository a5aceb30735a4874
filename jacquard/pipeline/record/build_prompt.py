"""The last step of `prepare_turn`, pure: the blocks of both streams become the prompt, the package and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from filament import unescape
from jacquard.config.sections import RuntimeConfig
from jacquard.core.blocks import BlockKind, PromptBlock, SkeinTemplate
from jacquard.core.degradations import Degradation
from jacquard.core.plan import PlanContext, plan_to_json
from jacquard.core.protocols import Pruner
from jacquard.core.receipt import BY_SELECTOR, BudgetReport, Report, StreamBReport
from jacquard.pipeline.record.package import build_package, context_blocks_of, evidence_of
from jacquard.pipeline.record.prepared_turn import PreparedTurn, kept_blocks
from jacquard.pipeline.record.stored_turn import reading
from jacquard.pipeline.skeleton.automation import Skeleton
from jacquard.pipeline.weaving.assemble import PromptMessage, is_history_message, prefix
from jacquard.pipeline.weaving.layers import share
from jacquard.pipeline.weaving.policies import rules_of, tier_tokens_of
from jacquard.pipeline.weaving.prompt import Prompt, PromptLayout, complete, lay_out
from mnemosyne.chains.uris import entry_uri
from mnemosyne.schema.ingest import ConflictRecord
from mnemosyne.schema.memory import EMPTY, MemoryEntry
from mnemosyne.schema.package import PackageMessage
from mnemosyne.schema.query import Candidate
from mnemosyne.schema.record import SessionWindow


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptInputs:
    """Everything that one prompt is made of; `count` gives the tokens of a text, `counter` its name.

    `evidence_ids` gives, by address, the id of the evidence that an entry becomes where that is not the entry's own.
    """

    turn_id: str
    user_text: str
    plan: PlanContext
    window: SessionWindow
    config: RuntimeConfig
    skeleton: Skeleton
    flesh: tuple[PromptBlock, ...]
    entries: tuple[MemoryEntry, ...]
    candidates: tuple[Candidate, ...]
    stream_b: StreamBReport
    layout: SkeinTemplate
    pruner: Pruner
    count: Callable[[str], int]
    counter: str
    degradations: tuple[Degradation, ...]
    at: datetime
    reply: str | None = None
    conflicts: tuple[ConflictRecord, ...] = ()
    correction: float = 1.0
    errors: tuple[str, ...] = ()
    evidence_ids: Mapping[str, str] = field(default_factory=lambda: EMPTY)

    @property
    def limit_tokens(self) -> int:
        """What the prompt may take by our own count: less reserves, and less again where the count is known to be low."""
        return self.config.budget.prompt_tokens(self.correction)


def lay_out_prompt(parts: PromptInputs) -> PromptLayout:
    """Return the prompt as decided, before anything is degraded; BudgetExceededError when what must stay does not fit."""
    blocks = [*parts.skeleton.blocks, *parts.flesh]
    seen, history, left_out = share(blocks, parts.skeleton.history, parts.config.layers)
    return lay_out(
        seen,
        history,
        parts.skeleton.user_input,
        layout=parts.layout,
        pruner=parts.pruner,
        limit_tokens=parts.limit_tokens,
        count=parts.count,
        tier_tokens=tier_tokens_of(parts.config),
        rules=rules_of(parts.config, parts.at),
        layer_attributes=layer_attributes(parts.stream_b),
        left_out=left_out,
    )


def build_turn_prompt(parts: PromptInputs, laid: PromptLayout, carried: Mapping[str, PromptBlock]) -> PreparedTurn:
    """Return the prepared turn, without times; `carried` are the blocks of `laid` that were degraded. BudgetExceededError
    when what must stay does not fit.
    """
    prompt = complete(laid, carried)
    report = Report(
        turn_id=parts.turn_id,
        session_id=parts.window.head.session_id,
        layout=parts.layout.layout_id,
        template_id=parts.plan.template_id,
        stream_b=parts.stream_b,
        decisions=prompt.decisions,
        budget=BudgetReport(
            limit_tokens=parts.limit_tokens,
            used_tokens=prompt.assembled.tokens,
            counter=parts.counter,
            correction=parts.correction,
            tail_tokens=int(parts.config.budget.reserved_tail_tokens / parts.correction),
        ),
        prefix=prefix(prompt.assembled, _previous_messages(parts.window), parts.count),
        spans=prompt.assembled.spans,
        degradations=parts.degradations,
        conflicts=parts.conflicts,
        tags=dict(parts.config.tags),
        plan=plan_to_json(parts.plan),
        errors=parts.errors,
        state_cut=parts.skeleton.state_cut,
    )
    return _build_prepared_turn(parts, prompt, report)


def _build_prepared_turn(parts: PromptInputs, prompt: Prompt, report: Report) -> PreparedTurn:
    final = prompt.stages[-1]
    blocks = final.blocks()
    shown = {block.uri for block in blocks if block.kind is BlockKind.MEMORY}
    entries = [entry for entry in parts.entries if entry_uri(entry) in shown]
    history = [PackageMessage(role=b.role.value, content=unescape(b.content)) for b in blocks if is_history_message(b)]
    head = parts.window.head
    evidences = tuple(evidence_of(entry, parts.evidence_ids) for entry in entries)
    held = context_blocks_of(blocks)
    report = replace(
        report,
        new_evidence_ids=tuple(evidence.evidence_id for evidence in evidences),
        new_block_ids=tuple(block.block_id for block in kept_blocks(held)),
    )
    return PreparedTurn(
        turn_id=parts.turn_id,
        session_id=head.session_id,
        branch_id=head.branch_id,
        depth=head.depth + 1,
        version=head.version,
        plan=parts.plan,
        messages=prompt.assembled.messages,
        text=prompt.assembled.text,
        package=build_package(
            report=report,
            plan=parts.plan,
            blocks=blocks,
            summary=parts.window.summary.summary.content if parts.window.summary else "",
            history=history,
            user_text=parts.user_text,
            entries=entries,
            evidence_ids=parts.evidence_ids,
            candidates=parts.candidates,
            created_at=parts.at,
            limits=parts.config.package,
        ),
        report=report,
        evidences=evidences,
        context_blocks=held,
        reply=parts.reply,
        history_start=parts.skeleton.history_start,
    )


def layer_attributes(stream_b: StreamBReport) -> dict[str, dict[str, str]]:
    """Return what goes onto the wrappers of layers: who chose the flesh."""
    chose = stream_b.model if stream_b.path in BY_SELECTOR else None
    return {"probabilistic": {"model": chose or "heuristic"}}


def _previous_messages(window: SessionWindow) -> Sequence[Mapping[str, Any]]:
    if window.previous is None or window.previous.prompt is None:
        return ()
    with reading(window.previous, "prompt"):
        return [PromptMessage.from_plain(message) for message in window.previous.prompt["messages"]]
