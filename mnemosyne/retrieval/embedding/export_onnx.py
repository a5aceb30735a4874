"""Exports a sentence-transformers model to ONNX, offline. A BERT is exported without torch; every other kind is
traced with torch.

`jacquard operate embedder export` calls it. torch is imported if a model needs it, and to compare vectors if it is
installed.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.retrieval.embedding.bert.folder import is_bert_folder
from mnemosyne.retrieval.embedding.export_note import MODEL_FILE, cached_export_folder, replace_folder
from mnemosyne.retrieval.embedding.local import model_folder
from mnemosyne.retrieval.embedding.packaged_models import write_bert_export
from mnemosyne.values import dataclass

LEAST_COSINE = 0.9999
_TORCH = ("torch", "sentence_transformers")
_PROBES = (
    "Where does the key of the temple lie?",
    "那把钥匙是不是开启神庙的？我记得之前提到过。",
    "Mara: I met the smith near the old bridge, and we spoke about the lantern that he had lost in spring.",
    "word " * 600,
    "x",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportResult:
    """Outcome of a finished export."""

    folder: Path
    least_cosine: float | None
    """Least cosine between a vector of the export and the model's vector of the same probe text. None if torch is not
    installed, because torch is needed to run the model.
    """
    size_bytes: int


def export_model(name: str, folder: Path | None = None) -> ExportResult:
    """Export the model in a Python package or a folder, compare the export with the model, and put it in place.

    An older export there is replaced at the end, and only if the new vectors equal the model's (cosine 0.9999).

    Args:
        name: The Python package or the folder.
        folder: The target; by default the cache that `auto` uses.

    Raises:
        EmbedderUnavailableError: if the model cannot be loaded or exported, if the vectors differ, if the model is
            not a BERT and torch is missing, or if the target folder has other content.
    """
    source, target = model_folder(name), folder or cached_export_folder(name)
    if target.exists() and not (target / MODEL_FILE).is_file() and any(target.iterdir()):
        raise EmbedderUnavailableError(f"{target} holds something other than an export. Name another folder.")
    with replace_folder(target) as place:
        try:
            cosine = _write_export(name, source, place)
        except EmbedderUnavailableError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise EmbedderUnavailableError(f"The embedding model {name!r} cannot be exported: {reason}.") from error
        if cosine is not None and not cosine >= LEAST_COSINE:
            raise EmbedderUnavailableError(
                f"The export of {name!r} gives other vectors than the model (cosine {cosine:.4f}); it was discarded."
            )
    size = sum(file.stat().st_size for file in target.iterdir())
    return ExportResult(folder=target, least_cosine=cosine, size_bytes=size)


def _write_export(name: str, source: Path, place: Path) -> float | None:
    """Write the export of a model into a folder; return its least cosine to the model, None without torch."""
    lacking = [package for package in _TORCH if find_spec(package) is None]
    is_bert = is_bert_folder(source)
    if lacking and not is_bert:
        kind = f"The embedding model {name!r} is not a BERT with mean pooling, and exporting another kind"
        raise EmbedderUnavailableError(explain_missing_package(kind, ", ".join(lacking), "export"))
    if is_bert:
        write_bert_export(name, source, place)
    if lacking:
        return None
    given = import_module("mnemosyne.retrieval.embedding.sentence_transformer").TorchModel(str(source), device="cpu")
    if not is_bert:
        traced = import_module("mnemosyne.retrieval.embedding.torch_export")
        traced.write_traced_export(name, given.model, source, place)
    made = import_module("mnemosyne.retrieval.embedding.onnx").OnnxModel(str(place), device=None)
    return _least_cosine(given, made)


def _least_cosine(given: Any, made: Any) -> float:
    cosines = [
        (given.encode(_PROBES, purpose) * made.encode(_PROBES, purpose)).sum(axis=1)
        for purpose in ("query", "document")
    ]
    return float(np.min(cosines))
