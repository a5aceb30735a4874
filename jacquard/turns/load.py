"""Runs the first steps of a turn: load the session and its world, look for a stored answer, make a plan.

The store is only read, with one exception: a rolling summary that is due is written by `jacquard.memory.summarize`.
This module must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyio.abc import TaskGroup

from jacquard.config.sections import RuntimeConfig
from jacquard.core.errors import ConfigError
from jacquard.core.plan import PlanContext, Triage, WorldInfoState
from jacquard.core.receipt import LeftOut
from jacquard.memory.story_facts import load_state_facts
from jacquard.memory.summarize.roller import SummaryRoller, describe_missing_summary
from jacquard.memory.system_messages import SystemMessages
from jacquard.memory.user_facts import UserFacts, find_user
from jacquard.memory.verbs.proposals import load_waiting
from jacquard.pipeline.curation.prefetch import is_late
from jacquard.pipeline.curation.recall_query import (
    find_hidden_entries,
    find_searched_text,
    guess_searched_text,
    known_keywords,
    recent_texts,
)
from jacquard.pipeline.curation.validity import (
    StateValue,
    choose_state_values,
    may_ask_for_values,
    reveal_former,
    with_asked_time,
)
from jacquard.pipeline.evidence.candidates import candidate_filters, mark_newest
from jacquard.pipeline.evidence.context_blocks import CONTEXT_BLOCKS
from jacquard.pipeline.planning.actions import apply_action, read_input
from jacquard.pipeline.planning.activation import (
    WorldInfoReader,
    activate_world_info,
    carry_world_info,
    find_world_info_state,
    list_world_info,
    scans_world_info,
)
from jacquard.pipeline.planning.turn_planner import TurnPlanner
from jacquard.pipeline.record.events import emit_loaded, emit_planned
from jacquard.pipeline.record.prepared_turn import request_fingerprint, turn_id_of
from jacquard.pipeline.record.stored_turn import viewer_of
from jacquard.pipeline.refusals import find_last_report
from jacquard.pipeline.skeleton.history import (
    WindowLimits,
    count_loaded_messages,
    find_other_tokens,
    history_limits,
    widest_limits,
)
from jacquard.pipeline.turn import SessionFacts, ShownHistory, Turn, TurnLore
from jacquard.pipeline.worlds import WorldSource, translate_bare_world
from jacquard.templating.files import TemplateRoot, template_roots
from jacquard.templating.profiles import AUTO, PROFILE, Profile, find_profile_id, load_profile, with_profile
from jacquard.turns.parts import EngineParts
from jacquard.turns.turn_log import TurnLog, TurnRequest
from mnemosyne.chains.audience import VIEWERS, may_read, read_audience
from mnemosyne.chains.story_facts import find_endings
from mnemosyne.chains.unanswered_inputs import head_after, with_unanswered
from mnemosyne.core.errors import DamagedRecordError, TurnNotFoundError
from mnemosyne.core.off_loop import run_off_loop, start_on_loop
from mnemosyne.damage import has_lost, note_of, without_lost
from mnemosyne.protocols import combined_reads
from mnemosyne.schema.memory import UserFact, session_scope, world_scope
from mnemosyne.schema.record import SessionWindow, TurnInputs, TurnRecord
from mnemosyne.schema.session import TurnStatus
from mnemosyne.schema.world import BARE_DIGEST, WorldPack

_MOST_TRANSLATED = 8
"""Maximum number of worlds cached in another language than their own."""


class TurnLoader:
    """Loads and plans turns. Work that is started ahead of its use runs in the task group `tasks`, which lives longer
    than the turn.
    """

    def __init__(
        self,
        parts: EngineParts,
        tasks: TaskGroup,
        roller: SummaryRoller,
        worlds: WorldSource,
        profiles: ProfileSource,
    ) -> None:
        self._parts, self._tasks, self._roller, self._worlds = parts, tasks, roller, worlds
        self._system_messages = SystemMessages(parts.store)
        self._profiles = profiles
        self._planner = TurnPlanner(parts.planner, parts.refiner, parts.tracing)
        self._users = UserFacts(parts.store, parts.clock)
        self._host_mark = parts.host_mark()
        self._world_info = WorldInfoReader()
        self._translated: dict[tuple[str, str, str], WorldPack] = {}

    async def load(self, request: TurnRequest, log: TurnLog) -> Turn:
        """Return the turn of `request` with its session and world, but without a plan. The world is in the language of
        the session. Times and degradations are added to `log`.

        Raises SessionNotFoundError if the session does not exist. Raises WorldUnavailableError if the pack of the world
        is missing. Raises ConfigError if the profile is unknown.
        """
        config, message = request.config, request.message
        if self._parts.ahead is not None:
            # Before the session is read, because its vector is ready later than everything else of the search.
            self._begin_prefetch(config, await run_off_loop(guess_searched_text, message.content))
        inputs = await self._read_inputs(request)
        window = show_window(inputs.window, config.viewer)
        log.stopwatch.lap("window")
        await emit_loaded(log.emitter, window)
        world = await self._worlds.world(window.head.world_id, digest=window.world_digest)
        gated, written = inputs.gated, inputs.written
        if world.digest not in (window.world_digest, BARE_DIGEST):
            # The pack has just become the world's present version, with its lore.
            scopes = world_scope(world.world_id), session_scope(request.session_id)
            gated, written = await self._parts.store.gated_entries(scopes), None
        profile = await self._profiles.load(find_profile_setting(config, window), world)
        user_id = find_user(message, window.meta)
        user_facts = await self._users.facts(user_id) if user_id else ()
        world = with_profile(self._in_language_of(window, world, config.locale), profile)
        return Turn(
            message=message,
            window=window,
            world=world,
            config=config,
            turn_id=request.turn_id or turn_id_after(window, message.content, config.viewer),
            fingerprint=request_fingerprint(message.content, config, self._digest_of(world, user_facts)),
            profile=profile,
            facts=SessionFacts(
                user_id=user_id,
                user_facts=user_facts,
                evidences=inputs.evidences if config.evidence.enabled else None,
                blocks=inputs.blocks,
                gated=gated,
                written=written,
                kept_entries=inputs.kept_entries,
            ),
        )

    def _digest_of(self, world: WorldPack, user_facts: Sequence[UserFact]) -> str:
        """Return a digest of everything that a stored answer depends on, besides the request and the session."""
        is_translated = (world.world_id, world.digest, world.locale) in self._translated
        digest = f"{world.digest}\0{world.locale}" if is_translated else world.digest
        if user_facts:
            # Facts remembered since the turn was prepared belong into a repeated prompt.
            digest = "\0".join((digest, *(f"{fact.fact_id} {fact.valid_to}" for fact in user_facts)))
        return f"{digest}\0{self._host_mark}" if self._host_mark else digest

    async def find_stored_turn(self, turn: Turn, *, is_named: bool) -> TurnRecord | None:
        """Return the stored record that already answers `turn`. Return None if there is no such record. `is_named`
        states whether the host gave the id of the turn.
        """
        record = turn.window.pending
        if record is None or record.turn_id != turn.turn_id:
            if not is_named:
                return None
            try:
                record = await self._parts.store.turn(turn.session_id, turn.turn_id)
            except TurnNotFoundError:
                return None
            if record.status is not TurnStatus.COMMITTED:
                record = _without_prompt_if_lost(record)
            if record.status is TurnStatus.COMMITTED and record.prompt is not None:
                return record
            if record.status is TurnStatus.ABANDONED:
                return None
        if record.fingerprint != turn.fingerprint or record.prompt is None:
            return None
        # Results of tools called meanwhile belong into a repeated prompt.
        given, evidences = record.prompt.get("newest_evidence"), turn.facts.evidences
        if given is None or evidences is None:
            return record
        return record if given == mark_newest(evidences) else None

    async def plan(self, turn: Turn, log: TurnLog, trigger: str = "normal") -> Turn:
        """Return `turn` with its history and plan. If the message calls a declared action, the result of the action is
        in the state of the turn.

        `trigger` is described at `TurnRequest`. Raises ConfigError, StateOpError and TemplateError if an action cannot
        be applied.
        """
        config, text = turn.config, turn.text
        window, history = await self._load_history(turn, log)
        pinned = await self._system_messages.load(turn.window.head, history.messages, turn.window.previous)
        log.stopwatch.lap("summary")
        searched = await run_off_loop(find_searched_text, text, window, turn.world)

        def begin_prefetch(plan: PlanContext) -> None:
            # A memory of the turn before may serve.
            if window.prefetch is None or not is_late(window.prefetch):
                self._begin_prefetch(config, searched, recent_texts(history.messages), known_keywords(plan))

        planned = await self._planner.plan(text, window, turn.world, config, turn.turn_id, on_plan=begin_prefetch)
        log.usages += planned.usages
        log.degradations += planned.degradations
        left_out = (*history.left_out, *await self._describe_waiting(turn))
        turn = replace(
            turn,
            plan=with_asked_time(_use_configured_template(planned.plan, config), text, window.head.depth),
            window=window,
            history=replace(history, pinned=pinned, left_out=left_out),
            facts=replace(turn.facts, last_report=await find_last_report(self._parts.store, window)),
        )
        log.stopwatch.lap("plan")
        await emit_planned(log.emitter, turn.session_id, turn.turn_id, turn.plan)
        if turn.plan.triage is Triage.NUMERICAL:
            turn = await run_off_loop(_apply_action, turn)
            log.stopwatch.lap("action")
        turn = replace(turn, facts=await self._load_story_facts(turn))
        turn = replace(turn, lore=TurnLore(hidden=await self._find_hidden_entries(turn)))
        return await self._activate(turn, log, trigger)

    async def _load_story_facts(self, turn: Turn) -> SessionFacts:
        """Return the facts of a turn with the ends of memories on its path. If the input asks about the past, return them
        with the former values of the state too.
        """
        head, values = turn.window.head, tuple[StateValue, ...]()
        if await run_off_loop(may_ask_for_values, turn):
            facts = await load_state_facts(self._parts.store, head, turn.window.state)
            values = choose_state_values(turn, facts)
        endings = find_endings(turn.facts.gated, head.lineage)
        return replace(turn.facts, endings=endings, state_values=values) if endings or values else turn.facts

    async def _describe_waiting(self, turn: Turn) -> tuple[LeftOut, ...]:
        """Return the receipt's line on memories that a model proposed and that no person has accepted or rejected yet."""
        if not turn.config.memory.review:
            return ()
        count = len(await load_waiting(self._parts.store, turn.session_id))
        reason = f"{count} memories that a model proposed wait for a person's yes (memory proposals)."
        return (LeftOut(what="proposals", code="waiting", reason=reason, count=count),) if count else ()

    def _in_language_of(self, window: SessionWindow, world: WorldPack, setting: str) -> WorldPack:
        """Return the world with the locale that decides the language of our own words.

        The locale is taken from the session's document. If the document has none and the world has no pack, the
        settings decide.
        """
        is_bare = world.digest == BARE_DIGEST
        locale = find_locale(window) or (setting if is_bare else "")
        if not locale or locale == world.locale:
            return world
        key = (world.world_id, world.digest, locale)
        if key not in self._translated:
            self._translated[key] = translate_bare_world(world, locale) if is_bare else replace(world, locale=locale)
            for old in list(self._translated)[:-_MOST_TRANSLATED]:
                self._translated.pop(old, None)
        return self._translated[key]

    async def _read_inputs(self, request: TurnRequest) -> TurnInputs:
        store, config = self._parts.store, request.config
        return await combined_reads(store).turn_inputs(
            store,
            request.session_id,
            message_limit=count_loaded_messages(config),
            branch_id=request.branch_id,
            evidences=candidate_filters(config.viewer) if config.evidence.enabled else (),
            blocks=CONTEXT_BLOCKS,
        )

    async def _load_history(self, turn: Turn, log: TurnLog) -> tuple[SessionWindow, ShownHistory]:
        """Return the window with its rolling summary, made now if due, and the history to show with it.

        If another turn waits for its reply, the window is the one after that turn, and its message is shown as
        unanswered.
        """
        config, window, waiting = turn.config, turn.window, _find_waiting(turn)
        other_tokens = find_other_tokens(window)
        limits, widest = history_limits(config, other_tokens), widest_limits(config, other_tokens)
        if waiting is not None:
            window = keep_known(with_unanswered(window), config.viewer)
        window, history, codes = await self._roller.prepare_summary(window, config, limits, widest)
        if isinstance(history, WindowLimits):
            window = await self._parts.store.window(
                turn.session_id, message_limit=history.loaded_messages, branch_id=window.head.branch_id
            )
            window = show_window(window, config.viewer, is_followed=waiting is not None)
            window, history, own = await self._roller.show(window, config, history)
            codes = (*own, *[describe_missing_summary(code, history) for code in codes])
        log.degradations += codes
        if waiting is not None:
            # The turn follows the waiting one and is committed with it; a summary belongs to a committed turn.
            window = replace(window, head=head_after(window.head, waiting))
        return window, history

    def _begin_prefetch(
        self, config: RuntimeConfig, searched_text: str, recent: Sequence[str] = (), keywords: Sequence[str] = ()
    ) -> None:
        """Start computing those vectors of a search that are not computed yet."""
        if self._parts.ahead is not None and config.curation.enabled:
            start_on_loop(self._tasks.start_soon, self._parts.ahead.prefetch, searched_text, recent, keywords)

    async def _activate(self, turn: Turn, log: TurnLog, trigger: str) -> Turn:
        """Return the turn with its activated world info, if the rules of SillyTavern decide."""
        before = self._find_world_info_state(turn)
        if not scans_world_info(turn):
            return turn if before is None else carry_world_info(turn, before)
        info = await run_off_loop(self._world_info.read, turn.world)
        count = self._parts.estimator.estimate
        turn = await run_off_loop(activate_world_info, turn, info, before, count, trigger)
        log.stopwatch.lap("world_info")
        return turn

    def _find_world_info_state(self, turn: Turn) -> WorldInfoState | None:
        try:
            return find_world_info_state(turn.window)
        except DamagedRecordError as error:
            note = note_of(error, session_scope(turn.session_id), "Nothing of the world info that it set off lasts on")
            self._parts.store.damage_log.add(note)
            return None

    async def _find_hidden_entries(self, turn: Turn) -> frozenset[str]:
        restricted, state, viewer = reveal_former(turn, turn.facts.endings), turn.window.state, turn.config.viewer
        activated = list_world_info(turn.world) if scans_world_info(turn) else ()
        return await run_off_loop(
            find_hidden_entries, turn.world, restricted, state, viewer, activated, turn.window.head
        )


