"""Costs of an append and a turn's load in each store as sessions grow, compared with the plain driver doing the same
writes.

A store of each size is open at once; appends and loads of all sizes and of their plain drivers are interleaved, and the
order changes from round to round, so that other work on the machine falls on all of them alike: read the ratios first,
the milliseconds second. Processor time is that of this process (not of a database server), and is the most reliable on
a busy machine. An append is one turn of two messages, kept when it returns; a load is the window that a turn reads.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio
import anyio.abc
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import utterances
from benchmarks.stores.drivers import PlainDriver, PlainLines, PlainList, PlainSqlite, Said
from evals.errors import SetupError
from evals.reporting.figures import percentiles
from evals.reporting.machine import load, machine, memory_mb
from mnemosyne import Message, Role, SessionStart, Store, open_store
from mnemosyne.schema.record import ImportedTurn

KINDS = ("memory", "file", "sqlite", "postgresql")
SESSION = "talk"
SEED = 7
WINDOW = 20
WARM_ROUNDS = 5
SERVER = Path(__file__).resolve().parents[2] / "tests" / "mnemosyne" / "postgres_server.py"
_TALK = 2_000
_CHUNK_TURNS = 2_000

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(kw_only=True, slots=True)
class Side:
    """One store of one size and its plain driver, how long filling them took, the memory it brought, and the samples."""

    kind: str
    messages: int
    store: Store
    plain: PlainDriver
    fill_seconds: float
    open_seconds: float
    memory_mb: float
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, step: str, began: tuple[float, float]) -> None:
        """Keep the milliseconds since `began`, by the clock and of this process's processor time."""
        for name, since, now in zip((step, f"{step} processor"), began, _times(), strict=True):
            self.samples.setdefault(name, []).append((now - since) * 1000)


async def run(
    sizes: Sequence[int], rounds: int, kinds: Sequence[str], postgres: str | None, say: Say, progress: Progress
) -> dict[str, Any]:
    """Measure in a folder that is removed afterwards; `postgres`: a server's address (None: one that is started here)."""
    stores = {}
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as name:
        for kind in kinds:
            async with open_server(kind, postgres, Path(name)) as uri:
                stores[kind] = await _measure(kind, sorted(sizes), rounds, Path(name) / kind, uri, say, progress)
    return {
        "sizes": sorted(sizes),
        "rounds": rounds,
        "window": WINDOW,
        "stores": stores,
        "own_server": postgres is None,
        "machine": machine(),
        "load": load(),
    }


async def _measure(
    kind: str, sizes: Sequence[int], rounds: int, folder: Path, uri: str, say: Say, progress: Progress
) -> dict[str, Any]:
    sides: list[Side] = []
    try:
        for size in sizes:
            say(f"{kind}: a session of {size:,} messages")
            sides.append(await _side(kind, size, folder / str(size), uri, progress))
        for number in range(rounds + WARM_ROUNDS):
            for side in sides if number % 2 == 0 else sides[::-1]:
                await _round(side, number)
            if number == WARM_ROUNDS - 1:
                for side in sides:
                    side.samples.clear()
            progress(f"{kind}: rounds", number + 1, rounds + WARM_ROUNDS)
        return _figures(sides)
    finally:
        for side in sides:
            side.plain.close()
            await side.store.close()


async def _side(kind: str, size: int, folder: Path, uri: str, progress: Progress) -> Side:
    await anyio.Path(folder).mkdir(parents=True)
    address = {
        "memory": "memory:",
        "file": f"file:///{folder}/files",
        "sqlite": f"sqlite:///{folder}/store.db",
        "postgresql": f"{uri}&schema=store_{size}",
    }[kind]
    before = memory_mb()
    store = open_store(address)
    began = perf_counter()
    await store.create_session(SessionStart(session_id=SESSION, world_id="", locale="en", state={}))
    turns = turns_of(size)
    done = 0
    while chunk := tuple(islice(turns, _CHUNK_TURNS)):
        await store.append_turns(SESSION, chunk)
        done += sum(len(turn.messages) for turn in chunk)
        progress(f"{kind}: filling {size:,}", done, size)
    filled = perf_counter()
    if kind != "memory":
        await store.close()
        store = open_store(address)
    opened = perf_counter()
    await store.window(SESSION, message_limit=WINDOW)
    ready = perf_counter()
    held = memory_mb() - before
    plain = _plain(kind, folder, uri, size)
    plain.fill([_build_plain_message(each) for each in turn.messages] for turn in turns_of(size))
    return Side(
        kind=kind,
        messages=size,
        store=store,
        plain=plain,
        fill_seconds=filled - began,
        open_seconds=ready - opened,
        memory_mb=held,
    )


def _plain(kind: str, folder: Path, uri: str, size: int) -> PlainDriver:
    if kind == "postgresql":
        plain: PlainDriver = import_module("benchmarks.stores.driver_postgres").PlainPostgres(uri, f"plain_{size}")
        return plain
    if kind == "sqlite":
        return PlainSqlite(folder / "plain.db")
    return PlainLines(folder / "plain.jsonl") if kind == "file" else PlainList()


def turns_of(messages: int) -> Iterator[ImportedTurn]:
    """Yield turns of two messages (the last of one where the number is odd) of a talk that begins anew after a while."""
    texts = list(utterances(min(messages, _TALK), SEED))
    for number, place in enumerate(range(0, messages, 2), start=1):
        said = [texts[at % len(texts)] for at in range(place, min(place + 2, messages))]
        yield ImportedTurn(turn_id=f"t{number:07}", messages=_turn(said))


def _turn(texts: Sequence[str]) -> tuple[Message, ...]:
    return tuple(
        Message(role=role, content=text) for role, text in zip((Role.USER, Role.ASSISTANT), texts, strict=False)
    )


