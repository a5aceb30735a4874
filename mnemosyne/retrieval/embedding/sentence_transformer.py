"""Where torch and sentence-transformers are imported, and nowhere else.

Importing them takes seconds and half a gigabyte, so `embed_local` imports this module on its worker thread at the first
text that the model is fit for. A text that it is not fit for never gets here. Must not be imported by name elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from transformers.utils import logging as transformers_logging

from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.embedding.torch_trace import run_traced


class TorchModel:
    """A sentence-transformers model from a local folder; it never asks a network for anything. `model` is the model itself,
    traced (`trace_torch`) once it was asked for a vector.
    """

    def __init__(self, folder: str, *, device: str | None) -> None:
        # A bar of its own for loading would stand amid the caller's output.
        quiet: Any = transformers_logging.disable_progress_bar
        quiet()
        self.model: Any = SentenceTransformer(folder, device=device, local_files_only=True)
        self._prompts = frozenset(getattr(self.model, "prompts", None) or ())
        self._is_seen_to = False

    def encode(self, texts: Sequence[str], purpose: str) -> Vectors:
        """Return unit vectors, one row a text; models that tell queries from documents are told which these are."""
        # One thread: beside other work two threads are many times slower than one.
        torch.set_num_threads(1)
        prompt = purpose if purpose in self._prompts else None
        if not self._is_seen_to:
            self._is_seen_to = True
            run_traced(self.model, partial(self._rows, prompt=prompt))
        return self._rows(texts, prompt=prompt)

    def _rows(self, texts: Sequence[str], *, prompt: str | None) -> Vectors:
        rows = self.model.encode(
            list(texts),
            batch_size=len(texts),
            prompt_name=prompt,
            normalize_embeddings=True,
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return np.asarray(rows, dtype=np.float32)