def find_locale(window: SessionWindow) -> str:
    """Return the locale in the session's document. Return '' if there is none."""
    return "" if window.meta is None else window.meta.locale.strip()


def find_profile_setting(config: RuntimeConfig, window: SessionWindow) -> str:
    """Return the profile of a turn: from the turn's configuration, else from the start of the session, else `auto`."""
    if config.profile != AUTO or window.meta is None:
        return config.profile
    named = window.meta.extra.get(PROFILE)
    return named.strip() or AUTO if isinstance(named, str) else AUTO


def _without_prompt_if_lost(record: TurnRecord) -> TurnRecord:
    """Return a waiting turn; without its prompt, so that it is prepared again, if a part of its record is damaged."""
    return replace(without_lost(record), prompt=None) if has_lost(record) else record


def show_window(window: SessionWindow, viewer: str | None, *, is_followed: bool = False) -> SessionWindow:
    """Return a window without damaged parts, and without messages that `viewer` must not know.

    If `is_followed` is true, another turn follows the pending turn. The message of the pending turn is then shown as
    unanswered.
    """
    whole = replace(
        window,
        previous=None if window.previous is None else without_lost(window.previous),
        pending=None if window.pending is None else _without_prompt_if_lost(window.pending),
    )
    return keep_known(with_unanswered(whole) if is_followed else whole, viewer)


