"""Scores texts against a query with a local cross-encoder (reranker). This module is imported only if a setting names a
reranker.

`cross_encoder_torch` imports torch and sentence-transformers on the worker thread at the first use. The model is read
from a folder, and nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from jacquard.core.errors import ModelError


class LocalCrossEncoder:
    """Scores texts with a CrossEncoder of sentence-transformers in a folder; a `PairScorer`. It works on one thread.

    Loading takes seconds. `warm` loads the model ahead; otherwise the first score waits for it.

    Raises ModelError with the code `unavailable` if the model cannot be loaded or was closed, and with `bad_answer` if
    scoring fails.
    """

    def __init__(self, folder: str | Path) -> None:
        self.model = Path(folder).name
        self._folder = str(folder)
        self._worker = anyio.CapacityLimiter(1)
        self._loaded: Any = None
        self._closed = False

    async def warm(self) -> None:
        """Load the model."""
        await to_thread.run_sync(self._load, limiter=self._worker)

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one score for each text, in the order of `texts`. Higher is better."""
        return await to_thread.run_sync(partial(self._score, query, list(texts)), limiter=self._worker)

    async def close(self) -> None:
        """Release the model, after a running call has ended."""
        self._closed = True
        async with self._worker:
            self._loaded = None

    def _load(self) -> Any:
        if self._closed:
            raise ModelError("unavailable", f"the reranker {self.model} was closed")
        if self._loaded is None:
            try:
                self._loaded = import_module("jacquard.adapters.models.cross_encoder_torch").TorchCrossEncoder(
                    self._folder
                )
            except Exception as error:  # Loaders of models raise anything.
                raise ModelError("unavailable", f"the reranker in {self._folder} cannot be loaded: {error}") from error
        return self._loaded

    def _score(self, query: str, texts: list[str]) -> list[float]:
        model = self._load()
        try:
            scores: list[float] = model.score(query, texts)
        except Exception as error:
            raise ModelError("bad_answer", f"the reranker {self.model} broke off: {error}") from error
        return scores
