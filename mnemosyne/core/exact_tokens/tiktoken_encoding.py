"""Counts tokens exactly with OpenAI's encodings, and with vocabulary files of their form. Only this file imports tiktoken.

tiktoken downloads an encoding at its first use. To avoid the download, encodings are read from the cache files that
litellm's wheel contains. These files are found through the wheel's list of files, so litellm is not imported. If
TIKTOKEN_CACHE_DIR is set, encodings are read from its folder, and tiktoken downloads a missing one into it.
"""

from __future__ import annotations

import hashlib
import os
import threading
from base64 import b64decode
from importlib import metadata
from pathlib import Path

import tiktoken

from mnemosyne.core.normal_forms import normal_form

CARRIED_ENCODINGS = ("o200k_base", "cl100k_base", "p50k_base", "o200k_harmony")
_CACHE_VARIABLE = "TIKTOKEN_CACHE_DIR"
_SHOWN_DIGITS = 8
_loading = threading.Lock()


class TiktokenEstimator:
    """A `TokenEstimator` that counts tokens exactly. Texts that look like control tokens count as plain text."""

    def __init__(self, encoding: str = "o200k_base") -> None:
        """Load the encoding. Raises LookupError if it is not available offline."""
        self.name = encoding
        self._encoding = load_encoding(encoding)

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        return len(self._encoding.encode_ordinary(text))


class TiktokenFileEstimator:
    """A `TokenEstimator` that counts tokens with a vocabulary file. Texts that look like control tokens count as plain text.

    A line of the file is a token in base64, a blank, and its rank. Texts are read in the normal form NFC, as Qwen's models read
    them. `name` consists of the file's name and the start of its SHA-256.
    """

    def __init__(self, file: Path, pattern: str) -> None:
        """Read the vocabulary; `pattern` splits a text before tokens are made. Raises LookupError if the file cannot be read."""
        try:
            data = file.read_bytes()
            ranks = {
                b64decode(token): int(rank) for token, rank in (line.split() for line in data.splitlines() if line)
            }
        except (OSError, ValueError) as error:
            raise LookupError(f"The tokenizer file {str(file)!r} cannot be read ({error}).") from error
        self._encoding = tiktoken.Encoding(file.stem, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        self.name = f"tokenizer:{file.name}@{hashlib.sha256(data).hexdigest()[:_SHOWN_DIGITS]}"

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        return len(self._encoding.encode_ordinary(normal_form("NFC", text)))


def load_encoding(name: str, *, carried_only: bool = False) -> tiktoken.Encoding:
    """Return the encoding `name` from the folder of TIKTOKEN_CACHE_DIR, or from litellm's wheel if the variable is not
    set.

    If `carried_only`, the variable is ignored, so nothing is downloaded. tiktoken reads its folder from the variable,
    so the variable is changed while the encoding is loaded, and then restored.

    Raises:
        LookupError: if the encoding cannot be read. The message lists the encodings in litellm's wheel.
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
    """Return the name of the encoding for `name`: an encoding, or a model of OpenAI (`gpt-4o`, `openai/gpt-4o`).

    Raises LookupError if `name` is neither.
    """
    if name in tiktoken.list_encoding_names():
        return name
    try:
        return tiktoken.encoding_name_for_model(name.rpartition("/")[2])
    except KeyError:
        known = ", ".join(tiktoken.list_encoding_names())
        raise LookupError(f"tiktoken knows no encoding and no model {name!r}. Its encodings: {known}.") from None
