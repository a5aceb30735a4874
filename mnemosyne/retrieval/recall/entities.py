"""Finds the entries that are about the persons, places and things of which a talk speaks, and joins them over time.

The names are in the index: an entry of lore has a term for each name of its subject (`subject_names`), so there is no list of names
to keep. A question that names nothing ("Where was he born?") is about the subject that was named last. This module does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

import numpy as np

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.engines.rows import names_of_subject, own_words
from mnemosyne.retrieval.recall.query_features import QueryFeatures, is_self_contained
from mnemosyne.retrieval.text.lexical import Scores, term_weights
from mnemosyne.retrieval.text.names import NAME_FACET, find_phrases, subject_names
from mnemosyne.retrieval.text.persons import Relation, find_related, find_relation
from mnemosyne.retrieval.text.words import has_cjk, word_tokens, word_tokens_of_line
from mnemosyne.schema.memory import Chain, LoreCategory, MemoryEntry, world_scope
from mnemosyne.schema.query import RetrievalQuery

TALK_CHARS = 400
"""Number of characters before the input in which names are searched. The newest messages are searched."""
MOST_SUBJECTS = 3
_WORLD = world_scope("")
_ASKED = 0.6
_FADE = 0.7
"""Share of a subject relative to the subject that was named after it."""
_OF_PERSON = lazy_pattern(r"\b(?:he|she|him|her|his|hers|himself|herself)\b|[他她]", re.IGNORECASE)
_OF_THING = lazy_pattern(r"\b(?:it|its|itself|this|that)\b|[它]|[这那][部本首座家条件把]", re.IGNORECASE)
_FEW_TERMS, _MOST_TERMS = 5, 12
_MOMENTS, _MOMENT_TURNS, _MOMENT, _LOSS = 5, 3, timedelta(hours=6), 0.1
_SEVERAL = lazy_pattern(
    r"^(?:(?:in|on|at|for|to|with|from)\s)?(?:what|which|who|whom|where|how\smany)\b(?:(?!\b(?:say|said|think)\b)[^?]){0,60}?"
    r"\b(?:has|have)\s(?!to\b)"
    r"|\b(?:what|which)\s(?:(?:new|different|other|kinds?\sof|types?\sof|sorts?\sof)\b|(?:[\w'/-]{1,20}\s){0,2}?"
    r"[a-z'-]{2,20}?(?:[^s\W]s|ies)\s(?:are|were|do|did|does|has|have|that|is|can|will|would|(?-i:[A-Z])))"
    r"|\b(?:what|who|which)\s(?:are|were)\b|\bhow\smany\b|\bboth\b|\bin\swhat\sways\b"
    r"|\bwhat\s(?:do|does)\s(?:[\w']{1,20}\s){1,4}?(?:do|like|enjoy|play|collect)\b"
    r"|哪些|几次|多少次|一共|分别|每次|所有的?|都[^，。？]{0,8}(?:什么|谁|哪)",
    re.IGNORECASE,
)
"""A question for several moments: in the perfect, after a plural, after a kind, or with `both`."""
_TO_PERSON = lazy_pattern(r"\byou(?:r|rs)?\b|[你您]", re.IGNORECASE)


def name_terms(query: RetrievalQuery) -> dict[str, float]:
    """Return the index terms of all names that the input may contain, with weights.

    If the input may be about a subject of the talk, names of the messages before it are included, with smaller weights.
    """
    terms: dict[str, float] = {}
    weight = 1.0
    for text in (query.text[-TALK_CHARS:], *_read_talk(query)):
        for _, _, name in find_phrases(text):
            terms.setdefault(NAME_FACET + name, weight)
        weight *= _FADE
    return terms


def person_terms(query: RetrievalQuery) -> dict[str, float]:
    """Return the index terms of names by which messages are found: those in the input, and if the input has a pronoun for a
    person, those in the messages before it (see `name_terms`). A long input has none, because a name is a small part of it.
    """
    text = query.text[-TALK_CHARS:]
    if len(term_weights(text)) > (2 * _MOST_TERMS if has_cjk(text) else _MOST_TERMS):
        return {}
    leans = _OF_PERSON.search(text) is not None
    terms = name_terms(query) if leans else {NAME_FACET + name: 1.0 for _, _, name in find_phrases(text)}
    relation = find_relation(text, query.speaker)
    names = () if relation is None else subject_names("", (relation.name,), "")
    return {**terms, **{NAME_FACET + name: 1.0 for name in names}}


def find_subject_shares(query: RetrievalQuery, entries: Sequence[MemoryEntry]) -> Scores:
    """Return for each entry of lore how much the input is about its subject (0..1).

    A subject that the input names has 0.6, because its words are searched, too. If the input names none and refers to the talk, the
    subject that was named last has 1, and the two that were named before it have 0.7 and 0.49. It must fit a pronoun of the input:
    if persons are known, `he` is a person and `it` is not. This applies to the lore of the session, not to that of the world.
    """
    names = [names_of_subject(entry) for entry in entries]
    known = frozenset([name for each in names for name in each])
    if not known:
        return np.zeros(len(entries))
    asked = frozenset(_names_in(query.text[-TALK_CHARS:], known))
    if asked or query.entities:
        return np.array([_ASKED * (not asked.isdisjoint(each)) for each in names])
    has_persons = any(entry.kind == LoreCategory.AGENT for entry, each in zip(entries, names, strict=True) if each)
    fitting = [
        each if _may_mean(query, entry, has_persons=has_persons) else ()
        for entry, each in zip(entries, names, strict=True)
    ]
    known = frozenset([name for each in fitting for name in each])
    order = dict.fromkeys([name for text in _read_talk(query) for name in _names_in(text, known)])
    shares = {name: _FADE**place for place, name in enumerate([*order][:MOST_SUBJECTS])}
    return np.array([max([shares.get(name, 0.0) for name in each], default=0.0) for each in fitting])


def _may_mean(query: RetrievalQuery, entry: MemoryEntry, *, has_persons: bool) -> bool:
    """Return whether an input that names nothing may mean the subject of an entry."""
    if entry.scope.startswith(_WORLD):
        return False
    if entry.kind == LoreCategory.AGENT:
        return _OF_THING.search(query.text) is None
    return not has_persons or _OF_PERSON.search(query.text) is None


def _read_talk(query: RetrievalQuery) -> Iterator[str]:
    """Yield the messages before an input that may refer to them, the newest first, up to TALK_CHARS characters."""
    left = 0 if query.entities or is_self_contained(query) else TALK_CHARS
    for text in (*query.recent[::-1], *query.earlier[::-1]):
        if left <= 0:
            return
        yield text[-left:]
        left -= len(text)


def _names_in(text: str, known: frozenset[str]) -> list[str]:
    """Return the names in `known` that a text contains, the last one first. Of names that overlap, the one that begins first
    counts.
    """
    found: list[str] = []
    last = 0
    for begin, end, name in find_phrases(text):
        if begin >= last and name in known:
            found.append(name)
            last = end
    return found[::-1]


def find_bridges(query: RetrievalQuery, relation: Relation, entries: Sequence[MemoryEntry]) -> tuple[str, ...]:
    """Return the names that entries give to the person whom a question means by `relation` (`Wren's brother`: `Tom`), at most
    three. Return none if one of the entries has all words of the question, because then no second search is needed.
    """
    asked, found = frozenset(word_tokens(query.text)), dict[str, None]()
    owner = frozenset(word_tokens(relation.person))
    for entry in entries:
        words = frozenset(word_tokens(own_words(entry)))
        if asked <= words:
            return ()
        is_own = owner <= frozenset(word_tokens_of_line(entry.speaker or ""))
        if is_own or owner <= words:
            names = find_related(entry.text, relation.person, relation.words, is_own=is_own)
            found.update(dict.fromkeys(names))
    return tuple(found)[:MOST_SUBJECTS]


def asks_for_several(features: QueryFeatures, text: str) -> bool:
    """Return whether a short question asks for several moments of a talk (`What books has Tim read?`, `他去过哪些地方？`)."""
    # Chinese terms are pairs of characters: two of them are about a word.
    most = 2 * _FEW_TERMS if has_cjk(text) else _FEW_TERMS
    return features.terms <= most and _SEVERAL.search(text) is not None


def find_addresses(query: RetrievalQuery, entries: Sequence[MemoryEntry]) -> Scores:
    """Return 1 for each message that only speaks to a person whom the question names, and 0 for all other entries.

    The person's own messages say more about the person than the replies to them.
    """
    asked = frozenset(word_tokens(query.text))
    own = [bool(entry.speaker) and not asked.isdisjoint(word_tokens_of_line(entry.speaker or "")) for entry in entries]
    if not any(own):
        return np.zeros(len(entries))
    return np.array(
        [
            float(bool(entry.speaker) and not is_own and _TO_PERSON.search(entry.text) is not None)
            for entry, is_own in zip(entries, own, strict=True)
        ]
    )


def spread_moments(entries: Sequence[MemoryEntry], scores: Scores) -> Scores:
    """Return the scores of a question that asks for several moments, lowered for messages next to a better one.

    Each of the best five messages takes a tenth of the best score from the messages within three turns and six hours.
    Messages without a time are one moment and keep their scores.
    """
    rows = [
        row
        for row, entry in enumerate(entries)
        if entry.chain is Chain.HISTORY and entry.at and entry.depth is not None
    ]
    left, spread = {row: float(scores[row]) for row in rows}, scores.copy()
    loss = _LOSS * max(left.values(), default=0.0)
    for _ in range(_MOMENTS):
        if not left or loss <= 0.0:
            break
        best = max(left, key=lambda row: (left[row], -row))
        spread[best] = left.pop(best)
        for row in left:
            left[row] -= loss * _is_next(entries[best], entries[row])
    for row, score in left.items():
        spread[row] = score
    return spread


def _is_next(one: MemoryEntry, other: MemoryEntry) -> bool:
    if one.at is None or other.at is None or one.depth is None or other.depth is None:
        return False
    return abs(one.depth - other.depth) <= _MOMENT_TURNS and abs(one.at - other.at) <= _MOMENT
