"""Emits the events of a turn (names, counts, codes and times), for observers of the engine.

Only this module builds the payloads of events (`docs/en/observability.md` lists them). They contain texts of users and models only
if the configuration captures content. This module must not import a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import BudgetExceededError
from jacquard.core.model_calls import UNDER_WAY
from jacquard.core.plan import PlanContext
from jacquard.core.receipt import Action, CurationPath, StreamBReport
from jacquard.pipeline.record.evidence import IngestedResult
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.schema.document import ModelUsage, ToolCall, ToolCallStatus
from mnemosyne.schema.event import EventType
from mnemosyne.schema.record import SessionWindow


async def emit_loaded(emitter: EventEmitter, window: SessionWindow) -> None:
    """Emit that the window of a session was loaded."""
    head = window.head
    await emitter.emit(
        EventType.SESSION_LOADED,
        head.session_id,
        branch_id=head.branch_id,
        depth=head.depth,
        version=head.version,
        messages=len(window.messages),
    )


async def emit_planned(emitter: EventEmitter, session_id: str, turn_id: str, plan: PlanContext) -> None:
    """Emit the plan of a turn, with the planner tier (0: rules, 1: small model) that made the plan."""
    await emitter.emit(
        EventType.TURN_PLANNED,
        session_id,
        turn_id,
        tier=plan.tier,
        confidence=plan.confidence,
        triage=plan.triage.value,
        template_id=plan.template_id,
        active_quest_id=plan.active_quest_id,
        flags=list(plan.flags),
        tier1=plan.tier1,
    )


async def emit_woven(emitter: EventEmitter, turn: PreparedTurn, config: RuntimeConfig) -> None:
    """Emit the events of a finished prompt: its blocks, the pruning, the cost in tokens, and the degradations."""
    report, session_id, turn_id = turn.report, turn.session_id, turn.turn_id
    if emitter.is_received(EventType.BLOCKS_DERIVED):
        by_type = Counter([str(each.block.block_type) for each in turn.forms.skein.blocks()])
        await emitter.emit(EventType.BLOCKS_DERIVED, session_id, turn_id, blocks=dict(by_type))
    actions = Counter(decision.action for decision in report.decisions)
    left = [decision for decision in report.decisions if decision.action is not Action.KEPT]
    await emitter.emit(
        EventType.PRUNE_COMPLETED,
        session_id,
        turn_id,
        kept=actions[Action.KEPT],
        dropped=actions[Action.DROPPED],
        degraded=actions[Action.DEGRADED],
        reasons=dict(Counter(decision.code for decision in left)),
        dropped_blocks=[decision.block_id for decision in left],
    )
    content = {"text": turn.text} if config.observability.capture_content else {}
    await emitter.emit(
        EventType.ASSEMBLED,
        session_id,
        turn_id,
        tokens=report.budget.used_tokens,
        limit_tokens=report.budget.limit_tokens,
        shared_prefix_tokens=report.prefix.shared_tokens,
        first_break=report.prefix.first_break,
        messages=len(turn.messages),
        layout=report.layout,
        stream_b=report.stream_b.path.value,
        stream_b_code=report.stream_b.code,
        prefetch=_describe_reused_choice(report.stream_b, CurationPath.PREFETCHED, report.stream_b.prefetch_refused),
        lease=_describe_reused_choice(report.stream_b, CurationPath.LEASED, report.stream_b.lease_refused),
        candidates=len(report.stream_b.candidates),
        selected=len(report.stream_b.selected),
        timings_ms=dict(report.timings_ms),
        **content,
    )
    for error in report.errors:
        await emitter.emit(EventType.ERROR, session_id, turn_id, reason="derive_failed", detail=error)
    for degradation in report.degradations:
        await emitter.emit(EventType.DEGRADED, session_id, turn_id, reason=degradation.code, detail=degradation.detail)


def _describe_reused_choice(stream: StreamBReport, used: CurationPath, refused: str) -> str:
    """Return in a word whether a selection from an earlier turn was used or refused."""
    if stream.path is used:
        return "used"
    return "refused" if refused else "none"


async def emit_prepared(emitter: EventEmitter, turn: PreparedTurn) -> None:
    """Emit that a prepared turn was stored together with its input and its evidence."""
    await emitter.emit(EventType.MESSAGE_APPENDED, turn.session_id, turn.turn_id, role="user", messages=1)
    if turn.evidences:
        ids = [evidence.evidence_id for evidence in turn.evidences]
        await emitter.emit(
            EventType.EVIDENCE_INGESTED, turn.session_id, turn.turn_id, evidence_ids=ids, source="recall"
        )
    await emitter.emit(EventType.PERSISTED, turn.session_id, turn.turn_id, what="prepared", version=turn.version)


async def emit_error(emitter: EventEmitter, session_id: str, turn_id: str | None, error: ContextEngineError) -> None:
    """Emit an error. It may reach the caller or lead to a retry. `turn_id` is None for an error outside of a turn."""
    reason = "must_exceeded_budget" if isinstance(error, BudgetExceededError) else code_of(error)
    await emitter.emit(
        EventType.ERROR, session_id, turn_id, reason=reason, kind=type(error).__name__, detail=str(error)
    )


def code_of(error: ContextEngineError) -> str:
    """Return the code of an error: the name of its class in snake case, without `Error` (`version_conflict`)."""
    name = type(error).__name__.removesuffix("Error")
    return "".join(f"_{c.lower()}" if c.isupper() and place else c.lower() for place, c in enumerate(name))


async def emit_usage(
    emitter: EventEmitter, session_id: str, turn_id: str | None, usage: ModelUsage, version: int | None = None
) -> None:
    """Emit that a model call was stored, with its model, purpose and cost. A call that is still running is not emitted.
    `version` is the version of the session after the write (None: unknown). `turn_id` is None for a call outside of a
    turn.
    """
    if usage.extra.get(UNDER_WAY):
        return
    known: dict[str, Any] = {} if version is None else {"version": version}
    await emitter.emit(
        EventType.PERSISTED,
        session_id,
        turn_id,
        task_id=usage.task_id,
        model_usage_id=usage.model_usage_id,
        what="model_usage",
        model=usage.model,
        provider=usage.provider,
        stage=usage.stage.value,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        latency_ms=usage.latency_ms,
        first_token_latency_ms=usage.first_token_latency_ms,
        status=usage.status.value,
        **known,
    )


async def emit_tool_call(
    emitter: EventEmitter,
    session_id: str,
    tool_call: ToolCall,
    taken: IngestedResult | None,
    degradations: Iterable[str],
    *,
    was_begun: bool = False,
) -> None:
    """Emit the beginning and the end of a stored tool call.

    The beginning is not emitted if `was_begun` is true, because the beginning was recorded earlier. The end is not
    emitted while the call is running. `taken` is the evidence that was made from the call's result (None: no result was
    given).
    """
    ids = {"tool_call_id": tool_call.tool_call_id, "task_id": tool_call.task_id}
    if taken is not None:
        await emitter.emit(
            EventType.EVIDENCE_INGESTED,
            session_id,
            tool_call_id=tool_call.tool_call_id,
            evidence_ids=list(taken.evidence_ids),
            source="tool",
            redacted=list(taken.redacted),
            recalled=list(taken.recalled),
        )
    if not was_begun:
        await emitter.emit(EventType.TOOL_CALLED, session_id, **ids, tool=tool_call.tool)
    if tool_call.status is not ToolCallStatus.RUNNING:
        await emitter.emit(
            EventType.TOOL_CALL_COMPLETED,
            session_id,
            **ids,
            tool=tool_call.tool,
            status=tool_call.status.value,
            duration_ms=tool_call.duration_ms,
        )
    for reason in degradations:
        await emitter.emit(EventType.DEGRADED, session_id, **ids, reason=reason)
