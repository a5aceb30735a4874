"""Records recalls and selections as tracing spans (timed steps), even if they take longer than their turn.

Recall (finding candidates) and selection are the steps of Stream B, which finds memories for a turn. The wrappers here
keep tracing out of Stream B itself. This module must not import a concrete retriever or selector.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

from jacquard.adapters.observe import names
from jacquard.adapters.observe.spans import Fact, Tracing
from jacquard.core.protocols import Selection, SelectionContext, SelectionRequest, Selector
from mnemosyne.protocols import EntrySource, Retriever, overlay_of
from mnemosyne.schema.query import Recall, RetrievalQuery


class TracedRetriever:
    """Wraps a retriever and records each recall as a span `jacquard.recall`."""

    def __init__(self, retriever: Retriever, tracing: Tracing) -> None:
        self._retriever, self._tracing = retriever, tracing

    @property
    def traced(self) -> Retriever:
        """The wrapped retriever."""
        return self._retriever

    async def recall(self, query: RetrievalQuery) -> Recall:
        """Return the candidates for one query, and record the recall as a span."""
        facts: dict[str, Fact] = {names.OPERATION: "retrieval", names.TOP_K: query.limit}
        with self._tracing.span("jacquard.recall", facts) as span:
            recall = await self._retriever.recall(query)
            span.put(
                {
                    "jacquard.recall.candidates": len(recall.candidates),
                    "jacquard.recall.degradations": list(recall.degradations),
                }
            )
            return recall

    @asynccontextmanager
    async def overlay(
        self, source: EntrySource, own_scopes: Callable[[], Collection[str]]
    ) -> AsyncIterator[TracedRetriever]:
        """Yield the retriever's overlay, wrapped in the same way; see `OverlaidRetriever`."""
        async with overlay_of(self._retriever, source, own_scopes) as retriever:
            yield TracedRetriever(retriever, self._tracing)


class TracedSelector:
    """Wraps a selector and records each selection as a span `jacquard.select`. The span of the selector's model call is
    a child of this span.
    """

    def __init__(self, selector: Selector, tracing: Tracing) -> None:
        self.name = selector.name
        self._selector, self._tracing = selector, tracing

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the selection, and record it as a span. Raises SelectorError if the selector raises it."""
        facts: dict[str, Fact] = {
            "jacquard.select.selector": self.name,
            "jacquard.select.candidates": len(request.candidates),
        }
        with self._tracing.span("jacquard.select", facts) as span:
            selection = await self._selector.select(request, context)
            span.put({"jacquard.select.chosen": len(selection.entry_ids)})
            return selection
