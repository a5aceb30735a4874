"""Computes features of the few entries that recall has fetched, to rank these entries again.

The features are properties of the text that no index stores:

- its speaker,
- a time in its text, if the query asks for one,
- whether it is only a question,
- the word pairs, and the runs of CJK characters, that it shares with the query.

The cost does not depend on the number of entries in the index. This module does no I/O.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mnemosyne.core.normal_forms import normal_form
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.recall.fusion import FusionWeights
from mnemosyne.retrieval.recall.query_features import QueryFeatures, add_recent_terms
from mnemosyne.retrieval.text.lexical import K1, B, Scores, inverse_frequencies
from mnemosyne.retrieval.text.words import CJK_RUN, STOP_WORDS, word_tokens, word_tokens_of_line
from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.query import RetrievalQuery

_LOOK_CHARS = 2_000
_PAIRS = 40
_ENOUGH = 3
_PASSAGE = 0.25
"""The weight of length and of questions in an entry without a speaker: a passage of several turns has the answers, too."""
_FEW_SENTENCES = 4
"""Maximum number of sentences of a short message."""
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_SENTENCE_END = re.compile(r"[.!?。！？\n]+")
_TIME_WORDS = """yesterday today tonight tomorrow ago last next week weeks month months year years weekend day days since
    recently monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december"""
_TIMES = frozenset(_TIME_WORDS.split())
_TIMES_AFTER_THIS = frozenset(["morning", "evening", "summer", "winter", "fall", "spring"])
_YEAR_DIGITS = 4
_BLANK = ord(" ")
_CODE_BITS = 21
_BLANKS = str.maketrans(dict.fromkeys(set(string.punctuation) - {"'"}, " "))
_TOLD_TIME = re.compile(
    r"昨[天晚日]|前天|今[天早晚年]|明[天年]|后天|上周|下周|去年|前年|[年月日号点]|小时|星期|周[一二三四五六日末]"
)

Runs = Counter[str]


def add_rerank_features(
    query: RetrievalQuery, features: QueryFeatures, entries: Sequence[MemoryEntry], weights: FusionWeights
) -> Scores:
    """Return the numbers that the features add to the fused scores, in the order of `entries`. (The best fused scores are 1
    and more.)
    """
    if not entries:
        return np.zeros(0)
    readings = [text_features(entry.text[:_LOOK_CHARS]) for entry in entries]
    names = frozenset(word_tokens(query.text))
    pairs = _pairs(query.text)
    signs = []
    for entry, read in zip(entries, readings, strict=True):
        sign = 0.0
        if entry.chain is Chain.HISTORY:
            spoke = bool(entry.speaker) and not names.isdisjoint(word_tokens_of_line(entry.speaker or ""))
            weight = 1.0 if entry.speaker else _PASSAGE
            sign += weights.speaker * spoke + weight * (weights.length * read.length + weights.asking * read.asks)
        if features.time:
            sign += weights.time * read.times / _ENOUGH
        if pairs:
            sign += weights.pair * min(sum([pair in read.plain for pair in pairs]), _ENOUGH) / _ENOUGH
        signs.append(sign)
    found: Scores = np.array(signs)
    if features.question:
        found += _rate_answers(entries, readings, weights)
    query_runs = _weigh_runs(query, 1)
    if query_runs:
        written = [read.han for read in readings]
        single = max(weights.character + weights.character_talk * features.recent_share, 0.0)
        found += single * score_runs(query_runs, written, 1)
        longer = max(weights.longer_talk * features.recent_share, 0.0)
        found += longer * score_runs(_weigh_runs(query, 3), written, 3) if longer else 0.0
    return found


class TextFeatures(NamedTuple):
    """The features of an entry's text that do not depend on the query.

    - `plain`: the words of the text in lower case, separated by blanks, without stop words.
    - `han`: the runs of CJK characters in the text, separated by blanks.
    - `times`: the number of time expressions, at most 3.
    - `length`: the logarithm of the number of words, divided by 5.
    - `asks`: the share of the sentences that are questions.
    - `sentences`: the number of sentence ends.
    """

    plain: str
    han: str
    times: int
    length: float
    asks: float
    sentences: int


@lru_cache(maxsize=1 << 13)
def text_features(text: str) -> TextFeatures:
    """Return the features of a text. The result is cached, because recall returns the same texts turn after turn."""
    is_ascii = text.isascii()
    words = _words(text)
    runs = [] if is_ascii else CJK_RUN.findall(normal_form("NFKC", text))
    # About half of the words of a conversation are stop words; two Chinese characters are about a word.
    size = len(text.split()) / 2 + sum(map(len, runs)) / 2
    asks = 0.0
    if "?" in text or "？" in text:
        sentences = _SENTENCE.findall(text)
        asks = sum(sentence.rstrip().endswith(("?", "？")) for sentence in sentences) / max(len(sentences), 1)
    return TextFeatures(
        plain=" ".join([word for word in words if word not in STOP_WORDS]),
        han=" ".join(runs),
        times=min(_times(words) + (0 if is_ascii else len(_TOLD_TIME.findall(text))), _ENOUGH),
        length=math.log1p(size) / 5,
        asks=asks,
        sentences=len(_SENTENCE_END.findall(text)),
    )


def _rate_answers(entries: Sequence[MemoryEntry], readings: Sequence[TextFeatures], weights: FusionWeights) -> Scores:
    """Return how likely each message of a conversation answers a question: a longer message more, a question less.

    This applies to conversations in short messages, because a long message has answers between its questions. The mean of the
    messages is 0, so that they do not outrank other chains.
    """
    places = [place for place, entry in enumerate(entries) if entry.chain is Chain.HISTORY and entry.speaker]
    found: Scores = np.zeros(len(entries))
    short = len([place for place in places if readings[place].sentences <= _FEW_SENTENCES])
    if 2 * short > len(places):
        worths = [
            weights.length_answer * readings[place].length + weights.asking_answer * readings[place].asks
            for place in places
        ]
        mean = sum(worths) / len(worths)
        found[places] = [(2 * short / len(places) - 1.0) * (worth - mean) for worth in worths]
    return found


def warm_text_features(texts: Sequence[str]) -> None:
    """Compute and cache the features of texts that will probably be reranked."""
    for text in texts:
        text_features(text[:_LOOK_CHARS])


def _times(words: Sequence[str]) -> int:
    """Return the number of time expressions: days, months, years in digits, `this morning`."""
    years = len([word for word in words if len(word) == _YEAR_DIGITS and word.isdecimal()])
    if not _TIMES.isdisjoint(words):
        years += sum(word in _TIMES for word in words)
    if not _TIMES_AFTER_THIS.isdisjoint(words):
        years += sum(one == "this" and two in _TIMES_AFTER_THIS for one, two in pairwise(words))
    return years


def _pairs(text: str) -> tuple[str, ...]:
    """Return the pairs of adjacent words of a query, without stop words."""
    words = _narrative_words(text)
    return tuple(dict.fromkeys(f"{one} {two}" for one, two in pairwise(words)))[:_PAIRS]


def _narrative_words(text: str) -> list[str]:
    return [word for word in _words(text) if word not in STOP_WORDS]


def _words(text: str) -> list[str]:
    """Return the words of a text that are not Chinese, in lower case."""
    plain = text.lower()
    if plain.isascii():
        # Equivalent to the regular expression, but twice as fast.
        return plain.translate(_BLANKS).replace(" '", " ").replace("' ", " ").split()
    return _WORD.findall(CJK_RUN.sub(" ", plain))


def _runs(text: str, size: int) -> Runs:
    if text.isascii():
        return Counter()
    plain = normal_form("NFKC", text)
    return Counter([run[at : at + size] for run in CJK_RUN.findall(plain) for at in range(len(run) - size + 1)])


def _weigh_runs(query: RetrievalQuery, size: int) -> dict[str, float]:
    """Return the runs of `size` characters of the query with their weights; recent messages are weighted like their
    words.
    """
    query_runs: dict[str, float] = {run: float(count) for run, count in _runs(query.text, size).items()}
    add_recent_terms(query_runs, query.recent, lambda message: _runs(message, size))
    return query_runs


def score_runs(query_runs: Mapping[str, float], documents: Sequence[str], size: int) -> Vectors:
    """Return a BM25 score for each of `documents`, scaled so that the best score is 1. `documents` are the whole collection.

    A document consists of runs of CJK characters, separated by blanks. `query_runs` are the terms with their weights; each term
    has `size` characters.
    """
    if not query_runs:
        return np.zeros(len(documents), dtype=np.float32)
    keys, owners = _keys(documents, size)
    lengths = np.bincount(owners, minlength=len(documents))
    wanted = _codes("".join(query_runs)).reshape(-1, size)[:, ::-1] @ (
        1 << _CODE_BITS * np.arange(size, dtype=np.int64)
    )
    order = np.argsort(wanted)
    places = np.minimum(np.searchsorted(wanted[order], keys), len(order) - 1)
    held = wanted[order][places] == keys
    counts = np.bincount(owners[held] * len(order) + places[held], minlength=len(documents) * len(order))
    counts = counts.reshape(len(documents), len(order)).astype(np.float64)
    rarity = inverse_frequencies(len(documents), np.count_nonzero(counts, axis=0))
    worth = np.array([*query_runs.values()])[order] * rarity * (K1 + 1.0)
    norms = K1 * (1.0 - B + B * lengths / max(float(lengths.mean()), 1e-9))
    found = (counts / (counts + norms[:, None])) @ worth
    best = float(found.max())
    return np.asarray(found / best if best > 0.0 else found, dtype=np.float32)


def _keys(documents: Sequence[str], size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the code of each run of `size` characters in the documents, and the index of its document."""
    codes = _codes("\0".join(documents))
    owners, keys, inside = np.cumsum(codes == 0), codes, codes > _BLANK
    for step in range(1, size):
        keys, inside = keys[:-1] << _CODE_BITS | codes[step:], inside[:-1] & (codes[step:] > _BLANK)
    return keys[inside], owners[: len(inside)][inside]


def _codes(text: str) -> npt.NDArray[np.int64]:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4").astype(np.int64)
