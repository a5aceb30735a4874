"""Runs Stream B of a turn: finds the memories that the prompt shows.

A selection from an earlier turn is used again if it still applies. Otherwise entries are recalled and selected before a
deadline. A selection that comes after the deadline is stored for the next turn. A lease is the permission to use one
selection for several turns while the scene stays the same. This module must not import a concrete store, retriever or
selector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial

from jacquard.adapters.observe.bus import EventEmitter
from jacquard.core.model_calls import CallBook
from jacquard.core.plan import Temporal
from jacquard.core.protocols import Selection
from jacquard.core.receipt import CurationPath
from jacquard.memory.overview import overview_rating
from jacquard.memory.story_facts import describe_story_times
from jacquard.pipeline.curation.deadline import CurationDeadline, Near
from jacquard.pipeline.curation.lease import Lease
from jacquard.pipeline.curation.prefetch import (
    build_prefetch,
    build_prefetched_curation,
    find_lease,
    is_keepable,
    is_late,
    scene_matches,
)
from jacquard.pipeline.curation.recall_query import build_recall_query, recent_lines
from jacquard.pipeline.curation.stream import Curation, CurationRequest
from jacquard.pipeline.curation.validity import describe_left_out, find_validity, related_ids
from jacquard.pipeline.record.events import emit_usage
from jacquard.pipeline.record.evidence import first_evidence_ids
from jacquard.pipeline.skeleton.history import OVERVIEW_FACTOR, limit_memories
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.worlds import party_names
from jacquard.turns.parts import EngineParts
from jacquard.turns.turn_log import TurnLog
from mnemosyne.core.errors import ContextEngineError
from mnemosyne.core.masking.call_logs import open_log
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.protocols import Store, TokenEstimator, combined_reads
from mnemosyne.schema.memory import MemoryEntry, Trust, session_scope
from mnemosyne.schema.query import Candidate, EntryPlace, RetrievalQuery, place_of

_log = open_log(__name__)


class DeferredUsage:
    """Completes the stored usage of model calls that were still running when their turn was written.

    `hold(session_id)` locks a session for one caller at a time.
    """

    def __init__(
        self,
        store: Store,
        count: Callable[[str], int],
        hold: Callable[[str], AbstractAsyncContextManager[None]],
        emitter: EventEmitter,
    ) -> None:
        self._store, self._count, self._hold, self._emitter = store, count, hold, emitter

    async def write(self, session_id: str, turn_id: str, calls: CallBook) -> None:
        """Write the usage of the calls in `calls` that ended after the turn was written. Errors are logged and never
        raised.

        This method waits until the transaction of the turn has released the session.
        """
        try:
            async with self._hold(session_id):
                usages = calls.take_late_usages(turn_id, self._count)
                if usages:
                    await self._store.append_model_usage(session_id, usages)
        except ContextEngineError:
            _log.exception("late model calls of turn %s could not be written", turn_id)
            return
        for usage in usages:
            await emit_usage(self._emitter, session_id, turn_id, usage)


class TurnCurator:
    """Runs Stream B for turns. `deferred_usage` writes the usage of model calls that end after their turn was written."""

    def __init__(self, parts: EngineParts, deadline: CurationDeadline, deferred_usage: DeferredUsage) -> None:
        self._parts, self._deadline, self._deferred_usage = parts, deadline, deferred_usage

    async def curate(self, turn: Turn, log: TurnLog, on_near: Near) -> Curation:
        """Return the memories for a turn. If the late selection of an earlier turn still fits the scene, it is used;
        else a new selection is made.

        `on_near` is awaited shortly before the deadline. Its argument is the result that is used if the deadline is
        missed. Failures of recall and selection do not raise an error. Raises StoreError if the store cannot be read or
        written.
        """
        settings, head = turn.config.curation, turn.window.head
        if not (settings.enabled and turn.plan.search_intent.enabled):
            code = "numerical" if turn.action is not None else "disabled"
            return Curation.skipped(code, "The turn does not search memory.")
        # Shown texts are only searched for memories, which takes a fraction of the time of a state of this size.
        size = size_of(turn.text, turn.window.state) + _count_shown_chars(turn) // 4
        query = await calculate(_build_query, turn, size=size)
        size = size_of(turn.text)
        # Before recall, because a turn that uses a late result needs none.
        kept, refused = await calculate(_find_late_result, turn, query, size=size)
        if kept is not None:
            return await self._load_entries(turn, kept, query)
        lease, ended = await calculate(_find_lease, turn, size=size)
        request = build_request(turn, query, lease)
        keep = partial(self._keep_choice, turn)

        async def write_usage() -> None:
            await self._deferred_usage.write(head.session_id, turn.turn_id, log.calls)

        def with_refusals(choice: Curation, lease_refused: str) -> Curation:
            if lease is not None and choice.path is not CurationPath.LEASED and not lease_refused:
                lease_refused = "Stream B had not answered in time."
            return replace(choice, prefetch_refused=refused, lease_refused=lease_refused)

        expected: tuple[Curation, Curation] | None = None

        async def near(missed: Curation) -> None:
            nonlocal expected
            expected = missed, await self._load_entries(turn, with_refusals(missed, ended), query)
            await on_near(expected[1])

        curation = await self._deadline.run(
            self._parts.curation,
            request,
            settings,
            on_late=keep,
            on_end=write_usage,
            on_near=near,
            calls=log.calls,
        )
        ended = ended or curation.lease_refused
        if settings.lease_turns and is_keepable(curation):
            await keep(curation, late=False)
        elif ended:
            # An empty selection replaces it, so that the lease does not come back when the conversation does (decision 0024).
            await keep(replace(curation, selection=Selection(entry_ids=())), late=False)
        if expected is not None and expected[0] is curation:
            return expected[1]  # Its entries were read before the deadline.
        return await self._load_entries(turn, with_refusals(curation, ended), query)

    async def _keep_choice(self, turn: Turn, choice: Curation, *, late: bool = True) -> None:
        """Store a selection for the next turn of the branch."""
        head, text = turn.window.head, turn.text
        build = partial(build_prefetch, viewer=turn.config.viewer, late=late)
        place = (turn.turn_id, head.branch_id, head.depth + 1)
        prefetch = await calculate(build, choice, turn.plan, *place, text, size=size_of(text))
        await self._parts.store.save_prefetch(head.session_id, prefetch)

    async def _load_entries(self, turn: Turn, curation: Curation, query: RetrievalQuery) -> Curation:
        """Return a curation with its complete entries and the times of the story.

        Quests are taken from the state, not from the store. Entries that were hidden since the selection are left out. A
        rationale may mention every candidate, so it is left out if one of them was hidden.
        """
        chosen = curation.chosen
        if not chosen:
            return replace(curation, entries=())
        explained = curation.candidates if curation.selection.rationale else chosen
        by_scope: dict[str, list[str]] = {}
        for candidate in explained:
            by_scope.setdefault(candidate.scope, []).append(candidate.entry_id)
        related = related_ids(turn, chosen)
        if related:
            own = by_scope.setdefault(session_scope(turn.session_id), [])
            own += [name for name in related if name not in own]
        store = self._parts.store
        read = await combined_reads(store).chosen_inputs(
            store,
            turn.session_id,
            by_scope,
            evidence_ids=[name for each in chosen for name in first_evidence_ids(each)],
            turn_ids=_find_told_turns(turn, chosen),
        )
        found: dict[EntryPlace, MemoryEntry] = {place_of(each): each for each in query.extra}
        for entries in read.entries.values():
            found.update((place_of(e), e) for e in entries if query.may_know is None or query.may_know(e))
        entries = tuple(found[each.place] for each in chosen if each.place in found)
        if not all(each.place in found for each in explained):
            curation = replace(curation, selection=replace(curation.selection, rationale=""))
        # Tokens of most shown messages were counted before.
        size = sum(len(entry.text) for entry in entries) + _count_shown_chars(turn) // 4
        facts = [each for place, each in found.items() if related and place.entry_id in related]
        curation = replace(curation, entries=entries, evidences=read.evidences)
        curation = await calculate(limit_tokens, curation, turn, self._parts.estimator, size=size)
        if query.rate is not None:
            curation = order_by_time(curation)
        if turn.facts.endings or turn.facts.state_values:
            curation = replace(
                curation,
                validity=find_validity(turn, curation.entries, facts),
                left_out=describe_left_out(turn, curation.entries, facts),
            )
        return replace(curation, story_times=describe_story_times(read.states, turn.world.story_time))


def _count_shown_chars(turn: Turn) -> int:
    return sum([len(item.message.content) for item in turn.shown])


def _find_told_turns(turn: Turn, chosen: Sequence[Candidate]) -> list[str]:
    """Return the turns of the chosen memories, if the world states where the time of the story is.

    Turns of the prologue are not among them, because the pack contains only the state after all of them.
    """
    first = len(turn.world.prologue)
    played = (each.turn_id for each in chosen if each.turn_id and (each.depth or 0) > first)
    return list(dict.fromkeys(played)) if turn.world.story_time else []


def limit_tokens(curation: Curation, turn: Turn, estimator: TokenEstimator) -> Curation:
    """Return `curation` without the entries that do not fit the token limit for memories in `turn`. Better entries are
    kept first, and the best entry always stays.
    """
    count, is_overview = estimator.estimate, turn.plan.search_intent.overview is not None
    left = limit_memories(turn.config, turn.window, turn.shown, count, is_overview=is_overview)
    over = set[EntryPlace]()
    for place, entry in enumerate(curation.entries):
        tokens = min(count(entry.text), turn.config.curation.max_entry_tokens)
        if place and tokens > left:
            over.add(place_of(entry))
        else:
            left -= tokens
    if not over:
        return curation
    names = tuple(candidate.name for candidate in curation.chosen if candidate.place in over)
    kept = tuple(name for name in curation.selection.entry_ids if name not in names)
    return replace(
        curation,
        selection=replace(curation.selection, entry_ids=kept, over_tokens=names),
        entries=tuple(entry for entry in curation.entries if place_of(entry) not in over),
    )


def order_by_time(curation: Curation) -> Curation:
    """Return `curation` with its entries in the order of events. Entries without a time, such as lore, come first. An
    answer follows its question.
    """
    times = {
        each.name: (-1 if each.depth is None else each.depth, each.trust is not Trust.USER)
        for each in curation.candidates
    }
    names = {each.place: each.name for each in curation.candidates}
    selection = curation.selection
    return replace(
        curation,
        selection=replace(selection, entry_ids=tuple(sorted(selection.entry_ids, key=lambda name: times[name]))),
        entries=tuple(sorted(curation.entries, key=lambda entry: times[names[place_of(entry)]])),
    )


def _build_query(turn: Turn) -> RetrievalQuery:
    return replace(build_recall_query(turn), rate=overview_rating(turn))


def build_request(turn: Turn, query: RetrievalQuery, lease: Lease | None) -> CurationRequest:
    """Return the request of a turn for Stream B. `query` is the search of the turn. If `lease` is given, the keywords
    of the lease are searched too.
    """
    settings, names = turn.config.curation, party_names(turn.world)
    most = OVERVIEW_FACTOR if query.rate is not None else 1
    return CurationRequest(
        query=query if lease is None else replace(query, keywords=(*query.keywords, *lease.keywords)),
        user_message=turn.text,
        recent=recent_lines(turn.shown, names),
        names=names,
        plan=turn.plan,
        select_limit=settings.select_limit * most,
        fallback_limit=settings.fallback_limit * most,
        relevance_floor=(
            0.0
            if query.rate is not None
            else settings.relevance_floor_past
            if turn.plan.search_intent.temporal_context is Temporal.PAST
            else settings.relevance_floor
        ),
        locale=turn.world.locale,
        lease=lease,
    )


def _find_late_result(turn: Turn, query: RetrievalQuery) -> tuple[Curation | None, str]:
    """Return an earlier late result if it may serve this turn; else None, and the reason why one of the last turn may not."""
    kept, head = turn.window.prefetch, turn.window.head
    if kept is None or query.rate is not None or not is_late(kept):
        return None, ""
    shown, viewer = query.exclude, turn.config.viewer
    fits, why = scene_matches(kept, turn.plan, head, turn.text, shown=shown, viewer=viewer)
    if fits:
        return build_prefetched_curation(kept, why, shown=shown), ""
    return None, why if kept.depth >= head.depth else ""


def _find_lease(turn: Turn) -> tuple[Lease | None, str]:
    """Return the lease on an earlier selection if the scene is the same; else None, and the reason why a recent one has ended."""
    kept, config = turn.window.prefetch, turn.config
    if kept is None or turn.plan.search_intent.overview is not None:
        return None, ""
    return find_lease(kept, turn.plan, turn.window.head, turn.text, config.curation, viewer=config.viewer)
