"""The index is fed behind the commit: the turn after it embeds its own input alone, and nothing said is lost."""

from __future__ import annotations

from types import SimpleNamespace

import anyio
import numpy as np
import pytest
from engine_parts import small_engine

from jacquard import CurationConfig, RuntimeConfig
from jacquard.pipeline.curation.index_feed import IndexFeed
from jacquard.turns.host.session_lock import SessionLock
from mnemosyne import MemoryStore
from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.engines.tables.memory import MemoryIndex
from mnemosyne.schema.memory import session_scope

pytestmark = pytest.mark.anyio
SESSION = session_scope("s")
CONFIG = RuntimeConfig(curation=CurationConfig(deadline_ms=60_000))
FIRST, REPLY = "I hide the silver key under the mill.", "Nobody saw you at the mill."
NEXT = "Where is the lantern of the ferryman?"


class GatedEmbedder:
    """Notes what it embeds. Documents wait for `may_end`, and fail with `fault`."""

    name = "gated"

    def __init__(self, fault=None):
        self.queries, self.documents, self.fault = [], [], fault
        self.begun, self.may_end = anyio.Event(), anyio.Event()

    async def warm(self):
        return None

    async def fitness(self, text):
        return 1.0

    async def embed(self, texts, purpose):
        (self.queries if purpose == "query" else self.documents).extend(texts)
        if purpose == "document":
            self.begun.set()
            await self.may_end.wait()
            if self.fault is not None:
                raise self.fault
        rows = [[1.0 + text.lower().count(letter) for letter in "abcdefghijklmnop"] for text in texts]
        vectors = np.asarray(rows, dtype=np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


async def said(engine, text=FIRST, reply=REPLY):
    turn = await engine.prepare_turn("s", text)
    await engine.commit_assistant_message("s", reply)
    return turn


async def test_the_next_turn_embeds_its_input_alone():
    embedder, index = GatedEmbedder(), MemoryIndex()
    embedder.may_end.set()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, index=index, config=CONFIG) as (engine, _, _):
            await said(engine)
            assert await engine.settle(60)
            assert len([text for text in embedder.documents if FIRST in text or REPLY in text]) == 2
            assert await index.unembedded_ids(SESSION, "gated", 9) == ()
            # The conversation has its vector already, for an input that depends on it.
            assert [text for text in embedder.queries if FIRST in text and REPLY in text]
            before = len(embedder.documents), len(embedder.queries)
            await engine.prepare_turn("s", "hm, and then?")
    assert len(embedder.documents) == before[0]
    assert embedder.queries[before[1] :] == ["hm, and then?"]


async def test_a_turn_that_comes_first_waits_for_no_document_and_finds_it_by_words():
    embedder, index = GatedEmbedder(), MemoryIndex()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, index=index, config=CONFIG) as (engine, store, _):
            await said(engine)
            await embedder.begun.wait()
            turn = await engine.prepare_turn("s", NEXT)
            assert await index.count(SESSION) == 2
            await engine.commit_assistant_message("s", "He took it.")
            # Of the two messages that have no vector none can be recalled: both are shown.
            assert "vectors_behind" not in {each.code for each in turn.report.degradations}
            embedder.may_end.set()
            assert await engine.settle(60)
            assert await index.count(SESSION) == 4
            assert await index.unembedded_ids(SESSION, "gated", 9) == ()
            whole = MemoryIndex()
            async with small_engine(store=store, embedder=embedder, index=whole, config=CONFIG) as (later, _, _):
                await later.prepare_turn("s", NEXT)
    assert await whole.count(SESSION) == 4


async def test_what_an_engine_that_ended_left_is_fed_by_the_next():
    embedder, index, store = GatedEmbedder(), MemoryIndex(), MemoryStore()
    with anyio.fail_after(60):
        async with small_engine(store=store, embedder=embedder, index=index, config=CONFIG) as (engine, _, _):
            await said(engine)
            await embedder.begun.wait()
        assert len(await index.unembedded_ids(SESSION, "gated", 9)) == 2
        embedder.may_end.set()
        async with small_engine(store=store, embedder=embedder, index=index, config=CONFIG) as (engine, _, _):
            await said(engine, "And the ferryman?", "He sleeps.")
            assert await engine.settle(60)
    assert await index.count(SESSION) == 4
    assert await index.unembedded_ids(SESSION, "gated", 9) == ()


async def test_a_model_that_fails_fails_no_commit():
    embedder, index = GatedEmbedder(EmbedderUnavailableError("gone")), MemoryIndex()
    embedder.may_end.set()
    with anyio.fail_after(60):
        async with small_engine(embedder=embedder, index=index, config=CONFIG) as (engine, _, _):
            await said(engine)
            assert await engine.settle(60)
            assert (await said(engine, NEXT, "He took it.")).text
            assert await engine.settle(60)
            assert await index.count(SESSION) == 4
            embedder.fault = None
            await said(engine, "And the ferryman?", "He sleeps.")
            assert await engine.settle(60)
    assert await index.unembedded_ids(SESSION, "gated", 9) == ()


async def test_words_are_indexed_at_once_and_vectors_when_no_call_uses_the_session():
    lock, done = SessionLock(), []

    class Sessions:
        async def head(self, session_id):
            return SimpleNamespace(world_id="w")

    class Feeder:
        async def feed(self, scopes, before_vectors):
            done.append(("words", *scopes))
            await before_vectors()
            done.append(("vectors", *scopes))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            feed = IndexFeed(Sessions(), Feeder(), tasks, lock.wait_until_free)
            async with lock.acquire("s"):
                feed.begin("s")
                await anyio.wait_all_tasks_blocked()
                assert done == [("words", SESSION, "world:w")]
            await feed.wait_until_idle()
            assert done == [("words", SESSION, "world:w"), ("vectors", SESSION, "world:w")]
            feed.begin("s")
            await feed.wait_until_idle()
    assert len(done) == 4


async def test_a_session_that_was_never_searched_here_is_left_alone():
    store, index = MemoryStore(), MemoryIndex()
    async with small_engine(store=store, config=CONFIG) as (engine, _, _):
        await engine.prepare_turn("s", FIRST)
    async with small_engine(store=store, index=index, config=CONFIG) as (engine, _, _):
        await engine.commit_assistant_message("s", REPLY)
        assert await engine.settle(60)
    assert await index.count(SESSION) == 0
