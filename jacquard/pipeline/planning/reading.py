"""Reads the intent of an input (fight, recall, overview) and its time (past, now, future) by the words of the lexicons.

Negations, tenses and quotations are taken into account. Pure; the time is linear in the length of the input. This module must not
import a rule, a stream or a store.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from jacquard.core.names import count_mentions, find_mentions, mentions, normalise
from jacquard.core.plan import Temporal
from jacquard.pipeline.planning.lexicons.chinese import LEXICON as CHINESE
from jacquard.pipeline.planning.lexicons.english import LEXICON as ENGLISH
from jacquard.pipeline.planning.lexicons.lexicon import Lexicon, by_script
from mnemosyne.values import dataclass

FIGHT, RECALL, OVERVIEW = "fight", "recall", "overview"

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_QUOTES = re.compile(
    r"「([^「」]*)」|『([^『』]*)』|“([^“”]*)”|《[^《》]*》|\"([^\"]*)\"|(?<!\w)'([^'\"]{2,300})'(?!\w)"
)
SENTENCE = re.compile(r"[^.!?。;…]+[.!?。;…]*")
_CLAUSE = re.compile(r"[^,、:()\[\]—]+")
_BREAKS = re.compile(r"[.!?。;…,、:]|\b(?:but|then)\b|但是?|然后|于是|随即|转身")
"""End of a negation's scope."""
_CLAUSE_CHARS = 48
_NEGATION_CHARS = 14
"""Characters before a word that are searched for its negation: any language, and Chinese, which is denser."""
READ_CHARS = 8_000
"""Maximum number of characters of an input that are read. Of a longer input, only the beginning and the end are read, half
of this number each, because the middle of a pasted page tells little about the intent.
"""
_LETTERS = re.compile(r"[^\W_]")
_ACTS = re.compile(
    r"(?:^|[,:] ?|\b(?:and|then) )(?:i|we) (?:\w+ly )?$|(?:^|,)(?:我们?|咱们?)把?[^,想要帮给问请让叫能]{0,8}$"
    r"|^(?:我们?|咱们?)[^,]{1,16},[再又]?(?:看看|瞧瞧|打量)$"
)
"""The player, followed by an act."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputReading:
    """Intent and time of an input."""

    intents: frozenset[str]
    """Intents of the input: any of `fight`, `recall` and `overview`."""
    temporal: Temporal
    is_timed: bool
    """True if a word of the input shows the time."""
    is_again: bool
    """True if the input asks for the same again."""
    has_player: bool
    """True if the input mentions the player or addresses somebody."""
    outside: str
    """The input in normal form, without code and quotations."""


def read_input_words(
    user_message: str, past_words: Sequence[str] = (), future_words: Sequence[str] = ()
) -> InputReading:
    """Return the intent and the time of an input.

    `past_words` and `future_words` are further words of the world that show the past or the future.
    """
    text = normalise(_shorten(_CODE.sub(" ", user_message))).replace("’", "'")
    outside = _QUOTES.sub(" ", text)
    plain, spoken = _remove_idioms(outside), _remove_idioms(_own_words(text, outside))
    past = _count(spoken, "past", "memory", "past_question") + count_mentions(spoken, past_words)
    future = _count(spoken, "future") + count_mentions(spoken, future_words)
    temporal = Temporal.NOW
    if past or future:
        temporal = Temporal.PAST if past >= future else Temporal.FUTURE
    intents = set()
    # A quoted question to somebody is about that person's past, unless it recalls something.
    if temporal is Temporal.PAST and (_finds(spoken, "memory") or _asks_of_play(plain, past_words)):
        intents.add(RECALL)
    if any(_asks_for_many(sentence) for sentence in SENTENCE.findall(plain)):
        intents.add(OVERVIEW)
    if any(_fights(sentence) for sentence in SENTENCE.findall(plain)):
        intents.add(FIGHT)
    bare = plain.strip(" .!?。,…~")
    return InputReading(
        intents=frozenset(intents),
        temporal=temporal,
        is_timed=bool(past or future),
        is_again=any(lexicon.again.fullmatch(bare) for lexicon in _lexicons(bare)),
        has_player=_finds(spoken, "player"),
        outside=outside,
    )


def has_keyword(reading: InputReading, keyword: str) -> bool:
    """Return whether an input contains `keyword` outside of quotations and not negated. A keyword comes from a template
    rule of an author.

    A keyword of fighting, such as "attack", counts only if somebody fights in the input. A keyword of memory counts
    even if it is negated ("I don't remember").
    """
    word = normalise(keyword)
    if any(lexicon.fight.search(word) for lexicon in _lexicons(word)):
        return FIGHT in reading.intents and mentions(reading.outside, word)
    if any(lexicon.memory.search(word) for lexicon in _lexicons(word)):
        return mentions(reading.outside, word)
    return any(not is_negated_at(reading.outside, place) for place in find_mentions(reading.outside, word))


def is_negated_at(text: str, place: int) -> bool:
    """Return whether the word that begins at the index `place` of a normalised text is negated in its clause."""
    return _is_negated(_clause_before(text, place))


def is_fight_word(word: str) -> bool:
    """Return whether the whole of a normalised `word` is a word of fighting."""
    return any(lexicon.fight.fullmatch(word) for lexicon in _lexicons(word))


def _lexicons(text: str) -> Sequence[Lexicon]:
    return by_script(text, ENGLISH, CHINESE)


def _own_words(text: str, outside: str) -> str:
    """Return the player's words: those outside of quotations, and quoted ones that the player speaks."""
    quoted = len(text) - len(outside)
    if not quoted or not (
        any(lexicon.own_speech.search(outside) for lexicon in _lexicons(outside))
        or len(_LETTERS.findall(outside)) < quoted // 2
    ):
        return outside
    return _QUOTES.sub(lambda found: next((each for each in found.groups() if each), " "), text)


