"""One turn's prompt: Stream A beside Stream B, the chosen memories fetched, everything finished. Writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread

from jacquard.adapters.observe.spans import NO_TRACING, Fact, Tracing
from jacquard.config.sections import HistoryConfig, RuntimeConfig
from jacquard.core.blocks import PromptBlock, SkeinTemplate
from jacquard.core.calibration import correction_of
from jacquard.core.degradations import Degradation, DegradationCode, describe_degradation
from jacquard.core.errors import BudgetExceededError, JacquardError
from jacquard.core.model_calls import Call, CallBook, usage_of
from jacquard.core.plan import PlanContext
from jacquard.core.protocols import (
    LlmAdapter,
    Planner,
    PlanRefiner,
    Pruner,
    QueryPrefetcher,
    Selection,
    Shortener,
    Summarizer,
)
from jacquard.core.receipt import CurationPath
from jacquard.pipeline.curation.deadline import CurationDeadline, Near
from jacquard.pipeline.curation.lease import Lease
from jacquard.pipeline.curation.memory_blocks import cut_notes, render_memories
from jacquard.pipeline.curation.prefetch import (
    build_prefetch,
    find_lease,
    is_keepable,
    is_late,
    prefetched_curation,
    scene_matches,
)
from jacquard.pipeline.curation.recall_query import RecallScene, build_recall_scene
from jacquard.pipeline.curation.stream import Curation, CurationRequest, CurationStream, build_stream_report
from jacquard.pipeline.record.build_prompt import PromptInputs, build_turn_prompt, lay_out_prompt
from jacquard.pipeline.record.evidence import EvidenceBlocks, evidence_ids_of, load_evidence_blocks
from jacquard.pipeline.record.prepared_turn import PreparedTurn
from jacquard.pipeline.record.prompt_snapshot import snapshot_prompt, snapshot_to_json
from jacquard.pipeline.skeleton.automation import AutomationStream, Skeleton, SkeletonInput, make_block_ids_unique
from jacquard.pipeline.skeleton.history import previous_history_start, trim_history
from jacquard.pipeline.skeleton.instructions import instruction_blocks
from jacquard.pipeline.skeleton.state_fit import build_state_budget_error, reduce_state_limit
from jacquard.pipeline.skeleton.state_origin import describe_state
from jacquard.pipeline.weaving.degrade import apply_degradations
from jacquard.pipeline.weaving.policies import choose_pruner
from jacquard.pipeline.weaving.prompt import PromptLayout
from jacquard.pipeline.weaving.shorten import SummarizingShortener
from jacquard.pipeline.worlds import Noted
from jacquard.templating.files import template_roots as template_roots
from jacquard.templating.layouts import load_layout
from jacquard.turns.deferred_usage import DeferredUsage
from jacquard.turns.stopwatch import Stopwatch
from mnemosyne.chains.uris import entry_uri
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Clock, EventBus, EvidenceIngestor, Redactor, SessionLocks, Store, TokenEstimator
from mnemosyne.schema.document import ModelUsage, ModelUsageStage
from mnemosyne.schema.ingest import IngestOptions
from mnemosyne.schema.memory import EMPTY, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import place_of
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, WindowMessage
from mnemosyne.schema.world import WorldPack


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineParts:
    """What an engine is made of; `build.open_runtime` joins the usual ones. `roots`: template roots, first wins.

    `pruner`: the one that always prunes, or pruners of the host by name; what `prune.policy` of a turn's configuration names
    is chosen from these and the shipped ones. Without a `shortener` the `summarizer` shortens texts, without both they
    are cut by sentences; without a `redactor` what is too guarded is withheld. Without a `summarizer` a rolling summary
    is the gist of each turn; without a `consolidator` nothing is made into memory. `refiner` is planner tier 1;
    `ahead` embeds the input while it plans, and the conversation behind the turn before. `events` receives the events, `tracing`
    times it. `locks` make the calls on a session serial among processes; without them
    among the tasks of this one. A session that is not there starts from `opening` with its first turn; without one it is
    an error. `worlds` are packs that the host has at hand: each becomes the present version of its world in the store when a
    session of it is first worked on; the packs of all others are read from the store (`jacquard.pipeline.worlds`). `noted` finds
    those of stores of an older release.
    """

    store: Store
    planner: Planner
    automation: AutomationStream
    curation: CurationStream
    pruner: Pruner | Mapping[str, Pruner] | None
    estimator: TokenEstimator
    clock: Clock
    roots: tuple[Path, ...]
    worlds: Mapping[str, WorldPack] = field(default_factory=lambda: EMPTY)
    shortener: Shortener | None = None
    summarizer: Summarizer | None = None
    consolidator: LlmAdapter | None = None
    redactor: Redactor | None = None
    ingestor: EvidenceIngestor | None = None
    ingest_options: IngestOptions | None = None
    refiner: PlanRefiner | None = None
    events: EventBus | None = None
    locks: SessionLocks | None = None
    tracing: Tracing = NO_TRACING
    ahead: QueryPrefetcher | None = None
    opening: WorldPack | None = None
    noted: Noted | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TurnContext:
    """A turn that has been planned; `reply` is set when a numerical action has answered already. `degradations` are codes of
    what was done without so far. `history` is the conversation to show (None: what the limits of the window say). `calls` holds the
    model calls of its choice, those of an attempt that met a conflict too.
    """

    turn_id: str
    message: Message
    config: RuntimeConfig
    window: SessionWindow
    world: WorldPack
    plan: PlanContext
    reply: str | None = None
    history: tuple[WindowMessage, ...] | None = None
    degradations: tuple[str, ...] = ()
    calls: CallBook = field(default_factory=CallBook, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class _PromptFrame:
    """What Stream A gave: the skeleton, the layout to weave it into, and what tools answered.

    `told` is the line of the receipt on a state that is not shown whole.
    """

    skeleton: Skeleton
    layout: SkeinTemplate
    results: EvidenceBlocks
    told: tuple[Degradation, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _DecidedPrompt:
    """A prompt as decided, with what it is made of; the turn too where nothing is to be degraded."""

    parts: PromptInputs
    laid: PromptLayout
    turn: PreparedTurn | None


class _Waiting:
    """The wait for Stream B: `over` once that has ended or its deadline is near; then `expected` is what a miss will be."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.expected: Curation | None = None

    def nears(self, missed: Curation) -> None:
        """Take note that the deadline is near."""
        self.expected = missed
        self.over.set()

    def ends(self, curation: Curation | None) -> None:
        """Take note of how Stream B ended (None: it broke off); what was expected stays only if that is what came."""
        if self.expected != curation:
            self.expected = None
        self.over.set()


