"""Summing up with a small model (seed 002 section 6.9). One call a batch, never repeated; it must not import a model."""

from __future__ import annotations

from collections.abc import Callable

from jacquard.errors import ModelError, SummarizerError
from jacquard.protocols import LlmAdapter, LlmRequest, SummaryRequest, SummaryText
from jacquard.summarize.wording import read_summary, summary_prompt


class ModelSummarizer:
    """Writes a summary anew from the one before and the talk that came since."""

    name = "model"

    def __init__(self, llm: LlmAdapter, count: Callable[[str], int], timeout_seconds: float = 60.0) -> None:
        self._llm, self._count, self._timeout_seconds = llm, count, timeout_seconds

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the new summary with what the call cost; SummarizerError where there is none to be had."""
        asked = LlmRequest(
            messages=summary_prompt(request),
            max_tokens=int(request.limit_tokens * 1.5) + 64,
            timeout_seconds=self._timeout_seconds,
        )
        try:
            reply = await self._llm.generate(asked)
        except ModelError as error:
            raise SummarizerError(f"The model could not be asked for a summary: {error}.") from error
        return SummaryText(
            content=read_summary(reply.content, request, self._count),
            model=reply.model,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            prompt="\n".join(text for _, text in asked.messages),
        )
