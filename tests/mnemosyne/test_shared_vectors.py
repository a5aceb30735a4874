"""Vectors and index rows that hosts share in PostgreSQL: embedded once, opened from there, gone with what was erased."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import anyio
import numpy as np
import psycopg
import pytest
from anyio import to_thread
from recall_parts import LetterEmbedder, question, where

from mnemosyne import (
    Author,
    AuthorKind,
    CalibratedEstimator,
    Chain,
    Erasure,
    Message,
    PostgresStore,
    Role,
    SessionStart,
)
from mnemosyne.privacy.forget import MemoryLocations, forget
from mnemosyne.protocols import EmbeddedText, IndexBase, SegmentRows, StoredSegments
from mnemosyne.retrieval.engines.rows import text_hash
from mnemosyne.retrieval.engines.shared.scopes import CHAIN_SEGMENTS, LEAST_ROWS, SEGMENT_ROWS
from mnemosyne.retrieval.engines.tiered_index import TieredIndex
from mnemosyne.retrieval.recall.hybrid import HybridRetriever
from mnemosyne.retrieval.recall.indexing.indexer import Indexer
from mnemosyne.schema.memory import session_scope, world_scope
from mnemosyne.schema.record import ImportedTurn
from mnemosyne.stores.locate import postgres_address
from mnemosyne.testing.stores.samples import lore

pytestmark = pytest.mark.anyio

SCOPE = session_scope("s")
AT = datetime(2026, 1, 31, tzinfo=UTC)
WORDS = ("river", "stone", "lantern", "harbour", "orchard", "winter", "letter")


def spoken(number: int, user_id: str = "ada") -> ImportedTurn:
    asked = f"Question {number}: who saw the {WORDS[number % 7]} near the {WORDS[number // 7 % 7]} {number}?"
    return ImportedTurn(
        turn_id=f"t{number}",
        messages=(
            Message(
                role=Role.USER, content=asked, message_id=f"u{number}", author=Author(kind=AuthorKind.USER, id=user_id)
            ),
            Message(role=Role.ASSISTANT, content=f"The {WORDS[number % 5]} number {number}.", message_id=f"a{number}"),
        ),
    )


class Host:
    """What one host has of a store: an index with a folder of its own, and an indexer with its own embedder."""

    def __init__(self, store: PostgresStore, folder: Path, **limits: int) -> None:
        self.store, self.embedder = store, LetterEmbedder()
        self.index = TieredIndex(folder, segments=store.segments, **limits)
        self.indexer = Indexer(store, self.index, self.embedder, vectors=store.vectors)

    async def find(self, text: str) -> tuple:
        (vector,) = await LetterEmbedder().embed([text], "query")
        filter_ = where(SCOPE)
        words = await self.index.search_text(text, filter_, 20)
        return words, await self.index.search_vector(vector, filter_, 20, model="letters")


@pytest.fixture
async def store(postgres_url):
    opened = PostgresStore(postgres_url)
    yield opened
    await opened.close()


@pytest.fixture
def host(store, tmp_path):
    made = []

    def make(**limits: int) -> Host:
        made.append(Host(store, tmp_path / f"index{len(made)}", **limits))
        return made[-1]

    return make


async def begin(store: PostgresStore, turns: int = 3) -> None:
    await store.create_session(
        SessionStart(session_id="s", world_id="w", locale="en", state={}, turns=tuple(map(spoken, range(turns))))
    )


async def run(url: str, statement: str, *values: object) -> list:
    def work() -> list:
        with psycopg.connect(postgres_address(url).conninfo, autocommit=True) as connection:
            connection.execute(f"SET search_path = {postgres_address(url).schema}")
            done = connection.execute(statement, values)
            return done.fetchall() if done.description else []

    return await to_thread.run_sync(work)


async def texts_of(store: PostgresStore, vector: list[float] | None = None) -> list[EmbeddedText]:
    page = await store.entries_after(SCOPE, Chain.HISTORY, 0, 100)
    made = None if vector is None else np.asarray(vector, dtype=np.float32)
    return [EmbeddedText(entry_id=e.entry.entry_id, text_hash=text_hash(e.entry), vector=made) for e in page]


def wanted(texts: list[EmbeddedText]) -> dict[str, bytes]:
    return {each.entry_id: each.text_hash for each in texts}


@pytest.mark.parametrize("column", ["pgvector", "bytes"])
async def test_a_store_keeps_vectors(store, postgres_url, column):
    await begin(store)
    if column == "bytes":
        await run(postgres_url, "ALTER TABLE vectors ALTER COLUMN vector TYPE bytea USING NULL")
    first, *others = await texts_of(store, [0.6, 0.8, 0.0001])
    await store.vectors.put(SCOPE, "m", [first, replace(others[0], vector=None)])
    found = await store.vectors.get(SCOPE, "m", wanted([first, *others]))
    assert set(found) == {first.entry_id, others[0].entry_id}
    assert found[others[0].entry_id] is None
    assert found[first.entry_id].tolist() == first.vector.astype(np.float16).astype(np.float32).tolist()
    assert not await store.vectors.get(SCOPE, "other", wanted([first]))
    assert not await store.vectors.get(SCOPE, "m", {first.entry_id: b"another text 16b"})
    assert store.vectors.faults() == ()
    kinds = await run(postgres_url, "SELECT pg_typeof(vector)::text FROM vectors WHERE vector IS NOT NULL")
    assert kinds[0][0].endswith("halfvec" if column == "pgvector" else "bytea")


async def test_vectors_of_a_text_that_is_gone_are_not_kept(store):
    await begin(store)
    texts = await texts_of(store, [1.0, 0.0])
    await store.vectors.put(SCOPE, "m", [replace(texts[0], text_hash=b"another text 16b"), texts[1]])
    await store.erase(Erasure(at=AT, session_id="s"))
    await store.vectors.put(SCOPE, "m", texts[2:])
    assert not await store.vectors.get(SCOPE, "m", wanted(texts))


async def test_an_archived_session_leaves_no_vectors_and_is_indexed_again_when_it_is_opened(store, postgres_url, host):
    await begin(store, 200)
    one, other = host(), host()
    await one.indexer.index_new(SCOPE)
    await one.index.maintain()
    found = await one.find("lantern")
    await store.archive("s", at=AT)
    left = "SELECT (SELECT count(*) FROM vectors), (SELECT count(*) FROM index_segments WHERE body IS NOT NULL)"
    assert await run(postgres_url, left) == [(0, 0)]
    await store.open_archived("s")
    await other.indexer.index_new(SCOPE)
    assert await other.find("lantern") == found


@pytest.mark.parametrize(
    "damage",
    ["checksum = checksum + 1", "vector = '[1,2,3]'", "vector = NULL"],
)
async def test_damaged_vectors_are_named_and_made_again(store, postgres_url, host, damage):
    await begin(store)
    one, other = host(), host()
    await one.indexer.index_new(SCOPE)
    await run(postgres_url, f"UPDATE vectors SET {damage} WHERE entry_id = 'u1'")
    await other.indexer.index_new(SCOPE)
    assert [text for text in other.embedder.embedded if "Question 1" in text] == other.embedder.embedded
    assert len(other.embedder.embedded) == 1
    assert store.vectors.faults() == ()
    assert await other.find("lantern") == await one.find("lantern")
    third = host()
    await third.indexer.index_new(SCOPE)
    assert not third.embedder.embedded


async def test_a_damaged_vector_is_a_fault_until_it_is_replaced(store, postgres_url):
    await begin(store)
    texts = await texts_of(store, [0.6, 0.8])
    await store.vectors.put(SCOPE, "m", texts)
    await run(postgres_url, "UPDATE vectors SET checksum = checksum + 1 WHERE entry_id = 'u1'")
    assert set(await store.vectors.get(SCOPE, "m", wanted(texts))) == {t.entry_id for t in texts} - {"u1"}
    (fault,) = store.vectors.faults()
    assert "1 vectors of 'session:s'" in fault
    assert "u1" in fault
    await store.vectors.put(SCOPE, "m", texts)
    assert store.vectors.faults() == ()


async def test_without_the_table_texts_are_embedded_and_the_fault_is_named(store, postgres_url, host):
    await begin(store)
    await run(postgres_url, "ALTER TABLE vectors RENAME TO elsewhere")
    one = host()
    result = await one.indexer.index_new(SCOPE)
    assert (result.entries, result.fault, len(one.embedder.embedded)) == (6, "", 6)
    (fault,) = store.vectors.faults()
    assert "tables are gone" in fault
    await run(postgres_url, "ALTER TABLE elsewhere RENAME TO vectors")
    # What could not be kept is kept behind the next turn.
    await one.indexer.feed(SCOPE)
    assert store.vectors.faults() == ()
    other = host()
    await other.indexer.index_new(SCOPE)
    assert other.embedder.embedded == []


async def test_two_hosts_embed_a_text_once(store, host):
    await begin(store, 20)
    hosts = [host(), host(), host()]
    async with anyio.create_task_group() as group:
        for each in hosts:
            group.start_soon(each.indexer.index_new, SCOPE)
    assert sorted(text for each in hosts for text in each.embedder.embedded) == sorted(
        {text for each in hosts for text in each.embedder.embedded}
    )
    assert sum(len(each.embedder.embedded) for each in hosts) == 40
    found = [await each.find("who saw the lantern") for each in hosts]
    assert found[0] == found[1] == found[2]


async def test_hosts_take_turns_on_one_session(store, host):
    """Whoever is asked, all hosts find the same; nothing is embedded twice."""
    await begin(store, 150)
    hosts = [host(), host()]
    for number in range(150, 230):
        await store.append_turns("s", (spoken(number),))
        one, other = hosts[number % 2], hosts[(number + 1) % 2]
        await one.indexer.index_new(SCOPE, vector_limit=0)
        await one.indexer.embed_waiting(SCOPE)
        if number % 5 == 0:
            await other.indexer.index_new(SCOPE, vector_limit=0)
            assert await other.find(f"river {number}") == await one.find(f"river {number}")
    assert sum(len(each.embedder.embedded) for each in hosts) == 460
    fresh = host()
    for each in (*hosts, fresh):
        await each.indexer.index_new(SCOPE, vector_limit=0)
    assert not fresh.embedder.embedded
    assert await fresh.find("winter 222") == await hosts[1].find("winter 222") == await hosts[0].find("winter 222")
    assert not list(fresh.index.faults())


async def test_a_large_scope_opens_from_its_rows_and_a_small_one_leaves_nothing(store, host, tmp_path):
    await begin(store, LEAST_ROWS // 2 + SEGMENT_ROWS)
    one = host()
    await one.indexer.index_new(SCOPE)
    await one.index.close()
    assert (await store.segments.load(SCOPE)).bodies
    other = host()
    assert await other.index.watermark(SCOPE, Chain.HISTORY) > LEAST_ROWS
    await store.replace_world("w", "1", [replace(lore("l1"), scope=world_scope("w"))])
    await one.indexer.index_new(world_scope("w"))
    await one.index.maintain()
    assert not (await store.segments.load(world_scope("w"))).bodies
    assert not list(tmp_path.rglob("*.lance"))


async def test_long_chains_become_one_segment(store, host):
    await begin(store, LEAST_ROWS)
    one = host()
    for number in range(LEAST_ROWS, LEAST_ROWS + CHAIN_SEGMENTS * SEGMENT_ROWS // 2):
        await store.append_turns("s", (spoken(number),))
        if number % (SEGMENT_ROWS // 2) == 0:
            await one.indexer.index_new(SCOPE)
    assert len((await store.segments.load(SCOPE)).bodies) < CHAIN_SEGMENTS
    await one.indexer.index_new(SCOPE)
    other = host()
    await other.indexer.index_new(SCOPE)
    assert not other.embedder.embedded
    assert await other.find("harbour stone") == await one.find("harbour stone")


async def test_only_scopes_used_last_stay_in_memory(store, host):
    one = host(open_rows=100)
    for number in range(5):
        name = f"other{number}"
        turns = tuple(map(spoken, range(20)))
        await store.create_session(SessionStart(session_id=name, world_id="w", locale="en", state={}, turns=turns))
        await one.indexer.index_new(session_scope(name))
        await one.index.evict()
    held = one.index.held_in_memory()
    assert held == tuple(session_scope(f"other{number}") for number in (3, 4))
    await one.indexer.index_new(session_scope("other0"))
    assert len(one.embedder.embedded) == 40


class SlowSegments:
    """Waits before it gives a chain, until it is told to go on."""

    def __init__(self, store: PostgresStore) -> None:
        self._inner, self.asked, self.go_on = store.segments, anyio.Event(), anyio.Event()

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def load(self, scope: str) -> StoredSegments:
        self.asked.set()
        await self.go_on.wait()
        return await self._inner.load(scope)


async def test_a_scope_that_is_looked_after_while_it_is_read_stays_shared(store, tmp_path):
    await begin(store, 20)
    segments = SlowSegments(store)
    index = TieredIndex(tmp_path / "index", segments=segments, held_rows=8)
    indexer = Indexer(store, index, None)
    async with anyio.create_task_group() as group:
        group.start_soon(indexer.index_new, SCOPE)
        await segments.asked.wait()
        await index.refresh(SCOPE)
        segments.go_on.set()
    await index.maintain()
    assert index.held_in_memory() == (SCOPE,)
    assert not list(tmp_path.rglob("*.lance"))


async def test_a_damaged_chain_is_made_again(store, postgres_url, host):
    await begin(store, LEAST_ROWS)
    one = host()
    await one.indexer.index_new(SCOPE)
    await run(postgres_url, "UPDATE index_segments SET body = set_byte(body, 900, 255 - get_byte(body, 900))")
    other = host()
    assert await other.index.count(SCOPE) == 0
    assert any("damaged" in fault for fault in other.index.faults())
    await other.indexer.index_new(SCOPE)
    assert not other.embedder.embedded
    assert await other.find("letter 200") == await one.find("letter 200")
    third = host()
    await third.indexer.index_new(SCOPE)
    assert not third.index.faults()


async def test_without_the_table_of_segments_a_host_makes_its_own_rows(store, postgres_url, host):
    await begin(store, LEAST_ROWS)
    await run(postgres_url, "ALTER TABLE index_segments RENAME TO elsewhere")
    one = host()
    await one.indexer.index_new(SCOPE)
    words, vectors = await one.find("letter 200")
    assert words
    assert vectors
    assert any("cannot be used" in fault for fault in one.index.faults())
    await one.index.refresh(SCOPE)
    assert (await one.find("letter 200"))[0] == words, "what it made stays while the table is away"
    await run(postgres_url, "ALTER TABLE elsewhere RENAME TO index_segments")
    await one.index.refresh(SCOPE)
    await one.indexer.index_new(SCOPE)
    assert not one.index.faults()
    assert (await store.segments.load(SCOPE)).bodies


async def test_a_recall_says_that_vectors_are_not_shared(store, postgres_url, tmp_path):
    await begin(store, 40)
    index = TieredIndex(tmp_path / "index", segments=store.segments)
    retriever = HybridRetriever(store, index, LetterEmbedder(), CalibratedEstimator(), vectors=store.vectors)
    await run(postgres_url, "ALTER TABLE vectors RENAME TO elsewhere")
    await retriever.sync(SCOPE)
    query = question("who saw the lantern?", session_id="s", world_id="w")
    recalled = await retriever.recall(query)
    assert "vectors_unshared" in recalled.degradations
    assert any(each.signals.vector is not None for each in recalled.candidates)
    await run(postgres_url, "ALTER TABLE elsewhere RENAME TO vectors")
    await store.append_turns("s", (spoken(40),))
    assert "vectors_unshared" not in (await retriever.recall(query)).degradations


def rows_of(base: IndexBase, mark: int, body: bytes = b"x") -> SegmentRows:
    return SegmentRows(base=base, marks={"history": mark}, body=body)


async def test_rows_are_added_after_the_rows_that_they_were_made_of(store):
    await begin(store)
    empty = (await store.segments.load(SCOPE)).base
    first = await store.segments.append(SCOPE, rows_of(empty, 2))
    # What another host has made of all entries is added, what the chain has already is not.
    second = await store.segments.append(SCOPE, rows_of(empty, 4))
    assert await store.segments.append(SCOPE, rows_of(first, 3)) == second
    mixed = SegmentRows(base=first, marks={"history": 3, "event": 1}, body=b"x")
    assert await store.segments.append(SCOPE, mixed) == first
    assert len((await store.segments.load(SCOPE)).bodies) == 2
    await store.segments.drop(SCOPE)
    assert (await store.segments.load(SCOPE)).bodies == ()
    assert not await store.segments.is_current(SCOPE, second)
    for base in (empty, first, second):
        assert await store.segments.append(SCOPE, rows_of(base, 9)) is None
    assert await store.segments.append(SCOPE, rows_of((await store.segments.load(SCOPE)).base, 9)) is not None


async def test_rows_of_a_session_that_was_made_again_are_not_added(store):
    await begin(store)
    base = (await store.segments.load(SCOPE)).base
    await store.erase(Erasure(at=AT, session_id="s"))
    assert await store.segments.append(SCOPE, rows_of(base, 2)) is None
    await begin(store)
    assert await store.segments.append(SCOPE, rows_of(base, 2)) is None


async def test_an_erasure_removes_vectors_and_rows_and_no_host_brings_them_back(store, postgres_url, host, tmp_path):
    await begin(store, LEAST_ROWS)
    secret = Message(
        role=Role.USER,
        content="The zyzzyva is under the bridge.",
        message_id="secret",
        author=Author(kind=AuthorKind.USER, id="eve"),
    )
    await store.append_turns("s", (ImportedTurn(turn_id="x", messages=(secret,)),))
    one, other = host(), host()
    await one.indexer.index_new(SCOPE)
    await other.indexer.index_new(SCOPE)
    assert (await other.find("zyzzyva"))[0]

    async def rebuild(scope: str) -> object:
        return await one.indexer.rebuild(scope, force=True)

    place = MemoryLocations(store=store, index=one.index, rebuild=rebuild)
    report = await forget(place, Erasure(at=AT, user_id="eve"))
    assert report.done
    assert await run(postgres_url, "SELECT entry_id FROM vectors WHERE entry_id = 'secret'") == []
    bodies = (await store.segments.load(SCOPE)).bodies
    assert bodies
    assert not any(b"zyzzyva" in body for body in bodies)
    # The other host still has the words in memory; it adds nothing of them, and lets them go.
    await store.append_turns("s", tuple(map(spoken, range(1_000, 1_000 + SEGMENT_ROWS))))
    await other.indexer.index_new(SCOPE)
    await other.index.refresh(SCOPE)
    assert not any(b"zyzzyva" in body for body in (await store.segments.load(SCOPE)).bodies)
    await other.indexer.index_new(SCOPE)
    assert not (await other.find("zyzzyva"))[0]
    assert len(other.embedder.embedded) + len(one.embedder.embedded) == len(
        {*one.embedder.embedded, *other.embedder.embedded}
    )


async def test_a_session_that_is_erased_leaves_nothing(store, postgres_url, host):
    await begin(store, LEAST_ROWS)
    await host().indexer.index_new(SCOPE)
    await store.erase(Erasure(at=AT, session_id="s"))
    assert await run(postgres_url, "SELECT count(*) FROM vectors") == [(0,)]
    assert await run(postgres_url, "SELECT count(*) FROM index_segments") == [(0,)]


async def test_tenants_do_not_see_each_other(store, postgres_url):
    await begin(store)
    texts = await texts_of(store, [0.6, 0.8])
    await store.vectors.put(SCOPE, "m", texts)
    other = PostgresStore(postgres_url, tenant="other")
    await begin(other)
    assert not await other.vectors.get(SCOPE, "m", wanted(texts))
    await other.close()
