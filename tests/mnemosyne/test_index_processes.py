"""Several processes on one index folder: each row once, the same finds as in a fresh index, through kills and erasures."""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import lancedb
import pytest
from index_worker import open_index, open_retriever
from recall_parts import LetterEmbedder, entry, where

from jacquard import open_runtime
from mnemosyne import Author, AuthorKind, Chain, Erasure, Message, Role, SessionStart, SqliteStore
from mnemosyne.retrieval.recall.indexing.indexer import Indexer
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import ImportedTurn

pytestmark = pytest.mark.anyio

SESSION, WORLD = session_scope("s1"), world_scope("forest")


def tiers(*default: str) -> pytest.MarkDecorator:
    """Some tiers in the default suite, all of them in the long form."""
    names = ["memory", "big", "import"]
    marks = {name: () if name in default else pytest.mark.full for name in names}
    return pytest.mark.parametrize("tier", [pytest.param(name, marks=marks[name]) for name in names])


WORDS = ["goat", "bread", "boat", "rain", "lamp", "bell", "roof", "well", "oak", "mill"]
SECRET = "The quicksilver ledger lies behind the old brewery wall tonight."


class Worker:
    """A process that serves commands."""

    def __init__(self) -> None:
        self.is_open = False
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("index_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )

    def open(self, folder: Path, tier: str) -> None:
        self.ask("open", str(folder / "store.db"), str(folder / "index"), tier)
        self.is_open = True

    def ask(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(words) + "\n")
        self.process.stdin.flush()

    def answer(self, *also: str) -> list[str]:
        assert self.process.stdout is not None
        while (told := json.loads(self.process.stdout.readline()))[0] == "fed" not in also:
            pass
        return told

    def do(self, *words: str) -> list[str]:
        self.ask(*words)
        return self.answer()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()


IDLE: list[Worker] = []
"""Processes that have closed what they had open: starting one takes longer than what most tests do with it."""


@pytest.fixture(scope="module", autouse=True)
def idle_workers_end():
    yield
    while IDLE:
        IDLE.pop().end()


@contextmanager
def workers(folder: Path, tier: str, count: int = 3):
    made = [IDLE.pop() if IDLE else Worker() for _ in range(count)]
    try:
        for each in made:
            each.open(folder, tier)
        yield made
    finally:
        for each in made:
            if each.is_open:
                each.end()
            else:
                IDLE.append(each)


def at_once(crew: list[Worker], *words: str) -> None:
    for each in crew:
        each.ask(*words)
    assert [each.answer() for each in crew] == [["done"]] * len(crew)


def close(crew: list[Worker]) -> None:
    for each in crew:
        each.ask("close")
    assert [each.answer() for each in crew] == [["closed"]] * len(crew)
    for each in crew:
        each.is_open = False


def told(first: int, last: int, text: str | None = None) -> list[ImportedTurn]:
    """Messages of two speakers, every seventh after a pause, so that sittings begin and end."""
    turns = []
    for n in range(first, last):
        at = datetime(2024, 1, 1 + n // 7 % 28, 10, n % 60, tzinfo=UTC)
        name, kind, role = ("Ann", AuthorKind.USER, Role.USER) if n % 2 else ("Bea", AuthorKind.AGENT, Role.ASSISTANT)
        content = text or f"The {WORDS[n % 10]} of house{n} is by the {WORDS[n * 7 % 9]}."
        message = Message(role=role, content=content, author=Author(kind=kind, id=name), message_id=f"m{n}", at=at)
        turns.append(ImportedTurn(turn_id=f"m{n}", messages=(message,)))
    return turns


@pytest.fixture
async def store(tmp_path: Path):
    made = SqliteStore(tmp_path / "store.db")
    await made.create_session(
        SessionStart(session_id="s1", world_id="forest", locale="en", state={}, turns=tuple(told(0, 90)))
    )
    lore = [entry(f"l{n}", f"Of the {WORDS[n % 10]} and the {WORDS[n * 3 % 10]} in valley{n}.") for n in range(60)]
    await made.replace_world("forest", "1", lore)
    yield made
    await made.close()


def tables(folder: Path) -> dict[str, collections.Counter[str]]:
    """How often each id stands in each table."""
    found = lancedb.connect(str(folder / "index"))
    names = [each.stem for each in (folder / "index").glob("*.lance")]
    return {name: collections.Counter(found.open_table(name).to_arrow()["entry_id"].to_pylist()) for name in names}


async def finds(index, scope: str) -> list[object]:
    """What an index finds of a scope by words and by vectors, and in which order it holds it."""
    model = LetterEmbedder()
    found: list[object] = [await index.count(scope), await index.unembedded_ids(scope, model.name, 9)]
    for chain in (Chain.LORE, Chain.HISTORY):
        found += [await index.watermark(scope, chain), set(await index.newest_ids(scope, chain, 9_999))]
    for text in ("goat", "house7 bread", "valley9 mill oak", "Bea rain lamp"):
        hits = await index.search_text(text, where(scope), 20)
        found.append(
            {name: pytest.approx(score, rel=1e-3) for name, score, *_ in hits.rows() if score > hits.scores[-1]}
        )
        hits = await index.search_vector((await model.embed([text], "query"))[0], where(scope), 20, model=model.name)
        found.append({name: pytest.approx(score, abs=1e-4) for name, score, *_ in hits.rows()})
    return found


async def check(folder: Path, store: SqliteStore, tier: str) -> None:
    """The folder holds each row once, and finds what a fresh index finds."""
    assert not [name for name, rows in tables(folder).items() if rows and max(rows.values()) > 1]
    fresh = open_index(folder / "fresh", tier)
    for scope in (SESSION, WORLD):
        await open_retriever(store, fresh).sync(scope)
    await fresh.close()
    shared, fresh = open_index(folder / "index", tier), open_index(folder / "fresh", tier)
    for scope in (SESSION, WORLD):
        assert await finds(shared, scope) == await finds(fresh, scope)
    assert shared.faults() == fresh.faults() == ()
    await shared.close()
    await fresh.close()


@tiers("memory")
async def test_three_processes_that_sync_at_once_write_each_row_once(tmp_path, store, tier):
    with workers(tmp_path, tier) as crew:
        for number in range(90, 190, 20):
            await store.append_turns("s1", told(number, number + 20))
            at_once(crew, "sync", SESSION, WORLD)
        close(crew)
    await check(tmp_path, store, tier)


@tiers("big")
async def test_processes_that_know_unequally_much_write_nothing_old_over_what_is_new(tmp_path, store, tier):
    with workers(tmp_path, tier) as crew:
        for number in range(90, 140, 10):
            await store.append_turns("s1", told(number, number + 10))
            at_once(crew[: 1 + number // 10 % 3], "recall", "goat")
        close(crew)
    last = open_index(tmp_path / "index", tier)
    await open_retriever(store, last).sync(SESSION)
    await open_retriever(store, last).sync(WORLD)
    await last.close()
    await check(tmp_path, store, tier)


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.full)])
@tiers("import")
async def test_kills_in_between_do_no_harm(tmp_path, store, tier, rounds):
    await store.append_turns("s1", told(90, 400))
    for fed, first in ((1, 400), (3, 600))[:rounds]:
        with workers(tmp_path, tier) as crew:
            for each in crew:
                each.ask("sync", SESSION, WORLD)
            while fed and crew[0].answer("fed")[0] == "fed":
                fed -= 1
            crew[0].kill()
            assert [each.answer() for each in crew[1:]] == [["done"]] * 2
            crew[1].kill()
            close(crew[2:])
        await store.append_turns("s1", told(first, first + 200))
    with workers(tmp_path, tier, 1) as crew:
        at_once(crew, "sync", SESSION, WORLD)
        close(crew)
    await check(tmp_path, store, tier)


class Interrupted:
    """A source or an embedder that is interrupted once: what it first reads or embeds is handed over after `meanwhile`."""

    def __init__(self, inner, call: str, meanwhile) -> None:
        self.inner, self.call, self.meanwhile = inner, call, meanwhile

    def __getattr__(self, name: str):
        async def work(*given):
            found = await getattr(self.inner, name)(*given)
            if len(found) and self.meanwhile is not None:
                work, self.meanwhile = self.meanwhile, None
                await work()
            return found

        return work if name == self.call else getattr(self.inner, name)


class KilledError(Exception):
    """Ends a feeder after a page."""


def kill(done: int, total: int) -> None:
    raise KilledError


async def synced(store, folder: Path, tier: str) -> None:
    """Another process brings the index up to date and ends."""
    index = open_index(folder / "index", tier)
    for scope in (SESSION, WORLD):
        await open_retriever(store, index).sync(scope)
    await index.close()


@tiers("memory", "big", "import")
async def test_a_page_that_another_has_indexed_meanwhile_keeps_its_neighbours(tmp_path, store, tier):
    await synced(store, tmp_path, tier)
    await store.append_turns("s1", told(90, 190))
    slow = open_index(tmp_path / "index", tier)
    source = Interrupted(store, "entries_after", lambda: synced(store, tmp_path, tier))
    await open_retriever(source, slow).sync(SESSION)
    await slow.close()
    await check(tmp_path, store, tier)


@tiers("memory", "big", "import")
async def test_a_page_shorter_than_what_another_has_indexed_is_read_again(tmp_path, store, tier):
    await synced(store, tmp_path, tier)
    await store.append_turns("s1", told(90, 100))
    slow = open_index(tmp_path / "index", tier)

    async def meanwhile() -> None:
        await store.append_turns("s1", told(100, 103))
        await synced(store, tmp_path, tier)

    retriever = open_retriever(Interrupted(store, "entries_after", meanwhile), slow)
    await retriever.sync(SESSION)
    await store.append_turns("s1", told(103, 104))
    await retriever.sync(SESSION)
    await slow.close()
    await check(tmp_path, store, tier)


@tiers("memory", "big", "import")
async def test_one_that_fell_behind_stays_behind_after_it_has_written_vectors(tmp_path, store, tier):
    await store.append_turns("s1", told(90, 190))
    slow = open_index(tmp_path / "index", tier)

    async def meanwhile() -> None:
        await store.append_turns("s1", told(190, 420))
        await synced(store, tmp_path, tier)

    indexer = Indexer(store, slow, Interrupted(LetterEmbedder(), "embed", meanwhile))
    await indexer.index_new(SESSION, vector_limit=0)
    await indexer.feed(SESSION)
    with pytest.raises(KilledError):
        await indexer.index_new(SESSION, chains=[Chain.HISTORY], progress=kill)
    await slow.close()
    await synced(store, tmp_path, tier)
    await check(tmp_path, store, tier)


@tiers("import")
async def test_vectors_that_are_added_later_change_no_words(tmp_path, store, tier):
    await store.append_turns("s1", told(90, 400))
    index = open_index(tmp_path / "index", tier)
    await Indexer(store, index, None).index_new(SESSION)
    slow = Interrupted(LetterEmbedder(), "embed", lambda: synced(store, tmp_path, tier))
    with pytest.raises(KilledError):
        await Indexer(store, index, slow).fill_vectors(SESSION, kill)
    await index.close()
    await synced(store, tmp_path, tier)
    await check(tmp_path, store, tier)


@tiers("memory")
async def test_what_one_process_erases_no_other_brings_back(tmp_path, store, tier):
    await store.append_turns("s1", told(91, 92, SECRET))
    with workers(tmp_path, tier) as crew:
        at_once(crew[:2], "recall", "quicksilver")
        crew[2].ask("sync", SESSION, WORLD)
        async with open_runtime(tmp_path, embedder="none") as runtime:
            done = await runtime.forget(Erasure(at=datetime(2026, 2, 1, tzinfo=UTC), user_id="Ann"))
        assert done.outcome
        crew[2].answer()
        await store.append_turns("s1", told(92, 100))
        at_once(crew, "recall", "goat")
        at_once(crew, "sync", SESSION, WORLD)
        close(crew)
    assert not [file for file in files(tmp_path / "index") if b"quicksilver" in file.read_bytes()]
    await check(tmp_path, store, tier)


@tiers("memory")
async def test_a_session_that_is_gone_stays_gone(tmp_path, store, tier):
    await store.append_turns("s1", told(91, 92, SECRET))
    with workers(tmp_path, tier, 2) as crew:
        at_once(crew, "recall", "quicksilver")
        async with open_runtime(tmp_path, embedder="none") as runtime:
            done = await runtime.forget(Erasure(at=datetime(2026, 2, 1, tzinfo=UTC), session_id="s1"))
        assert done.done
        close(crew)
    assert not [name for name, rows in tables(tmp_path).items() if "session" in name and rows]
    assert not [file for file in files(tmp_path / "index") if b"quicksilver" in file.read_bytes()]


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]
