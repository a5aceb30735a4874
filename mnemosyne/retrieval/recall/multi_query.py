"""Splits an input with several questions into one query for each question.

Recall (the search of memory) runs each query by itself. An entry that several queries find gets the best of its scores
(`merge_rankings`). Without the split, the vector of an input with two questions would lie between the vectors of the questions and
be near neither. This module does no I/O.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from mnemosyne.retrieval.recall.query_features import is_question, is_self_contained
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.query import RetrievalQuery

_END = re.compile(r"[?？][?？!！]*[\"'”’）)]*")
_ABBREVIATION = r"(?:(?<=(?<![A-Za-z])[A-HJ-Za-z])|(?<=\b(?:Mr|Ms|Dr|St))|(?<=\bMrs)|(?<=\bProf))\.(?=.)"
"""Full stop of an initial, a title or "e.g." within a line. The word "I" may end a sentence."""
_SENTENCE = re.compile(rf"(?:[^.!?。！？;；…\n]|{_ABBREVIATION})+[.!?。！？;；…]*[\"'”’）)」』]*")
_MOST = 3
_ENOUGH_TERMS = 2
_MOST_SENTENCES = 5
"""Maximum number of sentences of an input whose questions are searched separately, too."""


def split_query(query: RetrievalQuery) -> tuple[RetrievalQuery, ...]:
    """Return the queries with which memory is searched for the input `query`.

    - If the input consists only of two or three questions, and each can be understood by itself: one query for each question,
      in order. Such a question has at least two content words, and it contains a name or keyword before the first word that
      refers to something said earlier ("he", "there").
    - If the input has questions and other sentences: `query`, and then one query that contains only the questions. This second
      query is left out if the questions have fewer than two content words, or if the input has more than five sentences: then
      it is a scene, and its questions are a small part of what it is about.
    - In all other cases: only `query`.
    """
    text = query.text.strip()
    ends = [mark.end() for mark in _END.finditer(text)]
    if not 2 <= len(ends) <= _MOST or ends[-1] < len(text):
        return _with_question(query)
    parts = [text[first:last].strip().rstrip("!！") for first, last in pairwise([0, *ends])]
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
    if not asked or not len(asked) < len(sentences) <= _MOST_SENTENCES:
        return (query,)
    if len(set(word_tokens(question))) < _ENOUGH_TERMS:
        return (query,)
    return query, replace(query, text=question, keywords=tuple(word for word in query.keywords if word in question))
