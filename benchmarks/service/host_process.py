"""One host of `benchmarks.service.hosts`, in a process of its own: it plays its part and prints its figures as JSON.

python -m benchmarks.service.host_process play URL EMBEDDER SESSIONS OPENED
python -m benchmarks.service.host_process open URL EMBEDDER ROUNDS
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from functools import partial
from time import perf_counter, process_time
from typing import Any
from uuid import uuid4

import anyio

from evals.reporting.figures import percentiles
from evals.reporting.machine import memory_mb
from jacquard import Runtime, open_runtime

LARGE, SMALL = "large", "s0"
_ASKED = "Who kept the lantern in the mill when the river rose, and what did the miller say?"
_WARM_SESSIONS = 20
_WINDOWS = 10


async def play(url: str, embedder: str, sessions: int, opened: int) -> dict[str, Any]:
    """Open sessions at random, take two turns in each, and watch the memory of this process."""
    chance = random.Random(f"{sessions} sessions")
    chosen = chance.sample(range(sessions), min(opened + _WARM_SESSIONS, sessions))
    opening_ms, turn_ms, memory = list[float](), list[float](), list[float]()
    async with open_runtime(url, embedder=embedder, bare=True) as runtime:
        for place, number in enumerate(chosen):
            first = await _turn(runtime, f"s{number}")
            second = await _turn(runtime, f"s{number}")
            if place >= _WARM_SESSIONS:
                opening_ms.append(first)
                turn_ms.append(second)
                if (place - _WARM_SESSIONS + 1) % max(opened // _WINDOWS, 1) == 0:
                    memory.append(memory_mb())
    files = sum(len(names) for _, _, names in os.walk("."))
    return {"opening_ms": _ranks(opening_ms), "turn_ms": _ranks(turn_ms), "memory_mb": memory, "files": files}


async def open_large(url: str, embedder: str, rounds: int) -> dict[str, Any]:
    """Answer the first turn of a large session as a host that has never seen it, several times."""
    opening_ms, processor_ms, degradations = list[float](), list[float](), set[str]()
    with_vectors = 0
    for _ in range(rounds):
        async with open_runtime(url, embedder=embedder, bare=True) as runtime:
            await _turn(runtime, SMALL)
            name = uuid4().hex
            began, worked = perf_counter(), process_time()
            turn = await runtime.engine.prepare_turn(LARGE, _ASKED, turn_id=name)
            opening_ms.append((perf_counter() - began) * 1000)
            processor_ms.append((process_time() - worked) * 1000)
            degradations.update(each.code for each in turn.report.degradations)
            candidates = () if turn.report.stream_b is None else turn.report.stream_b.candidates
            with_vectors += any(each.signals.vector is not None for each in candidates)
            await runtime.engine.commit_assistant_message(LARGE, "He said nothing.", turn_id=name)
            await runtime.engine.settle(60)
    found = {
        "opening_ms": _ranks(opening_ms),
        "processor_ms": _ranks(processor_ms),
        "degradations": sorted(degradations),
    }
    return {**found, "with_vectors": with_vectors, "rounds": rounds}


async def _turn(runtime: Runtime, session: str) -> float:
    """Take a turn; return its milliseconds. What is done behind it is not timed."""
    began = perf_counter()
    name = uuid4().hex
    await runtime.engine.prepare_turn(session, _ASKED, turn_id=name)
    await runtime.engine.commit_assistant_message(session, f"The miller said nothing, {name}.", turn_id=name)
    took = (perf_counter() - began) * 1000
    await runtime.engine.settle(60)
    return took


def _ranks(samples: list[float]) -> dict[str, float]:
    half, most = percentiles(samples, 50, 95)
    return {"p50": half, "p95": most}


if __name__ == "__main__":
    part, address, model, *counts = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="jacquard-host-") as folder:
        os.chdir(folder)
        numbers = [int(count) for count in counts]
        work = partial(play if part == "play" else open_large, address, model, *numbers)
        print(json.dumps(anyio.run(work)))