def _remove_idioms(text: str) -> str:
    for lexicon in _lexicons(text):
        text = lexicon.idioms.sub(" ", text)
    return text


def _count(text: str, *tables: str) -> int:
    """Return the number of different expressions of the tables in a text."""
    return sum(
        len({found.group() for found in getattr(lexicon, table).finditer(text)})
        for lexicon in _lexicons(text)
        for table in tables
    )


def _finds(text: str, *tables: str) -> bool:
    return any(getattr(lexicon, table).search(text) for lexicon in _lexicons(text) for table in tables)


def _asks_of_play(text: str, past_words: Sequence[str]) -> bool:
    """Return whether a text asks about the past of the play, not only about somebody else's life."""
    for lexicon in _lexicons(text):
        text = lexicon.others.sub(" ", text)
    if _finds(text, "past_question"):
        return True
    return asks(text) and (_finds(text, "past") or count_mentions(text, past_words) > 0)


def _asks_for_many(sentence: str) -> bool:
    """Return whether a sentence asks for many facts at once; False if the player only sums up or lists something."""
    return any(
        _ACTS.search(sentence[: found.start()]) is None
        for lexicon in _lexicons(sentence)
        for found in lexicon.overview.finditer(sentence)
    )


def _shorten(text: str) -> str:
    half = READ_CHARS // 2
    return text if len(text) <= READ_CHARS else f"{text[:half]}. {text[-half:]}"


def asks(text: str) -> bool:
    """Return whether a normalised text is a question."""
    return "?" in text or _finds(text, "question")


def _fights(sentence: str) -> bool:
    """Return whether somebody fights in a sentence, instead of reporting, asking, supposing or planning a fight."""
    if asks(sentence) or _finds(sentence, "later", "reported", "past", "memory", "past_question"):
        return False
    for clause in _CLAUSE.findall(sentence):
        clause = clause.strip()
        for lexicon in _lexicons(clause):
            for found in lexicon.fight.finditer(clause):
                before = _clause_before(clause, found.start())
                if not lexicon.not_verbs.search(before) and not _is_negated(before):
                    return True
    return False


def _clause_before(text: str, start: int) -> str:
    """Return the text before a place in its clause, at most `_CLAUSE_CHARS` characters."""
    return _BREAKS.split(text[max(0, start - _CLAUSE_CHARS) : start])[-1]


def _is_negated(before: str) -> bool:
    for lexicon in _lexicons(before):
        text = lexicon.no_negators.sub(" ", before)
        if lexicon is CHINESE:
            text = text[-_NEGATION_CHARS:]
        if lexicon.negators.search(text):
            return True
    return False