def _build_plain_message(message: Message) -> Said:
    return {"role": message.role.value, "content": message.content}


def _times() -> tuple[float, float]:
    return perf_counter(), process_time()


async def _round(side: Side, number: int) -> None:
    """Append a turn and load a window, once in the store and once by hand, whichever first."""
    messages = _turn((f"How far is it to the mill, the {number}th time? 还有多远？", "Not far, 不远了。"))
    said = [_build_plain_message(each) for each in messages]
    for first in (number % 4 < 2, number % 4 >= 2):
        if first:
            began = _times()
            await side.store.append_messages(SESSION, messages)
            side.add("append", began)
            began = _times()
            await side.store.window(SESSION, message_limit=WINDOW)
            side.add("load", began)
        else:
            began = _times()
            side.plain.append(said)
            side.add("plain append", began)
            began = _times()
            side.plain.load_newest(WINDOW)
            side.add("plain load", began)


def _figures(sides: Sequence[Side]) -> dict[str, Any]:
    steps = {}
    for name in ("append", "load"):
        medians = [statistics.median(side.samples[name]) for side in sides]
        plain = [statistics.median(side.samples[f"plain {name}"]) for side in sides]
        processor = [statistics.median(side.samples[f"{name} processor"]) for side in sides]
        steps[name] = {
            "median_ms": medians,
            "p95_ms": [percentiles(side.samples[name], 95)[0] for side in sides],
            "plain_median_ms": plain,
            "plain_p95_ms": [percentiles(side.samples[f"plain {name}"], 95)[0] for side in sides],
            "times_plain": [own / other for own, other in zip(medians, plain, strict=True)],
            "growth": medians[-1] / medians[0],
            "processor_ms": processor,
            "processor_growth": processor[-1] / processor[0],
            "plain_growth": plain[-1] / plain[0],
        }
    return {
        "steps": steps,
        "fill_seconds": [side.fill_seconds for side in sides],
        "open_seconds": [side.open_seconds for side in sides],
        "memory_mb": [side.memory_mb for side in sides],
    }


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures side by side."""
    where, sizes = figures["machine"], figures["sizes"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, load {figures['load']}; "
            f"{figures['rounds']} rounds, interleaved; an append is a turn of two messages, a load a window of {figures['window']}"
        )
    )
    table = Table(title="milliseconds, median (p95); times the plain driver's median", title_justify="left")
    table.add_column("store")
    table.add_column("step")
    for size in sizes:
        table.add_column(f"{size:,} messages", justify="right")
    table.add_column(f"{sizes[-1]:,} / {sizes[0]:,}", justify="right")
    for kind, found in figures["stores"].items():
        for name, step in found["steps"].items():
            own = zip(step["median_ms"], step["p95_ms"], step["times_plain"], strict=True)
            plain = zip(step["plain_median_ms"], step["plain_p95_ms"], strict=True)
            cells = [f"{median:.3f} ({p95:.3f}) {times:.1f}x" for median, p95, times in own]
            table.add_row(*map(Text, (kind, name, *cells, f"{step['growth']:.2f}")), style="bold")
            cells = [f"{value:.3f}" for value in step["processor_ms"]]
            table.add_row(*map(Text, ("", "  processor", *cells, f"{step['processor_growth']:.2f}")))
            cells = [f"{median:.3f} ({p95:.3f})" for median, p95 in plain]
            table.add_row(*map(Text, ("", "  by hand", *cells, f"{step['plain_growth']:.2f}")))
    console.print(table)
    for kind, found in figures["stores"].items():
        for place, size in enumerate(sizes):
            console.print(
                Text(
                    f"{kind}, {size:,} messages: filled in {found['fill_seconds'][place]:.1f} s, first load after opening "
                    f"{found['open_seconds'][place] * 1000:.0f} ms, {found['memory_mb'][place]:.0f} MB more in memory"
                )
            )
    if "postgresql" in figures["stores"] and figures["own_server"]:
        console.print(
            Text("postgresql: a server of this run, which does not wait for the disk; --postgres names another")
        )


@asynccontextmanager
async def open_server(kind: str, address: str | None, folder: Path) -> AsyncIterator[str]:
    """Give a PostgreSQL server's address where one is needed; one that is started here ends with the block."""
    if kind != "postgresql":
        yield ""
        return
    async with serve_postgres(address) as uri:
        yield uri


@asynccontextmanager
async def serve_postgres(address: str | None) -> AsyncIterator[str]:
    """Give a PostgreSQL server's address, to which parameters can be added; one that is started here ends with the block."""
    if address is not None:
        yield address if "?" in address else f"{address}?"
        return
    if not await anyio.Path(SERVER).is_file():
        raise SetupError(f"{SERVER} is not there: run from a checkout, or name a server with --postgres.")
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as folder:
        log = Path(folder) / "server.log"
        async with await anyio.open_file(log, "w", encoding="utf-8") as said:
            process = await anyio.open_process([sys.executable, str(SERVER)], stdout=said.wrapped, stderr=said.wrapped)
        try:
            yield await _read_address(log, process)
        finally:
            if process.stdin is not None:
                await process.stdin.aclose()
            await process.wait()


async def _read_address(log: Path, process: anyio.abc.Process) -> str:
    while True:
        heard = await anyio.Path(log).read_text(encoding="utf-8")
        if found := [line for line in heard.splitlines() if line.startswith("postgresql://")]:
            return found[0]
        if process.returncode is not None:
            raise SetupError(f"PostgreSQL did not start: {heard.strip() or 'it said nothing'}")
        await anyio.sleep(0.05)
