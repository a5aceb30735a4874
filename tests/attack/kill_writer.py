"""A process that forks a writer for each line `ADDRESS NAME TENANT` that it reads, as `store_writer` does for one store."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1] / "mnemosyne"))

from store_writer import say, write


def serve() -> None:
    for line in sys.stdin:
        address, name, tenant = line.split()
        child = os.fork()
        if child == 0:
            sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (it ends with the process)
            say(f"writer {os.getpid()}")
            anyio.run(write, address, name, tenant)
        _, status = os.waitpid(child, 0)
        say(f"ended {os.waitstatus_to_exitcode(status)}")


if __name__ == "__main__":
    serve()
