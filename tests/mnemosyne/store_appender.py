"""A process that appends messages to one session beside others, and tells how often another came first.

What a conflict means is the writer's to decide. This one decides that its message still holds whatever was said meanwhile:
it says it once more, under the same key and without a condition.
"""

from __future__ import annotations

import sys

import anyio

from mnemosyne import Message, PostgresStore, Role, SqliteStore, Store, VersionConflictError

SESSION = "s1"
_SQLITE = "sqlite:///"


def open_patiently(address: str) -> Store:
    """Return a store that waits long for its turn: the crowd is on purpose."""
    if address.startswith(_SQLITE):
        return SqliteStore(address.removeprefix(_SQLITE), busy_seconds=120)
    return PostgresStore(address, busy_seconds=120)


async def append(address: str, name: str, times: int) -> None:
    store = open_patiently(address)
    await store.head(SESSION)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    conflicts = 0
    for number in range(times):
        text = f"{name}.{number}"
        message = Message(role=Role.USER, content=text)
        head = await store.head(SESSION)
        try:
            await store.append_messages(SESSION, (message,), idempotency_key=text, expected_version=head.version)
        except VersionConflictError:
            conflicts += 1
            await store.append_messages(SESSION, (message,), idempotency_key=text)
    await store.close()
    sys.stdout.write(f"{conflicts}\n")


if __name__ == "__main__":
    anyio.run(append, sys.argv[1], sys.argv[2], int(sys.argv[3]))
