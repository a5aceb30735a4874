"""Two hosts over one PostgreSQL embed each text of a scope once, by the log of the embedder itself, while sessions move between
them, one is started anew, and one is killed.

The exception is stated: a host that is killed after it has embedded and before it has stored. The texts of that one call (8
behind a turn, 128 at most) are embedded once more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from counted_host import PLUGIN

from mnemosyne import PostgresStore
from mnemosyne.retrieval.engines.rows import spoken_words
from mnemosyne.retrieval.recall.query_features import RECALLED
from mnemosyne.schema.memory import session_scope, world_scope

ROOT = Path(__file__).parents[2]
FOREST = ROOT / "examples" / "whispering_forest" / "en"
SESSIONS = ("ada", "ben", "cleo")


class Host:
    """A process with an index folder and a log of its own. The address of each differs in what only the server's log shows."""

    def __init__(self, url: str, number: int, folder: Path) -> None:
        self._address, self.log = f"{url}&application_name=host{number}", folder / f"host{number}.log"
        self.stop = Path(f"{self.log}.stop")
        paths = os.pathsep.join((str(folder), str(ROOT)))
        self._environment = {**os.environ, "PYTHONPATH": paths, "EMBEDDED_LOG": str(self.log)}
        self._folder = folder
        self.start()

    def start(self) -> None:
        program = Path(__file__).with_name("counted_host.py")
        self.process = subprocess.Popen(
            [sys.executable, str(program), self._address, str(FOREST)],
            cwd=self._folder,
            env=self._environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._answer() == "ready"

    def ask(self, *command: str) -> str:
        """Return `done`, or an empty text where the host has died."""
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Let the host end by itself."""
        self.process.communicate()
        assert self.process.returncode == 0

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def embedded(self) -> list[list[str]]:
        """Return the hashes of what was embedded, by call."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def _answer(self) -> str:
        return self.process.stdout.readline().strip()


@pytest.fixture
def hosts(tmp_path, postgres_url):
    info = tmp_path / "counted-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: counted\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[jacquard.embedders]\ncounted = counted_plugin:Counted\n", encoding="utf-8")
    (tmp_path / "counted_plugin.py").write_text(PLUGIN, encoding="utf-8")
    made = [Host(postgres_url, number, tmp_path) for number in range(2)]
    yield made
    for host in made:
        host.kill()


class Play:
    """Turns in all sessions, each at the host that is next; every text names its session."""

    def __init__(self, hosts: list[Host]) -> None:
        self._hosts, self._turns = hosts, 0

    def rounds(self, number: int) -> None:
        for _ in range(number):
            for place, session in enumerate(SESSIONS):
                assert self.turn(self._hosts[(self._turns + place) % 2], session) == "done"

    def turn(self, host: Host, session: str) -> str:
        self._turns += 1
        return host.ask("turn", session, f"t{self._turns}", f"I, {session}, ask for lantern number {self._turns}.")


async def scopes_by_text(url: str) -> Counter[str]:
    """Return, by the hash of a text, in how many scopes there is an entry with it."""
    store, found = PostgresStore(url), Counter[str]()
    worlds = [world_scope(name) for name in await store.worlds()]
    for scope in [*worlds, *map(session_scope, SESSIONS)]:
        texts = set()
        for chain in RECALLED:
            entries = await store.entries_after(scope, chain, 0, 10_000)
            texts.update(sha256(spoken_words(each.entry).encode()).hexdigest() for each in entries)
        found.update(texts)
    await store.close()
    return found


def count(hosts: list[Host]) -> Counter[str]:
    return Counter(text for host in hosts for call in host.embedded() for text in call)


def settle(hosts: list[Host]) -> None:
    for host in hosts:
        assert host.ask("settle") == "done"
        for session in SESSIONS:
            assert host.ask("sync", session) == "done"


def test_each_text_of_a_scope_is_embedded_once(hosts, postgres_url):
    play, (one, other) = Play(hosts), hosts
    play.rounds(2)
    one.end()
    one.start()
    play.rounds(2)
    settle(hosts)
    other.kill()
    assert play.turn(one, "ada") == "done"
    other.start()
    play.rounds(2)
    settle(hosts)
    embedded, held = count(hosts), anyio.run(scopes_by_text, postgres_url)
    # A host that has embedded a text for one session takes its vector for others.
    assert all(times <= held[text] for text, times in embedded.items())
    assert all(host.embedded() for host in hosts)
    # Turns of 6 rounds and one, each with two messages that are told once.
    assert sum(times == 1 for times in embedded.values()) >= 2 * 19


def test_what_a_killed_host_did_not_store_is_embedded_once_more(hosts, postgres_url):
    play, other = Play(hosts), hosts[1]
    play.rounds(1)
    settle(hosts)
    other.stop.touch()
    # Its messages are embedded behind it, or with the next one.
    while play.turn(other, "ben"):
        pass
    other.kill()
    other.stop.unlink()
    window = set(other.embedded()[-1])
    other.start()
    play.rounds(2)
    settle(hosts)
    embedded, held = count(hosts), anyio.run(scopes_by_text, postgres_url)
    more = {text for text, times in embedded.items() if times > held[text]}
    assert more == window
    assert all(embedded[text] == held[text] + 1 for text in window)
