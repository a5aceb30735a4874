"""Reference retriever: BM25 of the package rank-bm25 over the texts of a session, without anything else of ours.

It ranks by the query only (k1 1.5, b 0.75), over whole texts with their speakers. The words are those of our own word search
(English stems, Chinese pairs of characters), so that a difference is not one of word separation.
"""

from __future__ import annotations

from anyio import to_thread

from evals.errors import SetupError
from mnemosyne import (
    Candidate,
    Chain,
    Embedder,
    MemoryEntry,
    Recall,
    RetrievalQuery,
    Signals,
)
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.protocols import EntrySource
from mnemosyne.retrieval.text.words import word_tokens
from mnemosyne.schema.memory import session_scope

try:
    from rank_bm25 import BM25Okapi
except ImportError as error:
    raise SetupError(explain_missing_package("`--retriever rank-bm25`", "rank-bm25", "evals", error)) from error

_PAGE = 1_000
_PREVIEW_CHARS = 400


class RankBm25Retriever:
    """A `Retriever` that reads a session when it is first asked, and ranks all of its entries by BM25Okapi."""

    def __init__(self, argument: str, *, source: EntrySource, embedder: Embedder | None) -> None:
        self._source = source
        self._entries: list[MemoryEntry] = []
        self._index: BM25Okapi | None = None

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the entries that share a word with the query, best first; equal ones in the order of writing."""
        scope = session_scope(query.session_id or "")
        if self._index is None:
            await self._read(scope)
        scores = await to_thread.run_sync(self._score, query.text)
        banned = query.excluded_ids(scope)
        found: list[Candidate] = []
        for place in sorted(range(len(scores)), key=lambda each: -scores[each]):
            entry = self._entries[place]
            if len(found) == query.limit or scores[place] == 0:
                break
            if entry.entry_id not in banned and query.admits(entry):
                found.append(_build_candidate(entry, scores[place]))
        return Recall(candidates=tuple(found), queries=(query.text,))

    async def _read(self, scope: str) -> None:
        for chain in Chain:
            after = 0
            while page := await self._source.entries_after(scope, chain, after, _PAGE):
                self._entries += [each.entry for each in page if not each.deleted]
                after = page[-1].sequence
        texts = [word_tokens(f"{each.speaker}: {each.text}" if each.speaker else each.text) for each in self._entries]
        if texts:
            self._index = await to_thread.run_sync(BM25Okapi, texts)

    def _score(self, text: str) -> list[float]:
        if self._index is None:
            return []
        return [float(each) for each in self._index.get_scores(word_tokens(text))]


def _build_candidate(entry: MemoryEntry, score: float) -> Candidate:
    return Candidate(
        entry_id=entry.entry_id,
        scope=entry.scope,
        chain=entry.chain,
        kind=entry.kind,
        title=entry.title,
        preview=entry.text[:_PREVIEW_CHARS],
        score=score,
        signals=Signals(fts=score),
        depth=entry.depth,
        turn_id=entry.turn_id,
        trust=entry.trust,
        keys=entry.keys,
    )
