"""Measures the lateness of prompts when the selector's model is slow, hangs, breaks off, dies or answers nonsense.

Sessions are played at once, over real HTTP, against a server in a process of its own whose mode changes during the run.
Measured are the time of Stream B beyond its deadline, the path of each turn, the use of late results, and the changes
of the circuit breaker.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

import anyio

from benchmarks.conversation import scenes, session_of
from benchmarks.deadline.figures import Change, Run, Sample, Settings, figures_of, show
from benchmarks.deadline.pulse import Pulse
from benchmarks.deadline.server import ServerProcess
from jacquard import CurationConfig, HistoryConfig, Runtime, RuntimeConfig, SelectorConfig, open_runtime

__all__ = ["Settings", "run", "show"]

SEED = 11
REPLY = "<content>So be it, 就这样吧。</content>"
CYCLE = (
    ("quick", 3), ("random", 8), ("hang", 2), ("quick", 1), ("dead", 2), ("quick", 1), ("refuse", 1), ("rubbish", 2),
)  # fmt: skip
"""The server's moods and for how many parts of a cycle each holds; `dead`: its process is killed."""
CYCLE_TURNS = 400
PLAIN_EACH = 10
"""Each so many turns one goes without Stream B: what a turn takes by itself, under the same load."""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


def find_mood(turn: int, turns: int) -> str:
    """Return the server's mood at a turn (0-based); a run shorter than a cycle goes through all of one."""
    parts = sum(share for _, share in CYCLE)
    length = min(CYCLE_TURNS, turns)
    place = turn % length * parts / length
    for mood, share in CYCLE:
        place -= share
        if place < 0:
            return mood
    return CYCLE[-1][0]


async def run(settings: Settings, say: Say, progress: Progress) -> dict[str, Any]:
    """Play all turns and return the figures with a row a turn; `faults` lists every violation of the laws."""
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as name:
        folder = Path(name)
        async with ServerProcess(folder / "requests.jsonl", SEED) as server:
            config = RuntimeConfig(
                # There must be something to recall.
                history=HistoryConfig(max_messages=60),
                curation=CurationConfig(deadline_ms=settings.deadline_ms),
                selector=SelectorConfig(
                    model="openai/moody", api_base=server.api_base, reset_seconds=settings.reset_seconds
                ),
            )
            async with open_runtime(folder / "store", embedder=settings.embedder, config=config) as runtime:
                say(f"building {settings.sessions} sessions of {settings.messages:,} messages")
                ids = [await _begin(runtime, number, settings) for number in range(settings.sessions)]
                await runtime.warm()
                play = _Play(runtime=runtime, config=config, settings=settings, server=server, progress=progress)
                pulse = Pulse()
                with _watch_breaker() as changes:
                    began = time.time()
                    async with pulse.watching(), anyio.create_task_group() as players:
                        for number, session_id in enumerate(ids):
                            players.start_soon(play.session, session_id, number)
                    ended = time.time()
                requests = await server.requests()
    outcome = Run(
        samples=play.samples, changes=changes, requests=requests, stalls_ms=pulse.late_ms, queued_ms=pulse.queued_ms
    )
    return figures_of(outcome, settings, seconds=ended - began)


async def _begin(runtime: Runtime, number: int, settings: Settings) -> str:
    start = session_of(settings.messages, seed=SEED, session_id=f"talk-{number}")
    head = await runtime.import_session(start)
    await runtime.sync(head.session_id)
    return head.session_id


class _Play:
    """The players, one a session; they draw turns from one count, and the server's mood follows it."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        config: RuntimeConfig,
        settings: Settings,
        server: ServerProcess,
        progress: Progress,
    ) -> None:
        self._workshop, self._settings, self._server, self._progress = runtime, settings, server, progress
        self._with = config
        self._without = replace(config, curation=replace(config.curation, enabled=False))
        self._begun = 0
        self._lock = anyio.Lock()
        self.samples: list[Sample] = []

    async def session(self, session_id: str, number: int) -> None:
        """Play one session until all turns are drawn."""
        random = Random(SEED * 101 + number)
        await anyio.sleep(random.uniform(0, 2 * self._settings.think_seconds))
        for text in scenes(self._settings.turns, SEED, number):
            async with self._lock:
                place = self._begun
                if place >= self._settings.turns:
                    return
                self._begun += 1
                mood = find_mood(place, self._settings.turns)
                await self._server.put(mood)
            plain = place % PLAIN_EACH == PLAIN_EACH - 1
            self.samples.append(await self._turn(session_id, text, mood, plain))
            self._progress("turns", len(self.samples), self._settings.turns)
            await anyio.sleep(random.uniform(0, 2 * self._settings.think_seconds))

    async def _turn(self, session_id: str, text: str, mood: str, plain: bool) -> Sample:
        engine, at, began = self._workshop.engine, time.time(), perf_counter()
        prepared = await engine.prepare_turn(session_id, text, self._without if plain else self._with)
        wall_ms = (perf_counter() - began) * 1000
        await engine.commit_assistant_message(session_id, REPLY, turn_id=prepared.turn_id)
        stream = prepared.report.stream_b
        return Sample(
            session=session_id,
            turn_id=prepared.turn_id,
            text=text,
            mood=mood,
            at=at,
            wall_ms=wall_ms,
            stream_ms=prepared.report.timings_ms.get("stream_b", 0.0),
            path=stream.path.value,
            code=stream.code,
            reason=stream.reason,
            refused=stream.prefetch_refused,
            selected=stream.selected,
            timings_ms=prepared.report.timings_ms,
        )


class _Changes(logging.Handler):
    """Keeps what the circuit breaker says of itself."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seen: list[Change] = []

    def emit(self, record: logging.LogRecord) -> None:
        what = getattr(record, "breaker", None)
        if what is not None and isinstance(record.args, tuple):
            at = float(getattr(record, "breaker_at", 0.0))
            self.seen.append(Change(at=at, what=str(what), failures=int(str(record.args[0]))))


@contextmanager
def _watch_breaker() -> Iterator[list[Change]]:
    """Give the list into which every change of the circuit breaker goes."""
    heard, log = _Changes(), logging.getLogger("jacquard.pipeline.curation.breaker")
    level, passed_on = log.level, log.propagate
    log.addHandler(heard)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield heard.seen
    finally:
        log.removeHandler(heard)
        log.setLevel(level)
        log.propagate = passed_on
