"""Estimates the probability that a recalled memory is relevant to an input, without a language model. Pure.

The scores of recall only order the candidates: the best candidate for "I sit down" scores as high as the best one for a
question. The estimate is a logistic regression over eight signals whose values can be compared between recalls. Its weights were
fitted to labelled plays (`docs/decisions/0038-relevance.md`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from statistics import median, pstdev

from jacquard.core.names import mentions, normalise
from jacquard.core.protocols import SelectionRequest
from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.text.persons import find_named
from mnemosyne.retrieval.text.words import has_cjk, word_tokens
from mnemosyne.schema.memory import THREAD, Chain
from mnemosyne.schema.query import Candidate
from mnemosyne.values import dataclass

_FUNCTION_CHARACTERS = frozenset(
    "的了是在我你他她它们这那有不着到地得过就也都和与把被让给对从向上下里去来说看问想要会能可一个们什么怎么吗呢吧啊"
)
_ASKING = lazy_pattern(
    r"多少钱?|几(?=[^乎])[时点号天个次块岁年日位种]?|哪[里儿些个位天年种]?|(?:出了|发生了)?什么(?:时候|事)?|谁|怎么[样办]?|如何|为何|何[时处]|请问|"
    r"(?<!\w)(?i:how (?:much|many|long|far|often)|what happened)(?!\w)"
)
"""Words by which an input asks; they do not name what it asks about."""
_SENTENCE = lazy_pattern(r"[^.!?;。！？；\n]+[.!?;。！？；\n]*")
_SEVERAL_SENTENCES = lazy_pattern(r"[.!?;。！？；\n]\s*[^\s.!?;。！？；]")
_COSINE_BOUNDS = (-1.0, 3.0)
_FULL_RECALL = 50
_READ_CHARS = 2_000
"""Maximum characters of an input that are read for rare characters."""
_FEW, _FEW_SHARE = 2, 0.06
_CHARACTER_SCORE = 3.0
"""BM25 score of a rare character; recall searches for pairs of characters."""
_SEVERAL = 2
_MOSTLY_SHARED = 0.66
"""Minimum estimate for a candidate with several words, and at least half, of the input, or with all words of a question if few
candidates have them; or for an open thread with a person, place or date of the input. Rare characters count as words of a
question.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class RelevanceWeights:
    """Weights of the signals. The weighted sum is the logarithm of the odds that a candidate is relevant."""

    base: float = -3.85
    """Constant part of the sum."""
    words: float = 0.81
    """Weight of log(1 + BM25 score); the score is scaled if the memory is small."""
    shared: float = 0.84
    """Weight of log(1 + n). n is the number of words that occur in the input and in the candidate, plus the number of rare
    Chinese characters that occur in both outside of these words. A message that means a person whom a question names has the
    words of the name.
    """
    turn: float = 0.0
    """Weight of log(1 + n). n is the number of words and rare characters that the input shares with the other message of the
    candidate's turn, because an answer often has other words than its question.
    """
    asked: float = 0.0
    """Weight of log(1 + n). n is the number of words of the sentences that ask, if the candidate or the other message of its
    turn has them.
    """
    entity: float = 0.84
    """Weight of each entity of the input that the candidate is about."""
    cosine: float = 0.37
    """Weight of the cosine similarity, in standard deviations above the median of the recall."""
    score: float = 1.25
    """Weight of the candidate's score divided by the best score."""
    title: float = 3.14
    """Weight if the candidate is a lore entry or an open thread, and the input contains its name or one of its keys."""


WEIGHTS = RelevanceWeights()
"""Weights for lore, summaries, events and values, which have no other message of their turn."""
MESSAGE_WEIGHTS = RelevanceWeights(base=-3.4, words=0.44, shared=0.77, turn=1.1, asked=0.63, cosine=0.29, score=1.01)
"""Weights for messages."""


def estimate_relevance(request: SelectionRequest) -> list[float]:
    """Return for each candidate of `request`, in order, the probability (0..1) that it is relevant to the input."""
    text = request.searched_text or request.user_message
    words, plain, entities = content_words(text), normalise(text), frozenset(request.plan.entities)
    asking, asks = _find_asking_words(text), is_asking(text)
    best = max([candidate.score for candidate in request.candidates], default=0.0)
    scale = _score_scale(len(request.candidates))
    cosines = _standardize([candidate.signals.vector for candidate in request.candidates])
    said = [_text(candidate) for candidate in request.candidates]
    characters = _find_rare_characters(text, said)
    asked = _find_rare_question(text, said)
    persons = asking & content_words(" ".join(find_named(text)))
    commons = [
        words & content_words(told) | (persons if each.signals.person else frozenset())
        for each, told in zip(request.candidates, said, strict=True)
    ]
    rare = [len(characters.intersection(told).difference(*common)) for told, common in zip(said, commons, strict=True)]
    beside = _find_other_messages(request.candidates)
    found = []
    for row, (candidate, cosine, common, alone) in enumerate(
        zip(request.candidates, cosines, commons, rare, strict=True)
    ):
        shared, others = len(common) + alone, beside.get(row, ())
        weights = MESSAGE_WEIGHTS if candidate.chain is Chain.HISTORY else WEIGHTS
        score = scale * max(candidate.signals.fts or 0.0, 0.0) + _CHARACTER_SCORE * alone
        odds = weights.base + weights.words * math.log1p(score) + weights.shared * math.log1p(shared)
        odds += weights.turn * math.log1p(max([len(commons[each]) + rare[each] for each in others], default=0))
        odds += weights.asked * math.log1p(len(asking & common.union(*[commons[each] for each in others])))
        odds += weights.entity * len(entities.intersection(candidate.entities))
        odds += weights.cosine * cosine
        odds += weights.score * (max(candidate.score / best, 0.0) if best > 0.0 else 0.0)
        named = _is_named(candidate, plain)
        odds += weights.title * named
        is_mostly = (shared if asks else len(common)) >= _SEVERAL and 2 * shared >= len(words)
        least = _MOSTLY_SHARED if is_mostly or (asked and asked <= common) else 0.0
        if candidate.kind == THREAD and (named or entities.intersection(candidate.entities)):
            least = _MOSTLY_SHARED
        found.append(max(1.0 / (1.0 + math.exp(-odds)), least))
    return found


