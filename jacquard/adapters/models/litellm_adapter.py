"""Calls small models through LiteLLM. This module is imported only if a setting names a model.

LiteLLM takes seconds to load, blocks the event loop of its first call for another second, leaves logging tasks running
and caches clients by event loop (measured). Therefore LiteLLM runs on a thread with its own event loop. All models of
the process share this thread. The first use of a model starts the thread, and the close of the last model ends it. The
engine's event loop only awaits futures.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from jacquard.core.errors import ModelError
from jacquard.core.protocols import LlmRequest, LlmResponse, MessagePart
from mnemosyne.core.masking.addresses import mask_address, secrets_of, split_credentials
from mnemosyne.core.masking.call_logs import REPEATED, sending, watch_call_logs
from mnemosyne.core.masking.credentials import mask_credentials, remember_address, remember_secrets
from mnemosyne.core.masking.quotes import SentTexts
from mnemosyne.core.optional_packages import explain_missing_package, import_litellm

T = TypeVar("T")
REHEARSED = frozenset({"openai", "hosted_vllm", "anthropic", "gemini", "ollama", "mistral"})
"""Providers that respect `api_base`, so that a trial call can be made to a closed port."""

UNREACHED = frozenset(
    {"APIConnectionError", "ConnectError", "ReadError", "RemoteProtocolError", "ClientConnectorError"}
)
DETAIL_CHARS = 300


class _ModelThread:
    """The one thread on which litellm runs. `lease` and `release` may block: call them off the event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    def lease(self) -> asyncio.AbstractEventLoop:
        """Return the event loop; start it if necessary."""
        with self._lock:
            if self._loop is None:
                started = threading.Event()
                self._thread = threading.Thread(
                    target=self._serve, args=(started,), name="jacquard-models", daemon=True
                )
                self._thread.start()
                started.wait()
            self._leases += 1
            assert self._loop is not None
            return self._loop

    def release(self) -> None:
        """Return a lease; the last release closes litellm's clients and ends the thread."""
        with self._lock:
            self._leases -= 1
            if self._leases or self._loop is None or self._stop is None or self._thread is None:
                return
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
            self._loop = self._stop = self._thread = None

    def _serve(self, started: threading.Event) -> None:
        with asyncio.Runner() as runner:
            self._loop, self._stop = runner.get_loop(), asyncio.Event()
            runner.run(self._serve_until(self._stop, started))

    async def _serve_until(self, stop: asyncio.Event, started: threading.Event) -> None:
        started.set()
        await stop.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        litellm = _loaded.get("litellm")
        if litellm is not None:
            await litellm.close_litellm_async_clients()
            _forget_closed(litellm.in_memory_llm_clients_cache)


def _forget_closed(cache: Any) -> None:
    """Drop the clients of this loop; blocking ones belong to others (`embed_remote`) and keep their connections."""
    for key, client in list(cache.cache_dict.items()):
        close = getattr(client, "close", None)
        if close is None or inspect.iscoroutinefunction(close):
            cache.delete_cache(key)


_thread = _ModelThread()
_loaded: dict[str, Any] = {}


def _litellm() -> Any:
    """Import litellm; runs in the model thread only."""
    if "litellm" not in _loaded:
        _loaded["litellm"] = import_litellm()
    return _loaded["litellm"]


def _missing(error: ImportError) -> str:
    return explain_missing_package("This model", "litellm", "models", error)


