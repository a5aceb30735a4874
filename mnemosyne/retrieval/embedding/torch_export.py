"""Exports a sentence-transformers model of any kind to ONNX, by tracing it with torch. The export returns unit vectors.

Importing this module imports torch. No other module may import this one at import time.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from mnemosyne.retrieval.embedding.export_note import MODEL_FILE, TOKENIZER_FILE, ExportNote, fingerprint

_OPSET = 17


class _FullModel(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """A sentence-transformers model as one function of token ids and mask."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Return the sentence embeddings."""
        found: torch.Tensor = self.model(dict(zip(self.names, given, strict=True)))["sentence_embedding"]
        return found


def write_traced_export(name: str, model: Any, source: Path, place: Path) -> None:
    """Write `model.onnx`, the tokenizer and the note of a sentence-transformers model into the folder `place`.

    `model` is a `SentenceTransformer`, `source` the folder from which it was loaded, and `name` the name in the note.
    If the model cannot be traced, the exception of torch is raised.
    """
    model.eval()
    given = model.tokenizer(["one text", "another, longer text"], padding=True, return_tensors="pt")
    names = [each for each in ("input_ids", "attention_mask", "token_type_ids") if each in given]
    free = {each: {0: "texts", 1: "tokens"} for each in names}
    with torch.no_grad(), warnings.catch_warnings():
        # The exporter warns about itself and about traced shapes; the cosines show whether the export is correct.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _FullModel(model, names),
            tuple(given[each] for each in names),
            str(place / MODEL_FILE),
            input_names=names,
            output_names=["sentence_embedding"],
            dynamic_axes={**free, "sentence_embedding": {0: "texts"}},
            opset_version=_OPSET,
            dynamo=False,
        )
    shutil.copyfile(source / TOKENIZER_FILE, place / TOKENIZER_FILE)
    tokenizer: Any = Tokenizer.from_file(str(place / TOKENIZER_FILE))
    tokenizer.no_padding()
    pad = model.tokenizer.pad_token
    tokenizer.enable_padding(pad_id=model.tokenizer.pad_token_id, pad_token=pad)
    tokenizer.save(str(place / TOKENIZER_FILE))
    prompts = {
        purpose: text
        for purpose in ("query", "document")
        if (text := (getattr(model, "prompts", None) or {}).get(purpose))
    }
    ExportNote(model=name, source=fingerprint(source), max_tokens=model.get_max_seq_length(), prompts=prompts).write(
        place
    )
