"""Analyses a query of recall (the search of memory): its words, the texts to embed, and the kind of question.

This module only calculates; it does no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mnemosyne.retrieval.text.lexical import term_weights
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.query import RetrievalQuery
from mnemosyne.values import dataclass

KEYWORD_WEIGHT = 1.0
RECENT_WEIGHT = 0.6
RECENT_DECAY = 0.9
RECENT_SHARE = 0.7
RECENT_MESSAGES = 6
RECENT_CHARS = 480
ASKED_TALK, SAID_TALK = 0.5, 0.8
_EVEN_WEIGHT = 0.5
_PAST: Mapping[Chain, float] = {Chain.NARRATIVE: 1.4, Chain.EVENT: 1.2, Chain.HISTORY: 1.2}


def lexical_terms(query: RetrievalQuery) -> dict[str, float]:
    """Return the terms to search for, with their weights.

    - A term of the query's text weighs 1 for each occurrence, and 1 more for each keyword that contains it.
    - A term of the newest message weighs 0.6. In each older message, the weight is nine tenths of the weight in the message
      after it.
    - All terms of recent messages together weigh at most 0.7 times as much as the other terms, because a long message would
      outweigh a short question.

    Measured on labelled data (words only, recall@5): dialogues that depend on their context gain from recent messages
    (kdconv: from 14 to 26 percent). LoCoMo questions amid unrelated conversation stay at 66 percent; without the limit they
    would fall to 32.
    """
    terms = term_weights(query.text)
    for keyword in query.keywords:
        for term in term_weights(keyword):
            terms[term] = terms.get(term, 0.0) + KEYWORD_WEIGHT
    add_recent_terms(terms, query.recent, term_weights)
    return terms


def add_recent_terms(
    terms: dict[str, float], recent: Sequence[str], read: Callable[[str], Mapping[str, float]]
) -> None:
    """Add the terms of the messages `recent` (oldest first) to `terms`, with the weights that `lexical_terms` describes.

    `read` returns the terms of a message with their counts.
    """
    recent_terms: dict[str, float] = {}
    weight = RECENT_WEIGHT
    for message in reversed(recent[-RECENT_MESSAGES:]):
        for term, count in read(message).items():
            recent_terms[term] = recent_terms.get(term, 0.0) + weight * count
        weight *= RECENT_DECAY
    share = min(1.0, RECENT_SHARE * sum(terms.values()) / sum(recent_terms.values())) if terms and recent_terms else 1.0
    for term, weighed in recent_terms.items():
        terms[term] = terms.get(term, 0.0) + share * weighed


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryFeatures:
    """Features of a query that are found without searching."""

    terms: int
    """Number of distinct words in the query's own text."""
    recent_share: float = 0.0
    """Share (0..1) of the recent messages in the total weight of all terms."""
    question: bool = False
    """Whether the query is a question."""
    time: bool = False
    """Whether the query asks when something happened."""


def find_query_features(query: RetrievalQuery, terms: Mapping[str, float]) -> QueryFeatures:
    """Return the features of a query. `terms` are its `lexical_terms`."""
    own = term_weights(query.text)
    whole = sum(terms.values())
    asked = sum(own.values()) + KEYWORD_WEIGHT * sum(len(term_weights(keyword)) for keyword in query.keywords)
    text = query.text.strip()
    return QueryFeatures(
        terms=len(own),
        recent_share=max(1.0 - asked / whole, 0.0) if query.recent and whole > 0.0 else 0.0,
        question=is_question(text),
        time=_TIME.search(text) is not None,
    )


def vector_texts(query: RetrievalQuery) -> dict[str, float]:
    """Return the texts to embed for a query, with the weights with which their vectors are added up.

    The query's text weighs 1. If the text is not self-contained, the recent messages (`recent_text`) are added, with
    a weight of 0.8, or 0.5 if the text is a question. With the messages, recall finds more in dialogues (recall@5 on the
    dialogues of madial_en: 60 against 54 percent), but less for a question amid unrelated conversation (LoCoMo: 73.5
    against 75.1). The recent messages are embedded separately, so that their vector can be computed before the text
    exists.
    """
    text = query.text.strip()
    if not text:
        return {}
    recent_terms = recent_text(query.recent)
    if not recent_terms or is_self_contained(query):
        return {text: 1.0}
    return {recent_terms: ASKED_TALK if is_question(text) else SAID_TALK, text: 1.0}


def recent_text(recent: Sequence[str]) -> str:
    """Join the last `RECENT_MESSAGES` of `recent` (oldest first) to one text for embedding, and return its last
    `RECENT_CHARS` characters.
    """
    said = [message.strip() for message in recent[-RECENT_MESSAGES:]]
    return "\n".join(message for message in said if message)[-RECENT_CHARS:]


def is_self_contained(query: RetrievalQuery) -> bool:
    """Return whether `query` is a question that can be understood by itself.

    Such a question contains a name or a keyword, and before it no word that refers to the conversation (`he`, `there`, `那个`).
    """
    text = query.text.strip()
    if not is_question(text):
        return False
    places = [place for keyword in query.keywords if (place := text.find(keyword)) >= 0]
    if name := _NAME.search(text):
        places.append(name.start())
    leaning = _LEANING.search(text)
    return bool(places) and (leaning is None or min(places) < leaning.start())


def is_question(text: str) -> bool:
    """Return whether a text asks something, judged by its end or its words."""
    return text.endswith(("?", "？", "吗", "呢")) or _QUESTION.search(text) is not None


def chain_weights(query: RetrievalQuery) -> dict[Chain, float]:
    """Return the weight of each chain (kind of memory) that recall reads: 1 for the heaviest chain, 0 for a chain that is
    left out.

    The weights come from `query.weights`. Their square root is taken, because they are guesses from a few words. A chain
    without a weight gets a medium one. If the input is about the past, history and event entries weigh a fifth more and
    narratives two fifths more.
    """
    given = {chain: max(query.weights.get(chain, _EVEN_WEIGHT), 0.0) for chain in RECALLED}
    heaviest = max(given.values())
    if heaviest <= 0.0:
        return dict.fromkeys(RECALLED, 0.0)
    raised = _PAST if query.temporal == "past" else {}
    return {chain: (weight / heaviest) ** 0.5 * raised.get(chain, 1.0) for chain, weight in given.items()}


_QUESTION = re.compile(
    r"^(who|whom|whose|what|which|when|where|why|how|did|do|does|is|are|was|were|can|could|would|will|has|have|had|in what"
    r"|for what|summari[sz]e)\b|什么|哪[里儿个些位年天]|怎么|为何|多少|是不是|有没有",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z][a-z]+")
"""A capitalised word within a sentence."""
_LEANING = re.compile(
    r"\b(he|she|it|they|him|her|his|hers|its|them|their|theirs|this|that|these|those|there|then|one|ones|again|else|other"
    r"|another|too|instead)\b|[他她它这那此该]|其[中他它]|还有|上面|刚才",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"\b(when|what (date|day|month|year|time)|how (long|often|recently)|which (day|month|year))\b"
    r"|什么时候|什么时间|哪[天年月]|何时|多久|几[点号月]",
    re.IGNORECASE,
)
RECALLED = (Chain.LORE, Chain.NARRATIVE, Chain.EVENT, Chain.HISTORY)
"""Chains that recall reads in a session."""
