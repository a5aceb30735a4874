"""Splits an input with several questions, so that each question is recalled by itself.

An entry then gets the best of its scores for the questions (`merge_rankings`). A single vector of two questions would lie
between the vectors of the questions and be near neither. This module does no I/O.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from mnemosyne.retrieval.recall.query_features import is_question, is_self_contained
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.query import RetrievalQuery

_END = re.compile(r"[?？]+[\"'”’）)]*")
_SENTENCE = re.compile(r"[^.!?。！？;；…\n]+[.!?。！？;；…]*[\"'”’）)」』]*")
_MOST = 3
_ENOUGH_TERMS = 2


def split_query(query: RetrievalQuery) -> tuple[RetrievalQuery, ...]:
    """Return the questions of `query`, in order, or only `query` itself if it is not split.

    A query is split if it consists of two or three self-contained questions with at least two content words each. A question
    is self-contained if it names its subject before it refers to anything. Any other question belongs to the question
    before. If `query` has other sentences, too, the result is `query`, followed by one query with all of its questions.
    """
    text = query.text.strip()
    ends = [mark.end() for mark in _END.finditer(text)]
    if not 2 <= len(ends) <= _MOST or ends[-1] < len(text):
        return _with_question(query)
    parts = [text[first:last].strip() for first, last in pairwise([0, *ends])]
    questions = tuple(
        replace(query, text=part, keywords=tuple(word for word in query.keywords if word in part)) for part in parts
    )
    whole = all(is_self_contained(each) and len(set(word_tokens(each.text))) >= _ENOUGH_TERMS for each in questions)
    return questions if whole else _with_question(query)


def _with_question(query: RetrievalQuery) -> tuple[RetrievalQuery, ...]:
    """Return a query, and its question as a second one if it also has other sentences, as in "I sit down. Who was
    that?".
    """
    sentences = [found.group().strip() for found in _SENTENCE.finditer(query.text)]
    asked = [sentence for sentence in sentences if is_question(sentence)]
    question = " ".join(asked)
    if not asked or len(asked) == len(sentences) or len(set(word_tokens(question))) < _ENOUGH_TERMS:
        return (query,)
    return query, replace(query, text=question, keywords=tuple(word for word in query.keywords if word in question))
