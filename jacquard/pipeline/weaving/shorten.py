"""Shortens texts that are too long for a prompt with the model that summarizes conversations.

Results are cached, because the same message is shortened in many turns. This module must not import a model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from jacquard.core.errors import SummarizerError
from jacquard.core.model_calls import Call
from jacquard.core.protocols import ConversationTurn, Shortener, Summarizer, SummaryRequest

KEPT_TEXTS = 512
Note = Callable[[Call, str], None]


class SummarizingShortener:
    """Shortens one text with a summarizer."""

    name = "summarizer"

    def __init__(self, summarizer: Summarizer, *, locale: str = "") -> None:
        self._summarizer, self._locale = summarizer, locale
        self._kept: OrderedDict[tuple[str, int], str] = OrderedDict()

    def with_note(self, note: Note) -> Shortener:
        """Return a shortener that calls `note(call, error)` for every model call; `error` is '' if the call succeeded."""
        return _NotingShortener(self, note)

    async def shorten(self, text: str, limit_tokens: int) -> str:
        """Return `text` in fewer words, at most `limit_tokens` tokens.

        Raises SummarizerError if the limit is too small or the summarizer fails.
        """
        return await self.shorten_with_note(text, limit_tokens, _ignore_call)

    async def shorten_with_note(self, text: str, limit_tokens: int, note: Note) -> str:
        """Return the result of `shorten`, and call `note(call, error)` for every model call; `error` is '' if the call
        succeeded.

        Raises SummarizerError if the limit is too small or the summarizer fails.
        """
        if limit_tokens < 1:
            raise SummarizerError(f"The summary does not fit: {max(limit_tokens, 0)} tokens are left for it.")
        key = (text, limit_tokens)
        if key not in self._kept:
            turns = (ConversationTurn(turn_id="text", depth=1, lines=(("text", text),)),)
            request = SummaryRequest(turns=turns, previous="", limit_tokens=limit_tokens, locale=self._locale)
            try:
                summary = await self._summarizer.summarize(request)
            except SummarizerError as error:
                for call in error.calls:
                    note(call, str(error))
                raise
            for call in summary.unused_calls:
                note(call, "The answer could not be used; the model was asked again.")
            if summary.model is not None:
                note(summary.call(), "")
            if summary.dropped_lines:
                raise SummarizerError(f"The model could not shorten it to {limit_tokens} tokens.")
            self._kept[key] = summary.content.strip()
            if len(self._kept) > KEPT_TEXTS:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


class _NotingShortener:
    def __init__(self, shortener: SummarizingShortener, note: Note) -> None:
        self.name = shortener.name
        self._shortener, self._note = shortener, note

    async def shorten(self, text: str, limit_tokens: int) -> str:
        return await self._shortener.shorten_with_note(text, limit_tokens, self._note)


def _ignore_call(call: Call, error: str) -> None:
    return None