def _schema_argument(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the argument that constrains an answer to a schema; models without schemas drop it (`drop_params`)."""
    if schema is None:
        return {}
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}}


class ProviderError(Exception):
    """A provider refused or failed a call.

    `status` is the HTTP status, and `detail` the provider's message without credentials. `headers` may contain
    `retry-after`.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.status, self.detail, self.headers = status, detail, dict(headers or {})
        super().__init__(detail)


class LiteLlmModel:
    """A model that LiteLLM can reach: `openai/gpt-4o-mini`, `gemini/…`, or any name with an `api_base` like OpenAI's.

    User and password in `api_base` are sent in a header. A call is never repeated, and it has its own time limit. The
    engine's event loop must be asyncio.

    Raises ModelError with one of these codes:

    - `timeout`: there was no answer in time.
    - `connection`: no server answered, or the connection broke.
    - `refused`: HTTP 4xx, so the key, the model name or the request is wrong.
    - `unavailable`: HTTP 429 or 5xx, litellm is missing, or the model was closed.
    - `bad_answer`: the response contains no completion.
    """

    def __init__(self, model: str, api_base: str | None = None, api_key: str | None = None) -> None:
        self.model = model
        self._address = api_base
        self._api_base, self._headers = split_credentials(api_base)
        self._api_key = api_key if api_key or not api_base else "no-key-needed"
        self._secrets = (api_key, *secrets_of(api_base or ""))
        remember_address(api_base)
        remember_secrets(api_key)
        watch_call_logs()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._calls: set[Future[Any]] = set()
        self._closed = False
        self._lock = anyio.Lock()

    async def warm(self) -> None:
        """Import litellm and make one trial call that reaches no server. Then the first real call is quick."""
        await self._run(self._rehearse())

    async def has_provider(self) -> bool:
        """Return whether litellm knows a provider for the model. Return True also if litellm is not installed."""
        return await self._run(self._find_provider())

    async def generate(self, request: LlmRequest) -> LlmResponse:
        """Return one completion. Raises ModelError with one of the codes that the class lists."""
        return await self._run(self._complete(request))

    async def complete_chat(
        self, arguments: Mapping[str, Any], api_key: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Yield the answer to a call of OpenAI's chat API. This is one JSON text; if `arguments` contains `stream`, one
        JSON text for each chunk.

        `arguments` may contain only parameters of that API, because litellm would read addresses and keys from its own
        parameters. Parameters that the model does not know are dropped. If the caller stops the iteration early, the
        call ends.

        Raises ProviderError with the provider's status if the provider refuses or fails the call. `api_key` is the key
        for this call (None: the model's own key).
        """
        given = {"drop_params": True, "max_retries": 0, "num_retries": 0, **arguments, "model": self.model}
        place = {**self._endpoint_arguments(), **({"api_key": api_key} if api_key else {})}
        with sending(str(message.get("content")) for message in arguments.get("messages", ())) as sent:
            reply = await self._run(self._open_chat({**given, **place}, sent, api_key))
            if not arguments.get("stream"):
                yield reply.model_dump_json(exclude_none=True)
                return
            chunks = aiter(reply)
            try:
                while (chunk := await self._run(self._next_chunk(chunks, sent, api_key))) is not None:
                    yield chunk.model_dump_json(exclude_none=True)
            finally:
                with anyio.CancelScope(shield=True), suppress(Exception):
                    await self._run(_close_stream(reply))

    async def _open_chat(self, arguments: Mapping[str, Any], sent: SentTexts, api_key: str | None) -> Any:
        try:
            return await _litellm().acompletion(**arguments)
        except ImportError as error:
            raise ProviderError(503, _missing(error)) from None
        except Exception as error:
            raise self._provider_error(error, sent, api_key) from None

    async def _next_chunk(self, chunks: Any, sent: SentTexts, api_key: str | None) -> Any:
        try:
            return await anext(chunks, None)
        except Exception as error:
            raise self._provider_error(error, sent, api_key) from None

    def _provider_error(self, error: Exception, sent: SentTexts, api_key: str | None) -> ProviderError:
        status = getattr(error, "status_code", None)
        received = getattr(getattr(error, "response", None), "headers", None) or {}
        headers = {name: str(received[name]) for name in ("retry-after",) if name in received}
        detail = mask_credentials(self._detail(error, sent), *([api_key] if api_key else ()))
        return ProviderError(status if isinstance(status, int) else 502, detail, headers)

    async def close(self) -> None:
        """End running calls and release the connections. Running and later calls raise ModelError with the code
        `unavailable`.
        """
        with anyio.CancelScope(shield=True):
            async with self._lock:
                self._closed = True
                for call in tuple(self._calls):
                    call.cancel()
                if self._loop is not None:
                    self._loop = None
                    await anyio.to_thread.run_sync(_thread.release)

    async def _lease(self) -> asyncio.AbstractEventLoop:
        """Take a lease on the model thread; must not be cancelled half way, or the lease would be lost."""
        leased: list[asyncio.AbstractEventLoop] = []
        with anyio.CancelScope(shield=True):
            leased.append(await anyio.to_thread.run_sync(_thread.lease))
        return leased[0]

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            async with self._lock:
                if self._closed:
                    raise ModelError("unavailable", f"the connection to {self.model} was closed")
                loop = self._loop = self._loop or await self._lease()
            future = asyncio.run_coroutine_threadsafe(work, loop)
        except BaseException:
            work.close()
            raise
        self._calls.add(future)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise ModelError("unavailable", f"the connection to {self.model} was closed") from None
            raise
        finally:
            self._calls.discard(future)

    async def _complete(self, request: LlmRequest) -> LlmResponse:
        with sending(content for _, content in request.messages) as sent:
            return await self._send(request, sent)

    async def _send(self, request: LlmRequest, sent: SentTexts) -> LlmResponse:
        try:
            litellm = _litellm()
            async with asyncio.timeout(request.timeout_seconds):
                reply = await litellm.acompletion(**self._arguments(request), **self._endpoint_arguments())
        except ImportError as error:
            raise ModelError("unavailable", _missing(error)) from None
        except TimeoutError:
            raise ModelError("timeout", f"{self.model} did not answer in {request.timeout_seconds:g} s") from None
        except Exception as error:  # litellm passes on any exception of its providers.
            raise ModelError(_code(error), self._detail(error, sent)) from None
        return self._response(reply)

    def _arguments(self, request: LlmRequest) -> dict[str, Any]:
        return {
            "model": self.model,
            "messages": [{"role": role, "content": content} for role, content in request.messages],
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "timeout": request.timeout_seconds,
            "max_retries": 0,
            "num_retries": 0,
            "drop_params": True,
            "stream": False,
            **_schema_argument(request.schema),
        }

    def _endpoint_arguments(self) -> dict[str, Any]:
        return {
            "api_base": self._api_base,
            "api_key": self._api_key,
            **({"extra_headers": self._headers} if self._headers else {}),
        }

    def _response(self, reply: Any) -> LlmResponse:
        choices = getattr(reply, "choices", None)
        choice = choices[0] if choices else None
        content = getattr(getattr(choice, "message", None), "content", None)
        if not isinstance(content, str):
            raise ModelError("bad_answer", f"{self.model} answered without any text")
        usage = getattr(reply, "usage", None)
        # If a provider reported nothing, litellm reports zeros; but every prompt costs something.
        asked = _count(usage, "prompt_tokens") or None
        answered = None if asked is None else _count(usage, "completion_tokens")
        ended = getattr(choice, "finish_reason", None)
        return LlmResponse(
            content=content,
            model=self.model,
            prompt_tokens=asked,
            completion_tokens=answered,
            finish_reason=ended if isinstance(ended, str) else None,
        )

    async def _find_provider(self) -> bool:
        try:
            _litellm().get_llm_provider(model=self.model, api_base=self._api_base)
        except ImportError:
            return True
        except Exception:
            return False
        return True

    async def _rehearse(self) -> None:
        """Make a call that reaches no server, because most of litellm is only imported by its first call."""
        with suppress(Exception):
            litellm = _litellm()
            arguments = self._arguments(
                LlmRequest(messages=(MessagePart("user", "."),), max_tokens=1, timeout_seconds=2.0)
            )
            _, provider, _, _ = litellm.get_llm_provider(model=self.model, api_base=self._api_base)
            if provider not in REHEARSED:
                await litellm.acompletion(**arguments, api_key="rehearsal", mock_response=".")
                return
            with socket.socket() as silent:
                silent.bind(("127.0.0.1", 0))
                nobody = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
                await litellm.acompletion(**arguments, api_key="rehearsal", api_base=nobody)

    def _detail(self, error: BaseException, sent: SentTexts) -> str:
        """Return a provider's message without credentials; a text that repeats the request is withheld."""
        text = " ".join(str(error).split()) or type(error).__name__
        if sent.are_repeated_in(text):
            status = getattr(error, "status_code", None)
            text = f"{type(error).__name__}{f' {status}' if isinstance(status, int) else ''} {REPEATED}"
        text = mask_credentials(text, *self._secrets)
        where = f"{self.model} at {mask_address(self._address)}" if self._address else self.model
        return f"{where}: {text[:DETAIL_CHARS]}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    present: BaseException | None = error
    while present is not None and id(present) not in seen:
        seen.add(id(present))
        yield present
        present = present.__cause__ or present.__context__


def _code(error: BaseException) -> str:
    """Return the code of a failure; litellm reports both a refused connection and an HTML answer as an internal server error."""
    if "invalid response from LLM endpoint" in str(error):
        return "bad_answer"
    names = {type(cause).__name__ for cause in _causes(error)}
    if isinstance(error, TimeoutError) or names & {"Timeout", "APITimeoutError"}:
        return "timeout"
    if names & UNREACHED or any(isinstance(cause, OSError) for cause in _causes(error)):
        return "connection"
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500 and status != 429:
        return "refused"
    return "unavailable" if isinstance(status, int) else "bad_answer"


async def _close_stream(reply: Any) -> None:
    close = getattr(reply, "aclose", None)
    if close is not None:
        await close()


def _count(usage: Any, name: str) -> int | None:
    value = getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
