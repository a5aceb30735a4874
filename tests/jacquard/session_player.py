"""A process that plays turns of one session beside others: `session_player.py FOLDER NAME TURNS`.

A turn has two halves, and another process may take its place between them; then it is prepared again, as a host does.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from jacquard.build_small import create_context_engine
from jacquard.config import CurationConfig, RuntimeConfig
from mnemosyne.errors import TurnNotPendingError
from mnemosyne.stores.session_locks import FileSessionLocks
from mnemosyne.stores.sqlite import SqliteStore


async def play(folder: Path, name: str, turns: int) -> None:
    store = SqliteStore(folder / "store.db", busy_seconds=60)
    locks = FileSessionLocks(folder / "locks")
    config = RuntimeConfig(curation=CurationConfig(enabled=False))
    async with create_context_engine(store, config=config, locks=locks) as engine:
        for number in range(turns):
            told = f"{name} says {number}"
            while True:
                turn = await engine.prepare_turn("s", told, turn_id=None)
                try:
                    await engine.commit_assistant_message("s", f"reply to {told}", turn_id=turn.turn_id)
                    break
                except TurnNotPendingError:
                    continue
    await store.close()


anyio.run(play, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
