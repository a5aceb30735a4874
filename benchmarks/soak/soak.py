"""Whether a host stays as it is over a hundred thousand turns: memory, handles, threads, disk and latency by window.

Sessions take turns in one runtime, with state ops, a model that selects over real HTTP, and a fault every so many turns. Some
play up to three times as often as others, so that they do not all reach a length at once. What was acknowledged is counted
and looked for in the store at the end of each part. The folder holds the store and the rows, so that a run is gone on with in
another process; slopes are those within a part, since memory and handles are of a process.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from time import monotonic, perf_counter, process_time
from typing import Any

from anyio import to_thread

from benchmarks.conversation import scenes
from benchmarks.deadline.server import ServerProcess
from benchmarks.soak.faults import FAULTS, GOOD_REPLY, Ground
from benchmarks.soak.figures import figures_of, show
from evals.reporting.figures import percentiles
from evals.reporting.machine import memory_mb
from jacquard import CurationConfig, Runtime, RuntimeConfig, SelectorConfig, open_runtime
from jacquard.wiring.process_tuning import return_free_memory
from mnemosyne import Role, load_world
from mnemosyne.retrieval.engines.tiered_index import TieredIndex

__all__ = ["Settings", "run", "show"]

SEED = 23
LEAST_OFTEN, MOST_OFTEN = 0.5, 1.5
"""Frequency of the first and the last session, as a share of the mean."""
WORLD = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
ROWS, DONE = "rows.jsonl", "done.json"

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of a run."""

    turns: int = 100_000
    sessions: int = 200
    fault_each: int = 500
    """Number of turns between two faults."""
    window: int = 1_000
    """Number of turns in a row of the figures."""
    minutes: float = 60.0
    """Maximum time of one part."""
    embedder: str = "none"


@dataclass(kw_only=True, slots=True)
class _Window:
    """The milliseconds of the turns of one row, and its faults."""

    prepare_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=perf_counter)
    processor: float = field(default_factory=process_time)


async def run(settings: Settings, folder: Path, say: Say, progress: Progress) -> dict[str, Any]:
    """Play turns until all are played or the part is over; return the figures of all parts so far. `failures` lists
    everything that should not have happened.
    """
    done = await to_thread.run_sync(_read_done, folder)
    if done.turns < settings.turns:
        done.part += 1
        async with ServerProcess(folder / "requests.jsonl", SEED + done.part) as server:
            await server.put("instant")
            config = RuntimeConfig(
                curation=CurationConfig(deadline_ms=1_500),
                selector=SelectorConfig(model="openai/moody", api_base=server.api_base, reset_seconds=1.0),
            )
            pack = await to_thread.run_sync(load_world, WORLD)
            async with open_runtime(folder / "store", world=pack, embedder=settings.embedder, config=config) as runtime:
                await runtime.warm()
                player = _Player(runtime=runtime, server=server, folder=folder, settings=settings, done=done)
                await player.play(say, progress)
                await player.find_losses()
        await to_thread.run_sync(done.save, folder)
    rows = await to_thread.run_sync(_read_rows, folder)
    return await to_thread.run_sync(figures_of, rows, asdict(settings), done.failures)


@dataclass(kw_only=True, slots=True)
class _RunState:
    """Progress of a run: the turns played, the number of its process, the acknowledged turns by session (with its first
    ones), and the failures.
    """

    turns: int = 0
    part: int = 0
    acknowledged: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def acknowledge(self, session_id: str) -> None:
        """Count one more reply of a session."""
        self.acknowledged[session_id] += 1

    def save(self, folder: Path) -> None:
        """Write it down."""
        new = folder / f"{DONE}.new"
        new.write_text(json.dumps(asdict(self), ensure_ascii=False), encoding="utf-8")
        new.replace(folder / DONE)


def _read_done(folder: Path) -> _RunState:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / DONE
    if not file.exists():
        return _RunState()
    return _RunState(**json.loads(file.read_text(encoding="utf-8")))


def _read_rows(folder: Path) -> list[dict[str, Any]]:
    file = folder / ROWS
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    rows = [json.loads(line) for line in lines]
    # Rows of an earlier release do not say what open sessions take of the memory.
    return [{"open_mb": 0.0, "rest_mb": row["memory_mb"], **row} for row in rows]


def order_of(settings: Settings) -> list[int]:
    """Return the numbers of the sessions that play, turn by turn: each once, then as often as its share says."""
    sessions = range(settings.sessions)
    step = (MOST_OFTEN - LEAST_OFTEN) / max(1, settings.sessions - 1)
    shares = [LEAST_OFTEN + step * number for number in sessions]
    later = max(0, settings.turns - settings.sessions)
    return [*sessions, *Random(SEED).choices(sessions, shares, k=later)]


