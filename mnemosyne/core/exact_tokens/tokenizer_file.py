"""Counts tokens exactly with a file `tokenizer.json`, which models on Hugging Face contain.

Only this file and the embedders import the package tokenizers. Counting never uses the network.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tokenizers import Tokenizer

_SHOWN_DIGITS = 8


class TokenizerFileEstimator:
    """A `TokenEstimator` that counts tokens with the tokenizer of a file. Texts that look like control tokens count as plain
    text.

    What a chat template adds around a message is not counted. `name` consists of the file's name and the start of its
    SHA-256, so a changed file of the same name counts as another estimator.
    """

    def __init__(self, file: Path) -> None:
        """Read the tokenizer. Raises LookupError if the file cannot be read or is not a tokenizer."""
        try:
            data = file.expanduser().read_bytes()
        except OSError as error:
            raise LookupError(
                f"The tokenizer file {str(file)!r} cannot be read ({error.strerror or error})."
            ) from error
        try:
            self._tokenizer = Tokenizer.from_buffer(data)
        except Exception as error:  # the library raises a bare Exception
            raise LookupError(f"The file {str(file)!r} holds no tokenizer ({error}); name a tokenizer.json.") from error
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._tokenizer.encode_special_tokens = True
        self.name = f"tokenizer:{file.name}@{hashlib.sha256(data).hexdigest()[:_SHOWN_DIGITS]}"

    def estimate(self, text: str) -> int:
        """Return the number of tokens of `text` (0 for the empty text)."""
        # The library refuses halves of a surrogate pair, which JSON may contain.
        whole = text.encode("utf-8", "replace").decode("utf-8")
        return len(self._tokenizer.encode(whole, add_special_tokens=False).ids)
