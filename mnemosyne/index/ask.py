"""What is searched for: the words and the texts to embed that one recall is made of. Calculation only."""

from __future__ import annotations

from collections.abc import Mapping

from mnemosyne.index.lexical import term_weights
from mnemosyne.query import RetrievalQuery
from mnemosyne.schema.memory import Chain

KEYWORD_WEIGHT = 1.0
RECENT_WEIGHT = 0.6
RECENT_DECAY = 0.9
RECENT_SHARE = 0.7
RECENT_MESSAGES = 6
RECENT_CHARS = 480
_EVEN_WEIGHT = 0.5
_PAST: Mapping[Chain, float] = {Chain.NARRATIVE: 1.4, Chain.EVENT: 1.2, Chain.HISTORY: 1.2}


def lexical_terms(query: RetrievalQuery) -> dict[str, float]:
    """Return the terms to search for with their weights: the text's 1 each time, keywords 1 more, recent talk less.

    Recent talk counts 0.6 for the newest message and a tenth less for each before it, but all of it together at most 0.7 of what
    the text does: long messages would drown a short question. (Labelled data, words alone, recall@5: dialogues that lean
    on their talk keep what it gives, kdconv 14 to 26 percent; LoCoMo questions asked amid unrelated talk stay at 66,
    where unbounded talk takes them to 32.)
    """
    terms = term_weights(query.text)
    for keyword in query.keywords:
        for term in term_weights(keyword):
            terms[term] = terms.get(term, 0.0) + KEYWORD_WEIGHT
    talk: dict[str, float] = {}
    weight = RECENT_WEIGHT
    for message in reversed(query.recent[-RECENT_MESSAGES:]):
        for term, count in term_weights(message).items():
            talk[term] = talk.get(term, 0.0) + weight * count
        weight *= RECENT_DECAY
    share = min(1.0, RECENT_SHARE * sum(terms.values()) / sum(talk.values())) if terms and talk else 1.0
    for term, count in talk.items():
        terms[term] = terms.get(term, 0.0) + share * count
    return terms


def vector_texts(query: RetrievalQuery) -> tuple[str, ...]:
    """Return the texts whose vectors are added up: the text alone, and the text after the recent talk.

    The sum finds more than either (recall@5 on the dialogues of madial_en: 59 against 52 and 55 percent). Of the talk
    only the newest RECENT_CHARS characters are taken, so that the model never cuts off the text itself.
    """
    text = query.text.strip()
    if not text:
        return ()
    recent = [message.strip() for message in query.recent[-RECENT_MESSAGES:] if message.strip()]
    if not recent:
        return (text,)
    talk = "\n".join(recent)[-RECENT_CHARS:]
    return (text, f"{talk}\n{text}")


def chain_weights(query: RetrievalQuery) -> dict[Chain, float]:
    """Return how much the plan's domain weights make of each chain: 1 for the heaviest, 0 for those that are left out.

    The square root softens the plan's opinion, which comes from a few words. Chains that the plan does not weigh count as
    one of middle weight. When the input speaks of the past, what was lived counts a fifth more, its telling two fifths.
    """
    given = {chain: max(query.weights.get(chain, _EVEN_WEIGHT), 0.0) for chain in RECALLED}
    heaviest = max(given.values())
    if heaviest <= 0.0:
        return dict.fromkeys(RECALLED, 0.0)
    raised = _PAST if query.temporal == "past" else {}
    return {chain: (weight / heaviest) ** 0.5 * raised.get(chain, 1.0) for chain, weight in given.items()}


RECALLED = (Chain.LORE, Chain.NARRATIVE, Chain.EVENT, Chain.HISTORY)
