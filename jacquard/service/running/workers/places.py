"""The places of a service's processes: a number each, held by a lock, and a Unix socket on which it takes requests from the others.

A process that is killed loses its place with its lock, and the one that is started instead takes it, with the same sessions.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from jacquard.service.affinity import choose_node

_MOST_PATH_BYTES = 100
"""A Unix socket's path has at most 104 bytes on some systems."""

_CLAIM_SECONDS = 0.5


def can_share(folder: str) -> bool:
    """Return whether processes can find each other through a folder here: there are Unix sockets and locks of files."""
    return os.name == "posix" and len(os.fsencode(folder)) + len("/000.sock") <= _MOST_PATH_BYTES


class WorkerPlaces:
    """The places of `count` processes in a folder that only their owner may read.

    `mine` is the place of this process, None until it has one: a process that is to replace another one waits until that has ended,
    and passes all requests of sessions on meanwhile.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.mine: str | None = None
        self._folder = folder
        self._names = [f"{number:03}" for number in range(count)]
        self._lock: int | None = None

    def owner_of(self, tenant: str, session_id: str) -> str:
        """Return the place of the process that a session belongs to."""
        return choose_node(session_id, self._names, tenant)

    def socket_of(self, place: str) -> str:
        """Return the path of the socket of a place; nobody need listen there."""
        return str(self._folder / f"{place}.sock")

    @asynccontextmanager
    async def listen(self, protocol: Callable[[], asyncio.Protocol]) -> AsyncIterator[None]:
        """Take a place as soon as there is one, and answer there while the block lasts."""
        waiting = asyncio.get_running_loop().create_task(self._take(protocol))
        try:
            if self.claim():
                await asyncio.wait([waiting])
            yield
        finally:
            waiting.cancel()
            with suppress(asyncio.CancelledError):
                if (server := await waiting) is not None:
                    server.close()
            self.release()

    async def _take(self, protocol: Callable[[], asyncio.Protocol]) -> asyncio.Server:
        while True:
            if self.claim():
                break
            # Its holder is another process: nothing here can say when it ends.
            await asyncio.sleep(_CLAIM_SECONDS)
        assert self.mine is not None
        return await asyncio.get_running_loop().create_unix_server(protocol, sock=self._bind(self.mine))

    def _bind(self, place: str) -> socket.socket:
        path = self.socket_of(place)
        # Of a process that was killed.
        Path(path).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        return listening

    def claim(self) -> bool:
        """Hold the first place that nobody holds; return whether this process has one."""
        if self.mine is not None:
            return True
        fcntl: Any = importlib.import_module("fcntl")
        for name in self._names:
            lock = os.open(self._folder / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(lock)
                continue
            self.mine, self._lock = name, lock
            return True
        return False

    def release(self) -> None:
        """Give the place up."""
        if self._lock is not None and self.mine is not None:
            Path(self.socket_of(self.mine)).unlink(missing_ok=True)
            os.close(self._lock)
        self.mine, self._lock = None, None
