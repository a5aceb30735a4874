"""Compares two ways to choose lore for a session's next input: the rules of SillyTavern, and our recall by relevance.

The store is only read. Both ways see the turn that this input would have, with the same ids and therefore the same
random numbers. For recall, the heuristic chooses; no model is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anyio import to_thread

from jacquard.config.sections import RuntimeConfig
from jacquard.core.receipt import ActivationDecision
from jacquard.pipeline.curation.recall_query import build_recall_query, find_hidden_entries
from jacquard.pipeline.curation.stream import Curation, build_stream_report, make_entry_ids_unique
from jacquard.pipeline.planning.activation import (
    activate_world_info,
    find_world_info_state,
    list_world_info,
    read_world_info,
    uses_world_info,
)
from jacquard.pipeline.skeleton.automation import select_directives
from jacquard.pipeline.skeleton.history import (
    count_loaded_messages,
    find_history_start,
    find_other_tokens,
    history_limits,
    trim_history,
)
from jacquard.pipeline.skeleton.world_info import activation_decisions
from jacquard.pipeline.turn import ShownHistory, Turn, TurnLore
from jacquard.pipeline.worlds import WorldSource
from jacquard.turns.curate import build_request, limit_tokens
from jacquard.turns.load import is_retry, keep_known, turn_id_after
from jacquard.turns.parts import EngineParts
from mnemosyne.chains.lore import entries_by_category
from mnemosyne.chains.unanswered_inputs import head_after, with_unanswered
from mnemosyne.chains.uris import entry_uri
from mnemosyne.schema.memory import LoreCategory, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import place_of
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import Message, Role
from mnemosyne.schema.world import RECALL, SILLYTAVERN, WorldPack
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Decision of one way about one entry. `code` is for programs, `reason` for people."""

    chosen: bool
    code: str
    reason: str


NOT_SET_OFF = Verdict(chosen=False, code="not_set_off", reason="None of its keys is in the scanned text.")
NOT_RECALLED = Verdict(chosen=False, code="not_recalled", reason="Recall did not find it.")


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedEntry:
    """Lore entry from world info (lore of another program), with the verdict of each way."""

    entry_id: str
    title: str
    sillytavern: Verdict
    recall: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class LoreComparison:
    """Comparison of the two ways, with the entries of world info about which at least one way decides something."""

    session_id: str
    turn_id: str
    user_message: str
    """Input for which the ways are compared."""
    activation: str
    """Way that the turns of this session use."""
    entries: tuple[ComparedEntry, ...]
    """Compared entries. Entries on which the rules of SillyTavern decide come first, in the order of their activation."""
    others: int
    """Number of entries that neither way considers."""

    @property
    def differing(self) -> tuple[ComparedEntry, ...]:
        """Entries that exactly one of the two ways shows."""
        return tuple(each for each in self.entries if each.sillytavern.chosen != each.recall.chosen)


async def compare_lore(
    parts: EngineParts,
    worlds: WorldSource,
    config: RuntimeConfig,
    session_id: str,
    user_message: str,
    branch_id: str | None = None,
) -> LoreComparison:
    """Return the decisions of both ways for `user_message` as the next input of the branch `branch_id` (None: the
    active branch).

    Nothing is written. Raises SessionNotFoundError if the session does not exist. Raises WorldUnavailableError if the
    pack is missing.
    """
    limit = count_loaded_messages(config)
    window = await parts.store.window(session_id, message_limit=limit, branch_id=branch_id)
    world = await worlds.world(window.head.world_id, write=False)
    turn = await _plan_turn(parts, config, window, world, user_message)
    count = parts.estimator.estimate
    before = find_world_info_state(turn.window)
    info = await to_thread.run_sync(read_world_info, world)
    activated = await to_thread.run_sync(activate_world_info, turn, info, before, count)
    fired = {each.entry_id: each for each in activation_decisions(activated)}
    recalled = await _find_recalled(parts, turn)
    known = {entry.entry_id: entry for entry in list_world_info(world) if entry.entry_id not in turn.lore.hidden}
    named = [name for name in dict.fromkeys([*fired, *recalled]) if name in known]
    return LoreComparison(
        session_id=session_id,
        turn_id=turn.turn_id,
        user_message=user_message,
        activation=SILLYTAVERN if uses_world_info(world, config) else RECALL,
        entries=tuple(
            ComparedEntry(
                entry_id=name,
                title=known[name].title,
                sillytavern=_verdict_of(fired.get(name)),
                recall=recalled.get(name, NOT_RECALLED),
            )
            for name in named
        ),
        others=len(known) - len(named),
    )


