"""A second look at the few entries that recall has fetched: signs in the text itself that no index keeps.

Who spoke, whether a time is told where one is asked for, whether the turn only asks, word pairs and runs of characters that
query and text share. It costs the same however many entries there are. Calculation only.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from mnemosyne.index.ask import Traits, add_talk
from mnemosyne.index.fuse import FusionWeights
from mnemosyne.index.lexical import K1, B, inverse_frequency
from mnemosyne.index.words import CJK_RUN, STOP_WORDS, tokens, tokens_of_line
from mnemosyne.protocols import Vectors
from mnemosyne.query import RetrievalQuery
from mnemosyne.schema.memory import Chain, MemoryEntry

_LOOK_CHARS = 2_000
_PAIRS = 40
_ENOUGH = 3
_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?")
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_TOLD_TIME = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|ago|last|next|this (?:week|month|year|morning|weekend|evening|summer|winter|fall"
    r"|spring)|weeks?|months?|years?|weekend|days?|monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february"
    r"|march|april|may|june|july|august|september|october|november|december|since|recently|\d{4})\b"
    r"|昨[天晚日]|前天|今[天早晚年]|明[天年]|后天|上周|下周|去年|前年|[年月日号点]|小时|星期|周[一二三四五六日末]",
    re.IGNORECASE,
)

Runs = Counter[str]


def look_again(
    query: RetrievalQuery, traits: Traits, entries: Sequence[MemoryEntry], weights: FusionWeights
) -> list[float]:
    """Return what each entry's text adds to its fused score (where the best of words and vectors count 1 and more)."""
    texts = [entry.text[:_LOOK_CHARS] for entry in entries]
    found = np.zeros(len(entries))
    if not entries:
        return []
    names = frozenset(tokens(query.text))
    pairs = _pairs(query.text)
    for place, (entry, text) in enumerate(zip(entries, texts, strict=True)):
        if entry.chain is Chain.HISTORY:
            found[place] += _of_talk(entry, text, names, weights)
        if traits.time:
            found[place] += weights.time * min(len(_TOLD_TIME.findall(text)), _ENOUGH) / _ENOUGH
        if pairs:
            plain = " ".join(_telling(text))
            found[place] += weights.pair * min(sum(pair in plain for pair in pairs), _ENOUGH) / _ENOUGH
    asked = _asked(query, 1)
    if asked:
        single = max(weights.character + weights.character_talk * traits.talk_share, 0.0)
        found += single * _scores(asked, [_runs(text, 1) for text in texts])
        longer = max(weights.longer_talk * traits.talk_share, 0.0)
        found += longer * _scores(_asked(query, 3), [_runs(text, 3) for text in texts]) if longer else 0.0
    return [float(each) for each in found]


def _of_talk(entry: MemoryEntry, text: str, names: frozenset[str], weights: FusionWeights) -> float:
    """Return what the form of a message says: who said it, how much it says, how much of it only asks."""
    spoke = bool(entry.speaker) and not names.isdisjoint(tokens_of_line(entry.speaker or ""))
    asks = 0.0
    if "?" in text or "？" in text:
        sentences = _SENTENCE.findall(text)
        asks = sum(sentence.rstrip().endswith(("?", "？")) for sentence in sentences) / max(len(sentences), 1)
    # About half of the words of talk are stop words; two characters of Chinese are about a word.
    words = len(text.split()) / 2
    if not text.isascii():
        words += sum(map(len, CJK_RUN.findall(text))) / 2
    return float(weights.speaker * spoke + weights.length * math.log1p(words) / 5 + weights.asking * asks)


def _pairs(text: str) -> tuple[str, ...]:
    """Return the pairs of words that follow one another in a query, stop words left out."""
    words = _telling(text)
    return tuple(dict.fromkeys(f"{one} {two}" for one, two in pairwise(words)))[:_PAIRS]


def _telling(text: str) -> list[str]:
    plain = text.lower()
    words = _WORD.findall(plain if plain.isascii() else CJK_RUN.sub(" ", plain))
    return [word for word in words if word not in STOP_WORDS]


def _runs(text: str, size: int) -> Runs:
    if text.isascii():
        return Counter()
    plain = unicodedata.normalize("NFKC", text)
    return Counter(run[at : at + size] for run in CJK_RUN.findall(plain) for at in range(len(run) - size + 1))


def _asked(query: RetrievalQuery, size: int) -> dict[str, float]:
    """Return the runs of `size` characters that are asked for, recent talk's weighed as its words are."""
    asked: dict[str, float] = {run: float(count) for run, count in _runs(query.text, size).items()}
    add_talk(asked, query.recent, lambda message: _runs(message, size))
    return asked


def _scores(asked: Mapping[str, float], documents: Sequence[Runs]) -> Vectors:
    """Return the BM25 of each document among them all, the best of them 1."""
    lengths = np.array([sum(document.values()) for document in documents], dtype=np.float64)
    norms = K1 * (1.0 - B + B * lengths / max(float(lengths.mean()), 1e-9))
    found = np.zeros(len(documents))
    for run, weight in asked.items():
        held = [document[run] for document in documents]
        holding = len(held) - held.count(0)
        if holding:
            counts = np.array(held, dtype=np.float64)
            found += weight * inverse_frequency(len(documents), holding) * (K1 + 1.0) * counts / (counts + norms)
    best = float(found.max())
    return np.asarray(found / best if best > 0.0 else found, dtype=np.float32)
