"""Exports a sentence-transformers model to ONNX: all of its parts up to the unit vector, in one file. Offline.

`jacquard embedder export` runs it once; importing it imports torch. No other module may import it at import time.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.retrieval.embedding.export_note import (
    MODEL_FILE,
    TOKENIZER_FILE,
    ExportNote,
    cached_export_folder,
    fingerprint,
)
from mnemosyne.retrieval.embedding.local import model_folder
from mnemosyne.retrieval.embedding.onnx import OnnxModel
from mnemosyne.retrieval.embedding.sentence_transformer import TorchModel

LEAST_COSINE = 0.9999
_OPSET = 17
_PROBES = (
    "Where does the key of the temple lie?",
    "那把钥匙是不是开启神庙的？我记得之前提到过。",
    "Mara: I met the smith near the old bridge, and we spoke about the lantern that he had lost in spring.",
    "word " * 600,
    "x",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """A finished export: its folder, the least cosine between its vectors and the model's for the probe texts, and its
    size in bytes.
    """

    folder: Path
    least_cosine: float
    size_bytes: int


class _FullModel(torch.nn.Module):  # type: ignore[misc]  # torch is not looked into
    """A sentence-transformers model as one function of token ids and mask."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *given: torch.Tensor) -> torch.Tensor:
        """Return the sentence embeddings."""
        found: torch.Tensor = self.model(dict(zip(self.names, given, strict=True)))["sentence_embedding"]
        return found


def export_model(name: str, folder: Path | None = None) -> ExportResult:
    """Export the model in a Python package or a folder, compare it with its source, and put it in place.

    `folder`: the target; by default the cache that `auto` uses. An older export there is replaced at the end, and only
    by one whose vectors equal the model's (cosine 0.9999). EmbedderUnavailableError when the model cannot be loaded or
    exported, when the vectors differ, and when the folder holds something else.
    """
    source, target = model_folder(name), folder or cached_export_folder(name)
    if target.exists() and not (target / MODEL_FILE).is_file() and any(target.iterdir()):
        raise EmbedderUnavailableError(f"{target} holds something other than an export. Name another folder.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as fresh:
        place = Path(fresh) / "model"
        place.mkdir()
        try:
            given = TorchModel(str(source), device="cpu")
            _write(name, given.model, source, place)
            cosine = _least_cosine(given, OnnxModel(str(place), device=None))
        except EmbedderUnavailableError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise EmbedderUnavailableError(f"The embedding model {name!r} cannot be exported: {reason}.") from error
        if not cosine >= LEAST_COSINE:
            raise EmbedderUnavailableError(
                f"The export of {name!r} gives other vectors than the model (cosine {cosine:.4f}); it was discarded."
            )
        if target.exists():
            shutil.rmtree(target)
        place.rename(target)
    size = sum(file.stat().st_size for file in target.iterdir())
    return ExportResult(folder=target, least_cosine=cosine, size_bytes=size)


def _write(name: str, model: Any, source: Path, place: Path) -> None:
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


def _least_cosine(given: TorchModel, made: OnnxModel) -> float:
    cosines = [
        (given.encode(_PROBES, purpose) * made.encode(_PROBES, purpose)).sum(axis=1)
        for purpose in ("query", "document")
    ]
    return float(np.min(cosines))
