"""A small HTTP/1.1 client over kept connections, so that a benchmark measures the server and not a client library.

It sends JSON and reads answers with a Content-Length, as the service writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

HEAD_BYTES = 65_536


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer: its status, its headers by lower-case name, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        """The JSON of the body."""
        return json.loads(self.body)


@dataclass(kw_only=True)
class _Connection:
    stream: SocketStream
    received: BufferedByteReceiveStream = field(init=False)

    def __post_init__(self) -> None:
        self.received = BufferedByteReceiveStream(self.stream)


class HttpClient:
    """Posts JSON to a server on this machine. Connections are kept and grow with the calls that are made at once."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[_Connection] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._idle:
            await self._idle.pop().stream.aclose()

    async def post(self, path: str, body: Any) -> Answer:
        """Post a value and return the answer; a connection that the server has closed is replaced once."""
        sent = json.dumps(body).encode()
        head = self._head("POST", path, f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n")
        return await self._send(head + sent)

    async def get(self, path: str, accept: str = "*/*") -> Answer:
        """Get an answer in a form that `accept` names."""
        return await self._send(self._head("GET", path, f"Accept: {accept}\r\n"))

    def _head(self, method: str, path: str, more: str = "") -> bytes:
        return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{more}\r\n".encode()

    async def _send(self, request: bytes) -> Answer:
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._exchange(connection, request)
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                await connection.stream.aclose()
        connection = _Connection(stream=await anyio.connect_tcp("127.0.0.1", self._port))
        return await self._exchange(connection, request)

    async def _exchange(self, connection: _Connection, request: bytes) -> Answer:
        await connection.stream.send(request)
        head = await connection.received.receive_until(b"\r\n\r\n", HEAD_BYTES)
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        body = await connection.received.receive_exactly(size) if size else b""
        if headers.get("connection", "").lower() == "close":
            await connection.stream.aclose()
        else:
            self._idle.append(connection)
        return Answer(status=int(first.split(" ")[1]), headers=headers, body=body)
