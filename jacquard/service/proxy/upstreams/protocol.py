"""What a model server is to the proxy: a call, and an answer that comes part by part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from jacquard.service.proxy.requests.headers import Headers


class UpstreamError(Exception):
    """The model server cannot be reached, or its answer broke off; the sentence names neither its address nor a key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamCall:
    """One call: `path` is that below `/v1`, with the slash; `query` that of the address, without the question mark.

    `merged` makes the body for a server that takes only one system message (None: there is no other body); `model` is the one
    that is asked.
    """

    method: str
    path: str
    query: str = ""
    headers: Headers
    body: bytes = b""
    model: str = ""
    merged: Callable[[], Awaitable[bytes]] | None = None


class UpstreamAnswer(Protocol):
    """An answer that has begun."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers, in their order."""
        ...

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes; UpstreamError where it breaks off."""
        ...


class Upstream(Protocol):
    """A model server.

    1. The body of an answer is yielded part by part, as it comes.
    2. A call ends with its context: whoever leaves it early cancels it.
    """

    def call(self, call: UpstreamCall) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Make a call and give its answer as soon as it begins; UpstreamError."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
