"""What Stream B may see in this turn: the gates before recall, what the prompt shows already, and the query.

The gates come first, so that neither the selector nor the prompt ever sees a secret (spec B7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from jacquard.config.sections import RuntimeConfig
from jacquard.core.plan import PlanContext
from mnemosyne.chains.event import closed_quests, quest_distances
from mnemosyne.chains.lore import gated_entries, hidden_entries, may_know
from mnemosyne.chains.state import view_state
from mnemosyne.schema.memory import Chain, LoreCategory, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import RetrievalQuery
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import WindowMessage
from mnemosyne.schema.world import WorldPack

RECENT_MESSAGES = 4
_PLACED_BY_STREAM_A = frozenset({LoreCategory.AXIOM.value, LoreCategory.DIRECTIVE.value})


@dataclass(frozen=True, kw_only=True, slots=True)
class RecallScene:
    """The view of one turn: `hidden` entry ids, the `query` for recall, and entries that live in the state (`quests`)."""

    hidden: frozenset[str]
    query: RetrievalQuery
    recent: tuple[str, ...]
    quests: tuple[MemoryEntry, ...]


def build_recall_scene(
    user_text: str,
    *,
    plan: PlanContext,
    window: SessionWindow,
    shown: Sequence[WindowMessage],
    world: WorldPack,
    restricted: Iterable[MemoryEntry],
    config: RuntimeConfig,
) -> RecallScene:
    """Return the scene; `shown` are the history messages that the prompt will hold."""
    view = view_state(window.state)
    placed = {entry.entry_id: entry for entry in world.lore if entry.kind in _PLACED_BY_STREAM_A}
    # What Stream A places is rendered from the pack, so the pack's own gates hold for it, whatever the store's rows say by now.
    hidden = hidden_entries((*restricted, *gated_entries(placed.values())), config.viewer, view)
    in_prompt = {item.message.message_id for item in shown}
    quests = closed_quests(window.state, window.head.session_id)
    recent = tuple(line_of(item) for item in shown[-RECENT_MESSAGES:])
    intent = plan.search_intent
    query = RetrievalQuery(
        text=user_text,
        world_id=world.world_id,
        session_id=window.head.session_id,
        lineage=window.head.lineage,
        depth=window.head.depth,
        keywords=known_keywords(plan),
        recent=recent_texts(shown),
        temporal=intent.temporal_context.value,
        weights=_weights(intent.domain_weight),
        focus_quest_id=plan.active_quest_id,
        exclude=frozenset(hidden | placed.keys() | in_prompt),
        exclude_by_scope={
            world_scope(world.world_id): hidden | placed.keys(),
            session_scope(window.head.session_id): hidden | in_prompt,
        },
        may_know=partial(may_know, viewer=config.viewer, view=view),
        shown_from=shown[0].depth if shown else None,
        limit=config.curation.recall_limit,
        entities=plan.entities,
        quest_distances=quest_distances(window.state, plan.active_quest_id),
        extra=tuple(quest for quest in quests if quest.entry_id not in hidden),
    )
    return RecallScene(hidden=hidden, query=query, recent=recent, quests=quests)


def _weights(domain: Mapping[str, float]) -> dict[Chain, float]:
    """Old messages are memory as their summaries are: the narrative weight is the history chain's as well."""
    narrative = domain.get("narrative", 0.5)
    return {
        Chain.NARRATIVE: narrative,
        Chain.HISTORY: narrative,
        Chain.LORE: domain.get("lore", 0.5),
        Chain.EVENT: domain.get("event", 0.5),
    }


def known_keywords(plan: PlanContext) -> tuple[str, ...]:
    """Return the plan's keywords where the world's dictionary found them: guessed ones are words of the input already."""
    return plan.search_intent.focus_keywords if plan.entities else ()


def recent_texts(shown: Sequence[WindowMessage]) -> tuple[str, ...]:
    """Return the newest messages that recall leans on, oldest first; the plan has no part in it."""
    return tuple(item.message.content for item in shown[-RECENT_MESSAGES:])


def line_of(item: WindowMessage) -> str:
    """Return a message as a model is shown it: `name: text`."""
    author = item.message.author
    return f"{author.id if author else item.message.role.value}: {item.message.content}"