def keep_known(window: SessionWindow, viewer: str | None) -> SessionWindow:
    """Return a window without the messages of turns that `viewer` must not know."""
    known = tuple(
        [
            each
            for each in window.messages
            if VIEWERS not in each.message.extra or may_read(read_audience(each.message.extra), viewer)
        ]
    )
    return window if len(known) == len(window.messages) else replace(window, messages=known)


def turn_id_after(window: SessionWindow, text: str, viewer: str | None) -> str:
    """Return the id of the turn for the input `text`.

    If the waiting turn has the same input and viewer, the new turn replaces the waiting turn. Otherwise the new turn
    follows the waiting turn. `viewer` is the viewer for whom the new turn is prepared (None: no viewer).
    """
    head, pending = window.head, window.pending
    if pending is None or is_retry(pending, text, viewer):
        return turn_id_of(head.session_id, head.branch_id, head.turn_id, head.depth + 1, text)
    return turn_id_of(head.session_id, head.branch_id, pending.turn_id, head.depth + 2, text)


def is_retry(pending: TurnRecord, text: str, viewer: str | None) -> bool:
    """Return whether `text` repeats the input of the waiting turn. An input for another viewer is never a repetition.
    `viewer` is the viewer of the new input (None: no viewer).
    """
    if not pending.messages or pending.messages[-1].content != text:
        return False
    return pending.prompt is None or viewer_of(pending) == viewer


