"""Compares the service with the library in this process: a turn's time at half of the capacity, memory, and the
behaviour past capacity.

The service is `jacquard operate serve` in a process of its own, over SQLite; both play the same inputs in the same world at the
same rate, half of what the service can do, by turns in short parts, so that other work on the machine meets both alike. A turn is
prepared and its reply committed: two requests.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import anyio
from anyio import to_thread
from anyio.abc import Process
from rich.console import Console
from rich.table import Table

from benchmarks.conversation import scenes
from benchmarks.service.http_client import Answer, HttpClient
from benchmarks.service.load import OK, Play, Sessions, TimedTurn, find_capacity, play_at_once, play_at_rate
from evals.errors import SetupError
from evals.reporting.figures import percentiles
from jacquard import Runtime, open_runtime
from mnemosyne import Role, open_store

WORLD = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
REPLY = '<content>So be it, 就这样吧。</content><state_update>[["ADD", "hero.gold", 1]]</state_update>'
SEED = 31
INPUTS = 400
CREATED, TOO_MANY, UNAVAILABLE = 201, 429, 503
START_SECONDS = 300.0
MEMORY_ROWS = 20
PART_TURNS = 50
WARM_AT_ONCE = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of a run."""

    turns: int = 20_000
    """Number of turns with memory measured, at half of the capacity."""
    is_closed: bool = False
    """Whether some turns are under way all the time instead."""
    sessions: int = 200
    """Number of sessions from the start."""
    session_turns: int = 50
    """Turns of each session."""
    compared_turns: int = 1_000
    warm_seconds: float = 5.0
    capacity_seconds: float = 10.0
    at_once: int = 16
    overload: float = 3.0
    """Multiple of the capacity that is played past it, for `overload_seconds`."""
    overload_seconds: float = 20.0
    workers: int = 1
    embedder: str = "none"


