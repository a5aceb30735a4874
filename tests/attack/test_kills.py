"""A writer is killed at any moment: nothing acknowledged is lost or doubled, no half turn is left, and the session goes on."""

from __future__ import annotations

import atexit
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path

import anyio
import psycopg
from long_form import LongForm

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mnemosyne"))

from test_store_kill import SESSION, check_all, wait_for_server  # noqa: E402 (its folder is added above)

from mnemosyne import Message, Role, SessionStart, open_store  # noqa: E402
from mnemosyne.core.errors import TurnNotFoundError  # noqa: E402
from mnemosyne.stores.locate import locate_store  # noqa: E402

SHORT = 2
BACKEND_EVERY = 10
CRASH_EVERY = 50
MOST_LINES, MOST_SECONDS = 10, 0.015


class Writers:
    """A process that forks one writer after the other; a kill does not cost a start."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("kill_writer.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PATH": ""},
        )
        atexit.register(self.close)

    def run(self, place: tuple[str, str, str], chance: random.Random, *, backend: int) -> list[str]:
        """Run a writer until it has said a few lines and some time has passed, then kill it (or, with the signal
        `backend`, the server's process that serves it); return what it said.
        """
        pipe, answers = self._process.stdin, self._process.stdout
        assert pipe is not None
        assert answers is not None
        pipe.write(" ".join(place) + "\n")
        pipe.flush()
        word, _, number = answers.readline().partition(" ")
        assert word == "writer"
        after, delay = chance.randint(1, MOST_LINES), chance.random() * MOST_SECONDS
        said: list[str] = []
        killer: threading.Timer | None = None
        for line in answers:
            if line.startswith("ended"):
                assert backend or line.split()[1] == str(-signal.SIGKILL), line
                if killer is not None:
                    killer.join()
                return said
            said.append(line.strip())
            if len(said) == after:
                killer = threading.Timer(delay, kill_writer, (int(number), place[0], backend))
                killer.start()
        raise AssertionError("the writers ended by themselves")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()


def kill_writer(number: int, address: str, backend: int) -> None:
    """Kill a writer; with the signal `backend` the processes that serve it first. A writer whose connection was idle then
    goes on with another, until it is killed too.
    """
    if backend:
        kill_backend(address, backend)
        threading.Event().wait(MOST_SECONDS)
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGKILL)


def kill_backend(address: str, number: int) -> None:
    """Kill the server's processes that serve writers."""
    postgres = locate_store(address, look=False).postgres
    assert postgres is not None
    with psycopg.connect(postgres.conninfo, autocommit=True) as connection:
        rows = connection.execute("SELECT pid FROM pg_stat_activity WHERE application_name = 'jacquard'").fetchall()
    for (pid,) in rows:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


@cache
def writers() -> Writers:
    return Writers()


@cache
def server() -> str:
    """Return the address of a PostgreSQL of this process; it ends with it."""
    guardian = subprocess.Popen(
        [sys.executable, str(ROOT / "tests" / "mnemosyne" / "postgres_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    uri = guardian.stdout.readline().strip()

    def end() -> None:
        guardian.stdin.close()
        guardian.wait(timeout=60)
        guardian.stdout.close()

    atexit.register(end)
    return f"{uri}&schema=kills"


def check_sqlite(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        kill_once(f"sqlite:///{folder}/store.db", "sqlite", number)


def check_file(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kill-") as folder:
        kill_once(f"file:{folder}/files", "file", number)


def check_postgres(number: int) -> None:
    backend = signal.SIGTERM if number % BACKEND_EVERY == BACKEND_EVERY - 1 else 0
    if number % CRASH_EVERY == CRASH_EVERY - 1:
        backend = signal.SIGKILL  # The server notices a crash and recovers from its log.
    kill_once(server(), "postgres", number, backend=backend)


def kill_once(address: str, kind: str, number: int, *, backend: int = 0) -> None:
    chance = random.Random(f"kill {kind} {number}")
    tenant = f"case{number}"
    anyio.run(begin, address, tenant)
    said = writers().run((address, f"r{number}", tenant), chance, backend=backend)
    until_served(address)
    anyio.run(look_after, address, tenant, said)


async def begin(address: str, tenant: str) -> None:
    store = open_store(address, tenant=tenant)
    await store.create_session(SessionStart(session_id=SESSION, world_id="w", locale="en", state={"count": 0}))
    await store.close()


def until_served(address: str) -> None:
    """Wait until a server has done what a killed client had told it, or has recovered from a crash."""
    for _ in range(600):
        try:
            wait_for_server(address)
        except psycopg.OperationalError:
            threading.Event().wait(0.1)
        else:
            return
    raise AssertionError("the server does not come back")


async def look_after(address: str, tenant: str, said: list[str]) -> None:
    """Every acknowledged turn is there once and whole, and the session goes on."""
    store = open_store(address, tenant=tenant)
    try:
        await check_all(store, said)
        acknowledged = sum(line.startswith("committed") for line in said)
        head = await store.head(SESSION)
        assert acknowledged <= head.depth <= acknowledged + 1
        await store.append_messages(SESSION, (Message(role=Role.USER, content="go on"),), idempotency_key="after")
        window = await store.window(SESSION, message_limit=2)
        assert window.messages[-1].message.content == "go on"
        assert not store.damage_log.since()
        for line in said:
            try:
                await store.turn(SESSION, line.split()[1])
            except TurnNotFoundError as error:
                raise AssertionError(f"{line} is lost") from error
    finally:
        await store.close()


KILLS_SQLITE = LongForm(count=1_000, check=check_sqlite, chunk=25)
KILLS_FILE = LongForm(count=1_000, check=check_file, chunk=25)
KILLS_POSTGRES = LongForm(count=1_000, check=check_postgres, chunk=25)


def test_a_killed_writer_of_a_sqlite_store_loses_nothing():
    for number in range(SHORT):
        check_sqlite(number)


def test_a_killed_writer_of_a_file_store_loses_nothing():
    for number in range(SHORT):
        check_file(number)


def test_a_killed_writer_or_backend_of_postgresql_loses_nothing():
    for number in (0, BACKEND_EVERY - 1):
        check_postgres(number)
