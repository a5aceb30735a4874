"""Rates memories for an overview: an answer that needs many memories, such as to "tell me everything about the miller".

A memory has a high worth if it states many facts about the subject of the overview. Facts that the rolling summary in
the prompt states already do not count. The functions have no side effects.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from jacquard.core.names import NameDictionary, mentions, normalise
from jacquard.core.plan import OverviewScope
from jacquard.core.quests import read_quests
from jacquard.memory.summarize.extract import read_lines
from jacquard.memory.summarize.sentences import is_question, split_sentences
from jacquard.memory.summarize.worth import is_idle, is_outside, is_protocol, worth
from jacquard.pipeline.curation.recall_query import squeeze
from jacquard.pipeline.turn import Turn
from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import MACRO, QUEST_UPDATE, THREAD, Chain, LoreCategory, MemoryEntry, Trust
from mnemosyne.schema.query import RatedEntry
from mnemosyne.values import dataclass

_READ_CHARS = 4_000
_MOST_SENTENCES = 2
"""Maximum number of sentences of an entry that count, so that long entries are not preferred."""
_DIGEST_WORTH = 4.0
_CHANGE_WORTH = 3.0
_SUBJECT_WORTH, _LORE_WORTH = 20.0, 3.0
_LEAST_OF_MESSAGE = 2.5
"""Minimum worth of a message. Messages of less worth contain only weather and gestures."""
_OWN_WORTH, _OWN_THREAD = 4.0, 3
_QUESTION_SHARE, _SAID_SHARE = 0.3, 0.6
_ASKS = lazy_pattern(r"(?i)\W*i (?:\w+ ){0,2}?(?:ask|question|inquire)\b|[^，。]{0,2}我[^，。]{0,8}(?:问|打听|询问)")
"""A player's question in indirect speech, which is worthless without its answer."""
_COVERED_SHARE = 0.5
_SAME_SHARE = 0.6
_KINDS = {OverviewScope.PERSON: "person", OverviewScope.PLACE: "place"}
_OWN = lazy_pattern(
    r"(?i)\b(?:promis\w*|sw(?:ear|ore)\b|vow\w*|owe[sd]?|owing|debts?|len[dt]|borrow\w*|g[ai]ve[sn]?|buys?|bought|receiv\w*|"
    r"accept\w*|pa(?:y|id)s?|ask(?:s|ed) (?:[\w']+ ){1,3}to|deliver\w*|return\w*|bring|brought|on condition|agreed?|keep|kept|"
    r"must|has to|have to|begun|tasks?|errands?|hand(?:s|ed) (?:you|me|him|her|them)|picked up|found)\b"
    r"|答应|承诺|许诺|发誓|欠|借|给了|送给|买|得到|收下|收回|付|交给|还给|托|请[^，。]{0,8}(?:找|送|带|帮)|任务|委托|条件|约定|务必|必须|收到|"
    r"带着|换来|剩下|还剩|找到|捡|递给|塞给"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Subject:
    """Subject of an overview."""

    scope: OverviewScope
    entities: frozenset[str]
    """Ids of entities (both empty: all of the scope)."""
    quests: frozenset[str]
    """Ids of quests."""
    members: Mapping[str, frozenset[str]]
    names: NameDictionary
    """Names of the world's entities."""
    kinds: Mapping[str, str]
    """Kinds of the world's entities."""


def overview_rating(turn: Turn) -> Callable[[Sequence[MemoryEntry]], list[RatedEntry]] | None:
    """Return a function that rates memories for the overview that the input of `turn` asks for (`rate_entries`). Return
    None if the input does not ask for an overview.
    """
    scope = turn.plan.search_intent.overview
    if scope is None:
        return None
    summary = turn.window.summary.summary.content if turn.window.summary is not None else ""
    return partial(rate_entries, subject=_find_subject(turn, scope), summary=summary)


def rate_entries(entries: Sequence[MemoryEntry], *, subject: _Subject, summary: str) -> list[RatedEntry]:
    """Return the entries that belong to `subject`, each with its worth.

    If the text of a returned entry names entities of the world (people, places and things), these are added to the
    entities of the entry. Lore (authored texts about the world) is returned unchanged.

    Args:
        entries: the memories to rate.
        subject: the persons, places, things or quests that the overview is about, as `overview_rating` finds them.
        summary: text of the rolling summary. Facts that it contains are worth nothing.
    """
    named = [_with_entities(entry, subject.names) for entry in entries]
    met = frozenset(name for entry in named if entry.chain is not Chain.LORE for name in entry.entities)
    quests: dict[int, set[str]] = {}
    for entry in named:
        if entry.quest_id is not None and entry.depth is not None:
            quests.setdefault(entry.depth, set()).add(entry.quest_id)
    told = _SummaryLines.of(summary, [entry for entry in named if entry.kind == MACRO])
    return [
        RatedEntry(entry, _rate(entry, subject, told))
        for entry in named
        if _belongs(entry, subject, met, quests.get(entry.depth or 0, set()))
    ]


@dataclass(frozen=True, slots=True)
class _SummaryLines:
    """The text of the rolling summary, the words of its line for each turn, and the turns that a digest of several turns covers."""

    text: str
    lines: Mapping[int, frozenset[str]]
    covered: frozenset[int]

    @classmethod
    def of(cls, summary: str, digests: Iterable[MemoryEntry]) -> _SummaryLines:
        lines = {
            int(line.turn): frozenset(word_tokens(" ".join((*line.asked, *line.told, line.changes))))
            for line in read_lines(summary)
            if line.turn
        }
        covered = {turn for each in digests for turn in range(_first_turn(each), (each.depth or 0) + 1)}
        return cls(squeeze(summary), lines, frozenset(covered))

    def tells(self, sentence: str, depth: int | None) -> bool:
        """Return whether the summary contains what a sentence of a turn states."""
        if squeeze(sentence) in self.text:
            return True
        words = frozenset(word_tokens(sentence))
        return len(words & self.lines.get(depth or 0, frozenset())) >= _SAME_SHARE * len(words)


def _find_subject(turn: Turn, scope: OverviewScope) -> _Subject:
    world, text = turn.world, normalise(turn.text)
    player = normalise(world.user_name)
    kinds = {each.entity_id: each.kind for each in world.entities if normalise(each.name) != player}
    dictionary = NameDictionary(world.entities)
    named = frozenset(turn.plan.entities) & kinds.keys()
    wanted = _KINDS.get(scope)
    is_subject = scope is OverviewScope.THING or any(kinds[each] == wanted for each in named)
    known = read_quests(turn.window.state)
    quests = [quest for quest in known if mentions(text, quest.title)]
    quests = quests or [quest for quest in known if not named.isdisjoint(map(dictionary.find_owner, quest.entities))]
    return _Subject(
        scope=scope,
        entities=named if is_subject else frozenset(),
        quests=frozenset(quest.quest_id for quest in quests) if scope is OverviewScope.QUEST else frozenset(),
        members={
            quest.quest_id: frozenset(map(dictionary.find_owner, quest.entities)) & kinds.keys() for quest in quests
        },
        names=dictionary,
        kinds=kinds,
    )


def _with_entities(entry: MemoryEntry, names: NameDictionary) -> MemoryEntry:
    """Return `entry` with further entities: those that its text names unambiguously. Lore is returned unchanged."""
    found = (
        each
        for match in names.find(entry.text[:_READ_CHARS])
        if len(match.entity_ids) == 1
        for each in match.entity_ids
    )
    entities = tuple(dict.fromkeys((*entry.entities, *found)))
    return entry if entities == entry.entities or entry.chain is Chain.LORE else replace(entry, entities=entities)


def _belongs(entry: MemoryEntry, subject: _Subject, met: Collection[str], quests: Collection[str]) -> bool:
    """Return whether an entry belongs to the scope; lore must be about the subject, or about persons and places that were met."""
    scope, own = subject.scope, frozenset(entry.entities)
    if entry.chain is Chain.LORE:
        if entry.kind not in (LoreCategory.AGENT, LoreCategory.ENCYCLOPEDIA):
            return False
        if subject.entities:
            return not own.isdisjoint(subject.entities)
        return any(subject.kinds.get(each) == _KINDS.get(scope) and each in met for each in _titled(entry, subject))
    if subject.entities:
        return not own.isdisjoint(subject.entities)
    if scope in _KINDS:
        return any(subject.kinds.get(each) == _KINDS[scope] for each in own)
    if scope is OverviewScope.OWN:
        return entry.kind == THREAD or (entry.kind != MACRO and _OWN.search(entry.text[:_READ_CHARS]) is not None)
    if scope is not OverviewScope.QUEST:
        return scope is OverviewScope.ALL
    if not subject.quests:
        return entry.quest_id is not None or entry.entry_id in subject.members
    if {entry.quest_id, *quests} & subject.quests:
        return True
    return any(len(own & members) >= min(2, max(1, len(members))) for members in subject.members.values())


def _titled(entry: MemoryEntry, subject: _Subject) -> frozenset[str]:
    """Return the entities named by the title of a lore entry."""
    found = (each for match in subject.names.find(entry.title) for each in match.entity_ids)
    return frozenset(found) & frozenset(entry.entities)


def _rate(entry: MemoryEntry, subject: _Subject, told: _SummaryLines) -> float:
    if entry.chain is Chain.LORE:
        is_subject = _titled(entry, subject) & (subject.entities or subject.kinds.keys())
        return _SUBJECT_WORTH if is_subject else _LORE_WORTH
    is_said = entry.chain is Chain.HISTORY and entry.trust is Trust.USER
    text = entry.text[:_READ_CHARS]
    if is_said and (is_outside(text) or entry.depth in told.lines):
        return 0.0
    names = [subject.names.names[each] for each in entry.entities if each in subject.names.names]
    left = [each for each in split_sentences(text) if not told.tells(each, entry.depth)]
    value = sum(sorted((_rate_sentence(each, names, is_said=is_said) for each in left), reverse=True)[:_MOST_SENTENCES])
    is_own = subject.scope is OverviewScope.OWN
    if value <= (_LEAST_OF_MESSAGE if entry.chain is Chain.HISTORY and not is_own else 0.0):
        return 0.0
    if is_own:
        words = len({found.group().casefold() for found in _OWN.finditer(text)}) + _OWN_THREAD * (entry.kind == THREAD)
        return _OWN_WORTH * words + value / (1.0 + value)
    value = value * (_SAID_SHARE if is_said else 1.0)
    value += _DIGEST_WORTH * (entry.chain is Chain.NARRATIVE) + _CHANGE_WORTH * (entry.kind in (QUEST_UPDATE, THREAD))
    if entry.kind == MACRO or entry.depth is None:
        return value
    return value * (_COVERED_SHARE if entry.depth in told.covered or entry.depth in told.lines else 1.0)


def _rate_sentence(sentence: str, names: Collection[str], *, is_said: bool) -> float:
    if is_protocol(sentence) or is_idle(sentence) or (is_said and (is_question(sentence) or _ASKS.match(sentence))):
        return 0.0
    return worth(sentence, names) * (_QUESTION_SHARE if is_question(sentence) else 1.0)


def _first_turn(digest: MemoryEntry) -> int:
    first = digest.metadata.get("from_turn")
    return first if isinstance(first, int) else digest.depth or 0
