"""The connection to a service: sends calls, reads answers, and makes a call again where that is safe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

import anyio
import httpx

from jacquard.client.errors import ServiceUnreachableError, error_of
from mnemosyne.core import codec

KEY_HEADER = "Idempotency-Key"
ATTEMPTS = 3
FIRST_PAUSE_SECONDS = 0.2
_BUSY = (429, 503)


class Connection:
    """Calls of a service at `url` (`http://host:port`), with a token where it has tenants.

    A call is made at most three times: again after an answer that says so (429, 503), and after a broken connection where the
    service knows by the key that it is the same call. Use it in `async with`, or call `close`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_seconds: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._url = url.rstrip("/")
        self._client = httpx.AsyncClient(
            base_url=self._url, headers=headers, timeout=timeout_seconds, transport=transport, trust_env=False
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; later calls raise."""
        await self._client.aclose()

    async def call(
        self,
        method: str,
        address: tuple[str, ...],
        body: Mapping[str, Any] | None = None,
        *,
        query: Mapping[str, str | int] | None = None,
        once: bool = False,
        keyed: bool = True,
        key: str | None = None,
    ) -> bytes:
        """Return the body of the answer; `address` are the parts behind `/api/v1`, each of which is encoded.

        `once`: a broken connection is an error at once, because the service could not know the call again. Unless `keyed`, and
        with `once`, a POST has no idempotency key; `key` is one of the caller's own. Raises the engine's own errors, ServiceError
        and ServiceUnreachableError.
        """
        path = "/api/v1/" + "/".join(quote(part, safe="") for part in address)
        has_key = method == "POST" and (key is not None or (keyed and not once))
        headers = {KEY_HEADER: key or uuid4().hex} if has_key else {}
        content = None if body is None else codec.encode(dict(body))
        if content is not None:
            headers["Content-Type"] = "application/json"
        attempt = 0
        while True:
            attempt += 1
            is_last = attempt == ATTEMPTS
            try:
                answer = await self._client.request(
                    method, path, content=content, params=dict(query or {}), headers=headers
                )
            except httpx.TransportError as error:
                sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
                if is_last or (sent and once):
                    raise ServiceUnreachableError(self._url, type(error).__name__, sent=sent) from error
                await anyio.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
                continue
            if answer.is_success:
                return answer.content
            if answer.status_code not in _BUSY or is_last:
                raise error_of(answer.status_code, answer.content)
            await anyio.sleep(_pause(answer, attempt - 1))

    @asynccontextmanager
    async def stream(self, address: tuple[str, ...]) -> AsyncIterator[AsyncIterator[str]]:
        """Give the lines of an answer that is a stream; errors as for `call`, ServiceUnreachableError among them."""
        path = "/api/v1/" + "/".join(quote(part, safe="") for part in address)
        try:
            async with self._client.stream("GET", path, timeout=None) as answer:
                if not answer.is_success:
                    raise error_of(answer.status_code, await answer.aread())
                yield answer.aiter_lines()
        except httpx.TransportError as error:
            raise ServiceUnreachableError(self._url, type(error).__name__, sent=True) from error


def _pause(answer: httpx.Response, attempt: int) -> float:
    told = answer.headers.get("retry-after", "")
    return min(float(told), 30.0) if told.isdigit() else FIRST_PAUSE_SECONDS * 2**attempt
