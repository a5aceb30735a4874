"""Records the calls of small models as spans, by the GenAI conventions of OpenTelemetry.

Prompts and answers are recorded only on request.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from jacquard.adapters.observe import names
from jacquard.adapters.observe.spans import Fact, Tracing
from jacquard.core.protocols import LlmAdapter, LlmRequest, LlmResponse, MessagePart


class TracedModel:
    """Wraps a model and records each call as a span (timed step) `chat <model>`. If `capture_content` is true, the span
    contains the texts of the call.
    """

    def __init__(self, model: LlmAdapter, tracing: Tracing, capture_content: bool = False) -> None:
        self.model = model.model
        self._model, self._tracing, self._capture = model, tracing, capture_content

    async def warm(self) -> None:
        """Load slow parts of the model; no span is recorded. Raises ModelError if the model raises it."""
        await self._model.warm()

    async def close(self) -> None:
        """Close the model."""
        await self._model.close()

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion, and record the call as a span. Raises ModelError if the model raises it."""
        provider, _, _ = self.model.partition("/")
        facts: dict[str, Fact] = {
            names.OPERATION: "chat",
            names.REQUEST_MODEL: self.model,
            names.PROVIDER: provider if provider != self.model else "unknown",
            names.MAX_TOKENS: request.max_tokens,
            names.TEMPERATURE: request.temperature,
        }
        if self._capture:
            facts[names.INPUT_MESSAGES] = _messages(request.messages)
        with self._tracing.span(f"chat {self.model}", facts) as span:
            reply = await self._model.generate(request)
            told: dict[str, Fact] = {names.RESPONSE_MODEL: reply.model}
            if reply.prompt_tokens is not None:
                told[names.INPUT_TOKENS] = reply.prompt_tokens
            if reply.completion_tokens is not None:
                told[names.OUTPUT_TOKENS] = reply.completion_tokens
            if self._capture:
                told[names.OUTPUT_MESSAGES] = _messages([MessagePart("assistant", reply.content)])
            span.put(told)
            return reply


def _messages(messages: Sequence[MessagePart]) -> str:
    parts = [{"role": role, "parts": [{"type": "text", "content": content}]} for role, content in messages]
    return json.dumps(parts, ensure_ascii=False)
