"""Builds the query by which Stream B recalls memories for a turn, and decides which memories may be recalled.

Stream B is the part of a turn that recalls memories and selects a few of them. A gate of a memory entry states who may
know the entry, or under which conditions. Gates are checked during recall, so that neither a selector nor the prompt
ever sees a secret. Memories that the prompt shows in any case are not recalled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from jacquard.core.blocks import is_too_sensitive
from jacquard.core.names import normalise
from jacquard.core.plan import PlanContext
from jacquard.core.quests import find_active_quests
from jacquard.pipeline.turn import Turn
from jacquard.pipeline.worlds import name_of_speaker
from mnemosyne.chains.asides import drop_asides, is_aside, remove_asides
from mnemosyne.chains.event import closed_quests, quest_distances
from mnemosyne.chains.lore import gated_entries, hidden_entries, may_know
from mnemosyne.chains.messages.message_ids import speaker_of
from mnemosyne.chains.state import StateView, view_state
from mnemosyne.evidence.documents import has_expired
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import EMPTY, Chain, LoreCategory, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import RetrievalQuery
from mnemosyne.schema.record import SessionWindow
from mnemosyne.schema.session import SessionHead, WindowMessage
from mnemosyne.schema.world import WorldPack

RECENT_MESSAGES = 4
EARLIER_MESSAGES = 10
"""Number of newest messages in which recall looks for what the talk is about."""
_COMPARED_MESSAGES = 24
"""Number of newest messages that are searched for repetitions."""
VECTOR_SHARE = 2 / 3
"""Share of the turn's deadline that recall may wait for the vector of the query. The rest is for ranking and selecting.
"""
_SAME_SHARE, _NEARBY_TURNS = 0.6, 3
_PLACED_BY_STREAM_A = frozenset({LoreCategory.AXIOM.value, LoreCategory.DIRECTIVE.value})


def find_hidden_entries(
    world: WorldPack,
    restricted: Iterable[MemoryEntry],
    state: Mapping[str, Any],
    viewer: str | None,
    activated: Iterable[MemoryEntry] = (),
    head: SessionHead | None = None,
) -> frozenset[str]:
    """Return the ids of the entries that `viewer` must not see in this `state`.

    `restricted` contains the entries with gates (viewers or conditions) as the store has them. Three kinds of entries
    are rendered from the pack `world`: axioms (lore that every prompt shows), directives (instructions of the author)
    and the entries `activated` by world info. For these kinds the gates in the pack apply, even if the store has newer
    rows. An edit of an entry hides the original. If the edit belongs to a turn, it does so only if this turn is on the
    path to `head` (None: on any path).
    """
    placed = gated_entries((*(entry for entry in world.lore if entry.kind in _PLACED_BY_STREAM_A), *activated))
    return hidden_entries((*restricted, *placed), viewer, view_state(state), head)


def build_recall_query(turn: Turn) -> RetrievalQuery:
    """Return the query for the memories of `turn`.

    The field `extra` of the query contains the closed quests as entries; these are made from the state and are not
    stored.
    """
    plan, window, world, config = turn.plan, turn.window, turn.world, turn.config
    shown = turn.shown
    placed = {entry.entry_id for entry in world.lore if entry.kind in _PLACED_BY_STREAM_A} | turn.lore.withheld
    in_prompt = {item.message.message_id for item in shown}
    depths = [shown[0].depth] if shown else []
    if config.history.shown_turns:
        depths.append(window.head.depth - config.history.shown_turns + 1)
    return RetrievalQuery(
        text=find_searched_text(turn.text, window, world),
        world_id=world.world_id,
        session_id=turn.session_id,
        lineage=window.head.lineage,
        depth=window.head.depth,
        keywords=known_keywords(plan),
        speaker=speaker_of(turn.message),
        recent=recent_texts(shown),
        earlier=tuple(item.message.content for item in drop_asides(shown[-EARLIER_MESSAGES:-RECENT_MESSAGES])),
        temporal=plan.search_intent.temporal_context.value,
        weights=_weights(plan.search_intent.domain_weight),
        focus_quest_id=plan.active_quest_id,
        exclude=frozenset(turn.lore.hidden | placed | in_prompt),
        exclude_by_scope={
            world_scope(world.world_id): turn.lore.hidden | placed,
            session_scope(turn.session_id): turn.lore.hidden | in_prompt,
        },
        may_know=partial(
            may_recall,
            viewer=config.viewer,
            view=view_state(window.state),
            most=config.prune.max_sensitivity,
            now=turn.message.at or datetime.now(UTC),
            shown=_find_shown_text(turn),
        ),
        shown_from=min(depths, default=None),
        shown_quests=frozenset(quest.quest_id for quest in find_active_quests(window.state)),
        limit=config.curation.recall_limit,
        patience_seconds=config.curation.deadline_ms / 1000 * VECTOR_SHARE,
        entities=plan.entities,
        quest_distances=quest_distances(window.state, plan.active_quest_id),
        written=turn.facts.written,
        kept_entries=turn.facts.kept_entries,
        extra=(
            *(
                quest
                for quest in closed_quests(window.state, turn.session_id)
                if quest.entry_id not in turn.lore.hidden and not _is_told(quest, shown)
            ),
            *(entry for entry, _ in turn.facts.state_values),
        ),
    )


def may_recall(
    entry: MemoryEntry, *, viewer: str | None, view: StateView, most: str, now: datetime, shown: str = ""
) -> bool:
    """Return whether a memory may be recalled. All of these conditions must be true:

    - `viewer` may know the memory in the state `view`.
    - The memory is not more sensitive than `most`.
    - It is not a passage of a document that has expired at `now`.
    - It is not a message outside of the story.
    - `shown`, the text of the prompt without blanks, does not contain the whole text of the memory.
    """
    if shown and squeeze(entry.text) in shown:
        return False
    if entry.chain is Chain.HISTORY and is_aside(entry.text):
        return False
    if not (entry.metadata or entry.viewers or entry.when):
        # Most memories: nothing restricts them.
        return True
    return not has_expired(entry, now) and not is_too_sensitive(entry.metadata, most) and may_know(entry, viewer, view)


def _find_shown_text(turn: Turn) -> str:
    """Return the text that a prompt shows in any case, without blanks: conversation, summary, axioms, active quests."""
    window, summary = turn.window, turn.window.summary
    quests = find_active_quests(window.state)
    return squeeze(
        "\n".join(
            (
                summary.summary.content if summary is not None else "",
                *(item.message.content for item in (*turn.pinned, *(turn.shown))),
                *(entry.text for entry in turn.world.lore if entry.kind == LoreCategory.AXIOM),
                *(text for quest in quests for text in (quest.title, *(step.text for step in quest.open_objectives))),
            )
        )
    )


def _is_told(quest: MemoryEntry, shown: Sequence[WindowMessage]) -> bool:
    """Return whether a few shown turns report the end of a quest in most of its words."""
    words = frozenset(repeat_key(quest.text.splitlines()[-1]))
    told: dict[str, set[str]] = {}
    for item in shown:
        told.setdefault(item.turn_id, set()).update(repeat_key(item.message.content))
    turns = [*told.values()]
    nearby = (frozenset().union(*turns[place : place + _NEARBY_TURNS]) for place in range(len(turns)))
    return any(len(words & each) >= _SAME_SHARE * len(words) for each in nearby)


def _weights(domain: Mapping[str, float]) -> dict[Chain, float]:
    """Return the weights of the chains; old messages are memories like their summaries, so both have the narrative weight."""
    narrative = domain.get("narrative", 0.5)
    return {
        Chain.NARRATIVE: narrative,
        Chain.HISTORY: narrative,
        Chain.LORE: domain.get("lore", 0.5),
        Chain.EVENT: domain.get("event", 0.5),
    }


def known_keywords(plan: PlanContext) -> tuple[str, ...]:
    """Return the plan's keywords if the input names an entity of the world; else an empty tuple.

    Guessed keywords are left out, because they are words of the input, which is searched anyway.
    """
    return plan.search_intent.focus_keywords if plan.entities else ()


def recent_texts(shown: Sequence[WindowMessage]) -> tuple[str, ...]:
    """Return the texts of the newest messages in `shown`, oldest first. Recall searches by them in addition to the
    input.

    A message that only repeats an older one ("I wait." for the third time) is left out, because its words would find only
    similar messages.
    """
    texts = [item.message.content for item in drop_asides(shown[-_COMPARED_MESSAGES:])]
    newest = max(0, len(texts) - RECENT_MESSAGES)
    said = {repeat_key(text) for text in texts[:newest]}
    kept = []
    for text in texts[newest:]:
        if repeat_key(text) not in said:
            kept.append(text)
            said.add(repeat_key(text))
    return tuple(kept)


def recent_lines(shown: Sequence[WindowMessage], names: Mapping[str, str] = EMPTY) -> tuple[str, ...]:
    """Return the newest RECENT_MESSAGES messages of `shown` as lines for a model (`line_of`), oldest first.

    `names` contains the names of the two parties by role (`party_names`).
    """
    return tuple(line_of(item, names) for item in shown[-RECENT_MESSAGES:])


def line_of(item: WindowMessage, names: Mapping[str, str] = EMPTY) -> str:
    """Return a message as a line for a model: `name: text`.

    `names` contains the names of the two parties by role (`party_names`).
    """
    return f"{name_of_speaker(item.message, names)}: {item.message.content}"


# All blanks are counted: two adjacent runs of any length would take quadratic time.
_LABEL = re.compile(
    r"^[ \t]{0,8}(?P<name>[^\W\d_][^\n()（）:：,，。.!?！？\"“”「」]{0,23}?)[ \t]{0,4}"
    r"(?P<role>[(（][^\n()（）:：]{1,24}[)）])?[ \t]{0,4}[:：][ \t]{0,4}",
    re.MULTILINE,
)
_REMINDER = re.compile(
    r"(?:我|你|您|咱们?|我们|你们)?(?:还|是否|应该|总|都)?(?:记得|记不记得|想得起来?)(?:吗|吧|不)?|来着"
    r"|\b(?:do |did |don't )?(?:you|i|we) (?:still |even )?(?:remember|recall)(?: that| when| how)?\b",
    re.IGNORECASE,
)
"""Words that only ask to remember something. They occur in many messages and say nothing about the subject."""
_MARKS = " \t\n,.;:!，。；：！"


def remove_speaker_labels(user_message: str, window: SessionWindow, world: WorldPack) -> str:
    """Return the input without the speaker labels (`Wren:`, `Joss (Wren):`) at the beginning of its lines.

    A label is removed only if one of its names is the player, an entity of the world, or a speaker of the session.
    """
    if not _LABEL.search(user_message):
        return user_message
    authors = (each.message.author.id for each in window.messages if each.message.author is not None)
    entities = (name for each in world.entities for name in (each.name, *each.aliases))
    known = {normalise(name) for name in chain((world.user_name,), authors, entities)} - {""}

    def drop(found: re.Match[str]) -> str:
        parts = (normalise(found["name"]), normalise((found["role"] or "").strip("()（）")))
        return found.group() if known.isdisjoint(parts) else ""

    return _LABEL.sub(drop, user_message)


def find_searched_text(user_message: str, window: SessionWindow, world: WorldPack) -> str:
    """Return the part of the input `user_message` by which recall searches.

    Speaker labels, talk outside of the story and words such as "do you remember" are removed. If nothing is left after that,
    return the whole input.
    """
    return _remove_reminders(remove_speaker_labels(user_message, window, world)) or user_message


def guess_searched_text(user_message: str) -> str:
    """Return what `find_searched_text` returns for an input without speaker labels, before the session is known."""
    return _remove_reminders(user_message) or user_message


def _remove_reminders(text: str) -> str:
    left = remove_asides(text).strip()
    return (_REMINDER.sub(" ", left).strip(_MARKS) or left) if _REMINDER.search(left) else left


SEVERAL = 3
"""Minimum number of messages that must differ only in numbers to count as one habit. Two such messages may be two facts
("paid 5 coins", "paid 7 coins").
"""
_NUMBERS = re.compile(
    r"第?\s?(?:\d+(?:[.,]\d+)*|[一二三四五六七八九十百千万两]+)"
    r"|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b",
    re.IGNORECASE,
)


def squeeze(text: str) -> str:
    """Return a text without white space, so that line breaks do not matter in comparisons."""
    return "".join(text.split())


@lru_cache(maxsize=1 << 12)
def repeat_key(text: str) -> tuple[str, ...]:
    """Return the words of a message without numbers, or the whole text if it has no words. Messages with the same key
    repeat one another.
    """
    return tuple(word_tokens(_NUMBERS.sub(" ", text))) or (text.strip(),)
