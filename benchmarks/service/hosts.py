"""Many sessions in one PostgreSQL: opening one, a turn, and the memory of a host, among 1,000 and among 100,000 sessions.

And a large session on a host that has never seen it. Sessions are filled with texts and with vectors that nothing was embedded for:
only times and memory are measured. With `--postgres` the filled sessions stay, and the next run goes on with them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol, cast
from zlib import crc32

import anyio
import numpy as np
from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import utterances
from benchmarks.service.host_process import LARGE, SMALL
from benchmarks.stores.stores import serve_postgres
from evals.errors import SetupError
from evals.reporting.machine import load, machine
from jacquard.wiring.runtime import open_embedder
from mnemosyne import Chain, Embedder, Message, Role, SessionStart, Store, open_store
from mnemosyne.protocols import EmbeddedText, SharedIndexStore
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.indexing.indexer import Indexer
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.stores.locate import postgres_address

SEED = 11
DIMENSIONS = 384
_TALK = 5_000
_TASKS = 4
_ROOT = Path(__file__).resolve().parents[2]

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """Settings of a run."""

    sessions: Sequence[int] = (1_000, 100_000)
    """Numbers of sessions to compare."""
    entries: int = 100
    """Entries of each session."""
    opened: int = 300
    """Number of sessions that are opened."""
    large: int = 10_000
    """Entries of the session that another host opens, `rounds` times."""
    rounds: int = 10
    minutes: float = 60.0
    """Maximum time of filling."""
    embedder: str = "auto"


async def run(settings: Settings, postgres: str | None, say: Say, progress: Progress) -> dict[str, Any]:
    """Fill, measure in processes of their own, and return the figures. SetupError if filling is not done in time."""
    embedder = await to_thread.run_sync(open_embedder, settings.embedder)
    if embedder is None:
        raise SetupError("There is no embedding model; name one by --embedder.")
    until = perf_counter() + 60 * settings.minutes
    sizes = []
    async with serve_postgres(postgres) as uri:
        for count in settings.sessions:
            url = f"{uri}&schema=hosts_{count}_{settings.entries}"
            began = perf_counter()
            size_bytes = await _fill(url, count, settings, embedder, until, progress)
            say(f"{count:,} sessions: filled in {perf_counter() - began:.0f} s; a host opens {settings.opened} of them")
            arguments = ("play", url, settings.embedder, count, settings.opened)
            sizes.append({"sessions": count, "bytes": size_bytes, "load": load(), **await _run_host(*arguments)})
        url = f"{uri}&schema=hosts_large_{settings.large}"
        await _fill_large(url, settings, embedder, progress)
        say(f"another host opens a session of {settings.large:,} entries")
        large = await _run_host("open", url, settings.embedder, settings.rounds)
    found = {"sizes": sizes, "large": {"entries": settings.large, "load": load(), **large}}
    return {**found, "entries": settings.entries, "opened": settings.opened, "machine": machine()}


async def _run_host(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.service.host_process", *map(str, arguments)]
    path = os.pathsep.join((str(_ROOT), os.environ.get("PYTHONPATH", "")))
    done = await anyio.run_process(command, stderr=None, env={**os.environ, "PYTHONPATH": path}, check=False)
    if done.returncode:
        raise SetupError("A host ended with an error; it said so above.")
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


async def _fill(url: str, count: int, settings: Settings, embedder: Embedder, until: float, progress: Progress) -> int:
    """Create the sessions that are missing; return the bytes of the database."""
    store = _open(url)
    try:
        known = set(await store.sessions())
        missing = iter([f"s{number}" for number in range(count) if f"s{number}" not in known])
        done = len(known)

        async def work() -> None:
            nonlocal done
            for name in missing:
                await _add_session(store, name, settings.entries, embedder)
                done += 1
                progress(f"filling {count:,} sessions", done, count)
                if perf_counter() > until:
                    return

        async with anyio.create_task_group() as group:
            for _ in range(_TASKS):
                group.start_soon(work)
        if done < count:
            raise SetupError(f"{done:,} of {count:,} sessions are filled; run it again with --postgres to go on.")
        return await _database_bytes(url)
    finally:
        await store.close()


async def _fill_large(url: str, settings: Settings, embedder: Embedder, progress: Progress) -> None:
    store = _open(url)
    try:
        if LARGE in await store.sessions():
            return
        await _add_session(store, SMALL, settings.entries, embedder)
        await _add_session(store, LARGE, settings.large, embedder)
        index = TieredIndex("unused", segments=store.segments)
        indexer = Indexer(store, index, embedder, vectors=store.vectors)
        await indexer.index_new(session_scope(LARGE), progress=lambda done, all_: progress("indexing", done, all_))
        await index.close()
    finally:
        await store.close()


async def _add_session(store: SharingStore, name: str, entries: int, embedder: Embedder) -> None:
    turns = tuple(_turns(name, entries))
    await store.create_session(SessionStart(session_id=name, world_id="bare", locale="en", state={}, turns=turns))
    chance = np.random.default_rng(crc32(name.encode()))
    page = await store.entries_after(session_scope(name), Chain.HISTORY, 0, entries)
    vectors = chance.normal(size=(len(page), DIMENSIONS)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    texts = [
        EmbeddedText(entry_id=item.entry.entry_id, text_hash=text_hash(item.entry), vector=vector)
        for item, vector in zip(page, vectors, strict=True)
    ]
    for first in range(0, len(texts), 512):
        await store.vectors.put(session_scope(name), embedder.name, texts[first : first + 512])


def _turns(name: str, entries: int) -> Iterator[ImportedTurn]:
    texts = _talk()
    first = crc32(name.encode()) % len(texts)
    for number in range(entries // 2):
        asked, told = (texts[(first + 2 * number + place) % len(texts)] for place in (0, 1))
        yield ImportedTurn(
            turn_id=f"t{number}",
            messages=(
                Message(role=Role.USER, content=f"{asked} ({name}, {number})"),
                Message(role=Role.ASSISTANT, content=f"{told} ({number})"),
            ),
        )


@cache
def _talk() -> list[str]:
    return list(islice(utterances(_TALK, SEED), _TALK))


async def _database_bytes(url: str) -> int:
    driver = await to_thread.run_sync(import_module, "benchmarks.stores.driver_postgres")
    size: int = await to_thread.run_sync(driver.read_database_bytes, postgres_address(url).conninfo)
    return size


class SharingStore(Store, SharedIndexStore, Protocol):
    """A store whose hosts share vectors and index rows."""


def _open(url: str) -> SharingStore:
    return cast(SharingStore, open_store(url))


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print the figures side by side."""
    where = figures["machine"]
    console.print(Text(f"{where['cpu']}, {where['cores']} cores; {figures['opened']} sessions opened of each size"))
    table = Table(title=f"sessions of {figures['entries']} entries", title_justify="left")
    for name in ("sessions", "opening p50", "p95 ms", "turn p50", "p95 ms", "memory MB", "files", "load"):
        table.add_column(name, justify="right")
    for each in figures["sizes"]:
        opening, turn, memory = each["opening_ms"], each["turn_ms"], each["memory_mb"]
        cells = (
            f"{each['sessions']:,}",
            *(f"{opening['p50']:.0f}", f"{opening['p95']:.0f}", f"{turn['p50']:.0f}", f"{turn['p95']:.0f}"),
            f"{memory[0]:.0f} to {memory[-1]:.0f}",
            str(each["files"]),
            str(each["load"]),
        )
        table.add_row(*map(Text, cells))
    console.print(table)
    large = figures["large"]
    console.print(
        Text(
            f"another host answers the next turn of a session of {large['entries']:,} entries in "
            f"{large['opening_ms']['p50']:.0f} ms (p95 {large['opening_ms']['p95']:.0f}, of which its processor "
            f"{large['processor_ms']['p50']:.0f}; {large['rounds']} times, "
            f"{large['with_vectors']} with vectors; degradations: {', '.join(large['degradations']) or 'none'}; "
            f"load {large['load']})"
        )
    )