async def run(
    settings: Settings, say: Callable[[str], None], progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Measure; return the figures. SetupError if the service does not start."""
    texts = list(islice(scenes(INPUTS, SEED, 0), INPUTS))
    with TemporaryDirectory(prefix="jacquard-bench-") as name:
        folder = Path(name)
        async with serve(folder / "served", settings) as (port, process), HttpClient(port) as client:
            over_http = http_player(client)
            sessions = Sessions(
                prefix="bench", inputs=lambda turn: texts[turn % len(texts)], length=settings.session_turns
            )
            sessions.open(settings.sessions)
            await find_capacity(over_http, sessions, WARM_AT_ONCE, settings.warm_seconds)
            capacity = await find_capacity(over_http, sessions, settings.at_once, settings.capacity_seconds)
            rate = capacity / 2
            say(f"capacity {capacity:.1f} turns/s; half of it is played")
            compared = await _compare(folder / "library", settings, texts, rate, over_http, sessions, process.pid)
            all_played, memory = list(compared.http), [memory_of(process.pid)]
            part = max(1, settings.turns // MEMORY_ROWS)
            for row in range(MEMORY_ROWS):
                if settings.is_closed:
                    all_played += await play_at_once(over_http, sessions, WARM_AT_ONCE, part)
                else:
                    all_played += await play_at_rate(over_http, sessions, rate, part, SEED + row)
                memory.append(memory_of(process.pid))
                progress("turns", (row + 1) * part, settings.turns)
            hasty = round(settings.overload * capacity * settings.overload_seconds)
            overload = await play_at_rate(over_http, sessions, settings.overload * capacity, hasty, SEED)
            after = await play_at_rate(over_http, sessions, rate, min(200, settings.turns), SEED)
        lost = await _find_losses(folder / "served", [*all_played, *overload, *after])
    return {
        "settings": asdict(settings),
        "capacity": capacity,
        "rate": rate,
        "http": _times(compared.http),
        "library": _times(compared.library),
        "processor_ms": {
            "http": 1000 * compared.http_seconds / len(compared.http),
            "library": 1000 * compared.library_seconds / len(compared.library),
        },
        "long": _times(all_played),
        "memory_mb": memory,
        "overload": {"turns": len(overload), "answers": _count_answers(overload), **_times(overload)},
        "without_retry_after": sum(_is_refused(each) and not each.says_when for each in overload),
        "after": _times(after),
        "refused": sum(_is_refused(each) for each in [*all_played, *after]),
        "failures": [
            f"{each.session_id}: HTTP {each.status} {each.code}"
            for each in [*all_played, *overload, *after]
            if each.status != OK and not _is_refused(each)
        ],
        "lost": lost,
    }


@asynccontextmanager
async def serve(store: Path, settings: Settings, **service: object) -> AsyncIterator[tuple[int, Process]]:
    """Run the service on a free port for the length of a block; it is ended as a host ends it. `service`: settings of the table
    `service`, a name in a table below it as `limits__waiting`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = {
        "--port": port,
        "--store": store,
        "--world": WORLD,
        "--embedder": settings.embedder,
        "--workers": settings.workers,
    }
    options = [str(part) for pair in given.items() for part in pair]
    log = await to_thread.run_sync(store.with_suffix(".log").open, "wb")
    command = [sys.executable, "-m", "jacquard", "serve", *options]
    variables = {f"JACQUARD_SERVICE__{name.upper()}": str(value) for name, value in service.items()}
    process = await anyio.open_process(command, stdout=None, stderr=log, env=os.environ | variables)
    try:
        await _wait_until_ready(port, process, Path(log.name))
        yield port, process
    finally:
        process.terminate()
        with anyio.move_on_after(START_SECONDS):
            await process.wait()
        await process.aclose()
        log.close()


async def _wait_until_ready(port: int, process: Process, log: Path) -> None:
    with anyio.move_on_after(START_SECONDS):
        while process.returncode is None:
            try:
                async with HttpClient(port) as client:
                    if (await client.get("/readyz")).status == OK:
                        return
            except OSError:
                pass
            await anyio.sleep(0.2)
    said = await to_thread.run_sync(log.read_text, "utf-8", "replace")
    raise SetupError(f"The service did not start. Its log: {said[-2_000:]}")


def http_player(client: HttpClient) -> Play:
    """Return what plays turns over HTTP."""
    started: set[str] = set()

    async def play(played: TimedTurn, text: str) -> None:
        address = f"/api/v1/sessions/{played.session_id}"
        if played.session_id not in started:
            answer = await client.post("/api/v1/sessions", {"session_id": played.session_id})
            if answer.status != CREATED:
                _note(played, answer)
                return
            started.add(played.session_id)
        answer = await client.post(f"{address}/turns", {"message": text})
        if answer.status == OK:
            played.turn_id = answer.value["turn_id"]
            answer = await client.post(f"{address}/reply", {"message": REPLY, "turn_id": played.turn_id})
            played.acknowledged = answer.status == OK
        _note(played, answer)

    return play


def _note(played: TimedTurn, answer: Answer) -> None:
    played.status, played.says_when = answer.status, "retry-after" in answer.headers
    if answer.status != OK:
        played.code = str(answer.value.get("error", {}).get("code", ""))


@dataclass(kw_only=True, slots=True)
class _ComparedTurns:
    """Turns over HTTP and in this process, and the seconds of the processor that the service and this process took for them."""

    http: list[TimedTurn] = field(default_factory=list)
    library: list[TimedTurn] = field(default_factory=list)
    http_seconds: float = 0.0
    library_seconds: float = 0.0


async def _compare(
    store: Path, settings: Settings, texts: Sequence[str], rate: float, over_http: Play, served: Sessions, pid: int
) -> _ComparedTurns:
    compared = _ComparedTurns()
    async with open_runtime(store, world=WORLD, embedder=settings.embedder) as runtime:
        await runtime.warm()
        in_process = library_player(runtime)
        sessions = Sessions(prefix="bench", inputs=lambda turn: texts[turn % len(texts)], length=settings.session_turns)
        sessions.open(settings.sessions)
        await find_capacity(in_process, sessions, WARM_AT_ONCE, settings.warm_seconds)
        for part in range(max(1, settings.compared_turns // PART_TURNS)):
            before = processor_seconds(pid)
            compared.http += await play_at_rate(over_http, served, rate, PART_TURNS, SEED + part)
            compared.http_seconds += processor_seconds(pid) - before
            before = process_time()
            compared.library += await play_at_rate(in_process, sessions, rate, PART_TURNS, SEED + part)
            compared.library_seconds += process_time() - before
    return compared


def library_player(runtime: Runtime) -> Play:
    """Return what plays turns in this process."""
    started: set[str] = set()

    async def play(played: TimedTurn, text: str) -> None:
        if played.session_id not in started:
            started.add(played.session_id)
            await runtime.ensure_session(played.session_id, index=False)
        prepared = await runtime.engine.prepare_turn(played.session_id, text)
        await runtime.engine.commit_assistant_message(played.session_id, REPLY, turn_id=prepared.turn_id)
        played.acknowledged, played.turn_id = True, prepared.turn_id

    return play


async def _find_losses(store: Path, played: Sequence[TimedTurn]) -> list[str]:
    """Return a sentence for each turn that was acknowledged and is not in the store, or is there twice."""
    lost = list[str]()
    by_session: dict[str, list[str]] = {}
    for each in played:
        if each.acknowledged:
            by_session.setdefault(each.session_id, []).append(each.turn_id)
    opened = await to_thread.run_sync(open_store, store)
    try:
        for session_id, turn_ids in by_session.items():
            missing = set(turn_ids) - await opened.committed_turns(session_id, turn_ids)
            lost += [f"{session_id}: {turn_id} was acknowledged and is not there" for turn_id in sorted(missing)]
            document = await opened.get_session(session_id)
            assert document is not None
            replies = sum(each.role is Role.ASSISTANT for each in document.session.messages)
            if replies < len(set(turn_ids)):
                lost.append(f"{session_id}: {len(set(turn_ids))} replies were acknowledged, {replies} are there")
    finally:
        await opened.close()
    return lost


def _times(played: Sequence[TimedTurn]) -> dict[str, float]:
    answered = [each.milliseconds for each in played if each.acknowledged]
    if not answered:
        return {"acknowledged": 0, "p50_ms": 0.0, "p95_ms": 0.0, "p99_ms": 0.0}
    middle, late, latest = percentiles(answered, 50, 95, 99)
    return {"acknowledged": len(answered), "p50_ms": middle, "p95_ms": late, "p99_ms": latest}


def _count_answers(played: Sequence[TimedTurn]) -> dict[str, int]:
    return {str(status): count for status, count in sorted(Counter(each.status for each in played).items())}


def _is_refused(played: TimedTurn) -> bool:
    return played.status in (TOO_MANY, UNAVAILABLE)


def processor_seconds(pid: int) -> float:
    """Return the seconds of the processor that a process and its children have taken; 0 if the system does not report
    them.
    """
    total = 0
    for each in (pid, *_children_of(pid)):
        try:
            fields = Path(f"/proc/{each}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK") if total else 0.0


def memory_of(pid: int) -> float:
    """Return the resident memory of a process and its children, in MB; 0 if the system does not report it."""
    total = 0
    for each in (pid, *_children_of(pid)):
        try:
            status = Path(f"/proc/{each}/status").read_text(encoding="ascii", errors="replace")
        except OSError:
            continue
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        total += int(found[1]) if found else 0
    return round(total / 1024, 1)


def _children_of(pid: int) -> list[int]:
    try:
        names = [each.name for each in Path("/proc").iterdir() if each.name.isdigit()]
    except OSError:
        return []
    found = []
    for name in names:
        try:
            parent = (
                Path(f"/proc/{name}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            )
        except (OSError, IndexError):
            continue
        if parent == str(pid):
            found.append(int(name))
    return found


def show(figures: Mapping[str, Any], out: Console) -> None:
    """Print the figures of `run`."""
    table = Table("", "turns", "p50 ms", "p95 ms", "p99 ms", title="A turn: prepare and commit")
    rows = (
        ("library, in process", figures["library"]),
        ("over HTTP", figures["http"]),
        ("over HTTP, all", figures["long"]),
        ("past capacity, acknowledged", figures["overload"]),
        ("after that", figures["after"]),
    )
    for name, times in rows:
        table.add_row(
            name, str(times["acknowledged"]), *(f"{times[key]:.1f}" for key in ("p50_ms", "p95_ms", "p99_ms"))
        )
    out.print(table)
    more = figures["http"]["p50_ms"] - figures["library"]["p50_ms"]
    out.print(
        f"capacity {figures['capacity']:.1f} turns/s; played at {figures['rate']:.1f}; HTTP adds {more:.1f} ms at p50"
    )
    spent = figures["processor_ms"]
    out.print(
        f"processor time of a turn: {spent['library']:.1f} ms in process (with the load), "
        f"{spent['http']:.1f} ms of the service over HTTP"
    )
    memory = figures["memory_mb"]
    out.print(f"memory of the service: {memory[0]:.0f} MB at first, {memory[-1]:.0f} MB at the end; rows: {memory}")
    overload = figures["overload"]
    out.print(
        f"past capacity: {overload['turns']} turns, answers {overload['answers']}, "
        f"{figures['without_retry_after']} refusals without Retry-After"
    )
    out.print(
        f"acknowledged and lost: {len(figures['lost'])}; failures: {len(figures['failures'])}; "
        f"refused at half of the capacity: {figures['refused']} (none, unless the machine has other work)"
    )
    for line in [*figures["lost"], *figures["failures"]][:10]:
        out.print(f"  {line}")
