"""The retriever `sample`: recalls the newest messages of a session."""

from __future__ import annotations

from mnemosyne import Candidate, Chain, Embedder, Recall, RetrievalQuery, Signals
from mnemosyne.protocols import EntrySource
from mnemosyne.schema.memory import session_scope


class NewestRetriever:
    """A retriever for evaluations that does not read the query."""

    def __init__(self, argument: str, *, source: EntrySource, embedder: Embedder | None) -> None:
        self._source = source

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the newest messages, the newest first."""
        page = await self._source.entries_after(session_scope(query.session_id or ""), Chain.HISTORY, 0, 1_000)
        return Recall(
            candidates=tuple(
                Candidate(
                    entry_id=each.entry.entry_id,
                    scope=each.entry.scope,
                    chain=each.entry.chain,
                    kind=each.entry.kind,
                    title=each.entry.title,
                    preview=each.entry.text,
                    score=float(each.sequence),
                    signals=Signals(),
                )
                for each in page[: -query.limit - 1 : -1]
            )
        )
