"""Vectors of documents, computed once: every distinct text of every set is embedded one time a model, ever.

A SQLite file keyed by model and text hash. What is computed is written batch by batch, so a run that was stopped goes on
where it was. Queries are never taken from it: their embedding is part of the latency that is measured.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
from anyio import to_thread

from evals.errors import CacheError
from mnemosyne import Embedder
from mnemosyne.protocols import Vectors

CACHE_FILE = "vectors.db"
BATCH_TEXTS = 64
_PROBE = "The key of the temple lies under the third stone. 神殿的钥匙在第三块石头下面。"
_SAME = 0.999
_READ_KEYS = 500

Progress = Callable[[int, int], None]
"""Told how many texts of how many are done."""


class VectorCache:
    """The file. Synchronous: callers take it off the event loop. CacheError when the file cannot be used."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / CACHE_FILE

    def read(self, model: str, keys: Iterable[str]) -> dict[str, Vectors]:
        """Return the vectors that are there, by key."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Vectors] = {}
        with self._open() as connection:
            for start in range(0, len(wanted), _READ_KEYS):
                part = wanted[start : start + _READ_KEYS]
                marks = ", ".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, vector FROM vectors WHERE model = ? AND key IN ({marks})", (model, *part)
                )
                found.update((key, np.frombuffer(data, dtype=np.float32)) for key, data in rows)
        return found

    def write(self, model: str, vectors: Mapping[str, Vectors]) -> None:
        """Keep vectors; all or none."""
        rows = [(model, key, vector.astype(np.float32).tobytes()) for key, vector in vectors.items()]
        with self._open() as connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def forget(self, model: str) -> None:
        """Remove everything of a model."""
        with self._open() as connection:
            connection.execute("DELETE FROM vectors WHERE model = ?", (model,))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Give a connection inside one transaction."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=30.0)) as connection, connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS vectors "
                    "(model TEXT, key TEXT, vector BLOB NOT NULL, PRIMARY KEY (model, key)) WITHOUT ROWID"
                )
                yield connection
        except (OSError, sqlite3.Error) as error:
            raise CacheError(f"{self.path}: cannot be used ({error}). Delete it, or name another folder.") from error


class CachedEmbedder:
    """An Embedder whose documents come from the cache if they can; queries are always computed.

    A model that changed under the same name is noticed by a probe text when it is warmed, and its old vectors are
    forgotten. `computed` counts the document texts that had to be embedded. `on_progress` is called during long work.
    """

    def __init__(self, inner: Embedder, cache: VectorCache) -> None:
        self.name = inner.name
        self.computed = 0
        self.on_progress: Progress | None = None
        self._inner = inner
        self._cache = cache

    async def warm(self) -> None:
        """Load the model and see that it is the one whose vectors are kept."""
        await self._inner.warm()
        probe = (await self._inner.embed([_PROBE], "document"))[0]
        key = text_key(_PROBE)
        kept = (await to_thread.run_sync(self._cache.read, self.name, [key])).get(key)
        if kept is not None and (kept.shape != probe.shape or float(kept @ probe) < _SAME):
            await to_thread.run_sync(self._cache.forget, self.name)
            kept = None
        if kept is None:
            await to_thread.run_sync(self._cache.write, self.name, {key: probe})

    async def fitness(self, text: str) -> float:
        """Ask the model."""
        return await self._inner.fitness(text)

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return one row a text; documents that are not in the cache are computed in batches, each kept at once."""
        if purpose == "query" or not texts:
            return await self._inner.embed(texts, purpose)
        keys = [text_key(text) for text in texts]
        known = await to_thread.run_sync(self._cache.read, self.name, keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        # Texts of like length share a batch, so that little of it is padding.
        order = sorted(missing, key=lambda key: len(missing[key]))
        for start in range(0, len(order), BATCH_TEXTS):
            part = order[start : start + BATCH_TEXTS]
            rows = await self._inner.embed([missing[key] for key in part], "document")
            made = dict(zip(part, rows, strict=True))
            await to_thread.run_sync(self._cache.write, self.name, made)
            known.update(made)
            self.computed += len(part)
            if self.on_progress is not None:
                self.on_progress(min(start + BATCH_TEXTS, len(order)), len(order))
        return np.stack([known[key] for key in keys])


def text_key(text: str) -> str:
    """Return the key of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
