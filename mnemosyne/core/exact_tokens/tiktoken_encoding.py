"""Exact token counts for OpenAI's encodings. The only file that imports tiktoken.

tiktoken downloads an encoding at first use. litellm's wheel contains some of them as cache files; they are found
through the wheel's own list of files, so litellm is not imported. The network is used only if TIKTOKEN_CACHE_DIR is set
and its folder lacks the encoding: tiktoken then downloads it into that folder.
"""

from __future__ import annotations

import os
import threading
from importlib import metadata
from pathlib import Path

import tiktoken

CARRIED_ENCODINGS = ("o200k_base", "cl100k_base", "p50k_base", "o200k_harmony")
_CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"
_loading = threading.Lock()


class TiktokenEstimator:
    """A `TokenEstimator` that counts exactly; texts that look like control tokens count as plain text."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        """Load an encoding; LookupError when it is not available offline."""
        self.name = encoding
        self._encoding = load_encoding(encoding)

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        return len(self._encoding.encode_ordinary(text))


def load_encoding(name: str, *, carried_only: bool = False) -> tiktoken.Encoding:
    """Return an encoding from the cache files of litellm's wheel, or from TIKTOKEN_CACHE_DIR if that is set, unless
    `carried_only`.

    The environment variable is set only while the encoding is read.

    Raises:
        LookupError: if it is in neither; the message lists the available encodings.
    """
    with _loading:
        before = os.environ.get(_CACHE_VARIABLE)
        own = None if carried_only else before
        folder = own or _find_carried_folder()
        if folder is None or (own is None and name not in CARRIED_ENCODINGS):
            raise LookupError(
                f"The encoding {name!r} is not available offline. litellm's wheel contains "
                f"{', '.join(CARRIED_ENCODINGS)}; for others "
                f"set {_CACHE_VARIABLE} to a folder that holds them, or into which tiktoken may download them."
            )
        os.environ[_CACHE_VARIABLE] = folder
        try:
            return tiktoken.get_encoding(name)
        except Exception as error:
            raise LookupError(f"The encoding {name!r} cannot be read from {folder}: {error}") from error
        finally:
            if before is None:
                del os.environ[_CACHE_VARIABLE]
            else:
                os.environ[_CACHE_VARIABLE] = before


def _find_carried_folder() -> str | None:
    try:
        files = metadata.files("litellm") or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.match("litellm_core_utils/tokenizers/anthropic_tokenizer.json"):
            folder = Path(str(file.locate())).parent
            return str(folder) if folder.is_dir() else None
    return None


def encoding_of(name: str) -> str:
    """Return the encoding for the name of an encoding or of a model of OpenAI (`gpt-4o`, `openai/gpt-4o`); LookupError
    for any other name.
    """
    if name in tiktoken.list_encoding_names():
        return name
    try:
        return tiktoken.encoding_name_for_model(name.rpartition("/")[2])
    except KeyError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise LookupError(f"tiktoken knows no encoding and no model {name!r}. Its encodings: {known}.") from None
