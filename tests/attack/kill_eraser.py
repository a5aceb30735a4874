"""A process that erases user lin from a copy of a store and its originals, once for each line `FOLDER NUMBER` that it reads: in a
child that ends, as if killed, before its NUMBERth operation on a file of the originals. It answers with the child's exit code.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "mnemosyne"))

from mnemosyne import Erasure, open_store
from mnemosyne.evidence import FolderVault
from mnemosyne.privacy.forget import MemoryLocations, forget
from mnemosyne.testing.stores.samples import AT

KILLED = signal.SIGKILL
OPERATIONS = ("open", "os.rename", "os.remove", "os.rmdir")


async def erase(folder: Path) -> None:
    store = open_store(f"sqlite:///{folder / 'store.db'}")
    place = MemoryLocations(store=store, vault=FolderVault(folder / "originals"), folders=(folder,))
    done = await forget(place, Erasure(at=AT, user_id="lin"))
    await store.close()
    assert done.done, done


def end_before(number: int, folder: Path) -> None:
    """End this process before it does something to a file of a folder for the `number`th time."""
    left = number

    def count(event: str, given: tuple[object, ...]) -> None:
        nonlocal left
        if event in OPERATIONS and isinstance(given[0], str | os.PathLike) and str(given[0]).startswith(str(folder)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), KILLED)

    sys.addaudithook(count)


def serve() -> None:
    for line in sys.stdin:
        folder, number = line.split()
        child = os.fork()
        if child == 0:
            end_before(int(number), Path(folder) / "originals")
            anyio.run(erase, Path(folder))
            sys.exit()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
