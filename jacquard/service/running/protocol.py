"""Adds limits to uvicorn's HTTP protocol: for request heads, chunk framing, unread rests of requests, and unread
answers.

Without these limits, a client that sends or reads slowly, or sends without an end, would hold a connection, memory and the
event loop for as long as it likes.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 65_536
"""Maximum bytes of a request's head, and of the chunk framing between two pieces of a body."""

MOST_UNWANTED_BYTES = 1_000_000
"""Maximum bytes of a body that are read and dropped after the request was answered.

The bytes are read so that a client which sends its whole body before it reads still gets the answer.
"""


class LimitedProtocol(HttpToolsProtocol):
    """Closes connections of clients that send or read too slowly.

    The head of a request must arrive within `head_seconds`. If a request was answered before it was complete, its rest
    must arrive within the same time. Head and rest have a maximum size. A client may leave its answer unread for
    `unread_seconds` after the buffers of the system and the server are full.
    """

    head_seconds = 10.0
    unread_seconds = 30.0

    _timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None
    _framing_bytes = 0
    _unwanted_bytes = 0
    _is_in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all time limits."""
        self._stop_timer()
        self._stop_unread_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the time limit for an unread answer, because the client reads more slowly than it is answered."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = asyncio.get_running_loop().call_later(self.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the time limit for an unread answer, because the client has read on."""
        super().resume_writing()
        self._stop_unread_timer()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes. If the head, the framing or an unwanted body is too long, refuse the request or close
        the connection.
        """
        # A body may begin or end among these bytes: framing below half of the limit is never refused for it.
        self._framing_bytes += len(data)
        super().data_received(data)
        is_framed = self._framing_bytes <= MOST_HEAD_BYTES
        if self.transport.is_closing() or (is_framed and self._unwanted_bytes <= MOST_UNWANTED_BYTES):
            return
        if self._is_in_head:
            self.send_400_response("The head of the request is too long.")
        elif not self.cycle.response_started:
            self.send_400_response("The chunk extensions or the trailers of the request are too long.")
        else:
            self.transport.close()

    def on_message_begin(self) -> None:
        """Begin a request, and start the time limit for its head."""
        self._is_in_head, self._unwanted_bytes = True, 0
        if self._timer is None:
            self._start_timer()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a line of the head. Trailers (header lines after the body) are dropped."""
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the time limit for the head, because the head is complete."""
        self._is_in_head, self._framing_bytes = False, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Read a piece of the body."""
        self._framing_bytes = 0
        if self.cycle.response_complete:
            self._unwanted_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish the request. The next head may come as late as uvicorn allows idle connections."""
        self._is_in_head, self._framing_bytes = True, 0
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Start a time limit for the unread rest of the request, if the request was answered before it was complete."""
        super().on_response_complete()
        if not self._is_in_head and self.cycle.response_complete:
            self._stop_timer()
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self.head_seconds, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_unread_timer(self) -> None:
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()