async def _plan_turn(
    parts: EngineParts, config: RuntimeConfig, window: SessionWindow, world: WorldPack, user_message: str
) -> Turn:
    """Return the turn of the input, as far as both ways depend on it."""
    turn_id, pending = turn_id_after(window, user_message, config.viewer), window.pending
    if pending is not None and not is_retry(pending, user_message, config.viewer):
        window = replace(with_unanswered(window), head=head_after(window.head, pending))
    window = keep_known(window, config.viewer)
    plan = await to_thread.run_sync(parts.planner.plan, user_message, window, world)
    count = parts.estimator.estimate
    limits, start = history_limits(config, find_other_tokens(window)), find_history_start(window)
    history = await to_thread.run_sync(trim_history, window.messages, start, limits, count)
    scopes = (world_scope(world.world_id), session_scope(window.head.session_id))
    restricted = await parts.store.gated_entries(scopes)
    lore = list_world_info(world)
    hidden = await to_thread.run_sync(find_hidden_entries, world, restricted, window.state, config.viewer, lore)
    return Turn(
        turn_id=turn_id,
        plan=plan,
        window=window,
        world=world,
        message=Message(role=Role.USER, content=user_message, at=parts.clock.now()),
        config=config,
        history=ShownHistory(messages=history),
        lore=TurnLore(hidden=hidden),
    )


async def _find_recalled(parts: EngineParts, turn: Turn) -> dict[str, Verdict]:
    """Return our decisions on lore: axioms, directives with a key in the input, and candidates of recall."""
    axioms = entries_by_category(turn.world.lore, LoreCategory.AXIOM, turn.lore.hidden)
    directives = select_directives(turn.world, turn.text, turn.lore.hidden)
    found = {
        **{e.entry_id: Verdict(chosen=True, code="axiom", reason="Axioms are in every prompt.") for e in axioms},
        **{e.entry_id: Verdict(chosen=True, code="directive", reason=_explain_directive(e)) for e in directives},
    }
    if not (turn.config.curation.enabled and turn.plan.search_intent.enabled):
        return found
    lore = {entry_uri(entry): entry.entry_id for entry in turn.world.lore}
    decisions = build_stream_report(await _choose(parts, turn)).candidates
    for each in decisions:
        if each.uri in lore:
            found[lore[each.uri]] = Verdict(chosen=each.chosen, code=each.code, reason=each.reason)
    return found


async def _choose(parts: EngineParts, turn: Turn) -> Curation:
    """Return the heuristic's choice, like in a turn without a selector."""
    query = replace(await to_thread.run_sync(build_recall_query, turn), patience_seconds=None)
    recall = make_entry_ids_unique(await parts.curation.retriever.recall(query))
    request = build_request(turn, query, None)
    choice = await parts.curation.fall_back(request, recall, "compared", "no model is asked for a comparison")
    entries = {place_of(entry): entry for entry in (*query.extra, *(await _load(parts, choice)))}
    choice = replace(choice, entries=tuple(entries[each.place] for each in choice.chosen if each.place in entries))
    return await to_thread.run_sync(limit_tokens, choice, turn, parts.estimator)


async def _load(parts: EngineParts, choice: Curation) -> Sequence[MemoryEntry]:
    by_scope: dict[str, list[str]] = {}
    for each in choice.chosen:
        by_scope.setdefault(each.scope, []).append(each.entry_id)
    return [entry for scope, ids in by_scope.items() for entry in await parts.store.entries(scope, ids)]


def _explain_directive(entry: MemoryEntry) -> str:
    if entry.metadata.get("constant") is True:
        return "It is a directive that is active in every turn."
    return "It is a directive, and one of its keys is in the input."


def _verdict_of(decision: ActivationDecision | None) -> Verdict:
    if decision is None:
        return NOT_SET_OFF
    return Verdict(chosen=decision.chosen, code=decision.code, reason=decision.reason)
