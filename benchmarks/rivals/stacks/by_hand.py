"""Code that a user writes in an afternoon: rank-bm25 and numpy joined by reciprocal ranks; and only vector search.

The second is the method of plain memory layers for each fact: cosine over everything, the best few into the prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rank_bm25 import BM25Okapi

from benchmarks.rivals.stacks.stack import (
    INSTRUCTION,
    Lines,
    Model,
    Turn,
    TurnRequest,
    format_document,
    split_words,
)
from evals.running.plain_rrf import score_reciprocal_ranks
from mnemosyne.formats.corpora.corpus import CorpusDocument


class PlainVector:
    """Cosine over all vectors, best first."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._names: list[str] = []
        self._lines = Lines((), ())

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Embed everything in one call."""
        self._names = [each.document_id for each in documents]
        self._lines = Lines(documents, talk)
        self._vectors = self._model.documents([format_document(each) for each in documents])

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        return tuple(self._rank_nearest(query, limit))

    async def turn(self, ask: TurnRequest) -> Turn:
        """Return the prompt: instruction, memories, talk, input."""
        ranked = self._lines.drop_shown(await self.recall(ask.query, ask.depth))
        evidence = self._lines.within(ranked, ask.limit, ask.tokens)
        memories = "\n".join(self._lines[name] for name, _ in evidence)
        system = f"{INSTRUCTION}\n\nMemories:\n{memories}"
        messages = (("system", system), *self._lines.roles, ("user", ask.query))
        return Turn(ranked=ranked, evidence=evidence, messages=messages)

    async def commit(self, query: str, reply: str) -> None:
        """Embed both messages and append them."""
        self._append(self._lines.add_turn(query, reply))

    async def settle(self) -> None:
        """Do nothing: `commit` does it all."""

    async def discard(self) -> None:
        """Nothing is kept of a turn that is not committed."""

    async def close(self) -> None:
        """Do nothing: arrays need no closing."""

    def _append(self, said: Sequence[CorpusDocument]) -> None:
        rows = self._model.documents([format_document(each) for each in said])
        self._names.extend(each.document_id for each in said)
        self._vectors = np.concatenate([self._vectors, rows])

    def _rank_nearest(self, query: str, limit: int) -> list[str]:
        return self._rank_best(self._vectors @ self._model.query(query), limit)

    def _rank_best(self, scores: np.ndarray, limit: int) -> list[str]:
        count = min(limit, len(scores))
        best = np.argpartition(-scores, count - 1)[:count]
        return [self._names[place] for place in best[np.argsort(-scores[best])]]


class ByHand(PlainVector):
    """BM25 of rank-bm25 with the vectors, joined by reciprocal rank fusion."""

    async def index(self, documents: Sequence[CorpusDocument], talk: Sequence[CorpusDocument]) -> None:
        """Embed everything and count its words."""
        await super().index(documents, talk)
        self._words = [split_words(format_document(each)) for each in documents]
        self._bm25 = BM25Okapi(self._words)

    async def recall(self, query: str, limit: int) -> tuple[str, ...]:
        """Return ids, best first."""
        lexical = self._rank_best(np.asarray(self._bm25.get_scores(split_words(query))), limit)
        return tuple(score_reciprocal_ranks([lexical, self._rank_nearest(query, limit)]))[:limit]

    def _append(self, said: Sequence[CorpusDocument]) -> None:
        super()._append(said)
        self._words.extend(split_words(format_document(each)) for each in said)
        # All words are counted anew: rank-bm25 cannot add.
        self._bm25 = BM25Okapi(self._words)
