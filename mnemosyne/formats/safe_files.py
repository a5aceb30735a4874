"""Reads bytes, text and JSON from files of untrusted sources, within limits of size.

Nothing in a file is run, and no path that a file names is opened. Errors name the file and the place of the fault.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import complete_characters, plain_faults
from mnemosyne.formats.encodings import encoding_hint

MOST_BYTES = 64_000_000
"""Maximum size of a file that is read as a whole."""
MOST_LINE_BYTES = 8_000_000
"""Maximum size of a line in a file that is read line by line."""


def read_file_bytes(path: Path, most_bytes: int = MOST_BYTES, *, whole: bool = True) -> bytes:
    """Return the content of a regular file; if `whole` is False, return only its first `most_bytes` bytes.

    Raises CorpusError if the file is missing or cannot be read. Raises it also if `whole` is True and the file has more
    than `most_bytes` bytes.
    """
    try:
        if not path.is_file():
            raise CorpusError(f"{path}: {'is not a regular file' if path.exists() else 'there is no such file'}.")
        # A read reserves as much memory as it is asked for; a few files state no size.
        size = path.stat().st_size or most_bytes
        with path.open("rb") as file:
            data = file.read(min(size, most_bytes) + 1)
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror or error}).") from error
    if len(data) > most_bytes and whole:
        raise CorpusError(
            f"{path}: has more than {most_bytes:,} bytes, which is more than is read; split a book, make a picture smaller."
        )
    return data[:most_bytes]


def decode_text(data: bytes, name: str) -> str:
    """Return the text of UTF-8 bytes, or of UTF-16 bytes that begin with a byte order mark.

    Raises CorpusError for any other encoding, because a wrong guess would be stored as garbled text. `name` is the name
    of the file in the error.
    """
    encoding = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorpusError(
            f"{name}:{line}: is not {encoding.upper().removesuffix('-SIG')} text at byte {error.start + 1}; "
            f"save it as UTF-8{encoding_hint(data)}."
        ) from None


def parse_file_json(text: str, name: str) -> Any:
    """Return the JSON value of a text; `name` is the name of the file in errors.

    Half a character (a single UTF-16 surrogate, left by programs that cut texts by UTF-16 units) becomes U+FFFD. If a key
    occurs twice in a mapping, the last one counts, as in the programs that write such files. Raises CorpusError with line
    and column if the text is not JSON. Raises CorpusError if the value is nested too deep or cannot be stored.
    """
    try:
        value = complete_characters(json.loads(text))
    except json.JSONDecodeError as error:
        raise CorpusError(f"{name}:{error.lineno}:{error.colno}: is not JSON ({error.msg}).") from None
    except (RecursionError, ValueError) as error:
        raise CorpusError(f"{name}: {unread_json(error)}.") from None
    for path, reason in plain_faults(value):
        raise CorpusError(f"{name}: {'.'.join(map(str, path)) or 'the file'} {reason}.")
    return value


def unread_json(error: Exception) -> str:
    """Return the reason why Python refuses well-formed JSON with `error`: it is nested too deep, or a number is too long."""
    if isinstance(error, RecursionError):
        return "cannot be read as JSON: lists or mappings in it are nested too deep; flatten them"
    return "cannot be read as JSON: a number in it has thousands of digits; shorten it"


def read_json_file(path: Path, most_bytes: int = MOST_BYTES) -> Any:
    """Return the JSON value of a file. Raises CorpusError if `read_file_bytes`, `decode_text` or `parse_file_json` does."""
    return parse_file_json(decode_text(read_file_bytes(path, most_bytes), str(path)), str(path))
