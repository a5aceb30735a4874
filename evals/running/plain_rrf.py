"""Plain reciprocal rank fusion, what most hybrid retrievers do: it stands here to be compared with, not to be used."""

from __future__ import annotations

from collections.abc import Sequence

OFFSET = 60


def score_reciprocal_ranks(rankings: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return the score of each name, the best first: the sum of 1 / (60 + its place, from 1) over the rankings that hold it.

    Of equals the first by name comes first.
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        for place, name in enumerate(ranking, start=1):
            scores[name] = scores.get(name, 0.0) + 1.0 / (OFFSET + place)
    return dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
