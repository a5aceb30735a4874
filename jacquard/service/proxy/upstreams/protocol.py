"""Defines the interface between the proxy and a model server: a call, and an answer that arrives part by part."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from jacquard.service.proxy.requests.headers import Headers
from mnemosyne.values import dataclass


class UpstreamError(Exception):
    """Raised if the model server cannot be reached, or its answer is interrupted. The message of the error contains
    neither the server's address nor a key. `code` names the error in the answer.
    """

    code = "upstream_unreachable"


@dataclass(frozen=True, kw_only=True, slots=True)
class UpstreamCall:
    """Call to a model server."""

    method: str
    path: str
    """Path below `/v1`, with the slash at its beginning."""
    query: str = ""
    """Query of the address, without the question mark."""
    headers: Headers
    body: bytes = b""
    model: str = ""
    """Model that the call asks for; '' if the call names no model."""
    merged: Callable[[], Awaitable[bytes]] | None = None
    """Function that makes the body for a server that accepts only one system message (None: there is no such body)."""


class UpstreamAnswer(Protocol):
    """Answer of a model server that has begun to arrive."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """The headers, in their order."""
        ...

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises UpstreamError if the answer is interrupted."""
        ...


class Upstream(Protocol):
    """Model server.

    1. The body of an answer is yielded part by part, as it arrives.
    2. A call ends with its context. Leaving the context early cancels the call.
    """

    def call(self, call: UpstreamCall) -> AbstractAsyncContextManager[UpstreamAnswer]:
        """Make a call, and yield its answer as soon as the answer begins. Raises UpstreamError if the server cannot be reached."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
