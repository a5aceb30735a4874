"""How long a chat of SillyTavern takes to come into SQLite, with its other replies as branches, and how much memory at its peak.

The chat is made up by the generator of the other benchmarks and written as JSONL; one reply in ten has another one. It is
imported into an empty session, once more as it is, and once more in two halves. Memory is what Python objects take (tracemalloc,
in a run of its own, which is slower), and must not grow with the length of the chat. Seconds are with both readings of the file.
"""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.conversation import GUIDE, PLAYER, utterances
from evals.reporting.machine import load, machine
from jacquard.turns.writing.chat_import import import_chat
from mnemosyne import SessionStart, open_store
from mnemosyne.formats.chats.sillytavern import read_chat

SEED = 7
SWIPES_EVERY = 10
_SESSION = "chat"

Say = Callable[[str], None]


async def run(sizes: Sequence[int], say: Say) -> dict[str, Any]:
    """Measure chats of these numbers of messages in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="jacquard-bench-") as folder:
        rows = [await _measure(Path(folder) / str(size), size, say) for size in sorted(sizes)]
    return {"rows": rows, "machine": machine(), "load": load()}


async def _measure(folder: Path, size: int, say: Say) -> dict[str, Any]:
    file = folder / "chat.jsonl"
    half = folder / "half" / file.name
    await to_thread.run_sync(_write_chats, file, half, size)
    say(f"importing a chat of {size:,} messages")
    first, again, branches = await _import_twice(folder / "whole", file)
    say(f"importing it in two halves, and with its memory watched ({size:,} messages)")
    begun = await _import(folder / "halves", half)
    grown = await _import(folder / "halves", file)
    tracemalloc.start()
    await _import(folder / "watched", file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "messages": size,
        "branches": branches,
        "file_mb": _size_of(file) / 1e6,
        "store_mb": _size_of(folder / "whole") / 1e6,
        "first_seconds": first,
        "again_seconds": again,
        "half_seconds": begun,
        "other_half_seconds": grown,
        "peak_memory_mb": peak / 1e6,
    }


async def _import_twice(database: Path, file: Path) -> tuple[float, float, int]:
    first, again = await _import(database, file), await _import(database, file)
    store = await to_thread.run_sync(open_store, str(database))
    try:
        return first, again, len(await store.branches(_SESSION))
    finally:
        await store.close()


async def _import(database: Path, file: Path) -> float:
    """Return how many seconds an import takes, with both readings of the file."""
    store = await to_thread.run_sync(open_store, str(database))
    try:
        if _SESSION not in await store.sessions():
            await store.create_session(SessionStart(session_id=_SESSION, world_id="", locale="en", state={}))
        began = perf_counter()
        read = await to_thread.run_sync(read_chat, file)
        await import_chat(store, _SESSION, read.chats[0].read_turns())
        return perf_counter() - began
    finally:
        await store.close()


def _write_chat(file: Path, size: int) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in _lines(size))


def _lines(size: int) -> Iterator[Mapping[str, Any]]:
    yield {"user_name": PLAYER, "character_name": GUIDE, "create_date": "2024-1-1@8h 0m 0s", "chat_metadata": {}}
    swipes = utterances(size, SEED + 1)
    for number, text in enumerate(utterances(size, SEED)):
        is_user = number % 2 == 0
        at = datetime.fromtimestamp(1_704_096_000 + number * 30).strftime("%B %d, %Y %I:%M%p")
        line: dict[str, Any] = {"name": PLAYER if is_user else GUIDE, "is_user": is_user, "mes": text, "send_date": at}
        other = next(swipes)
        if not is_user and number // 2 % SWIPES_EVERY == 0:
            line |= {"swipes": [text, other], "swipe_id": 0}
        yield line


def _write_chats(file: Path, half: Path, size: int) -> None:
    half.parent.mkdir(parents=True)
    _write_chat(file, size)
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    half.write_text("".join(lines[: len(lines) // 2 + 1]), encoding="utf-8")


def _size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else (path,)
    return sum(each.stat().st_size for each in files if each.is_file())


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print a row for each size."""
    where = figures["machine"]
    console.print(Text(f"{where['cpu']}, {where['cores']} cores, {where['memory_gb']} GB, load {figures['load']}"))
    table = Table(title="a chat into SQLite", title_justify="left")
    for name in ("messages", "branches", "first s", "again s", "half s", "rest s", "peak MB", "file MB", "store MB"):
        table.add_column(name, justify="right")
    for row in figures["rows"]:
        table.add_row(
            *(f"{row[name]:,}" for name in ("messages", "branches")),
            *(
                f"{row[name]:.1f} s"
                for name in ("first_seconds", "again_seconds", "half_seconds", "other_half_seconds")
            ),
            *(f"{row[name]:.1f}" for name in ("peak_memory_mb", "file_mb", "store_mb")),
        )
    console.print(table)