class TurnComposer:
    """Makes the prompt of a planned turn. `late` (or None) writes the model calls that a turn does not wait for."""

    def __init__(self, parts: EngineParts, race: CurationDeadline, late: DeferredUsage | None = None) -> None:
        self._parts = parts
        self._race, self._deferred_usage = race, late
        told = None if parts.summarizer is None else SummarizingShortener(parts.summarizer)
        self._shortener = parts.shortener or told

    async def draft(self, draft: TurnContext, watch: Stopwatch) -> tuple[PreparedTurn, Mapping[str, str]]:
        """Run both streams side by side and finish the prompt."""
        parts = self._parts
        scene, skeleton_input = await self._prepare_inputs(draft)
        frame, curation, ahead = await self._streams(draft, scene, skeleton_input, watch)
        watch.lap("streams")
        watch.note(curation.timings_ms)
        with parts.tracing.span("jacquard.weave") as span:
            entries: tuple[MemoryEntry, ...] = ()
            ids: Mapping[str, str] = EMPTY
            if ahead is None:
                entries = await self._fetch(curation, scene)
                ids = await evidence_ids_of(parts.store, draft.window.head.session_id, entries)
            made = partial(self._collect_inputs, draft, curation=curation, entries=entries, evidence_ids=ids)
            frame, turn = await self._fit_state(draft, skeleton_input, frame, made, ahead, watch)
            span.put({"jacquard.prompt.tokens": turn.report.budget.used_tokens})
        watch.lap("weave")
        spent = draft.calls.usages(draft.turn_id, parts.estimator.estimate)
        report = replace(turn.report, timings_ms=watch.timings_ms())
        return replace(turn, report=report, usages=(*spent, *turn.usages)), frame.skeleton.anchors

    async def _fit_state(
        self,
        draft: TurnContext,
        request: SkeletonInput,
        frame: _PromptFrame,
        made: Callable[[_PromptFrame], PromptInputs],
        ahead: _DecidedPrompt | None,
        watch: Stopwatch,
    ) -> tuple[_PromptFrame, PreparedTurn]:
        """Finish the prompt that `made` gives the parts of; where what must stay does not fit, with less of the state, as long
        as there is some.
        """
        tries, decided = 0, ahead
        first: BudgetExceededError | None = None
        while True:
            try:
                if decided is None:
                    decided = await to_thread.run_sync(_decide_prompt, partial(made, frame))
                return frame, await self._finish(decided, watch)
            except BudgetExceededError as error:
                first = first or error
                tokens = reduce_state_limit(frame.skeleton.state_tokens, error, tries)
                if tokens is None:
                    raise build_state_budget_error(first, error) from error
            tries, decided = tries + 1, None
            less = replace(request, state_tokens=tokens)
            skeleton = await to_thread.run_sync(self._parts.automation.render, less)
            told = await describe_state(self._parts.store, draft.window.head, skeleton.state_cut)
            frame = replace(frame, skeleton=skeleton, told=told)

    def _collect_inputs(
        self,
        draft: TurnContext,
        frame: _PromptFrame,
        curation: Curation,
        entries: tuple[MemoryEntry, ...],
        evidence_ids: Mapping[str, str] = EMPTY,
    ) -> PromptInputs:
        parts, window, config = self._parts, draft.window, draft.config
        layout, results = frame.layout, frame.results
        count = parts.estimator.estimate
        names = tuple(evidence_ids.get(entry_uri(entry), entry.entry_id) for entry in entries)
        chosen, limit = replace(curation.selection, entry_ids=names), config.curation.max_entry_tokens
        memories = render_memories(chosen, entries, parts.estimator, limit, evidence_ids)
        joining = (*instruction_blocks(config.instructions, count), *results.blocks, *memories)
        skeleton, flesh = make_block_ids_unique(frame.skeleton, joining)
        done_without = (*draft.degradations, *_missing_codes(curation, entries), *results.degradations)
        return PromptInputs(
            turn_id=draft.turn_id,
            user_text=draft.message.content,
            plan=draft.plan,
            window=window,
            config=config,
            skeleton=skeleton,
            flesh=flesh,
            evidence_ids=evidence_ids,
            conflicts=results.conflicts,
            errors=results.errors,
            entries=entries,
            candidates=curation.candidates,
            stream_b=build_stream_report(curation),
            layout=layout,
            pruner=choose_pruner(config, parts.pruner),
            count=count,
            counter=parts.estimator.name,
            degradations=(
                *frame.told,
                *(describe_degradation(code) for code in (*done_without, *cut_notes(flesh, entries))),
            ),
            at=draft.message.at or parts.clock.now(),
            reply=draft.reply,
            correction=_correction(draft),
        )

    async def _prepare_inputs(self, draft: TurnContext) -> tuple[RecallScene, SkeletonInput]:
        """Return the inputs of both streams."""
        parts, window, shown = self._parts, draft.window, draft.history
        if shown is None:
            limits = history_limits(draft.config)
            shown = trim_history(window.messages, previous_history_start(window), limits, parts.estimator.estimate)
        scopes = (world_scope(draft.world.world_id), session_scope(window.head.session_id))
        look = partial(
            build_recall_scene,
            plan=draft.plan,
            window=window,
            shown=shown,
            world=draft.world,
            restricted=await parts.store.gated_entries(scopes),
            config=draft.config,
        )
        scene = await calculate(look, draft.message.content, size=size_of(window.state))
        return scene, SkeletonInput(
            plan=draft.plan,
            window=replace(window, messages=shown),
            world=draft.world,
            user_text=draft.message.content,
            config=draft.config,
            hidden=scene.hidden,
            history=shown,
            state_tokens=int(draft.config.budget.prompt_tokens(_correction(draft)) * draft.config.budget.state_share),
        )

    async def _streams(
        self, draft: TurnContext, scene: RecallScene, request: SkeletonInput, watch: Stopwatch
    ) -> tuple[_PromptFrame, Curation, _DecidedPrompt | None]:
        """Return what both streams give, run side by side, and the prompt if it was made before Stream B ended; a fault of
        Stream A ends Stream B.
        """
        parts = self._parts
        curation = Curation.skipped("not_started", "Stream B has not started.")
        waiting = _Waiting()

        async def flesh() -> None:
            nonlocal curation
            ended = None
            try:
                with parts.tracing.span("jacquard.stream_b") as span:
                    curation = ended = await self._curate(draft, scene, waiting.nears)
                    span.put(stream_facts(curation))
                watch.mark("stream_b")
            finally:
                waiting.ends(ended)

        def render_skeleton() -> tuple[Skeleton, SkeinTemplate]:
            layout = load_layout(draft.config.layout, template_roots(parts.roots, draft.world))
            return parts.automation.render(request), layout

        frame, ahead, fault = None, None, None
        async with anyio.create_task_group() as streams:
            streams.start_soon(flesh)
            try:
                with parts.tracing.span("jacquard.stream_a") as span:
                    skeleton, layout = await to_thread.run_sync(render_skeleton)
                    span.put({"jacquard.stream_a.blocks": len(skeleton.blocks)})
                watch.mark("stream_a")
                session, shown = draft.window.head.session_id, draft.config.evidence
                results = await load_evidence_blocks(parts.store, parts.clock, session, shown, parts.estimator.estimate)
                told = await describe_state(parts.store, draft.window.head, skeleton.state_cut)
                frame = _PromptFrame(skeleton=skeleton, layout=layout, results=results, told=told)
                ahead = await self._decide_ahead(draft, frame, waiting)
            except ContextEngineError as error:
                fault = error
                streams.cancel_scope.cancel()
        if frame is None or fault is not None:
            raise fault or JacquardError("Stream A gave nothing.")
        return frame, curation, ahead if waiting.expected is not None else None

    async def _decide_ahead(self, draft: TurnContext, frame: _PromptFrame, waiting: _Waiting) -> _DecidedPrompt | None:
        """Make the prompt that goes out if Stream B misses its deadline while that comes near, so that it can go out then.

        None where Stream B is over before, or where that prompt cannot be made (the error is raised when the real one is made).
        """
        await waiting.over.wait()
        if waiting.expected is None:
            return None
        try:
            return await to_thread.run_sync(
                _decide_prompt, partial(self._collect_inputs, draft, frame, waiting.expected, entries=())
            )
        except ContextEngineError:
            return None

    async def _finish(self, decided: _DecidedPrompt, watch: Stopwatch) -> PreparedTurn:
        """Have degraded what the decisions say, and finish the prompt."""
        parts, laid, turn = decided.parts, decided.laid, decided.turn
        if turn is not None:
            return turn
        usages: list[ModelUsage] = []

        def note(call: Call, error: str) -> None:
            name, stage = f"{parts.turn_id}.shorten.{len(usages) + 1}", ModelUsageStage.SUMMARIZE
            usages.append(
                usage_of(name, call, parts.count, stage=stage, purpose="shorten", turn_id=parts.turn_id, error=error)
            )

        shortener = self._shortener
        carried = await apply_degradations(
            laid.orders,
            count=parts.count,
            shortener=shortener.with_note(note) if isinstance(shortener, SummarizingShortener) else shortener,
            redactor=self._parts.redactor,
            within_seconds=parts.config.summary.timeout_ms / 1000,
        )
        watch.lap("degrade")
        whole = replace(parts, degradations=(*parts.degradations, *carried.degradations))
        turn = await to_thread.run_sync(_build_recorded_turn, whole, laid, carried.blocks)
        return replace(turn, usages=tuple(usages))

    async def _curate(self, draft: TurnContext, scene: RecallScene, nears: Near) -> Curation:
        """Return this turn's flesh: an earlier late result if the scene still matches, else the race of Stream B.

        `nears` is called shortly before the deadline with what is returned if it is missed.
        """
        settings, plan, head = draft.config.curation, draft.plan, draft.window.head
        if not (settings.enabled and plan.search_intent.enabled):
            code = "numerical" if draft.reply is not None else "disabled"
            return Curation.skipped(code, "The turn does not search memory.")
        size = size_of(draft.message.content)
        kept, refused = await calculate(_find_late_result, draft, scene, size=size)
        if kept is not None:
            return kept
        lease, ended = await calculate(_find_lease, draft, size=size)
        more = lease.keywords if lease is not None else ()
        request = CurationRequest(
            query=replace(scene.query, keywords=(*scene.query.keywords, *more)),
            user_text=draft.message.content,
            recent=scene.recent,
            plan=plan,
            select_limit=settings.select_limit,
            fallback_limit=settings.fallback_limit,
            locale=draft.world.locale,
            calls=draft.calls,
            lease=lease,
        )

        async def keep(choice: Curation, *, late: bool = True) -> None:
            text, viewer, depth = draft.message.content, draft.config.viewer, head.depth + 1
            note = partial(build_prefetch, viewer=viewer, late=late)
            made = await calculate(note, choice, plan, draft.turn_id, head.branch_id, depth, text, size=size)
            await self._parts.store.save_prefetch(head.session_id, made)

        async def end() -> None:
            if self._deferred_usage is not None:
                await self._deferred_usage.write(head.session_id, draft.turn_id, draft.calls)

        def with_refusals(choice: Curation, ended: str) -> Curation:
            if lease is not None and choice.path is not CurationPath.LEASED and not ended:
                ended = "Stream B had not answered in time."
            return replace(choice, prefetch_refused=refused, lease_refused=ended)

        def near(missed: Curation) -> None:
            nears(with_refusals(missed, ended))

        curation = await self._race.run(self._parts.curation, request, settings, on_late=keep, on_end=end, on_near=near)
        ended = ended or curation.lease_refused
        if settings.lease_turns and is_keepable(curation):
            await keep(curation, late=False)
        elif ended:
            await keep(replace(curation, selection=Selection(entry_ids=())), late=False)
        return with_refusals(curation, ended)

    async def _fetch(self, curation: Curation, scene: RecallScene) -> tuple[MemoryEntry, ...]:
        """Return the full entries of the choice, in its order; quests come from the state, not from the store.

        What became a secret since it was chosen is left out.
        """
        by_scope: dict[str, list[str]] = {}
        for candidate in curation.chosen:
            by_scope.setdefault(candidate.scope, []).append(candidate.entry_id)
        found = {place_of(quest): quest for quest in scene.quests}
        for scope, ids in by_scope.items():
            fetched = await self._parts.store.entries(scope, ids)
            found.update({place_of(e): e for e in fetched if scene.query.knows is None or scene.query.knows(e)})
        return tuple(found[c.place] for c in curation.chosen if c.place in found)


