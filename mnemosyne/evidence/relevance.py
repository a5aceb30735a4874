"""Ranks the evidence of a session (text from outside) for a turn. Items newer than the last reply come first; then words and
age decide.

The words of the turn are compared with the name and the text of each item (BM25). If an item stores only a pointer, the
description in its metadata is compared instead. A word that all items contain does not count. If two items have the same score
for words, the newer item is better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache

from mnemosyne.retrieval.text.lexical import K1, B, inverse_frequency
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.evidence import Evidence
from mnemosyne.schema.query import Signals
from mnemosyne.values import dataclass

READ_CHARS = 8_000
"""Number of characters, from the beginning of a text, whose words count."""

DESCRIBES = ("title", "summary", "description", "abstract", "snippet", "keywords", "tags", "query")
"""Keys of the metadata whose texts replace the content of an item that has no content."""

_HALF_RELEVANT = 1.0
"""BM25 score that gives half of the maximum for words."""

_NEWEST = 0.5
_HALF_AGE = 6.0
_FRESH = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedEvidence:
    """An evidence item with its score. `is_fresh` is True if the item came after the last reply.

    `signals` are the parts of the score: the BM25 score for words (`fts`) and the `recency` (0..1).
    """

    evidence: Evidence
    score: float
    signals: Signals
    is_fresh: bool = False


def rank_evidence(
    evidences: Sequence[Evidence], terms: Mapping[str, float], since: datetime | None = None
) -> tuple[RankedEvidence, ...]:
    """Return `evidences` with their scores, the best first. If two scores are equal, the newer item comes first.

    `evidences` must be ordered from old to new. `terms` are the words of the turn with their weights. Items made after `since`
    are fresh. If `since` is None, only the newest item is fresh.
    """
    if not evidences:
        return ()
    scores = _score([_count_words(each.source.name, _readable(each)[:READ_CHARS]) for each in evidences], terms)
    ranked = []
    for place, each in enumerate(evidences):
        age, words = len(evidences) - 1 - place, scores[place]
        made = each.created_at
        is_fresh = age == 0 if since is None else made is not None and made > since
        recency = 0.5 ** (age / _HALF_AGE)
        score = words / (words + _HALF_RELEVANT) + _NEWEST * recency + (_FRESH if is_fresh else 0.0)
        signals = Signals(fts=words or None, recency=round(recency, 6))
        ranked.append(
            (-round(score, 6), age, RankedEvidence(evidence=each, score=score, signals=signals, is_fresh=is_fresh))
        )
    return tuple(each for _, _, each in sorted(ranked, key=lambda item: item[:2]))


def _readable(evidence: Evidence) -> str:
    """Return the text of an item; of a pointer, its description in the metadata, and its address."""
    if evidence.content:
        return evidence.content
    said = (evidence.metadata.get(key) for key in DESCRIBES)
    texts = (each if isinstance(each, list | tuple) else (each,) for each in said)
    parts = [part for listed in texts for part in listed if isinstance(part, str)]
    return "\n".join((*parts, evidence.source.uri.replace("_", " ")))


def _score(texts: Sequence[tuple[Mapping[str, int], int]], terms: Mapping[str, float]) -> list[float]:
    """Return the BM25 score of each text, given as its words with their counts, and its length."""
    scores = [0.0] * len(texts)
    mean = sum(length for _, length in texts) / len(texts) or 1.0
    for term, weight in terms.items():
        holding = [(place, count) for place, (words, _) in enumerate(texts) if (count := words.get(term))]
        scale = weight * inverse_frequency(len(texts), len(holding)) * (K1 + 1.0)
        for place, count in holding:
            scores[place] += scale * count / (count + K1 * (1.0 - B + B * texts[place][1] / mean))
    return scores


@lru_cache(maxsize=1 << 11)
def _count_words(name: str, text: str) -> tuple[Mapping[str, int], int]:
    words = word_tokens(f"{name}\n{text}")
    return Counter(words), len(words)
