"""The embedder of the stacks: one model, through sentence-transformers or onnxruntime, with a clock on the query's embedding.

Vectors of documents may come from the cache of the harness, or be made up by seed for sizes that no machine embeds in
reasonable time; then all stacks get the same ones in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np

from benchmarks.recall import MadeUpVectors
from benchmarks.rivals.names import TORCH
from evals.errors import SetupError
from evals.running.cache import VectorCache, text_key
from jacquard.wiring.runtime import open_embedder
from mnemosyne import Embedder
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.embedding.local import LocalEmbedder, model_folder

SEED = 7
BATCH = 32
MADE_UP = "made-up"
"""The name of an embedder that draws every vector, queries' too: for trying the bench out, and for its tests."""


class SharedModel:
    """For the rivals, by the library that a setup names. While `drawn` is set, vectors of documents are drawn, and those of
    queries while `free` is set. `cache`: where vectors of documents are kept; None computes them.
    """

    def __init__(self, name: str, *, library: str, cache: Path | None) -> None:
        self.name, self.embed_ms, self.free, self.drawn = name, 0.0, False, name == MADE_UP
        self._made = MadeUpVectors(SEED)
        self.cache = cache
        self._library = library
        self._encode_texts: Any = None

    def documents(self, texts: Sequence[str]) -> Vectors:
        """Return a unit vector a text."""
        if self.drawn:
            return self._made.draw(len(texts))
        if self.cache is None:
            return self._encode(texts)
        kept = VectorCache(self.cache)
        keys = [text_key(text) for text in texts]
        name = f"rivals:{self.name}"
        known = kept.read(name, keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = dict(zip(missing, self._encode([*missing.values()]), strict=True))
            kept.write(name, made)
            known.update(made)
        return np.stack([known[key] for key in keys])

    def query(self, text: str) -> Vectors:
        """Return the unit vector of a query and note the time."""
        if self.free or self.name == MADE_UP:
            return np.asarray(self._made.draw(1)[0])
        began = perf_counter()
        row = self._encode([text], "query")[0]
        self.embed_ms += (perf_counter() - began) * 1000
        return np.asarray(row)

    def _encode(self, texts: Sequence[str], purpose: Literal["query", "document"] = "document") -> Vectors:
        if self._encode_texts is None:
            self._encode_texts = (_load_torch if self._library == TORCH else _load_onnx)(self.name)
        return np.asarray(self._encode_texts(texts, purpose), dtype=np.float32)


class NotingEmbedder:
    """For ours: the embedder that the product opens by that name, under the same clock, with the same kinds of vectors."""

    def __init__(self, name: str, *, library: str, cache: Path | None) -> None:
        self.name, self.embed_ms, self.free, self.drawn = name, 0.0, False, name == MADE_UP
        self._made = MadeUpVectors(SEED)
        self._inner: Embedder = self._made if name == MADE_UP else _open(name)
        self.cache = cache

    async def warm(self) -> None:
        """Load the model."""
        await self._inner.warm()

    async def fitness(self, text: str) -> float:
        """Ask the model; while queries cost nothing, everything is fit."""
        return 1.0 if self.free else await self._inner.fitness(text)

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return one row a text; note the time of queries."""
        if purpose == "document":
            return self._made.draw(len(texts)) if self.drawn else await self._documents(texts)
        if self.free or self.name == MADE_UP:
            return self._made.draw(len(texts))
        began = perf_counter()
        rows = await self._inner.embed(texts, purpose)
        self.embed_ms += (perf_counter() - began) * 1000
        return rows

    async def _documents(self, texts: Sequence[str]) -> Vectors:
        if self.cache is None:
            return await self._inner.embed(texts, "document")
        kept = VectorCache(self.cache)
        keys = [text_key(text) for text in texts]
        known = kept.read(self.name, keys)
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if missing:
            made = dict(zip(missing, await self._inner.embed([*missing.values()], "document"), strict=True))
            kept.write(self.name, made)
            known.update(made)
        return np.stack([known[key] for key in keys])


def _open(name: str) -> Embedder:
    embedder = open_embedder(name)
    if embedder is None:
        raise SetupError(f"{name!r} names no embedder.")
    return embedder


def _load_onnx(name: str) -> Any:
    embedder = _open(name)
    if not isinstance(embedder, LocalEmbedder) or not embedder.uses_export:
        raise SetupError(f"The model {name!r} has no ONNX form: name a packaged model, or `onnx:` and a folder.")
    return embedder.encode


def _load_torch(name: str) -> Any:
    # Imported when a text is embedded: made-up vectors need no model.
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging as transformers_logging

    quiet: Any = transformers_logging.disable_progress_bar
    quiet()
    # One thread, as everywhere here: during other work two are many times slower.
    torch.set_num_threads(1)
    model = SentenceTransformer(str(model_folder(name)), device="cpu", local_files_only=True)

    def encode(texts: Sequence[str], purpose: str) -> Any:
        return model.encode(
            list(texts), batch_size=BATCH, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
        )

    return encode
