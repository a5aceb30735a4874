"""Prepares a turn: window, summary, plan, both streams, one prompt, one transaction (seed 002 section 7).

The engine decides which calls may run when; this module decides what a turn is made of. Each call runs while its session is
locked. Nothing is written before the whole turn is complete. It must not import a concrete store.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from anyio import to_thread
from anyio.abc import TaskGroup

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.core.model_calls import CallBook
from jacquard.core.plan import PlanContext, Triage
from jacquard.memory.summarize.roller import SummarizedWindow, SummaryRoller
from jacquard.pipeline.curation.prefetch import is_late
from jacquard.pipeline.curation.recall_query import known_keywords, recent_texts
from jacquard.pipeline.planning.actions import ActionOutcome, apply_action, read_input
from jacquard.pipeline.planning.turn_planner import TurnPlanner
from jacquard.pipeline.record.events import emit_loaded, emit_planned, emit_prepared, emit_usage, emit_woven
from jacquard.pipeline.record.prepared_turn import (
    PreparedTurn,
    build_record,
    kept_blocks,
    request_fingerprint,
    turn_from_record,
    turn_id_of,
    usages_of,
)
from jacquard.pipeline.worlds import WorldSource
from jacquard.turns.compose import EngineParts, TurnComposer, TurnContext, history_limits
from jacquard.turns.stopwatch import Stopwatch
from mnemosyne.core.errors import TurnNotFoundError
from mnemosyne.schema.record import SessionWindow, TurnRecord
from mnemosyne.schema.session import Message, TurnStatus

SPARE_MESSAGES = 16
"""Loaded beyond the window's limit, so that its old start is still seen when it overflows."""


