"""Gives each process of a service a place. A place is a number, which the process holds by a file lock, and a Unix
socket for requests from the other processes.

A killed process loses its lock and thereby its place. Its replacement takes the place, and with it the same sessions.
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
"""Maximum bytes of a Unix socket's path; some systems allow 104."""

_CLAIM_SECONDS = 0.5


def can_share(folder: str) -> bool:
    """Return whether processes can find each other through `folder`: the system must have Unix sockets and file locks,
    and the path must be short.
    """
    return os.name == "posix" and len(os.fsencode(folder)) + len("/000.sock") <= _MOST_PATH_BYTES


class WorkerPlaces:
    """Places of `count` processes in `folder`, which only the user of the service may read.

    `mine` is the place of this process (None: it has none yet). A process that replaces another gets its place when the
    old process has ended; until then, it forwards all requests of sessions.
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.mine: str | None = None
        self._folder = folder
        self._names = [f"{number:03}" for number in range(count)]
        self._lock: int | None = None

    def owner_of(self, tenant: str, session_id: str) -> str:
        """Return the place of the process that works on a session."""
        return choose_node(session_id, self._names, tenant)

    def socket_of(self, place: str) -> str:
        """Return the path of the socket of a place. Possibly no process listens there."""
        return str(self._folder / f"{place}.sock")

    @asynccontextmanager
    async def listen(self, protocol: Callable[[], asyncio.Protocol]) -> AsyncIterator[None]:
        """Take a place as soon as one is free, and answer there during the block. `protocol` makes the handler of each
        connection.
        """
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
            # Its holder is another process, and its end is not signalled here.
            await asyncio.sleep(_CLAIM_SECONDS)
        assert self.mine is not None
        return await asyncio.get_running_loop().create_unix_server(protocol, sock=self._bind(self.mine))

    def _bind(self, place: str) -> socket.socket:
        path = self.socket_of(place)
        # Left by a killed process.
        Path(path).unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(path)
        return listening

    def claim(self) -> bool:
        """Take the first free place, unless this process has a place already. Return whether this process has a place
        now.
        """
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
        """Give up the place of this process, and delete its socket."""
        if self._lock is not None and self.mine is not None:
            Path(self.socket_of(self.mine)).unlink(missing_ok=True)
            os.close(self._lock)
        self.mine, self._lock = None, None
