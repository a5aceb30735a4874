"""Scores entries that are in no index, such as finished quests derived from the state. Calculation only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mnemosyne.retrieval.engines.rows import own_words
from mnemosyne.retrieval.text.lexical import Postings
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import MemoryEntry


def score_extra(entries: Sequence[MemoryEntry], terms: Mapping[str, float]) -> list[float]:
    """Return the BM25 score (>= 0) of each of a few entries, in order, with statistics of these entries only."""
    postings = Postings()
    postings.append([word_tokens(own_words(entry)) for entry in entries])
    return [float(score) for score in postings.scores(terms, np.ones(len(entries), dtype=np.bool_))]