def _find_waiting(turn: Turn) -> TurnRecord | None:
    """Return the waiting turn that this one follows, or None."""
    pending = turn.window.pending
    if pending is None or pending.turn_id == turn.turn_id or is_retry(pending, turn.text, turn.config.viewer):
        return None
    return pending


def _use_configured_template(plan: PlanContext, config: RuntimeConfig) -> PlanContext:
    return plan if config.template_id is None else replace(plan, template_id=config.template_id)


def _apply_action(turn: Turn) -> Turn:
    """Return the turn after its planned action: with the new state, the reply, and the ops."""
    found = read_input(turn.text, turn.world, turn.plan.action_id)
    if found.action is None:
        reason = f"The plan names action {turn.plan.action_id!r}, but the input does not match it."
        raise ConfigError(" ".join((reason, *found.faults)))
    chars = turn.config.limits.state_chars
    outcome = apply_action(found.action, found.groups, turn.window.state, state_chars=chars, locale=turn.world.locale)
    return replace(turn, window=replace(turn.window, state=outcome.state), action=outcome)


_MOST_HELD = 64


class ProfileSource:
    """Loads profiles (settings for one kind of agent) and caches one for each version of a world pack."""

    def __init__(self, roots: Sequence[TemplateRoot]) -> None:
        self._roots = tuple(roots)
        self._held: dict[tuple[str, str, str], Profile] = {}

    async def load(self, setting: str, world: WorldPack) -> Profile:
        """Return the profile that `setting` names in a world. Raises ConfigError if there is no such profile."""
        key = (find_profile_id(setting, world), world.world_id, world.digest)
        held = self._held.get(key)
        if held is None:
            if len(self._held) >= _MOST_HELD:
                self._held.clear()
            held = await run_off_loop(load_profile, key[0], template_roots(self._roots, world))
            self._held[key] = held
        return held
