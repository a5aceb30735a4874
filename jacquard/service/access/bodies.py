"""Reads the body of a request completely, before the request takes a place. The size, the time and the total memory are
limited.
"""

from __future__ import annotations

from collections.abc import Mapping

import anyio
from starlette.types import Message, Receive

from jacquard.config.service import ServiceLimits
from jacquard.service.access.admission import Shares, TooManyRequestsError
from jacquard.service.answers import Refusal

SMALL_BYTES = 65_536
"""Maximum bytes of a body that needs no reservation of memory. The server buffers as much of each connection in any case."""

MOST_DROPPED_BYTES = 256_000_000
"""Maximum bytes of a body that are read and dropped if it is too large. Most clients read the refusal only after they
have sent the whole body.
"""


class BodyRoom:
    """Memory for bodies that are being read or wait for a place.

    There is memory for the largest bodies of `limits.at_once` requests, or for one call of the proxy if that is larger.
    A body that does not fit waits. Bodies of one tenant keep their order. If `is_fair` is true, no tenant can use up
    the memory of all others.
    """

    def __init__(self, limits: ServiceLimits, *, is_fair: bool) -> None:
        self.limits = limits
        self._shares = Shares(max(limits.at_once * limits.body_bytes, limits.chat_bytes), is_fair=is_fair)
        self._waiting: dict[anyio.Event, tuple[str, int]] = {}

    async def enter(self, tenant: str, size: int) -> None:
        """Reserve `size` bytes for a tenant, and wait until they are free. Raises TooManyRequestsError if they do not
        become free in time.
        """
        turn = anyio.Event()
        self._waiting[turn] = (tenant, size)
        self._let_in()
        try:
            with anyio.move_on_after(self.limits.waiting_seconds):
                await turn.wait()
        except BaseException:
            if turn.is_set():
                self.leave(tenant, size)
            raise
        finally:
            self._waiting.pop(turn, None)
        if not turn.is_set():
            raise TooManyRequestsError("The service has more bodies of requests than it can hold.", 1)

    def leave(self, tenant: str, size: int) -> None:
        """Release `size` bytes of a tenant, and admit waiting bodies."""
        self._shares.give_back(tenant, size)
        self._let_in()

    def _let_in(self) -> None:
        behind = set[str]()
        for turn, (tenant, size) in list(self._waiting.items()):
            if tenant not in behind and self._shares.take(tenant, size):
                del self._waiting[turn]
                turn.set()
            else:
                behind.add(tenant)


async def _drop_rest(receive: Receive, seconds: float) -> None:
    """Read the rest and drop it, because most clients read the answer only after sending all of their body."""
    dropped, is_whole = 0, False
    with anyio.move_on_after(seconds):
        while not is_whole and dropped <= MOST_DROPPED_BYTES:
            message = await receive()
            dropped += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)


class RequestBody:
    """Body of a request. Its memory is freed by `release`, or at the latest when the `with` block ends."""

    def __init__(self, room: BodyRoom, tenant: str) -> None:
        self.data = b""
        self._room, self._tenant, self._held = room, tenant, 0

    def __enter__(self) -> RequestBody:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    async def read(self, receive: Receive, headers: Mapping[str, str], *, is_counted: bool, is_chat: bool) -> None:
        """Read the body into `data`.

        Args:
            receive: ASGI function that returns the next message.
            headers: headers of the request, with names in lower case.
            is_counted: reserve memory if the body is not small.
            is_chat: the request is a call of the proxy, which may be larger.

        Raises:
            Refusal: the body is too large, too slow or interrupted.
            TooManyRequestsError: no memory becomes free for the body.
        """
        limits, told = self._room.limits, headers.get("content-length", "")
        most, name = (limits.chat_bytes, "chat_bytes") if is_chat else (limits.body_bytes, "body_bytes")
        size = int(told) if told.isascii() and told.isdecimal() else most
        parts, read, is_whole = list[bytes](), 0, False
        with anyio.move_on_after(limits.body_seconds):
            while not is_whole and max(read, size) <= most:
                if is_counted and read > SMALL_BYTES and not self._held:
                    await self._room.enter(self._tenant, size)
                    self._held = size
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "body_cut", "The connection ended before the body was whole.")
                parts.append(message.get("body", b""))
                read += len(parts[-1])
                is_whole = not message.get("more_body", False)
        if max(read, size) > most:
            parts.clear()
            self.release()
            if told and size <= MOST_DROPPED_BYTES and "expect" not in headers:
                await _drop_rest(receive, limits.body_seconds)
            sentence = f"The body has more than {most:,} bytes (service.limits.{name}); send less, or raise the limit."
            raise Refusal(413, "body_too_large", sentence, {"connection": "close"})
        if not is_whole:
            sentence = f"The body did not arrive in {limits.body_seconds:g} seconds (limits.body_seconds)."
            raise Refusal(408, "body_too_slow", sentence, {"connection": "close"})
        self.data = b"".join(parts)

    def release(self) -> None:
        """Drop the body and free its memory. A second call does nothing."""
        self.data, held, self._held = b"", self._held, 0
        if held:
            self._room.leave(self._tenant, held)

    def receive_again(self, receive: Receive) -> Receive:
        """Return an ASGI function that returns this body first, and then the messages of `receive`."""
        waiting: list[Message] = [{"type": "http.request", "body": self.data, "more_body": False}]

        async def receive_again() -> Message:
            return waiting.pop() if waiting else await receive()

        return receive_again
