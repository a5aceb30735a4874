"""A process that works on sessions of a store beside others.

`session_player.py play ADDRESS SESSION NAME TURNS` plays turns of one session. A turn has two halves, and another process may
take its place between them; then it is prepared again, as a host does. `session_player.py hold ADDRESS SESSION` holds a
session until the process is killed, and says `held` when it does. ADDRESS is a folder or a PostgreSQL address.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio

from jacquard import CurationConfig, RuntimeConfig, create_context_engine
from mnemosyne import PostgresStore, SqliteStore, Store
from mnemosyne.core.errors import TurnNotPendingError
from mnemosyne.protocols import SessionLocks
from mnemosyne.stores.file.session_locks import FileSessionLocks
from mnemosyne.stores.locate import postgres_address
from mnemosyne.stores.postgres.locks import PostgresSessionLocks


def store_of(address: str) -> Store:
    """Return the store at an address, patient with others."""
    if address.startswith("postgresql:"):
        return PostgresStore(address, busy_seconds=60)
    return SqliteStore(Path(address) / "store.db", busy_seconds=60)


def locks_of(address: str, wait_seconds: float = 60.0) -> SessionLocks:
    """Return the locks of the sessions at an address."""
    if address.startswith("postgresql:"):
        return PostgresSessionLocks(postgres_address(address), wait_seconds=wait_seconds)
    return FileSessionLocks(Path(address) / "locks", wait_seconds=wait_seconds)


async def play(address: str, session_id: str, name: str, turns: int) -> None:
    store, locks = store_of(address), locks_of(address)
    config = RuntimeConfig(curation=CurationConfig(enabled=False))
    async with create_context_engine(store, config=config, locks=locks) as engine:
        for number in range(turns):
            told = f"{name} says {number}"
            while True:
                turn = await engine.prepare_turn(session_id, told, turn_id=None)
                try:
                    await engine.commit_assistant_message(session_id, f"reply to {told}", turn_id=turn.turn_id)
                    break
                except TurnNotPendingError:
                    continue
    await locks.close()
    await store.close()


async def hold(address: str, session_id: str) -> None:
    async with locks_of(address).hold(session_id):
        print("held", flush=True)
        await anyio.sleep(600)


if __name__ == "__main__":
    if sys.argv[1] == "play":
        anyio.run(play, sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    else:
        anyio.run(hold, sys.argv[2], sys.argv[3])
