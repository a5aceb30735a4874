"""The faults of a soak: each makes something break under a running engine, and ends by itself.

A fault holds for the turn that `cause` is called for. What it broke must not be seen in the turns behind it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from benchmarks.deadline.server import ServerProcess
from jacquard import InputTooLargeError, Runtime
from mnemosyne.core.errors import StateOpError

BUSY_SECONDS = 0.5
DAMAGED_BYTES = 64
GOOD_REPLY = '<content>So be it, 就这样吧。</content><state_update>[["ADD", "hero.gold", 1]]</state_update>'
BAD_REPLIES = (
    '<content>It breaks off in the middle of <state_update>[["SET", "hero.gold"',
    "",
    '<content>Lies.</content><state_update>[["SET", "hero.wings", 2], ["ADD", "nobody.gold", "many"]]</state_update>',
    "<<<>>> </content></content>```json {\x00",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ground:
    """Things that a fault may break: the runtime, the folder of its store, the model's server, and the session of the
    turn.
    """

    runtime: Runtime
    folder: Path
    server: ServerProcess
    session_id: str
    number: int


async def play_turn(ground: Ground, text: str, reply: str = GOOD_REPLY) -> None:
    """Prepare and commit one turn."""
    engine = ground.runtime.engine
    prepared = await engine.prepare_turn(ground.session_id, text)
    await engine.commit_assistant_message(ground.session_id, reply, turn_id=prepared.turn_id)


async def _hanging_model(ground: Ground, text: str) -> None:
    await _with_mode(ground, text, "hang")


async def _refusing_model(ground: Ground, text: str) -> None:
    await _with_mode(ground, text, "refuse")


async def _babbling_model(ground: Ground, text: str) -> None:
    await _with_mode(ground, text, "rubbish")


async def _dead_model(ground: Ground, text: str) -> None:
    await _with_mode(ground, text, "dead")


async def _with_mode(ground: Ground, text: str, mode: str) -> None:
    await ground.server.put(mode)
    try:
        await play_turn(ground, text)
    finally:
        await ground.server.put("instant")


async def _broken_reply(ground: Ground, text: str) -> None:
    reply = BAD_REPLIES[ground.number % len(BAD_REPLIES)]
    await play_turn(ground, text, reply)


async def _cancelled_turn(ground: Ground, text: str) -> None:
    """Cancel the preparation at a moment that moves on from fault to fault, and prepare it again."""
    with anyio.move_on_after(0.001 * (1 + ground.number % 40)):
        await ground.runtime.engine.prepare_turn(ground.session_id, text)
    await play_turn(ground, text)


async def _unanswered_turn(ground: Ground, text: str) -> None:
    await ground.runtime.engine.prepare_turn(ground.session_id, text)
    await play_turn(ground, "Are you still there?")


async def _refused_input(ground: Ground, text: str) -> None:
    try:
        await play_turn(ground, text * (2 + ground.runtime.limits.user_message_chars // len(text)))
    except InputTooLargeError:
        await play_turn(ground, text)
    else:
        raise AssertionError("an input above its limit was accepted")


async def _refused_state(ground: Ground, text: str) -> None:
    with suppress(StateOpError):
        await ground.runtime.engine.repair_state(ground.session_id, [["SET", "hero.health", 1_000_000]])
    await play_turn(ground, text)


async def _locked_store(ground: Ground, text: str) -> None:
    """Hold the database's write lock from another connection while the turn is made."""

    async def hold() -> None:
        held = await to_thread.run_sync(_lock, ground.folder / "store.db")
        await anyio.sleep(BUSY_SECONDS)
        await to_thread.run_sync(held.close)

    async with anyio.create_task_group() as group:
        group.start_soon(hold)
        await play_turn(ground, text)


def _lock(file: Path) -> sqlite3.Connection:
    held = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    held.execute("BEGIN IMMEDIATE")
    return held


async def _damaged_index(ground: Ground, text: str) -> None:
    """Overwrite the end of a scope's file in the index, or remove the file, in turn."""
    await to_thread.run_sync(_damage_index, ground.folder, ground.number)
    await play_turn(ground, text)


def _damage_index(folder: Path, number: int) -> None:
    files = sorted(folder.rglob("*.checkpoint"))
    if not files:
        return
    file = files[number % len(files)]
    if number % 2:
        file.unlink()
        return
    # In a copy, because processes have mapped the file.
    damaged = file.with_suffix(".damaged")
    damaged.write_bytes(file.read_bytes()[:-DAMAGED_BYTES] + b"\xff" * DAMAGED_BYTES)
    damaged.replace(file)


FAULTS: Mapping[str, Callable[[Ground, str], Awaitable[Any]]] = {
    "model hangs": _hanging_model,
    "model refuses": _refusing_model,
    "model answers nonsense": _babbling_model,
    "model is down": _dead_model,
    "reply is broken": _broken_reply,
    "turn is cancelled": _cancelled_turn,
    "turn is never answered": _unanswered_turn,
    "input is too long": _refused_input,
    "op is refused": _refused_state,
    "store is locked": _locked_store,
    "index is damaged": _damaged_index,
}
"""By name, in the order in which they come; each plays at least one turn to its end."""
