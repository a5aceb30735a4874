"""Size of a session in a store, open and archived, and the cost of housekeeping for each session.

One session is played with the example world, by the engine and without a model or vectors; its bytes are those of its
stored bodies. Other sessions are short and imported; their work is counted in milliseconds of wall time, and of this
process's processor time, which is more reliable on a busy machine and ignores a database server.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.stores.stores import Progress, Say, open_server
from evals.errors import SetupError
from evals.reporting.machine import load, machine
from jacquard import open_runtime
from mnemosyne import Message, Role, SessionStart, open_store
from mnemosyne.protocols import StoreUpkeep
from mnemosyne.schema.record import ImportedTurn

KINDS = ("sqlite", "postgresql")
WORLD = Path(__file__).resolve().parents[2] / "examples" / "whispering_forest" / "en"
AT = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = "played"
_INPUTS = (
    "Where is the key to the temple?",
    "I ask the smith what he saw at the well last night.",
    "I walk on along the river and look for the old mill.",
    "What did the hermit tell us about the bell?",
)


async def run(
    sessions: int, turns: int, kinds: Sequence[str], postgres: str | None, say: Say, progress: Progress
) -> dict[str, Any]:
    """Measure in a folder that is removed afterwards; `postgres`: a server's address (None: one that is started here)."""
    stores = {}
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as name:
        for kind in kinds:
            async with open_server(kind, postgres, Path(name)) as uri:
                address = f"{uri}&schema=session_life" if uri else str(Path(name) / kind)
                stores[kind] = await _measure(address, sessions, turns, progress)
    return {"sessions": sessions, "turns": turns, "stores": stores, "machine": machine(), "load": load()}


async def _measure(address: str, sessions: int, turns: int, progress: Progress) -> dict[str, Any]:
    await _play(address, turns, progress)
    store = open_store(address)
    if not isinstance(store, StoreUpkeep):
        raise SetupError(f"{address} keeps no archives.")
    try:
        before = await store.usage()
        found: dict[str, Any] = {"bytes": before.stored_bytes}
        archived, found["archive"] = await _timed(lambda: store.archive(SESSION, at=AT))
        if archived is None:
            raise SetupError("The session was not archived.")
        found |= {"rows": archived.rows, "packed": archived.packed_bytes}
        found["open"] = (await _timed(lambda: store.open_archived(SESSION)))[1]
        for number in range(sessions):
            await store.create_session(_short(f"s{number:07}"))
            if number % 100 == 0:
                progress("sessions", number, sessions)
        found["idle"] = _each((await _timed(lambda: _look(store)))[1], sessions)
        found["usage"] = _each((await _timed(store.usage))[1], sessions)
        found["count"] = _each((await _timed(lambda: store.count_entries(sessions)))[1], sessions)
        some = min(sessions, 200)
        found["archive short"] = _each((await _timed(lambda: _archive(store, some)))[1], some)
        return found
    finally:
        await store.close()


async def _play(address: str, turns: int, progress: Progress) -> None:
    async with open_runtime(address, world=WORLD, embedder="none") as runtime:
        await runtime.ensure_session(SESSION)
        for number in range(turns):
            await runtime.engine.prepare_turn(SESSION, f"{_INPUTS[number % len(_INPUTS)]} ({number})")
            reply = f"The path bends, and turn {number} goes by without an answer that would please you."
            await runtime.engine.commit_assistant_message(SESSION, reply)
            progress("turns", number, turns)


def _short(session_id: str) -> SessionStart:
    said = (Message(role=Role.USER, content="Hello."), Message(role=Role.ASSISTANT, content="Good evening."))
    turn = ImportedTurn(turn_id="t1", messages=said)
    return SessionStart(session_id=session_id, world_id="w", locale="en", state={"hero": {}}, turns=(turn,), at=AT)


async def _look(store: StoreUpkeep) -> int:
    seen, after = 0, ""
    while True:
        page = await store.idle_sessions(AT + timedelta(days=1), after=after)
        seen += page.seen
        if page.next is None:
            return seen
        after = page.next


async def _archive(store: StoreUpkeep, number: int) -> None:
    for place in range(number):
        await store.archive(f"s{place:07}", at=AT)


async def _timed(work: Callable[[], Awaitable[Any]]) -> tuple[Any, dict[str, float]]:
    wall, processor = perf_counter(), process_time()
    done = await work()
    return done, {"ms": (perf_counter() - wall) * 1000, "processor_ms": (process_time() - processor) * 1000}


def _each(took: Mapping[str, float], number: int) -> dict[str, float]:
    return {name: value / number for name, value in took.items()}


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures."""
    where, turns = figures["machine"], figures["turns"]
    console.print(
        Text(
            f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, load {figures['load']}; "
            f"{turns} turns played, {figures['sessions']:,} short sessions"
        )
    )
    table = Table(title="a session, and housekeeping for each session", title_justify="left")
    for name in ("figure", *figures["stores"]):
        table.add_column(name)
    for label, read in _ROWS:
        table.add_row(*map(Text, (label, *(read(found, turns) for found in figures["stores"].values()))))
    console.print(table)


def _milliseconds(name: str) -> Callable[[Mapping[str, Any], int], str]:
    return lambda found, _: f"{found[name]['ms']:.3f} ms ({found[name]['processor_ms']:.3f} processor)"


_ROWS: tuple[tuple[str, Callable[[Mapping[str, Any], int], str]], ...] = (
    ("rows a turn", lambda found, turns: f"{found['rows'] / turns:.1f}"),
    ("bytes a turn, open", lambda found, turns: f"{found['bytes'] / turns:,.0f}"),
    ("bytes a turn, archived", lambda found, turns: f"{found['packed'] / turns:,.0f}"),
    ("archive the played session", _milliseconds("archive")),
    ("open it again", _milliseconds("open")),
    ("look whether a session is idle", _milliseconds("idle")),
    ("archive a short session", _milliseconds("archive short")),
    ("measure the bytes of a tenant, a session", _milliseconds("usage")),
    ("count sessions up to a limit, a session", _milliseconds("count")),
)
