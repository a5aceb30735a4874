"""Interface of a model server for the proxy: a call, and a streamed answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from jacquard.service.proxy.requests.headers import Headers


class UpstreamError(Exception):
    """The model server cannot be reached, or its answer was interrupted; the message contains neither its address nor a key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamCall:
    """One call."""

    method: str
    path: str
    """Below `/v1`, with the slash."""
    query: str = ""
    """Query of the address, without the question mark."""
    headers: Headers
    body: bytes = b""
    model: str = ""
    """Requested model."""
    merged: Callable[[], Awaitable[bytes]] | None = None
    """Makes the body for a server that takes only one system message (None: there is no other body)."""


class UpstreamAnswer(Protocol):
    """Answer that has begun."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers, in their order."""
        ...

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives; raises UpstreamError if it is interrupted."""
        ...


class Upstream(Protocol):
    """Model server.

    1. The body of an answer is yielded part by part, as it arrives.
    2. A call ends with its context: leaving it early cancels the call.
    """

    def call(self, call: UpstreamCall) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Make a call and return its answer as soon as it begins; raises UpstreamError."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
