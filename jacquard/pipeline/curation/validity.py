"""Decides which former facts of the story a turn may recall, and from which turn to which turn each shown fact is valid.

A fact that a later one superseded is left out, unless the input asks about the past. If the input names a turn, only
facts that were valid after this turn are added. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from filament.state.quests import QUESTS
from jacquard.core.plan import PlanContext, Temporal
from jacquard.core.receipt import LeftOut
from jacquard.pipeline.curation.selectors.relevance import content_words
from jacquard.pipeline.turn import Turn
from mnemosyne.chains.quantities import read_number
from mnemosyne.chains.state import view_state
from mnemosyne.chains.story_facts import Ending, Validity, find_last_successor, value_of_fact
from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.schema.memory import (
    EMPTY,
    TAKES_FROM_RECALL,
    VALUE,
    Chain,
    MemoryEntry,
    StoryFact,
    session_scope,
)
from mnemosyne.schema.query import Candidate, EntryPlace, place_of

StateValue = tuple[MemoryEntry, Validity]
"""A value of the state, former or present, as a memory with the turns in which it is valid."""

_FORMER_VALUES = 3
"""Maximum number of former values of one attribute that recall may find; the newest are kept."""
_BEFORE_CHARS = 80
_READ_CHARS = 2_000
_TURN = lazy_pattern(
    r"(?i)\b(?:of|at|in|on|by|until|before|after|during|from|since|through) turn (?:no\. ?|number )?([0-9]{1,6})\b"
    r"|第 ?([0-9]{1,6}|[零一二两三四五六七八九十百千]{1,8}) ?(?:个)?(?:轮|回合)"
)

_THEN = lazy_pattern(
    r"(?i)\b(?:in|of|during|after|before|until) chapter (?:[0-9]{1,4}|[a-z]{3,9})\b"
    r"|\bsince when\b|第 ?(?:[0-9]{1,4}|[一二三四五六七八九十百]{1,5}) ?章|一开始|最开始|从什么时候|什么时候(?:起|开始)"
)
_ASKS = lazy_pattern(r"[?？]|[谁哪]|什么|多少|吗")


def find_asked_turn(text: str) -> int | None:
    """Return the number of the turn that an input names ("as of turn 40", 第 40 轮时), or None."""
    found = _TURN.search(text[:_READ_CHARS])
    return None if found is None else read_number(found[1] or found[2])


def with_asked_time(plan: PlanContext, text: str, depth: int) -> PlanContext:
    """Return a plan that is about the past, if the input `text` names one of the `depth` turns before it, or is a question on
    a chapter, on the beginning, or on the time since when something is so.
    """
    asked = find_asked_turn(text)
    if (asked is None or not 0 < asked < depth) and not (_ASKS.search(text) and _THEN.search(text[:_READ_CHARS])):
        return plan
    return replace(plan, search_intent=replace(plan.search_intent, temporal_context=Temporal.PAST))


def asks_about_past(turn: Turn) -> bool:
    """Return whether the input of a turn asks about the past."""
    return turn.plan.search_intent.temporal_context is Temporal.PAST


def may_ask_for_values(turn: Turn) -> bool:
    """Return whether the input of a turn asks about the past of something in the state: a word of it occurs in the state."""
    intent = turn.plan.search_intent
    if not (asks_about_past(turn) and intent.enabled and intent.overview is None and turn.config.curation.enabled):
        return False
    text = view_state(turn.window.state).derive(_find_text)
    return any(word in text for word in content_words(turn.text[:_READ_CHARS]))


def _find_text(state: Mapping[str, Any]) -> str:
    """Return a state as text, without its quests, because the events of quests are memories."""
    parts = {name: part for name, part in view_state(state).shown.items() if name != QUESTS}
    return str(parts).casefold()


def reveal_former(turn: Turn, endings: Mapping[str, Ending]) -> Sequence[MemoryEntry]:
    """Return the gated entries of a turn, in which the events that end a memory no longer take it from recall, if the turn
    may recall it.

    It may if the input asks about the past. If the input names a turn, the memory must have ended after this turn.
    `endings` are the ends on the path of the turn.
    """
    if not endings or not asks_about_past(turn):
        return turn.facts.gated
    asked = find_asked_turn(turn.text)
    ended = {name for name, each in endings.items() if asked is None or each.depth > asked}
    # The events stay in the list, because nobody may know them.
    return [
        replace(each, metadata=EMPTY)
        if each.chain is Chain.EVENT and each.metadata.get(TAKES_FROM_RECALL) in ended
        else each
        for each in turn.facts.gated
    ]


def choose_state_values(turn: Turn, facts: Iterable[StoryFact]) -> tuple[StateValue, ...]:
    """Return the values of the state that a turn about the past may recall: of each attribute the present value, the newest
    former ones, and the one after the turn that the input names.
    """
    asked = find_asked_turn(turn.text)
    lines: dict[tuple[str, str], list[StoryFact]] = defaultdict(list)
    for fact in facts:
        if not fact.text.startswith(f"{QUESTS}."):
            lines[fact.subject, fact.text.partition(": ")[0]].append(fact)
    chosen: list[StateValue] = []
    for line in lines.values():
        former = {each.superseded_by: each.value for each in line if each.superseded_by}
        now = line[-1].value if line[-1].valid_to is None else ""
        first = len(line) - _FORMER_VALUES - 1
        held = [each for place, each in enumerate(line) if place >= first or _was_valid(each, asked)]
        chosen += [
            (
                _entry_of(turn, each),
                Validity(
                    since=each.valid_from or None,
                    until=each.valid_to,
                    before=former.get(each.fact_id, ""),
                    now="" if each.valid_to is None else now,
                ),
            )
            for each in held
        ]
    return tuple(chosen)


def _was_valid(fact: StoryFact, asked: int | None) -> bool:
    return asked is not None and fact.valid_from <= asked and (fact.valid_to is None or asked < fact.valid_to)


def _entry_of(turn: Turn, fact: StoryFact) -> MemoryEntry:
    return MemoryEntry(
        entry_id=fact.fact_id,
        scope=session_scope(turn.session_id),
        chain=Chain.EVENT,
        kind=fact.kind,
        title=fact.subject,
        text=fact.text,
        at=fact.at,
        turn_id=fact.turn_id or None,
        depth=fact.valid_from or None,
        trust=fact.trust,
        metadata={VALUE: fact.value},
    )


def related_ids(turn: Turn, chosen: Iterable[Candidate]) -> list[str]:
    """Return the ids of the facts that the marks of the chosen memories name: facts that these superseded, facts that ended
    and that their turns stated, and the facts that are valid instead.
    """
    endings = turn.facts.endings
    if not endings:
        return []
    scope = session_scope(turn.session_id)
    own = [each for each in chosen if each.scope == scope]
    shown, turns = {each.entry_id for each in own}, {each.turn_id for each in own if each.turn_id}
    former = [
        name for name, each in endings.items() if name in shown or each.superseded_by in shown or each.of_turn in turns
    ]
    return list(dict.fromkeys([*former, *filter(None, (find_last_successor(name, endings) for name in former))]))


def find_validity(
    turn: Turn, entries: Sequence[MemoryEntry], facts: Iterable[MemoryEntry]
) -> dict[EntryPlace, Validity]:
    """Return the turns in which the memories `entries` of a turn are valid, for those that ended or superseded another one.

    A message or a summary is valid as long as the fact that its turn stated, if it contains the value. `facts` are the
    entries of `related_ids`, without those that the viewer may not know.
    """
    endings, scope = turn.facts.endings, session_scope(turn.session_id)
    found = {place_of(entry): validity for entry, validity in turn.facts.state_values}
    values = {each.entry_id: value_of_fact(each) for each in facts}
    for each in entries:
        if each.scope != scope or place_of(each) in found:
            continue
        text = each.text.casefold()
        ends = [
            ending
            for name, ending in endings.items()
            if name == each.entry_id
            or (name in values and ending.of_turn == each.turn_id and _is_told(values[name], text))
        ]
        end = min(ends, key=lambda ending: ending.depth, default=None)
        replaced = (values[name] for name in values if name in endings and endings[name].superseded_by == each.entry_id)
        before = next(replaced, "")
        if end is not None or before:
            now = "" if end is None else values.get(find_last_successor(end.ended_id, endings), "")
            found[place_of(each)] = Validity(
                since=each.depth if before else None,
                until=None if end is None else end.depth,
                before=_shorten(before),
                now=_shorten(now),
            )
        elif each.turn_id:
            set_values = (
                validity
                for entry, validity in turn.facts.state_values
                if entry.turn_id == each.turn_id and _is_told(value_of_fact(entry), text)
            )
            if (validity := next(set_values, None)) is not None:
                found[place_of(each)] = validity
    return found


def _is_told(value: str, text: str) -> bool:
    """Return whether a text in lower case contains a value, if the value is a name and not a number."""
    return value.casefold() in text and any(sign.isalpha() for sign in value) and value not in ("true", "false")


def describe_left_out(turn: Turn, entries: Sequence[MemoryEntry], facts: Iterable[MemoryEntry]) -> tuple[LeftOut, ...]:
    """Return a line of the receipt for each memory in `facts` that a memory in `entries` superseded, and that is left out."""
    shown, endings = {each.entry_id for each in entries}, turn.facts.endings
    told: list[LeftOut] = []
    for each in facts:
        ending = endings.get(each.entry_id)
        if ending is None or each.entry_id in shown or ending.superseded_by not in shown:
            continue
        newer = ending.superseded_by
        reason = f"It was valid from turn {each.depth} to turn {ending.depth}; since then {newer} is valid."
        told.append(LeftOut(what="fact", code="superseded", reason=reason, first=each.entry_id, last=newer, count=1))
    return tuple(told)


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _BEFORE_CHARS else f"{line[: _BEFORE_CHARS - 1]}…"
