"""Calls a model by its litellm name (`ollama/llama3.1`, `anthropic/claude-sonnet-4-5`), and answers like the OpenAI chat API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any

from jacquard.adapters.models.litellm_adapter import LiteLlmModel, ProviderError
from jacquard.service.proxy.replies.events import DONE
from jacquard.service.proxy.requests.headers import Headers
from jacquard.service.proxy.upstreams.protocol import UpstreamAnswer, UpstreamCall, UpstreamError

JSON_HEADERS: Headers = [("content-type", "application/json")]
EVENT_HEADERS: Headers = [("content-type", "text/event-stream; charset=utf-8")]

PARAMETERS = frozenset(
    [
        "messages",
        "stream",
        "stream_options",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "n",
        "stop",
        "max_tokens",
        "max_completion_tokens",
        "presence_penalty",
        "frequency_penalty",
        "repetition_penalty",
        "logit_bias",
        "user",
        "seed",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "functions",
        "function_call",
        "response_format",
        "logprobs",
        "top_logprobs",
        "modalities",
        "prediction",
        "audio",
        "reasoning_effort",
        "verbosity",
        "thinking",
        "service_tier",
    ]
)
"""Parameters of a call that are passed to litellm. Other parameters are dropped, because they could make litellm send
the service's key to another server.
"""


class NamedModelUpstream:
    """`Upstream` that calls a model through litellm. It answers only `/chat/completions` and `/models`.

    Parameters that are not in PARAMETERS are dropped.
    """

    def __init__(self, model: str) -> None:
        self._name, self._model = model, LiteLlmModel(model)

    @asynccontextmanager
    async def call(self, call: UpstreamCall) -> AsyncIterator[UpstreamAnswer]:
        """Make a call; see `Upstream.call`."""
        if call.path.startswith("/models"):
            listed = [{"id": self._name, "object": "model", "created": 0, "owned_by": "litellm"}]
            yield _WholeAnswer(200, JSON_HEADERS, json.dumps({"object": "list", "data": listed}))
            return
        arguments = _arguments_of(call.body) if call.path == "/chat/completions" else None
        if arguments is None:
            sentence = f"A model of litellm answers /chat/completions and /models alone, not {call.path}."
            yield _fault(404 if call.path != "/chat/completions" else 400, sentence)
            return
        async with aclosing(self._model.complete_chat(arguments, _key_of(call.headers))) as parts:
            try:
                first = await anext(parts, "{}")
            except ProviderError as error:
                yield _fault(error.status, error.detail, error.headers)
                return
            if arguments.get("stream"):
                yield _StreamedAnswer(first, parts)
            else:
                yield _WholeAnswer(200, JSON_HEADERS, first)

    async def check(self) -> None:
        """Load litellm and check the model's name. Raises UpstreamError if litellm knows no provider for it."""
        if not await self._model.has_provider():
            raise UpstreamError(
                "LiteLLM knows no provider of this name: write PROVIDER/MODEL (ollama/llama3.1), or the address of a server "
                "(http://127.0.0.1:5001/v1); see service.upstream."
            )

    async def close(self) -> None:
        """Close all connections."""
        await self._model.close()


class _WholeAnswer:
    """Complete answer."""

    def __init__(self, status: int, headers: Headers, body: str) -> None:
        self.status, self.headers, self._body = status, headers, body

    async def parts(self) -> AsyncIterator[bytes]:
        yield self._body.encode("utf-8", "surrogatepass")


class _StreamedAnswer:
    """Answer as a stream of events, whose first chunk has been read."""

    status, headers = 200, EVENT_HEADERS

    def __init__(self, first: str, rest: AsyncIterator[str]) -> None:
        self._first, self._rest = first, rest

    async def parts(self) -> AsyncIterator[bytes]:
        yield _event(self._first)
        try:
            async for chunk in self._rest:
                yield _event(chunk)
        except ProviderError as error:
            raise UpstreamError(error.detail) from None
        yield _event(DONE)


def _event(data: str) -> bytes:
    return f"data: {data}\n\n".encode("utf-8", "surrogatepass")


def _arguments_of(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("messages"), list):
        return None
    return {name: each for name, each in value.items() if name in PARAMETERS}


def _key_of(headers: Headers) -> str | None:
    told = next((value for name, value in headers if name == "authorization"), "")
    kind, _, key = told.partition(" ")
    return key.strip() or None if kind.lower() == "bearer" else None


def _fault(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> _WholeAnswer:
    error = {"message": sentence, "type": "upstream_error", "code": None, "param": None}
    return _WholeAnswer(
        status, [*JSON_HEADERS, *(headers or {}).items()], json.dumps({"error": error}, ensure_ascii=False)
    )
