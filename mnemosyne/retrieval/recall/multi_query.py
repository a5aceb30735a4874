"""Inputs that ask several things: each question is recalled by itself, and an entry counts by the one that it serves best.

One vector of two questions lies between them and near neither. Calculation only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from mnemosyne.retrieval.recall.query_features import is_self_contained
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.query import Candidate, EntryPlace, Recall, RetrievalQuery

_END = re.compile(r"[?？]+[\"'”’）)]*")
_MOST = 3
_ENOUGH_TERMS = 2


def split_query(query: RetrievalQuery) -> tuple[RetrievalQuery, ...]:
    """Return the questions that a query is made of, or the query alone.

    Only where it is nothing but two or three questions that each stand alone (name what they ask about before they lean on
    anything) and have two content words at least: what leans on the question before it belongs to it.
    """
    text = query.text.strip()
    ends = [mark.end() for mark in _END.finditer(text)]
    if not 2 <= len(ends) <= _MOST or ends[-1] < len(text):
        return (query,)
    parts = [text[first:last].strip() for first, last in pairwise([0, *ends])]
    questions = tuple(
        replace(query, text=part, keywords=tuple(word for word in query.keywords if word in part)) for part in parts
    )
    whole = all(is_self_contained(each) and len(set(word_tokens(each.text))) >= _ENOUGH_TERMS for each in questions)
    return questions if whole else (query,)


def merge_recalls(recalls: Sequence[Recall], limit: int) -> Recall:
    """Return the recalls of several questions as one: scores as shares of each question's best, the greater one counting."""
    best: dict[EntryPlace, Candidate] = {}
    for recall in recalls:
        top = max((each.score for each in recall.candidates), default=0.0)
        for each in recall.candidates:
            share = each.score / top if top > 0.0 else 0.0
            if each.place not in best or best[each.place].score < share:
                best[each.place] = replace(each, score=share)
    ranked = sorted(best.values(), key=lambda each: (-each.score, each.entry_id))
    return Recall(
        candidates=tuple(ranked[:limit]),
        queries=tuple(dict.fromkeys(text for recall in recalls for text in recall.queries)),
        degradations=tuple(dict.fromkeys(code for recall in recalls for code in recall.degradations)),
        timings_ms={
            step: max(recall.timings_ms.get(step, 0.0) for recall in recalls)
            for recall in recalls
            for step in recall.timings_ms
        },
    )
