"""The HTTP protocol of uvicorn with limits that uvicorn has not: on the head of a request, and on an answer that nobody reads.

A client that sends its head slowly or without an end, or reads its answer slowly, would otherwise hold a connection and memory as
long as it likes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
"""How long the head of a request may take to arrive."""

MOST_HEAD_BYTES = 65_536

UNREAD_SECONDS = 30.0
"""How long a client may leave more unread than the system and the server hold for it."""


class LimitedProtocol(HttpToolsProtocol):
    """Closes a connection whose next head takes too long or is too long, and one whose answer is not read."""

    _timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None
    _head_bytes = 0
    _is_in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_timer()
        self._stop_unread_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = asyncio.get_running_loop().call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read on."""
        super().resume_writing()
        self._stop_unread_timer()

    def data_received(self, data: bytes) -> None:
        """Read what has come, unless the head is too long."""
        if self._is_in_head:
            # The beginning of a body may be among these bytes: a head below half of the limit is never refused for it.
            self._head_bytes += len(data)
            super().data_received(data)
            if self._is_in_head and self._head_bytes > MOST_HEAD_BYTES and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")
            return
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._is_in_head = True
        if self._timer is None:
            self._start_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._is_in_head, self._head_bytes = False, 0
        self._stop_timer()
        super().on_headers_complete()

    def on_message_complete(self) -> Any:
        """The request is whole; the next head may come when it likes, within the time of idle connections."""
        self._is_in_head = True
        return super().on_message_complete()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS, self._give_up)

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
