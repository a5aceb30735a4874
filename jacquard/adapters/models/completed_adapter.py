"""Completes a host's object that has only `generate()` to a full `LlmAdapter` (interface to a language model)."""

from __future__ import annotations

from typing import Any

import anyio

from jacquard.core.errors import ConfigError, ModelError
from jacquard.core.protocols import LlmAdapter, LlmRequest, LlmResponse

UNNAMED = "unnamed"
_PARTS = ("model", "warm", "generate", "close")


def complete_adapter(adapter: Any) -> LlmAdapter:
    """Return an adapter that has every part of `LlmAdapter`. A complete adapter is returned unchanged.

    A missing `model` becomes `unnamed`. A missing `warm` or `close` does nothing. Raises ConfigError if the object has
    no `generate`.
    """
    if all(hasattr(adapter, part) for part in _PARTS):
        whole: LlmAdapter = adapter
        return whole
    if not callable(getattr(adapter, "generate", None)):
        raise ConfigError(
            f"llm_adapter is {type(adapter).__name__}, which has no `generate`; give an object with "
            "`async def generate(self, request: LlmRequest) -> LlmResponse`."
        )
    return CompletedAdapter(adapter)


class CompletedAdapter:
    """Calls a host's adapter with the time limit that `LlmAdapter` requires, and turns all its errors into ModelError."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter
        self.model = str(getattr(adapter, "model", "") or UNNAMED)

    async def warm(self) -> None:
        """Call the adapter's `warm`, if it has one. Raises ModelError if the adapter raises it."""
        if callable(getattr(self._adapter, "warm", None)):
            await self._adapter.warm()

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion. The host's adapter may return just a text.

        Raises ModelError if the adapter raises any error, answers without a text, or exceeds the timeout of the
        request.
        """
        try:
            with anyio.fail_after(request.timeout_seconds):
                answer = await self._adapter.generate(request)
        except ModelError:
            raise
        except TimeoutError as error:
            raise ModelError("timeout", f"{self.model} gave no answer within {request.timeout_seconds:g} s") from error
        except Exception as error:
            raise ModelError("unavailable", f"{self.model}: {type(error).__name__}: {error}") from error
        return self._read_answer(answer)

    def _read_answer(self, answer: Any) -> LlmResponse:
        if isinstance(answer, LlmResponse):
            return answer
        content = answer if isinstance(answer, str) else getattr(answer, "content", None)
        if not isinstance(content, str):
            raise ModelError("bad_answer", f"{self.model} answered {type(answer).__name__} without a text in `content`")
        return LlmResponse(
            content=content,
            model=str(getattr(answer, "model", "") or self.model),
            prompt_tokens=_count(answer, "prompt_tokens"),
            completion_tokens=_count(answer, "completion_tokens"),
            total_tokens=_count(answer, "total_tokens"),
            latency_ms=_count(answer, "latency_ms"),
            finish_reason=getattr(answer, "finish_reason", None),
        )

    async def close(self) -> None:
        """Call the adapter's `close`, if it has one."""
        if callable(getattr(self._adapter, "close", None)):
            await self._adapter.close()


def _count(answer: Any, name: str) -> int | None:
    """Return a number of an answer; 0 means that it was not reported."""
    value = getattr(answer, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