def _correction(draft: TurnContext) -> float:
    return correction_of(draft.window.usages, draft.config.model_hint)


def _find_late_result(draft: TurnContext, scene: RecallScene) -> tuple[Curation | None, str]:
    """Return an earlier late result if it may serve this turn, else None and why one of the last turn may not."""
    kept, head = draft.window.prefetch, draft.window.head
    if kept is None or not is_late(kept):
        return None, ""
    shown, viewer = scene.query.exclude, draft.config.viewer
    fits, why = scene_matches(kept, draft.plan, head, draft.message.content, shown=shown, viewer=viewer)
    if fits:
        return prefetched_curation(kept, why, shown=shown), ""
    return None, why if kept.depth >= head.depth else ""


def _find_lease(draft: TurnContext) -> tuple[Lease | None, str]:
    """Return the lease of an earlier choice if the scene holds, else None and why a recent one has ended."""
    kept, config = draft.window.prefetch, draft.config
    if kept is None:
        return None, ""
    head, text = draft.window.head, draft.message.content
    return find_lease(kept, draft.plan, head, text, config.curation, viewer=config.viewer)


def _missing_codes(curation: Curation, entries: tuple[MemoryEntry, ...]) -> tuple[str, ...]:
    """Return codes of what Stream B had to do without."""
    broke = curation.path is CurationPath.SKIPPED and curation.code == "internal"
    failed = (f"{DegradationCode.RECALL_FAILED}: {curation.reason}",) if broke else ()
    lost = (DegradationCode.EVIDENCE_NOT_FOUND,) if len(entries) < len(curation.chosen) else ()
    return (*curation.degradations, *failed, *lost)


