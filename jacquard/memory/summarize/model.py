"""Summarizes with a small model; calls it again if the answer is too long, cut off, or lost too much.

It must not import a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jacquard.adapters.prompts.templates import warm_prompts
from jacquard.core.errors import ModelError, SummarizerError
from jacquard.core.model_calls import Call
from jacquard.core.protocols import LlmAdapter, LlmRequest, LlmResponse, SummaryRequest, SummaryText
from jacquard.memory.summarize.prompts import (
    ANSWER_CHARS,
    clean_answer,
    is_too_long,
    read_summary,
    shorten_summary,
    summary_prompt,
)

_CUT_OFF = frozenset({"length", "max_tokens"})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """One answer: its text, which may become the summary unless there is a `fault`."""

    text: str
    call: Call
    fault: str = ""


class ModelSummarizer:
    """Writes a new summary from the previous one and the conversation since."""

    name = "model"

    def __init__(self, llm: LlmAdapter, count: Callable[[str], int], timeout_seconds: float = 60.0) -> None:
        self._llm, self._count, self._timeout_seconds = llm, count, timeout_seconds

    async def summarize(self, request: SummaryRequest) -> SummaryText:
        """Return the new summary with the cost of its calls; if it is still too long, it loses its oldest sentences.

        Raises SummarizerError if the model cannot be called or its answer cannot be used.
        """
        await warm_prompts()
        answer = await self._ask(request)
        unused: tuple[Call, ...] = ()
        if answer.text and (answer.fault or is_too_long(answer.text, request.limit_tokens, self._count)):
            answer, unused = await self._ask_again(request, answer)
        if answer.fault:
            raise SummarizerError(answer.fault, *unused, answer.call)
        content, dropped = shorten_summary(answer.text, request.limit_tokens, self._count)
        return SummaryText(
            content=content,
            model=answer.call.model,
            prompt_tokens=answer.call.prompt_tokens,
            completion_tokens=answer.call.completion_tokens,
            prompt=answer.call.prompt,
            dropped_lines=dropped,
            unused_calls=unused,
        )

    async def _ask_again(self, request: SummaryRequest, first: _Answer) -> tuple[_Answer, tuple[Call, ...]]:
        """Return the better of two answers, and the call of the other."""
        try:
            second = await self._ask(request, refused=first.text)
        except SummarizerError as error:
            if first.fault:
                raise SummarizerError(str(error), first.call, *error.calls) from error
            return first, error.calls
        if second.fault and not first.fault:
            return first, (second.call,)
        return second, (first.call,)

    async def _ask(self, request: SummaryRequest, refused: str = "") -> _Answer:
        asked = LlmRequest(
            messages=summary_prompt(request, refused),
            # Twice the limit, so that an answer that is somewhat too long arrives complete and its oldest part can be cut.
            max_tokens=request.limit_tokens * 2 + 256,
            timeout_seconds=self._timeout_seconds,
        )
        prompt = "\n".join(text for _, text in asked.messages)
        try:
            reply = await self._llm.generate(asked)
        except ModelError as error:
            spent = Call(model=self._llm.model, prompt=prompt)
            raise SummarizerError(f"The model could not be called for a summary: {error}.", spent) from error
        return self._read_answer(reply, prompt, request)

    def _read_answer(self, reply: LlmResponse, prompt: str, request: SummaryRequest) -> _Answer:
        call = Call(
            model=reply.model,
            prompt=prompt,
            answer=reply.content,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
        )
        text = clean_answer(reply.content)
        if text and (reply.finish_reason in _CUT_OFF or len(reply.content) > ANSWER_CHARS):
            fault = "The model's summary was cut off before its end, where the newest talk is told; the old one stays."
            return _Answer(text=text, call=call, fault=fault)
        try:
            return _Answer(text=read_summary(reply.content, request, self._count), call=call)
        except SummarizerError as error:
            return _Answer(text=text, call=call, fault=str(error))
