"""Marks of evaluators on the command line: the same marks that the studio stores and exports, in the same session.

A mark says whether the prompt of a turn should have had a memory. The marks of a session are written as a labelled set with a
gate (`jacquard.authoring.marks`).
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from anyio import to_thread

from evals.errors import SetupError
from jacquard import ConfigError, MemoryVerbs, RuntimeConfig, open_runtime
from jacquard.authoring.marks import TurnMark, export_marks, list_marks, put_mark

SET_FILES = ("corpus.jsonl", "queries.jsonl", "set.json", "gate.json")


async def annotate(
    store: str,
    session_id: str,
    *,
    turn_id: str | None = None,
    marks: Sequence[tuple[str, bool | None]] = (),
    author: str = "host",
    out: Path | None = None,
) -> tuple[TurnMark, ...]:
    """Store `marks` (id of a memory, and whether it is wanted; None takes a mark back) of a turn, and return all of the session.

    With `out`, write them there as a labelled set with a gate.

    Raises:
        SetupError: if marks have no turn, or if `out` holds other files.
        ConfigError: if the turn has no message of the user, or if there is nothing to write.
    """
    if marks and turn_id is None:
        raise SetupError("A mark belongs to a turn; name it with --turn.")
    if out is not None:
        await to_thread.run_sync(_check_folder, out)
    async with open_runtime(store, config=RuntimeConfig(), embedder="none") as runtime:
        if marks and turn_id is not None:
            record = await runtime.store.turn(session_id, turn_id)
            if record.prompt is None:
                raise ConfigError(
                    f"Turn {turn_id!r} was imported: no prompt was made for it, so there is nothing to mark."
                )
            verbs = MemoryVerbs(runtime, author=author)
            for memory_id, wanted in marks:
                memory = await verbs.memory(session_id, memory_id)
                await put_mark(runtime.store, record, memory, wanted, author=author, at=datetime.now(UTC))
        if out is not None:
            pack = await export_marks(runtime.store, session_id)
            await to_thread.run_sync(_unpack, pack, out)
        return await list_marks(runtime.store, session_id)


def _check_folder(out: Path) -> None:
    if out.is_file():
        raise SetupError(f"{out} is a file; name a folder for the set.")
    if out.is_dir() and (foreign := sorted(each.name for each in out.iterdir() if each.name not in SET_FILES)):
        raise SetupError(f"{out} holds other files ({', '.join(foreign[:3])}); name a folder of its own for the set.")


def _unpack(pack: bytes, out: Path) -> None:
    """Write the files of a set. A gate that is there stays, because it has the kept figures."""
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(io.BytesIO(pack)) as opened:
        for name in SET_FILES:
            if name != "gate.json" or not (out / name).exists():
                (out / name).write_bytes(opened.read(name))