def stream_facts(curation: Curation) -> dict[str, Fact]:
    """Return the attributes of Stream B's span: its path, and how many of how many it chose; no texts."""
    return {
        "jacquard.stream_b.path": curation.path.value,
        "jacquard.stream_b.code": curation.code,
        "jacquard.stream_b.candidates": len(curation.candidates),
        "jacquard.stream_b.chosen": len(curation.chosen),
    }


def _decide_prompt(ingredients: Callable[[], PromptInputs]) -> _DecidedPrompt:
    parts = ingredients()
    laid = lay_out_prompt(parts)
    return _DecidedPrompt(parts=parts, laid=laid, turn=None if laid.orders else _build_recorded_turn(parts, laid, {}))


def _build_recorded_turn(parts: PromptInputs, laid: PromptLayout, carried: Mapping[str, PromptBlock]) -> PreparedTurn:
    turn = build_turn_prompt(parts, laid, carried)
    return replace(turn, tape=snapshot_to_json(snapshot_prompt(parts, laid.limit_tokens, carried)))


def history_limits(config: RuntimeConfig) -> HistoryConfig:
    """The window takes at most half of the prompt, so that a small budget keeps a stable start as well."""
    half = (config.budget.max_input_tokens - config.budget.reserved_reply_tokens) // 2
    return replace(config.history, max_tokens=min(config.history.max_tokens, half))
