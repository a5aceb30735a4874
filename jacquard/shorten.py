"""A summarizer as a shortener: what a pruner degraded is told in fewer words by the model that sums up (seed 002 section 8.2).

It must not import a model. What was shortened once is kept, since a block of talk is degraded again turn after turn.
"""

from __future__ import annotations

from collections import OrderedDict

from jacquard.errors import SummarizerError
from jacquard.protocols import Summarizer, SummaryRequest, TalkTurn

KEPT_TEXTS = 512


class SummarizingShortener:
    """Has a summarizer tell one text in fewer words."""

    name = "summarizer"

    def __init__(self, summarizer: Summarizer, *, locale: str = "") -> None:
        self._summarizer, self._locale = summarizer, locale
        self._kept: OrderedDict[tuple[str, int], str] = OrderedDict()

    async def shorten(self, text: str, limit_tokens: int) -> str:
        """Return the text in fewer words; SummarizerError when there is no room, or the summarizer has none."""
        if limit_tokens < 1:
            raise SummarizerError(f"There is no room for a summary: {limit_tokens} tokens.")
        key = (text, limit_tokens)
        if key not in self._kept:
            talk = (TalkTurn(turn_id="text", depth=1, lines=(("text", text),)),)
            told = await self._summarizer.summarize(
                SummaryRequest(talk=talk, previous="", limit_tokens=limit_tokens, locale=self._locale)
            )
            self._kept[key] = told.content.strip()
            if len(self._kept) > KEPT_TEXTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]
