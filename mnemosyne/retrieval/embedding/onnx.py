"""Runs an exported model with onnxruntime, without torch. No other module imports onnxruntime.

The model's folder holds `model.onnx` and `tokenizer.json`. `jacquard operate embedder export` writes such a folder,
and exports made elsewhere work too. `local` imports this module on its worker thread; no other module may import this
one at import time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from mnemosyne.core.optional_packages import import_silently
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.embedding.export_note import MODEL_FILE, TOKENIZER_FILE, ExportNote

onnxruntime = import_silently("onnxruntime")
_LEAST = 1e-12


class OnnxModel:
    """An exported model in a folder, run on one processor thread, without network access.

    An output of shape (texts, dimensions) is used unchanged. An output of shape (texts, tokens, dimensions) is
    averaged over the tokens of each text.
    """

    def __init__(self, folder: str, *, device: str | None) -> None:
        place = Path(folder)
        self._note = ExportNote.read(place)
        self._tokenizer: Any = Tokenizer.from_file(str(place / TOKENIZER_FILE))
        if self._note.max_tokens is not None:
            self._tokenizer.enable_truncation(self._note.max_tokens)
        # Pad to the longest of a batch, whatever fixed length the file asks for.
        padding = self._tokenizer.padding or {}
        known = {name: padding[name] for name in ("direction", "pad_id", "pad_type_id", "pad_token") if name in padding}
        self._tokenizer.enable_padding(**known)
        options = onnxruntime.SessionOptions()
        # One thread: during other work two are many times slower than one, and a waiting one must not spin.
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.enable_cpu_mem_arena = False
        options.log_severity_level = 3
        self._session: Any = onnxruntime.InferenceSession(
            str(place / MODEL_FILE), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._inputs = [each.name for each in self._session.get_inputs()]
        self._output = self._session.get_outputs()[0].name

    def encode(self, texts: Sequence[str], purpose: str) -> Vectors:
        """Return the unit vectors of `texts`, one row per text. Some models need a prefix before each text; `purpose` (`query` or
        `document`) selects it.
        """
        prompt = self._note.prompts.get(purpose, "")
        rows = self._rows([prompt + text.strip() for text in texts])
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), _LEAST)
        return rows

    def _rows(self, texts: list[str]) -> Vectors:
        encoded = self._tokenizer.encode_batch(texts)
        mask = np.array([each.attention_mask for each in encoded], dtype=np.int64)
        given = {
            "input_ids": np.array([each.ids for each in encoded], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([each.type_ids for each in encoded], dtype=np.int64),
        }
        known = {name: given[name] for name in self._inputs}
        made = np.asarray(self._session.run([self._output], known)[0], dtype=np.float32)
        if made.ndim == 2:
            return made
        weights = mask[:, :, None].astype(np.float32)
        return np.asarray((made * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0), dtype=np.float32)