class TurnPreparer:
    """Prepares turns. `tasks` outlives them: what is begun ahead runs there."""

    def __init__(
        self, parts: EngineParts, tasks: TaskGroup, drafter: TurnComposer, roller: SummaryRoller, worlds: WorldSource
    ) -> None:
        self._parts, self._tasks, self._worlds = parts, tasks, worlds
        self._drafter, self._roller = drafter, roller
        self._planner = TurnPlanner(parts.planner, parts.refiner, parts.tracing)

    async def prepare(
        self,
        session_id: str,
        message: Message,
        config: RuntimeConfig,
        turn_id: str | None,
        branch_id: str | None,
        emitter: EventEmitter,
        degradations: tuple[str, ...] = (),
        calls: CallBook | None = None,
    ) -> PreparedTurn:
        """Return the turn as it is in the store now, made or found there; `degradations` and `calls` are of attempts before it."""
        watch = Stopwatch()
        limit = config.history.max_messages + SPARE_MESSAGES
        window = await self._parts.store.window(session_id, message_limit=limit, branch_id=branch_id)
        watch.lap("window")
        await emit_loaded(emitter, window)
        world, head = await self._worlds.world(window.head.world_id), window.head
        name = turn_id or turn_id_of(session_id, head.branch_id, head.turn_id, head.depth + 1, message.content)
        fingerprint = request_fingerprint(message.content, config, world.digest)
        if (
            stored := await self._find_stored_turn(session_id, name, window, fingerprint, given=turn_id is not None)
        ) is not None:
            return turn_from_record(stored, head.version)
        ready = await self._load_summary(window, config, branch_id)
        window, head = ready.window, ready.window.head
        watch.lap("summary")
        beside = partial(self._start_prefetch, message.content, ready, config)
        planned = await self._planner.plan(message.content, window, world, config, name, beside=beside)
        plan = planned.plan if config.template_id is None else replace(planned.plan, template_id=config.template_id)
        watch.lap("plan")
        await emit_planned(emitter, session_id, name, plan)
        draft = TurnContext(
            turn_id=name,
            message=message,
            config=config,
            window=window,
            world=world,
            plan=plan,
            history=ready.history,
            degradations=(*degradations, *ready.degradations, *planned.degradations),
            calls=calls or CallBook(),
        )
        if plan.triage is Triage.NUMERICAL:
            return await self._answer_action(draft, fingerprint, watch, emitter)
        turn, anchors = await self._drafter.draft(draft, watch)
        await emit_woven(emitter, turn, config)
        with_report = config.observability.include_reports_in_store
        record = build_record(turn, window, message, fingerprint, anchors, with_report=with_report)
        saved = await self._parts.store.save_prepared(
            record,
            expected_version=head.version,
            evidences=turn.evidences,
            blocks=kept_blocks(turn.context_blocks),
            usages=(usages := (*planned.usages, *usages_of(turn))),
        )
        turn = replace(turn, version=saved.version)
        await emit_prepared(emitter, turn)
        for usage in usages:
            await emit_usage(emitter, session_id, name, usage)
        return turn

    async def _load_summary(
        self, window: SessionWindow, config: RuntimeConfig, branch_id: str | None
    ) -> SummarizedWindow:
        """Return the window with its rolling summary, made now if it was due, and the history that goes with it."""
        limits = history_limits(config)
        most = (config.budget.max_input_tokens - config.budget.reserved_reply_tokens) // 2

        async def load() -> SessionWindow:
            limit = config.history.max_messages + SPARE_MESSAGES
            return await self._parts.store.window(window.head.session_id, message_limit=limit, branch_id=branch_id)

        return await self._roller.ready(window, config, limits, most, load)

    def _start_prefetch(
        self, user_text: str, ready: SummarizedWindow, config: RuntimeConfig, plan: PlanContext
    ) -> None:
        """Begin with the input's vectors beside what is still to be done before recall, unless a memory of the turn before may
        do (spec B8).
        """
        kept = ready.window.prefetch
        recalls = kept is None or not is_late(kept)
        if self._parts.ahead is not None and config.curation.enabled and recalls:
            texts = user_text, recent_texts(ready.history), known_keywords(plan)
            self._tasks.start_soon(self._parts.ahead.prefetch, *texts)

    async def _find_stored_turn(
        self, session_id: str, turn_id: str, window: SessionWindow, fingerprint: str, *, given: bool
    ) -> TurnRecord | None:
        """Return the record that answers this request already, if there is one."""
        record = window.pending
        if record is None or record.turn_id != turn_id:
            if not given:
                return None
            try:
                record = await self._parts.store.turn(session_id, turn_id)
            except TurnNotFoundError:
                return None
            if record.status is TurnStatus.COMMITTED and record.prompt is not None:
                return record
            if record.status is TurnStatus.ABANDONED:
                return None
        return record if record.fingerprint == fingerprint and record.prompt is not None else None

    async def _answer_action(
        self, draft: TurnContext, fingerprint: str, watch: Stopwatch, emitter: EventEmitter
    ) -> PreparedTurn:
        """Apply a declared action and answer; the skeleton is built for hosts that want it, Stream B never starts."""
        outcome = await to_thread.run_sync(_apply_action, draft)
        watch.lap("action")
        changed = replace(draft, window=replace(draft.window, state=outcome.state), reply=outcome.reply)
        turn, anchors = await self._drafter.draft(changed, watch)
        await emit_woven(emitter, turn, draft.config)
        record = build_record(turn, draft.window, draft.message, fingerprint, anchors)
        saved = await self._parts.store.commit_numerical(
            replace(record, ops=tuple(outcome.patch)),
            outcome.state,
            expected_version=draft.window.head.version,
            evidences=turn.evidences,
            blocks=kept_blocks(turn.context_blocks),
        )
        turn = replace(turn, version=saved.version)
        await emit_prepared(emitter, turn)
        return turn


def _apply_action(draft: TurnContext) -> ActionOutcome:
    """Return what the planned action does; ConfigError where the input is no action."""
    found = read_input(draft.message.content, draft.world, draft.plan.action_id)
    if found.action is None:
        said = f"The plan names action {draft.plan.action_id!r}, but the input does not match it."
        raise ConfigError(" ".join((said, *found.faults)))
    chars = draft.config.limits.state_chars
    return apply_action(found.action, found.groups, draft.window.state, state_chars=chars)