class _Player:
    """Plays the turns of one part."""

    def __init__(
        self, *, runtime: Runtime, server: ServerProcess, folder: Path, settings: Settings, done: _RunState
    ) -> None:
        self._runtime, self._server, self._folder = runtime, server, folder
        self._settings, self._done = settings, done
        self._order = order_of(settings)
        played = Counter(self._order[: done.turns])
        self._inputs = {
            number: islice(scenes(settings.turns, SEED, number), played[number], None)
            for number in range(settings.sessions)
        }

    async def play(self, say: Say, progress: Progress) -> None:
        """Play until the part or the whole is over."""
        settings, done, window, began = self._settings, self._done, _Window(), monotonic()
        say(f"part {done.part}: {done.turns:,} of {settings.turns:,} turns are played")
        while done.turns < settings.turns:
            number = self._order[done.turns]
            await self._turn(f"soak-{number:04}", next(self._inputs[number]), window)
            done.turns += 1
            progress("turns", done.turns, settings.turns)
            if done.turns % settings.window == 0:
                await self._write_row(window)
                window = _Window()
                if monotonic() - began > 60 * settings.minutes:
                    break

    async def _turn(self, session_id: str, text: str, window: _Window) -> None:
        done, each = self._done, self._settings.fault_each
        if done.turns < self._settings.sessions:
            await self._runtime.ensure_session(session_id)
            done.acknowledged[session_id] = await self._count_replies(session_id)
        if each and done.turns % each == each - 1:
            names = list(FAULTS)
            number = done.turns // each
            name = names[number % len(names)]
            window.faults[name] += 1
            ground = Ground(
                runtime=self._runtime,
                folder=self._folder / "store",
                server=self._server,
                session_id=session_id,
                number=number // len(names),
            )
            try:
                await FAULTS[name](ground, text)
            except Exception as error:
                done.failures.append(f"turn {done.turns}, {name}: {type(error).__name__}: {error}")
                return
            done.acknowledge(session_id)
            return
        engine, began = self._runtime.engine, perf_counter()
        try:
            prepared = await engine.prepare_turn(session_id, text)
            made = perf_counter()
            await engine.commit_assistant_message(session_id, GOOD_REPLY, turn_id=prepared.turn_id)
        except Exception as error:
            done.failures.append(f"turn {done.turns}, without a fault: {type(error).__name__}: {error}")
            return
        window.prepare_ms.append((made - began) * 1000)
        window.commit_ms.append((perf_counter() - made) * 1000)
        done.acknowledge(session_id)

    async def _write_row(self, window: _Window) -> None:
        await self._runtime.engine.settle(10.0)
        row = await to_thread.run_sync(self._row, window)
        await to_thread.run_sync(_append, self._folder / ROWS, row)
        await to_thread.run_sync(self._done.save, self._folder)

    def _row(self, window: _Window) -> dict[str, Any]:
        store = self._folder / "store"
        prepare, tail = percentiles(window.prepare_ms, 50, 99)
        # What is counted is in use, however long ago the tuned process has returned what is free.
        return_free_memory()
        memory, of_open = memory_mb(), self._open_bytes() / 1e6
        return {
            "part": self._done.part,
            "turns": self._done.turns,
            "prepare_ms": round(prepare, 2),
            "prepare_p99_ms": round(tail, 2),
            "commit_ms": round(percentiles(window.commit_ms, 50)[0], 2),
            "processor_ms": round(1000 * (process_time() - window.processor) / self._settings.window, 2),
            "memory_mb": round(memory, 1),
            "open_mb": round(of_open, 1),
            "rest_mb": round(memory - of_open, 1),
            "handles": sum(1 for _ in Path("/dev/fd").iterdir()),
            "threads": threading.active_count(),
            "store_mb": round(_size_of(store, "store.db*"), 2),
            "index_mb": round(_size_of(store / "index", "**/*"), 2),
            "index_files": sum(1 for each in (store / "index").rglob("*") if each.is_file()),
            "seconds": round(perf_counter() - window.began, 1),
            "faults": dict(window.faults),
        }

    def _open_bytes(self) -> int:
        """Return how many bytes the index says that open sessions take in memory."""
        index = self._runtime.index
        return index.memory_bytes() if isinstance(index, TieredIndex) else 0

    async def find_losses(self) -> None:
        """Look for what was acknowledged: each commit is one more turn of its session, and no session has more of them."""
        for session_id, expected in sorted(self._done.acknowledged.items()):
            replies = await self._count_replies(session_id)
            if replies != expected:
                self._done.failures.append(f"{session_id}: {expected} replies were acknowledged, {replies} are there")

    async def _count_replies(self, session_id: str) -> int:
        document = await self._runtime.store.get_session(session_id)
        return 0 if document is None else sum(each.role is Role.ASSISTANT for each in document.session.messages)


def _append(file: Path, row: dict[str, Any]) -> None:
    with file.open("a", encoding="utf-8") as opened:
        opened.write(json.dumps(row, ensure_ascii=False) + "\n")


def _size_of(folder: Path, pattern: str) -> float:
    total = 0
    for each in folder.glob(pattern):
        try:
            total += each.stat().st_size if each.is_file() else 0
        except FileNotFoundError:
            continue
    return total / 1e6