def is_asking(text: str) -> bool:
    """Return whether a text, or one of its sentences, asks something."""
    return "?" in text or "？" in text or _ASKING.search(text) is not None


@lru_cache(maxsize=1 << 12)
def content_words(text: str) -> frozenset[str]:
    """Return the words of a text that name something.

    Chinese text is read as pairs of characters; a pair with a function character, such as 的, is left out. Results are cached,
    because recall finds the same texts turn after turn.
    """
    return frozenset([word for word in word_tokens(text) if _FUNCTION_CHARACTERS.isdisjoint(word) or not has_cjk(word)])


def _find_asking_words(text: str) -> frozenset[str]:
    """Return the words of the sentences of an input that ask, without its words of asking."""
    if not is_asking(text):
        return frozenset()
    asking = [sentence for sentence in _SENTENCE.findall(text) if is_asking(sentence)]
    return content_words(_ASKING.sub(" ", "\n".join(asking)))


def _find_other_messages(candidates: Sequence[Candidate]) -> dict[int, list[int]]:
    """Return for each message, by its place in `candidates`, the places of the other messages of its turn."""
    of_turn: dict[str, list[int]] = {}
    for row, candidate in enumerate(candidates):
        if candidate.chain is Chain.HISTORY and candidate.turn_id is not None:
            of_turn.setdefault(candidate.turn_id, []).append(row)
    return {row: [each for each in rows if each != row] for rows in of_turn.values() for row in rows}


def _find_rare_question(text: str, said: Sequence[str]) -> frozenset[str]:
    """Return the words of an input that is one question, without its words of asking, if few candidates have all of them; else an
    empty set. A single Chinese character is not a word.
    """
    if not is_asking(text) or _SEVERAL_SENTENCES.search(text):
        return frozenset()
    words = content_words(_ASKING.sub(" ", text))
    words = frozenset([word for word in words if len(word) > 1 or not has_cjk(word)])
    return words if sum([words <= content_words(each) for each in said]) <= _most_holders(len(said)) else frozenset()


def _most_holders(candidates: int) -> int:
    """Return the maximum number of candidates that have a word or character which is rare among them."""
    return max(_FEW, int(_FEW_SHARE * candidates))


def _find_rare_characters(text: str, said: Sequence[str]) -> frozenset[str]:
    """Return the Chinese characters of an input that few candidates have; a single one can be significant, such as 咳, though
    words are searched for by pairs.
    """
    characters = frozenset(text[:_READ_CHARS]) - _FUNCTION_CHARACTERS
    asked = frozenset([character for character in characters if has_cjk(character)])
    most = _most_holders(len(said))
    holding = Counter([character for each in said for character in asked.intersection(each)])
    return frozenset([character for character in asked if holding[character] <= most])


def _is_named(candidate: Candidate, plain: str) -> bool:
    """Return whether a normalised input has the name or a key of a lore entry, or a name or date of an open thread."""
    is_looked_for = candidate.chain is Chain.LORE or candidate.kind == THREAD
    return is_looked_for and any(mentions(plain, name) for name in (candidate.title, *candidate.keys))


def _score_scale(candidates: int) -> float:
    """Return the factor that makes BM25 scores of a small memory comparable to those that the weights were fitted to.

    Scores grow with the logarithm of the number of entries; if there are fewer than recall may return, all are candidates.
    """
    return math.log1p(_FULL_RECALL) / math.log1p(candidates) if 0 < candidates < _FULL_RECALL else 1.0


def _text(candidate: Candidate) -> str:
    """Return the text of a candidate; the title of a message is its speaker and does not belong to it."""
    return candidate.preview if candidate.chain is Chain.HISTORY else f"{candidate.title} {candidate.preview}"


def _standardize(cosines: Sequence[float | None]) -> list[float]:
    """Return the standard deviations of each above the median, within bounds; 0 if there is no cosine."""
    known = [each for each in cosines if each is not None]
    if not known:
        return [0.0] * len(cosines)
    middle, spread = median(known), pstdev(known) or 1.0
    low, high = _COSINE_BOUNDS
    return [0.0 if each is None else min(max((each - middle) / spread, low), high) for each in cosines]
