"""Runs a cross-encoder on torch. `cross_encoder` imports this module on its worker thread, because the import is slow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from sentence_transformers import CrossEncoder
from transformers.utils import logging as transformers_logging


class TorchCrossEncoder:
    """A CrossEncoder from a local folder. The encoder never uses the network."""

    def __init__(self, folder: str) -> None:
        quiet: Any = transformers_logging.disable_progress_bar
        quiet()
        self._model: Any = CrossEncoder(folder, device="cpu", local_files_only=True)

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one number for each text. If the model has several outputs, the last one (the most relevant class) counts."""
        # One thread, because with other work running two threads are many times slower.
        torch.set_num_threads(1)
        rows = self._model.predict([(query, text) for text in texts], show_progress_bar=False, convert_to_numpy=True)
        return [float(row[-1]) if getattr(row, "ndim", 0) else float(row) for row in rows]
