"""Computes embeddings with a model on this machine, in a Python package or in a folder.

The package `tokenizers` is imported here, because it computes quickly whether a model knows a text. torch (module
`sentence_transformer`) or onnxruntime (module `onnx`) is imported on a worker thread when the first text is embedded. There is no
network access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from anyio import to_thread
from tokenizers import Tokenizer

from mnemosyne.core.errors import EmbedderUnavailableError
from mnemosyne.core.off_loop import calculate
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.protocols import Vectors
from mnemosyne.retrieval.embedding.export_note import (
    PARTS_FILE,
    cached_export_folder,
    check_weights,
    find_model_folder,
    is_export,
    model_places,
)
from mnemosyne.retrieval.embedding.lane import ModelLane
from mnemosyne.retrieval.text.words import has_cjk

_FITNESS_CHARS = 4_000
_FITNESS_COST = 6
_TORCH = ("mnemosyne.retrieval.embedding.sentence_transformer", "TorchModel", "sentence-transformers", "embed")
_ONNX = ("mnemosyne.retrieval.embedding.onnx", "OnnxModel", "onnxruntime", "onnx")
_SCRIPT_SHARE = 0.9
_PASS_BYTES = 200
"""Fixed cost of a forward pass, as the number of bytes of text that take the same time (all-MiniLM-L6-v2, one thread)."""
_MOST_PASS_BYTES = 2_000
"""Maximum size of a forward pass of onnxruntime with its padding: some 500 tokens. A larger pass takes more time a text,
because its values do not fit into the processor's cache, and up to half a gigabyte of memory.
"""
_COMMON_HAN = (
    "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然"
    "作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从"
)


class LocalEmbedder:
    """An `Embedder` that runs a model with sentence-transformers, or its ONNX export with onnxruntime. A waiting query is
    processed before the next batch of documents.

    Args:
        name: A Python package that contains a model (the package's folder, or a folder in it, holds `modules.json`),
            or a folder.
        export: A folder with an ONNX export of the model, which is run in place of the model. Its vectors are stored
            under the same `name`, because they are equal.
        prepare: Returns the folder of the export. It is called on a worker thread when the folder is first needed,
            and may take seconds.
        multilingual: True if the model knows every language. The fitness of every text is then 1.
        batch_size: Maximum number of texts per forward pass.
        device: Device for torch, such as `cpu` or `cuda` (None: torch decides).
    """

    def __init__(
        self,
        name: str,
        *,
        export: Path | None = None,
        prepare: Callable[[], Path] | None = None,
        multilingual: bool = False,
        batch_size: int = 32,
        device: str | None = None,
    ) -> None:
        self.name = name
        self._export, self._prepare, self._multilingual = export, prepare, multilingual
        self._batch_size, self._device = batch_size, device
        self.is_cold = True
        self._model: Any = None
        self._words: _Vocabulary | None = None
        self._lane = ModelLane()

    @property
    def uses_export(self) -> bool:
        """Whether an ONNX export is run in place of the model."""
        return self._export is not None or self._prepare is not None

    async def warm(self) -> None:
        """Load the model and the tokenizer. Raises EmbedderUnavailableError if a package, a file or the model is missing."""
        if not self._multilingual:
            await to_thread.run_sync(self._vocabulary)
        await self._lane.run(partial(self._encode, ["warm"], "query"), is_query=True)

    async def fitness(self, text: str) -> float:
        """Return the share of `text`, by tokens, that the model knows, 0..1 (1 for a text without tokens).

        Chinese, Japanese and Korean characters count as known only if the vocabulary of the model covers their script. The
        vocabulary of an English model contains a few of these characters, but the model has not learnt them.
        """
        if self._multilingual:
            return 1.0
        if self._words is None:
            await to_thread.run_sync(self._vocabulary, abandon_on_cancel=True)
        return await calculate(self._fitness, text, size=_FITNESS_COST * min(len(text), _FITNESS_CHARS))

    async def embed(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return the unit vectors of `texts`, as float32 of shape (len(texts), dimensions). The shape is (0, 0) if `texts` is
        empty.

        `purpose` says whether the texts are queries or documents. Raises EmbedderUnavailableError in the same cases as `warm`.
        """
        batches = [*self._batches(texts)]
        work = [partial(self._encode, [texts[at] for at in batch], purpose) for batch in batches]
        parts = [await self._lane.run(each, is_query=purpose == "query") for each in work]
        return _in_order(batches, parts)

    def encode(self, texts: Sequence[str], purpose: Literal["query", "document"]) -> Vectors:
        """Return the same vectors as `embed`, computed on the calling thread, for callers without an event loop."""
        batches = [*self._batches(texts)]
        return _in_order(batches, [self._encode([texts[at] for at in batch], purpose) for batch in batches])

    def _batches(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """Yield the places of the texts of each forward pass."""
        lengths = [len(text.encode(errors="replace")) for text in texts]
        order = sorted(range(len(texts)), key=lengths.__getitem__, reverse=True)
        most_bytes = _MOST_PASS_BYTES if self.uses_export else None
        for stretch in plan_batches([lengths[place] for place in order], self._batch_size, most_bytes) if texts else ():
            yield order[stretch]

    def _fitness(self, text: str) -> float:
        return self._vocabulary().known_share(text[:_FITNESS_CHARS])

    def _vocabulary(self) -> _Vocabulary:
        if self._words is None:
            self._words = _Vocabulary(self.name, self._folder())
        return self._words

    def _encode(self, texts: list[str], purpose: str) -> Vectors:
        with self._lane.take(is_query=purpose == "query"):
            if self._model is None:
                try:
                    self._load()
                finally:
                    self.is_cold = False
            vectors: Vectors = self._model.encode(texts, purpose)
            return vectors

    def _folder(self) -> Path:
        if self._export is None and self._prepare is not None:
            self._export = self._prepare()
        return model_folder(self.name) if self._export is None else self._export

    def _load(self) -> None:
        folder = self._folder()
        if self._export is None:
            check_weights(self.name)
        module, kind, package, extra = _TORCH if self._export is None else _ONNX
        try:
            engine = getattr(import_module(module), kind)
            self._model = engine(str(folder), device=self._device)
        except ImportError as error:
            raise EmbedderUnavailableError(
                explain_missing_package(f"The embedding model {self.name!r}", package, extra, error)
            ) from error
        except EmbedderUnavailableError:
            raise
        except Exception as error:
            reason = " ".join(str(error).split())[:300] or type(error).__name__
            raise EmbedderUnavailableError(
                f"The embedding model {self.name!r} in {folder} cannot be loaded: {reason}."
            ) from error


def _in_order(batches: Sequence[Sequence[int]], parts: Sequence[Vectors]) -> Vectors:
    if not parts:
        return np.zeros((0, 0), dtype=np.float32)
    rows = np.concatenate(parts)
    found = np.empty_like(rows)
    found[[at for batch in batches for at in batch]] = rows
    return found


def plan_batches(lengths: Sequence[int], most: int, most_bytes: int | None = None) -> Iterator[slice]:
    """Yield slices of the texts; each slice is one forward pass. `lengths` are the lengths of the texts in UTF-8, the longest
    first.

    A pass has at most `most` texts and, with padding, at most `most_bytes` bytes (None: no limit). A text of more than
    `most_bytes` gets a pass of its own. All texts of a pass are padded to the length of the longest one. So texts of less than
    half this length get another pass, if that pass costs less than their padding.
    """
    start = 0
    for place in range(1, len(lengths) + 1):
        fitting = most if most_bytes is None else min(most, max(most_bytes // max(lengths[start], 1), 1))
        end = min(start + fitting, len(lengths))
        if place < end and 2 * lengths[place] < lengths[start]:
            end = place if (end - place) * (lengths[start] - lengths[place]) > _PASS_BYTES else end
        if place == end:
            yield slice(start, place)
            start = place


def model_folder(name: str) -> Path:
    """Return the folder of a sentence-transformers model. `name` is a folder or a Python package, which is not
    imported.

    Raises EmbedderUnavailableError if there is neither, or there is no `modules.json` in it.
    """
    folder = _find_named_folder(name)
    found = find_model_folder(folder)
    if found is not None:
        return found
    raise EmbedderUnavailableError(
        f"{name!r} holds no sentence-transformers model: there is no {PARTS_FILE} in {folder}."
    )


def export_folder(name: str) -> Path:
    """Return the folder of an ONNX export. `name` is a folder, a Python package, or the model that was exported.

    Raises EmbedderUnavailableError if there is no export.
    """
    kept = cached_export_folder(name)
    if is_export(kept) and not Path(name).expanduser().is_dir():
        return kept
    folder = _find_named_folder(name)
    found = next((place for place in model_places(folder) if is_export(place)), kept if is_export(kept) else None)
    if found is not None:
        return found
    raise EmbedderUnavailableError(
        f"{name!r} holds no exported model: there is no model.onnx with a tokenizer.json in {folder}, nor in {kept}. "
        f"Make one: jacquard operate embedder export {name}"
    )


def _find_named_folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if name.isidentifier():
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).parent
    raise EmbedderUnavailableError(
        f"There is no embedding model {name!r}: it is neither a folder nor an installed Python package."
    )


class _Vocabulary:
    """The vocabulary of a model's tokenizer."""

    def __init__(self, name: str, folder: Path) -> None:
        file = folder / "tokenizer.json"
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as error:
            raise EmbedderUnavailableError(
                f"The tokenizer of the embedding model {name!r} cannot be read from {file}: {error}."
            ) from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._unknown = next(
            (place for token in ("[UNK]", "<unk>") if (place := self._tokenizer.token_to_id(token)) is not None), None
        )
        self._knows_cjk = self._share(_COMMON_HAN, cjk_too=True) >= _SCRIPT_SHARE

    def known_share(self, text: str) -> float:
        return self._share(text, cjk_too=self._knows_cjk)

    def _share(self, text: str, *, cjk_too: bool) -> float:
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        if not encoded.ids:
            return 1.0
        unknown = sum(
            token == self._unknown or (not cjk_too and has_cjk(text[start:end]))
            for token, (start, end) in zip(encoded.ids, encoded.offsets, strict=True)
        )
        return float(1.0 - unknown / len(encoded.ids))
