"""Calls a model server of the OpenAI or the Anthropic protocol over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx

from jacquard.core.errors import ConfigError
from jacquard.service.proxy.requests.headers import Headers
from jacquard.service.proxy.upstreams.protocol import UpstreamAnswer, UpstreamCall, UpstreamError
from mnemosyne.core.masking.addresses import split_credentials

CONNECT_SECONDS = 10.0


class HttpUpstream:
    """Model server of the OpenAI or the Anthropic protocol.

    `address` is the base URL that clients use; `/v1` is added if the address has no path. A user and a password in the
    address become a header of each call. `silent_seconds` is the time for which the server may be silent. `transport`
    replaces httpx's transport in tests. Raises ConfigError if `address` is invalid.
    """

    def __init__(
        self, address: str, silent_seconds: float = 600.0, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        plain, self._own_headers = split_credentials(address)
        try:
            base = httpx.URL(plain or "")
        except httpx.InvalidURL:
            base = httpx.URL("")
        if base.scheme not in ("http", "https") or not base.host:
            raise ConfigError("service.upstream is not an address; write it as http://127.0.0.1:5001/v1.")
        self._base = str(base).rstrip("/") if base.path.strip("/") else f"{str(base).rstrip('/')}/v1"
        timeout = httpx.Timeout(silent_seconds, connect=CONNECT_SECONDS, pool=None)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        # Neither proxies nor keys are read from the environment (`.netrc`), because only the settings decide where data go.
        self._client = httpx.AsyncClient(timeout=timeout, limits=limits, transport=transport, trust_env=False)

    @asynccontextmanager
    async def call(self, call: UpstreamCall) -> AsyncIterator[UpstreamAnswer]:
        """Make a call; see `Upstream.call`."""
        query = f"?{call.query}" if call.query else ""
        headers = _with_credentials(call.headers, self._own_headers)
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        try:
            request = self._client.build_request(
                call.method, f"{self._base}{call.path}{query}", headers=pairs, content=call.body
            )
            response = await self._send(request)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _fault(error) from None
        try:
            yield _HttpAnswer(response)
        finally:
            await response.aclose()

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and once more if the server closed the kept connection.

        Servers close one at any time, and after an error within a stream at once.
        """
        connections: list[str] = []

        async def note(event: str, _: object) -> None:
            if event == "connection.connect_tcp.started":
                connections.append(event)

        request.extensions["trace"] = note
        try:
            return await self._client.send(request, stream=True)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            if connections:
                raise
            return await self._client.send(request, stream=True)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class _HttpAnswer:
    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Headers:
        return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._response.headers.raw]

    async def parts(self) -> AsyncIterator[bytes]:
        try:
            async for part in self._response.aiter_bytes():
                yield part
        except httpx.HTTPError as error:
            raise _fault(error) from None


def _with_credentials(headers: Headers, own: Mapping[str, str]) -> Headers:
    if not own:
        return headers
    names = {name.lower() for name in own}
    return [*((name, value) for name, value in headers if name not in names), *own.items()]


def _fault(error: httpx.HTTPError | httpx.InvalidURL) -> UpstreamError:
    if isinstance(error, httpx.TimeoutException):
        return UpstreamError("The model server did not answer in time (service.proxy.silent_seconds).")
    if isinstance(error, httpx.ConnectError):
        return UpstreamError("The model server cannot be reached; see service.upstream, and whether the server runs.")
    return UpstreamError(f"The connection to the model server broke ({type(error).__name__}).")
