"""The service is killed under load: no acknowledged turn is lost, and none that a client sends again is doubled."""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import anyio
import httpx
from long_form import LongForm
from test_kills import server, until_served

ROOT = Path(__file__).parents[2]
SHORT = 1
CLIENTS = 3
MOST_SECONDS = 0.6
MOST_TURNS = 400


class Services:
    """A process that forks one service after the other; `path`: folders of further modules, `place`: what ends a line."""

    def __init__(self, path: tuple[str, ...] = (), place: str = "") -> None:
        self._place = place
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("kill_service.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": os.pathsep.join((str(ROOT), *path)), "PATH": "", "HOME": os.environ.get("HOME", "")},
        )
        self._running: int | None = None
        atexit.register(self.close)

    def start(self, store: str) -> tuple[str, int]:
        """Return the address and the process of a new service; one that a failed case has left is killed first."""
        if self._running is not None:
            self.kill(self._running)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        assert self._process.stdin is not None
        self._process.stdin.write(f"{port} {store} {self._place}\n")
        self._process.stdin.flush()
        self._running = int(self._read("service"))
        return f"http://127.0.0.1:{port}", self._running

    def kill(self, number: int) -> None:
        """Kill the service and wait for its end."""
        self._running = None
        os.kill(number, signal.SIGKILL)
        assert self._read("ended") == str(-signal.SIGKILL)

    def _read(self, word: str) -> str:
        assert self._process.stdout is not None
        said, _, value = self._process.stdout.readline().strip().partition(" ")
        assert said == word, said
        return value

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        if self._process.stdout is not None:
            self._process.stdout.close()


@cache
def services() -> Services:
    return Services()


@dataclass(kw_only=True)
class Player:
    """A client that plays a session; its calls are numbered, so that it can make the one again that had no answer."""

    session: str
    called: int = 0
    acknowledged: list[str] = field(default_factory=list)

    async def play(self, client: httpx.AsyncClient) -> None:
        while self.called < 2 * MOST_TURNS:
            await self.call(client)

    async def call(self, client: httpx.AsyncClient) -> None:
        """Make the next call, or the one again that had no answer."""
        number, is_reply = divmod(self.called, 2)
        turn_id = f"turn-{number}"
        body = {"message": f"Question {number} of {self.session}.", "turn_id": turn_id}
        path = "turns"
        if is_reply:
            path, body = "reply", {"message": f"Answer {number}.", "turn_id": turn_id}
        answer = await client.post(
            f"/api/v1/sessions/{self.session}/{path}",
            json=body,
            headers={"Idempotency-Key": f"{self.session}-{self.called}"},
        )
        assert answer.status_code == 200, answer.text
        if is_reply:
            self.acknowledged.append(turn_id)
        self.called += 1


def kill_once(store: str, number: int) -> None:
    chance = random.Random(f"kill service {number}")
    players = [Player(session=f"case{number}-{place}") for place in range(CLIENTS)]
    address, process = services().start(store)
    anyio.run(play_until_killed, address, process, players, chance.random() * MOST_SECONDS)
    if store.startswith("postgresql"):
        until_served(store)
    address, process = services().start(store)
    try:
        anyio.run(look_after, address, process, players)
    finally:
        services().kill(process)


async def play_until_killed(address: str, process: int, players: list[Player], seconds: float) -> None:
    async def play(player: Player) -> None:
        async with httpx.AsyncClient(base_url=address, timeout=None) as client:
            try:
                await player.play(client)
            except httpx.TransportError:
                return

    await begin(address, process, players)
    async with anyio.create_task_group() as tasks:
        for player in players:
            tasks.start_soon(play, player)
        await anyio.sleep(seconds)
        await anyio.to_thread.run_sync(services().kill, process)


async def begin(address: str, process: int, players: list[Player]) -> None:
    """Wait until the service answers, however busy the machine is, and start the sessions."""
    async with httpx.AsyncClient(base_url=address, timeout=None) as client:
        while True:
            os.kill(process, 0)
            try:
                if (await client.get("/readyz")).status_code == 200:
                    break
            except httpx.TransportError:
                pass
            await anyio.sleep(0.02)
        for player in players:
            (await client.post("/api/v1/sessions", json={"session_id": player.session})).raise_for_status()


async def look_after(address: str, process: int, players: list[Player]) -> None:
    """Every player makes its last call again and one more turn; all its turns are there once, in order, and whole."""
    await begin(address, process, players)
    async with httpx.AsyncClient(base_url=address, timeout=None) as client:
        for player in players:
            before = list(player.acknowledged)
            until = player.called + 2 + player.called % 2
            while player.called < until:
                await player.call(client)
            answer = await client.get(f"/api/v1/sessions/{player.session}/turns?limit=200")
            turns = answer.json()["items"]
            kept = [turn["turn_id"] for turn in turns]
            expected = [f"turn-{each}" for each in range(player.called // 2)]
            assert kept == expected[-len(kept) :]
            assert len(kept) == min(200, len(expected))
            assert set(before) <= set(expected)
            for turn in turns:
                texts = [message["content"] for message in turn["messages"]]
                each = turn["turn_id"].removeprefix("turn-")
                assert texts == [f"Question {each} of {player.session}.", f"Answer {each}."], turn


def check_sqlite(number: int) -> None:
    with tempfile.TemporaryDirectory(prefix="kill-service-") as folder:
        kill_once(f"{folder}/store", number)


def check_postgres(number: int) -> None:
    kill_once(server(), number)


KILLS_SQLITE = LongForm(count=200, check=check_sqlite, chunk=5)
KILLS_POSTGRES = LongForm(count=200, check=check_postgres, chunk=5)


def test_a_killed_service_on_sqlite_loses_nothing():
    for number in range(SHORT):
        check_sqlite(number)


def test_a_killed_service_on_postgresql_loses_nothing():
    for number in range(SHORT):
        check_postgres(number)
