"""The embedder `sample` or `sample:DIMENSIONS`: each word adds 1 to a dimension that its hash chooses."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.text.words import word_tokens


class HashingEmbedder:
    """An embedder that needs no model."""

    def __init__(self, argument: str) -> None:
        self.dimensions = int(argument or 64)
        self.name = f"sample:{self.dimensions}"

    async def warm(self) -> None:
        """Load nothing."""

    async def fitness(self, text: str) -> float:
        """Return 1: it knows every word."""
        return 1.0

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return one unit vector a text."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in word_tokens(text):
                row[int(hashlib.sha256(word.encode()).hexdigest(), 16) % self.dimensions] += 1
            length = float(np.linalg.norm(row))
            row /= length or 1.0
            if not length:
                row[0] = 1.0
        return vectors
