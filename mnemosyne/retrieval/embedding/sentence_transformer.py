"""Runs a model with torch and sentence-transformers.

Importing them takes seconds and half a gigabyte. So `local` imports this module on its worker thread when the first
text is embedded. No other module may import this one at import time.
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
    """A sentence-transformers model from a local folder, without network access. `model` is the
    `SentenceTransformer`, which is traced (`torch_trace`) at its first use.
    """

    def __init__(self, folder: str, *, device: str | None) -> None:
        # A progress bar would appear in the middle of the caller's output.
        quiet: Any = transformers_logging.disable_progress_bar
        quiet()
        self.model: Any = SentenceTransformer(folder, device=device, local_files_only=True)
        self._prompts = frozenset(getattr(self.model, "prompts", None) or ())
        self._is_seen_to = False

    def encode(self, texts: Sequence[str], purpose: str) -> Vectors:
        """Return the unit vectors of `texts`, one row per text. Some models need a prefix before each text; `purpose` (`query` or
        `document`) selects it.
        """
        # One thread: during other work two threads are many times slower than one.
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
