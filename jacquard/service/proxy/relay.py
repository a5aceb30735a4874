"""Sends a call to the model server, and streams the answer to the client. Both stop when either side disconnects."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

import anyio
from anyio import to_thread
from starlette.datastructures import Headers as RequestHeaders
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from jacquard.core.sentences import translate
from jacquard.service.answers import language_of_call
from jacquard.service.proxy.replies.events import MOST_READ_BYTES, AnswerTooLargeError
from jacquard.service.proxy.requests.headers import Headers, headers_for_client
from jacquard.service.proxy.upstreams.protocol import Upstream, UpstreamAnswer, UpstreamCall, UpstreamError
from mnemosyne.core import codec

EVENTS = "text/event-stream"
TOO_LARGE = "The model server's answer is too large to be read."


class Passage(Protocol):
    """Observer of the body of an answer, which may change what the client gets.

    1. `take` gets each part of an event stream, and `end` is called once when the stream is complete. The results of
    both are sent to the client. 2. `whole` gets a body that is not a stream. The result of `whole` is sent to the
    client. 3. `whole` does not get a body above MOST_READ_BYTES. For such a body `leave` returns whether it may pass
    unread. 4. `take`, `end` and `whole` raise AnswerTooLargeError for an answer that cannot be read and must not pass
    unread. 5. `close` is called once at the end, also if the client disconnected or the answer was interrupted. It must
    not raise.
    """

    async def take(self, part: bytes) -> bytes:
        """Return the client's form of a part of the stream. Raises AnswerTooLargeError by rule 4."""
        ...

    async def end(self) -> bytes:
        """Return the last part for the client. Raises AnswerTooLargeError by rule 4."""
        ...

    async def whole(self, status: int, body: bytes) -> bytes:
        """Return the client's form of a body that is not a stream. Raises AnswerTooLargeError by rule 4."""
        ...

    def leave(self) -> bool:
        """Stop reading. Return whether the client may get the rest unread."""
        ...

    async def close(self) -> None:
        """Commit the part of the reply that the client saw, unless the reply was committed already."""
        ...


class Relay(Response):
    """Response that calls the model server and streams the answer to the client.

    While it waits for the model server, the request occupies no place among the running requests. If the client disconnects,
    the call ends at once, even if the model server has not begun to answer. `own_headers` are added to the headers of the
    answer.
    """

    def __init__(
        self, upstream: Upstream, call: UpstreamCall, own_headers: Mapping[str, str], passage: Passage | None = None
    ) -> None:
        super().__init__()
        self._upstream, self._call, self._passage = upstream, call, passage
        self._own = [(name.lower(), value) for name, value in own_headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the model server, and send its answer."""
        try:
            _wait_outside(scope)
            async with anyio.create_task_group() as tasks:

                async def cancel_when_gone() -> None:
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    tasks.cancel_scope.cancel()

                tasks.start_soon(cancel_when_gone)
                await self._relay(RequestHeaders(scope=scope), send)
                tasks.cancel_scope.cancel()
        finally:
            if self._passage is not None:
                with anyio.CancelScope(shield=True):
                    await self._passage.close()

    async def _relay(self, headers: Mapping[str, str], send: Send) -> None:
        try:
            async with self._upstream.call(self._call) as answer:
                if _is_stream(answer):
                    await self._relay_events(answer, send)
                else:
                    await self._relay_whole(answer, send)
        except (UpstreamError, AnswerTooLargeError) as error:
            code = error.code if isinstance(error, UpstreamError) else UpstreamError.code
            fault = await upstream_fault(str(error) or TOO_LARGE, code, headers)
            await _send_whole(send, 502, self._head([]), fault)

    async def _relay_events(self, answer: UpstreamAnswer, send: Send) -> None:
        await send(_start(answer.status, self._head(answer.headers)))
        try:
            async for part in answer.parts():
                shown = part if self._passage is None else await self._passage.take(part)
                if shown:
                    await send({"type": "http.response.body", "body": shown, "more_body": True})
            last = b"" if self._passage is None else await self._passage.end()
        except (UpstreamError, AnswerTooLargeError):
            # The answer has begun: it ends without its end mark, and the client sees a broken connection, like without us.
            raise BrokenAnswerError from None
        await send({"type": "http.response.body", "body": last, "more_body": False})

    async def _relay_whole(self, answer: UpstreamAnswer, send: Send) -> None:
        parts, read, coming = list[bytes](), 0, answer.parts()
        async for part in coming:
            parts.append(part)
            read += len(part)
            if read > MOST_READ_BYTES:
                break
        body = b"".join(parts)
        if read > MOST_READ_BYTES:
            if self._passage is not None and not self._passage.leave():
                raise AnswerTooLargeError
            await self._relay_unread(answer, body, coming, send)
            return
        if self._passage is not None:
            body = await self._passage.whole(answer.status, body)
        await _send_whole(send, answer.status, self._head(answer.headers), body)

    async def _relay_unread(
        self, answer: UpstreamAnswer, begun: bytes, coming: AsyncIterator[bytes], send: Send
    ) -> None:
        await send(_start(answer.status, self._head(answer.headers)))
        await send({"type": "http.response.body", "body": begun, "more_body": True})
        try:
            async for part in coming:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except UpstreamError:
            raise BrokenAnswerError from None
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _head(self, received: Headers) -> Headers:
        return [*headers_for_client(received), *self._own]


class BrokenAnswerError(Exception):
    """Raised if the model server's answer is interrupted after it has begun."""


async def upstream_fault(sentence: str, kind: str, headers: Mapping[str, str]) -> bytes:
    """Return the body of an answer that reports a fault of the model server, in the form in which model servers report errors.

    `kind` is the type and the code of the error. Its sentence is in the language of the call with these `headers`.
    """
    message = await to_thread.run_sync(translate, sentence, language_of_call(headers))
    return codec.encode({"type": "error", "error": {"message": message, "type": kind, "code": kind, "param": None}})


def _wait_outside(scope: Scope) -> None:
    """Release the place among the running requests, because the model server works now."""
    wait_outside = scope.get("state", {}).get("wait_outside")
    if wait_outside is not None:
        wait_outside()


def _is_stream(answer: UpstreamAnswer) -> bool:
    return any(name.lower() == "content-type" and value.lower().startswith(EVENTS) for name, value in answer.headers)


def _start(status: int, headers: Headers) -> Message:
    pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
    return {"type": "http.response.start", "status": status, "headers": pairs}


async def _send_whole(send: Send, status: int, headers: Headers, body: bytes) -> None:
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers = [*headers, ("content-type", "application/json")]
    await send(_start(status, [*headers, ("content-length", str(len(body)))]))
    await send({"type": "http.response.body", "body": body, "more_body": False})
