"""A process that forks a service for each line `PORT STORE [EMBEDDER FOLDER]` that it reads, so that a kill does not cost a start.

With a folder the service runs in it, and keeps its index there, as on a host of its own.
"""

from __future__ import annotations

import os
import sys

from jacquard.service.running import application  # noqa: F401 (what is imported here, no child imports)
from jacquard.service.running.server import serve as serve_http


def serve() -> None:
    for line in sys.stdin:
        port, store, *place = line.split()
        child = os.fork()
        if child == 0:
            sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 (it ends with the process)
            if place:
                os.chdir(place[1])
            embedder = place[0] if place else "none"
            serve_http(options={"port": int(port), "store": store, "embedder": embedder})
            raise SystemExit
        print(f"service {child}", flush=True)
        _, status = os.waitpid(child, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


if __name__ == "__main__":
    serve()
