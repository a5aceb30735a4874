"""Processes that write turns until they are killed; what they print has been acknowledged by the store.

This one imports what a writer needs and forks one for every name that it reads, so that a kill does not cost a start.
"""

from __future__ import annotations

import os
import sys

import anyio

from mnemosyne import Chain, MemoryEntry, Message, Role, open_store
from mnemosyne.schema.memory import session_scope
from mnemosyne.schema.record import TurnCommit, TurnRecord
from mnemosyne.schema.session import TurnKind, TurnStatus

SESSION = "s1"


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def write(address: str, name: str, tenant: str = "default") -> None:
    store = open_store(address, tenant=tenant)
    for number in range(1_000_000):
        turn_id = f"{name}.{number}"
        window = await store.window(SESSION, message_limit=4)
        head = window.head
        record = TurnRecord(
            turn_id=turn_id,
            session_id=SESSION,
            branch_id=head.branch_id,
            depth=head.depth + 1,
            parent_id=head.turn_id,
            kind=TurnKind.NARRATIVE,
            status=TurnStatus.PREPARED,
            messages=(Message(role=Role.USER, content=f"ask {turn_id}"),),
            receipt={"turn": turn_id},
            prompt={"text": turn_id * 500},
        )
        saved = await store.save_prepared(record, expected_version=head.version)
        say(f"prepared {turn_id}")
        count = int(window.state["count"]) + 1
        commit = TurnCommit(
            turn_id=turn_id,
            messages=(Message(role=Role.ASSISTANT, content=f"tell {turn_id}"),),
            ops=({"op": "replace", "path": "/count", "value": count},),
            state={"count": count},
            entries=(
                MemoryEntry(
                    entry_id=f"{turn_id}.event",
                    scope=session_scope(SESSION),
                    chain=Chain.EVENT,
                    kind="fact",
                    text=turn_id,
                ),
            ),
        )
        await store.commit_turn(SESSION, commit, expected_version=saved.version)
        say(f"committed {turn_id}")


def serve(address: str) -> None:
    for name in sys.stdin:
        child = os.fork()
        if child == 0:
            say(f"writer {os.getpid()}")
            anyio.run(write, address, name.strip())
        _, status = os.waitpid(child, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    serve(sys.argv[1])
