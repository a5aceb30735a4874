"""A TCP proxy before a server: it cuts all connections, holds back what passes, or refuses, as it is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

_CHUNK_BYTES = 65_536


class FaultProxy:
    """Listens on a port of this machine, in a thread of its own, and passes everything to the socket at `path`."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.delay_seconds = 0.0
        self.refuses = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port: int = self._call(self._listen())

    def cut(self) -> None:
        """Break all connections, with whatever is under way."""
        self._call(self._cut())

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = server.sockets[0].getsockname()[1]
        return port

    async def _cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if self.refuses:
                raise OSError("refused")
            far_reader, far_writer = await asyncio.open_unix_connection(self._path)
        except OSError:
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            passing = (self._pass(reader, far_writer), self._pass(far_reader, writer))
            tasks = [asyncio.ensure_future(each) for each in passing]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            self._writers -= ends
            for each in ends:
                each.transport.abort()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if self.delay_seconds:
                    await asyncio.sleep(self.delay_seconds)
                writer.write(data)
                await writer.drain()
