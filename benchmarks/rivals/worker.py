"""One stack's process as the bench sees it: an order in, an answer out, with a limit to time and memory."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.rivals.names import QUIET, Entrant
from evals.errors import EvalError

_LOOK_SECONDS = 0.5
_LINE_BYTES = 4_000_000


class StackFailedError(EvalError):
    """A stack broke off, or took more time or memory than it was given; the sentence says which."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one order."""

    seconds: float = 900.0
    memory_gb: float = 8.0


@dataclass(kw_only=True, slots=True)
class Worker:
    """A running stack. `opened` is its first answer; `network` what it reached beyond this machine; `most_mb` its peak."""

    entrant: Entrant
    process: Process
    answers: BufferedByteReceiveStream
    limits: Limits
    opened: Mapping[str, Any] = field(default_factory=dict)
    network: list[str] = field(default_factory=list)
    most_mb: float = 0.0

    async def ask(self, **order: Any) -> dict[str, Any]:
        """Return the answer to an order; StackFailedError."""
        if self.process.stdin is None:
            raise StackFailedError(f"{self.entrant.name}: takes no orders")
        faults: list[str] = []
        answer: dict[str, Any] = {}
        what = order.get("do", "open")
        with anyio.move_on_after(self.limits.seconds) as waiting:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch, faults)
                try:
                    await self.process.stdin.send(json.dumps(order).encode("ascii") + b"\n")
                    answer = json.loads(await self.answers.receive_until(b"\n", _LINE_BYTES))
                except (anyio.IncompleteRead, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                    faults.append(f"{what}: the process ended")
                group.cancel_scope.cancel()
        if waiting.cancelled_caught:
            self._kill()
            raise StackFailedError(f"{what}: took longer than {self.limits.seconds:.0f} s")
        if faults:
            raise StackFailedError(faults[0])
        if "error" in answer:
            raise StackFailedError(f"{what}: {answer['error']}")
        self.network = answer.get("network", [])
        self.most_mb = max(self.most_mb, float(answer.get("memory_mb", 0.0)))
        return answer

    async def _watch(self, faults: list[str]) -> None:
        statm = anyio.Path(f"/proc/{self.process.pid}/statm")
        while True:
            await anyio.sleep(_LOOK_SECONDS)
            try:
                pages = int((await statm.read_text()).split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if pages * resource.getpagesize() / 1e9 > self.limits.memory_gb:
                faults.append(f"took more than {self.limits.memory_gb:g} GB of memory")
                self._kill()
                return

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            self.process.kill()


@asynccontextmanager
async def open_worker(entrant: Entrant, limits: Limits, **order: Any) -> AsyncIterator[Worker]:
    """Start the process of a stack and open it; it is gone afterwards. StackFailedError when it cannot be opened."""
    command = [sys.executable, "-m", "benchmarks.rivals.child"]
    process = await anyio.open_process(command, env={**os.environ, **QUIET}, stderr=None)
    if process.stdout is None:
        raise StackFailedError("open: the process gives no answers")
    worker = Worker(entrant=entrant, process=process, answers=BufferedByteReceiveStream(process.stdout), limits=limits)
    try:
        worker.opened = await worker.ask(stack=entrant.name, **order)
        yield worker
        with suppress(StackFailedError):
            await worker.ask(do="close")
    finally:
        with anyio.CancelScope(shield=True):
            worker._kill()
            await process.aclose()
