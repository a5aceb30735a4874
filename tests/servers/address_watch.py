"""Records each address that a process asks for: Python's own connections by an audit hook, those of compiled code by a proxy."""

from __future__ import annotations

import os
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SWITCHES = re.compile(r"(ORT|LITELLM|RAY|HF|CREWAI|HAYSTACK|OTEL|OPENAI_AGENTS)_|XDG_")
"""What a machine may have set, so that the process would send less than it does elsewhere."""

_RECORDER = """
import os, sys

def record(event, arguments):
    if event not in ("socket.connect", "socket.getaddrinfo"):
        return
    address = arguments[1] if event == "socket.connect" else arguments
    if isinstance(address, tuple):
        with open(os.environ["ADDRESSES"], "a") as file:
            file.write(f"{address[0]}\\n")

sys.addaudithook(record)
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class AddressWatch:
    """The environment in which the process runs, with a home of its own, and what is recorded there."""

    folder: Path
    environment: dict[str, str]
    proxied: list[str] = field(default_factory=list)

    def outside(self) -> list[str]:
        """Return what the proxy was asked for, and addresses that are not of this machine."""
        direct = (self.folder / "addresses").read_text(encoding="utf-8").split()
        return [*self.proxied, *(each for each in direct if not _is_of_this_machine(each))]

    def files_at_home(self) -> list[str]:
        """Return the files that were written into the home."""
        home = self.folder / "home"
        return sorted(str(file.relative_to(home)) for file in home.rglob("*") if file.is_file())


def _is_of_this_machine(address: str) -> bool:
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


@contextmanager
def watch_addresses(folder: Path) -> Iterator[AddressWatch]:
    """Give an environment whose proxy lets nothing through; `folder` is an empty one for its home and records."""
    for name in ("home", "site"):
        (folder / name).mkdir(parents=True)
    (folder / "addresses").touch()
    (folder / "site" / "sitecustomize.py").write_text(_RECORDER, encoding="utf-8")
    proxied: list[str] = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            proxied.append(self.rfile.readline().decode("latin-1").strip())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        address, own = f"http://127.0.0.1:{proxy.server_address[1]}", "127.0.0.1,localhost"
        names = {"HTTP_PROXY": address, "HTTPS_PROXY": address, "ALL_PROXY": address, "NO_PROXY": own}
        environment = {
            **{name: value for name, value in os.environ.items() if not _SWITCHES.match(name)},
            **names,
            **{name.lower(): value for name, value in names.items()},
            "HOME": str(folder / "home"),
            "ADDRESSES": str(folder / "addresses"),
            "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(ROOT)]),
        }
        yield AddressWatch(folder=folder, environment=environment, proxied=proxied)
        proxy.shutdown()
