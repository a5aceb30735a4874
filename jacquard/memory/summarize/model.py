"""Summarizes with a small model (seed 002 section 6.9). One call for each batch, never repeated; it must not import a
model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from jacquard.adapters.prompts.templates import warm_prompts
from jacquard.core.errors import ModelError, SummarizerError
from jacquard.core.model_calls import Call
from jacquard.core.protocols import LlmAdapter, LlmRequest, SummaryRequest, SummaryText
from jacquard.memory.summarize.prompts import read_summary, summary_prompt


class ModelSummarizer:
    """Writes a new summary from the previous one and the conversation since."""

    name = "model"

    def __init__(self, llm: LlmAdapter, count: Callable[[str], int], timeout_seconds: float = 60.0) -> None:
        self._llm, self._count, self._timeout_seconds = llm, count, timeout_seconds

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the new summary with the cost of the call.

        Raises SummarizerError when the model cannot be called or its answer cannot be used.
        """
        await warm_prompts()
        asked = LlmRequest(
            messages=summary_prompt(request),
            max_tokens=int(request.limit_tokens * 1.5) + 64,
            timeout_seconds=self._timeout_seconds,
        )
        prompt = "\n".join(text for _, text in asked.messages)
        try:
            reply = await self._llm.generate(asked)
        except ModelError as error:
            spent = Call(model=self._llm.model, prompt=prompt)
            raise SummarizerError(f"The model could not be asked for a summary: {error}.", spent) from error
        told = SummaryText(
            content=reply.content,
            model=reply.model,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            prompt=prompt,
        )
        try:
            return replace(told, content=read_summary(reply.content, request, self._count))
        except SummarizerError as error:
            raise SummarizerError(str(error), told.call(reply.content)) from error
