"""The faulty model server as a process: started, set to a mode, killed and started again on the same port."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from benchmarks import model_server
from evals.errors import SetupError

DEAD = "dead"


class ServerProcess:
    """The server for the length of a block; `api_base` stays the same whatever becomes of the process."""

    def __init__(self, log: Path, seed: int) -> None:
        self._log, self._seed = log, seed
        self._process: Process | None = None
        self._heard: TextReceiveStream
        self._port = 0
        self._mood = "quick"

    @property
    def api_base(self) -> str:
        """The base address for a client."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def put(self, mood: str) -> None:
        """Set the server's mode before returning; `dead` kills its process."""
        if mood == self._mood:
            return
        self._mood = mood
        if mood == DEAD:
            await self._kill()
        elif self._process is None:
            await self._start()
        else:
            assert self._process.stdin is not None
            await self._process.stdin.send(f"{mood}\n".encode())
            await self._line()

    async def requests(self) -> list[dict[str, Any]]:
        """Return every request that came in so far: `at` (seconds), `mood`, `chars`."""
        text = await anyio.Path(self._log).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    async def _start(self) -> None:
        self._seed += 1
        options = ("--port", str(self._port), "--mood", self._mood, "--seed", str(self._seed), "--log", str(self._log))
        command = [sys.executable, str(Path(model_server.__file__)), *options]
        self._process = await anyio.open_process(command, stderr=None)
        assert self._process.stdout is not None
        self._heard = TextReceiveStream(self._process.stdout)
        self._port = int(await self._line())

    async def _line(self) -> str:
        try:
            return (await self._heard.receive()).strip()
        except anyio.EndOfStream:
            raise SetupError("The benchmark's model server ended by itself; see what it said above.") from None

    async def _kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()
            await process.aclose()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._kill()
