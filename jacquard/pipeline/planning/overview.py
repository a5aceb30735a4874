"""Finds out whether an input asks for an overview of the play so far, and which subject the overview has
(`OverviewScope`).

An input asks for an overview with a question that has many answers ("Who have I met so far?"), or with a verb of
telling and its object ("List all the clues"). An input does not ask for an overview if the player only acts ("I sum up
the coins"), asks somebody else, quotes, or refuses. The time is linear in the length of the input.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from jacquard.core.names import NameDictionary, NameMatch, mentions
from jacquard.core.plan import OverviewScope
from jacquard.pipeline.planning.lexicons.lexicon import by_script
from jacquard.pipeline.planning.lexicons.overviews import CHINESE, ENGLISH, NAME, OverviewLexicon
from jacquard.pipeline.planning.reading import SENTENCE, asks, is_negated_at

_CHARS = 400
"""A longer sentence is a report or a document, not a request."""
_LETTERS = re.compile(r"[^\W_]")
_SCOPES = (
    OverviewScope.OWN,
    OverviewScope.QUEST,
    OverviewScope.PERSON,
    OverviewScope.PLACE,
    OverviewScope.ALL,
)
"""Order of the search: specific scopes first."""
_KINDS = {"person": OverviewScope.PERSON, "place": OverviewScope.PLACE}


def find_overview(
    text: str, names: NameDictionary, read_subjects: Callable[[], tuple[Mapping[str, str], Collection[str]]]
) -> OverviewScope | None:
    """Return the subject of the overview that an input asks for. Return None if the input does not ask for an overview.

    Args:
        text: the input in normal form, without quotations.
        names: names and aliases of entities.
        read_subjects: returns (kinds, titles): entity id -> kind of each possible subject, and the titles of all
            quests. This function is called only if the input has words that may ask for an overview.
    """
    for found in SENTENCE.finditer(text):
        sentence = found.group().strip(" ()[]【】")
        if len(sentence) > _CHARS:
            continue
        for lexicon in by_script(sentence, ENGLISH, CHINESE):
            if not _has_words(sentence, lexicon):
                continue
            kinds, titles = read_subjects()
            named = names.find(sentence)
            about = lexicon.since.sub(" ", sentence)
            subject = _find_subject(about, names.find(about), kinds, titles)
            scope = _find_request(_mask_names(sentence, named), lexicon, subject)
            if scope is not None:
                return subject if scope is OverviewScope.ALL and subject is not None else scope
    return None


def _has_words(sentence: str, lexicon: OverviewLexicon) -> bool:
    return any(
        pattern.search(sentence)
        for pattern in (lexicon.retell, lexicon.tell, lexicon.whole, *lexicon.questions.values())
    )


def _find_request(text: str, lexicon: OverviewLexicon, subject: OverviewScope | None) -> OverviewScope | None:
    """Return the scope that a sentence with masked names asks for; ALL if `subject` may replace it."""
    if lexicon.others.search(text):
        return None
    is_moment = lexicon.moment.search(text) is not None
    for scope in () if is_moment else _SCOPES:
        asked = lexicon.questions[scope].search(text)
        if asked is not None and (_is_request(text, asked, lexicon) or asks(text)):
            return scope
    topic = next((scope for scope in _SCOPES if lexicon.topics[scope].search(text)), None)
    is_whole = lexicon.whole.search(text) is not None
    retell, tell = lexicon.retell.search(text), None if is_moment else lexicon.tell.search(text)
    if retell is not None and _is_request(text, retell, lexicon):
        if topic is not None or lexicon.matters.search(text):
            return topic or OverviewScope.ALL
        return _find_bare(text, lexicon) if subject is None else subject if is_whole or subject in _SCOPES else None
    if tell is not None and _is_request(text, tell, lexicon):
        return topic or (subject if is_whole else None)
    for verb in (retell, tell):
        if verb is not None and topic is not None and not is_negated_at(text, verb.start()):
            return topic if _goes_over(text[verb.start() :], lexicon, topic) else None
    if is_whole and not is_moment and lexicon.wish.search(text):
        return OverviewScope.ALL if topic is OverviewScope.ALL else subject
    return None


def _is_request(text: str, found: re.Match[str], lexicon: OverviewLexicon) -> bool:
    """Return whether words are a request: they are not refused, and not only an act of the player."""
    return lexicon.acting.search(text[: found.start()]) is None and not is_negated_at(text, found.start())


def _goes_over(text: str, lexicon: OverviewLexicon, topic: OverviewScope) -> bool:
    """Return whether the player reviews what is known or what they carry."""
    verbs = lexicon.packing if topic is OverviewScope.OWN else lexicon.thinking
    return verbs.match(text) is not None


def _find_bare(text: str, lexicon: OverviewLexicon) -> OverviewScope | None:
    """Return ALL if a verb of summing up has no object, because then it means everything."""
    left = lexicon.filler.sub(" ", lexicon.alone.sub(" ", text))
    is_bare = lexicon.alone.search(text) is not None and _LETTERS.search(left) is None and NAME not in text
    return OverviewScope.ALL if is_bare else None


def _find_subject(
    text: str, named: Sequence[NameMatch], kinds: Mapping[str, str], titles: Collection[str]
) -> OverviewScope | None:
    if any(mentions(text, title) for title in titles):
        return OverviewScope.QUEST
    found = {
        _KINDS.get(kinds[each], OverviewScope.THING)
        for one in named
        for each in one.entity_ids
        if each in kinds and not _is_called(text, one)
    }
    return next((scope for scope in (*_SCOPES, OverviewScope.THING) if scope in found), None)


def _is_called(text: str, name: NameMatch) -> bool:
    """Return whether the name is only an address: "Reed, …" and "…, Reed"."""
    before, after = text[: name.start].rstrip(), text[name.start + len(name.phrase) :].lstrip()
    return (not before and after.startswith(",")) or (before.endswith(",") and _LETTERS.search(after) is None)


def _mask_names(text: str, named: Sequence[NameMatch]) -> str:
    for each in reversed(named):
        text = text[: each.start] + NAME + text[each.start + len(each.phrase) :]
    return text
