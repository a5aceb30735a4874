"""The cache of vectors: each text once a model, kept when a run is stopped, forgotten when the model changes."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

from evals.errors import CacheError
from evals.running.cache import BATCH_TEXTS, CachedEmbedder, VectorCache

pytestmark = pytest.mark.anyio


class CountingEmbedder:
    """An embedder by letters that counts what it is asked, and may break off."""

    def __init__(self, name="letters", turn=0, breaks_after=None):
        self.name = name
        self.turn = turn
        self.breaks_after = breaks_after
        self.texts = []

    async def warm(self):
        return None

    async def fitness(self, text):
        return 1.0

    async def embed(self, texts, purpose):
        if self.breaks_after is not None and len(self.texts) + len(texts) > self.breaks_after:
            raise KeyboardInterrupt
        self.texts.extend(texts)
        return np.stack([self.vector(text) for text in texts])

    def vector(self, text):
        vector = np.full(8, 0.01, dtype=np.float32)
        for letter in text:
            vector[(ord(letter) + self.turn) % 8] += 1
        return vector / np.linalg.norm(vector)


async def test_the_same_text_is_embedded_once_ever(tmp_path):
    first = CountingEmbedder()
    cached = CachedEmbedder(first, VectorCache(tmp_path))
    vectors = await cached.embed(["one", "two", "one", "三"], "document")
    assert sorted(first.texts) == ["one", "two", "三"]
    assert np.allclose(vectors, [first.vector(text) for text in ["one", "two", "one", "三"]])
    assert cached.computed == 3

    second = CountingEmbedder()
    again = await CachedEmbedder(second, VectorCache(tmp_path)).embed(["三", "two", "new"], "document")
    assert second.texts == ["new"]
    assert np.array_equal(again[:2], vectors[[3, 1]])


async def test_a_stopped_run_goes_on_where_it_was(tmp_path):
    texts = [f"text number {number}" for number in range(BATCH_TEXTS * 3)]
    stopped = CountingEmbedder(breaks_after=BATCH_TEXTS * 2)
    with pytest.raises(KeyboardInterrupt):
        await CachedEmbedder(stopped, VectorCache(tmp_path)).embed(texts, "document")
    assert len(stopped.texts) == BATCH_TEXTS * 2

    going_on = CountingEmbedder()
    cached = CachedEmbedder(going_on, VectorCache(tmp_path))
    told = []
    cached.on_progress = lambda done, total: told.append((done, total))
    vectors = await cached.embed(texts, "document")
    assert len(going_on.texts) == BATCH_TEXTS
    assert told == [(BATCH_TEXTS, BATCH_TEXTS)]
    assert np.allclose(vectors, [going_on.vector(text) for text in texts])


async def test_queries_are_always_computed(tmp_path):
    inner = CountingEmbedder()
    cached = CachedEmbedder(inner, VectorCache(tmp_path))
    await cached.embed(["a"], "document")
    await cached.embed(["a"], "query")
    await cached.embed(["a"], "query")
    assert inner.texts == ["a", "a", "a"]


async def test_models_do_not_share_vectors(tmp_path):
    await CachedEmbedder(CountingEmbedder(), VectorCache(tmp_path)).embed(["a"], "document")
    other = CountingEmbedder(name="other", turn=3)
    vectors = await CachedEmbedder(other, VectorCache(tmp_path)).embed(["a"], "document")
    assert np.allclose(vectors[0], other.vector("a"))


async def test_a_model_that_changed_under_its_name_is_noticed(tmp_path):
    cached = CachedEmbedder(CountingEmbedder(), VectorCache(tmp_path))
    await cached.warm()
    await cached.embed(["a"], "document")
    changed = CountingEmbedder(turn=3)
    again = CachedEmbedder(changed, VectorCache(tmp_path))
    await again.warm()
    assert np.allclose((await again.embed(["a"], "document"))[0], changed.vector("a"))

    same = CountingEmbedder(turn=3)
    kept = CachedEmbedder(same, VectorCache(tmp_path))
    await kept.warm()
    await kept.embed(["a"], "document")
    assert "a" not in same.texts


async def test_more_texts_than_a_query_takes_keys(tmp_path):
    inner = CountingEmbedder()
    texts = [f"{number}" for number in range(1300)]
    await CachedEmbedder(inner, VectorCache(tmp_path)).embed(texts, "document")
    again = CachedEmbedder(inner, VectorCache(tmp_path))
    await again.embed(texts, "document")
    assert again.computed == 0


async def test_a_cache_that_is_no_database_is_named(tmp_path):
    (tmp_path / "vectors.db").write_text("this is not a database, only text that is long enough to be read as one")
    with pytest.raises(CacheError, match=r"vectors\.db: cannot be used"):
        await CachedEmbedder(CountingEmbedder(), VectorCache(tmp_path)).embed(["a"], "document")


async def test_a_cache_of_another_shape_is_named(tmp_path):
    with sqlite3.connect(tmp_path / "vectors.db") as connection:
        connection.execute("CREATE TABLE vectors (something TEXT)")
    connection.close()
    with pytest.raises(CacheError, match=r"vectors\.db"):
        await CachedEmbedder(CountingEmbedder(), VectorCache(tmp_path)).embed(["a"], "document")
