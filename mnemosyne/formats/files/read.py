"""Reads one file as a document, within limits of size and time. Nothing is downloaded, and nothing in the file is run.

HTML and PDF files are parsed in a separate process (`parse`), because a hostile file can keep a parser busy and fill the
memory. The process has a limit of processor time, not of elapsed time, so that a busy machine reads the same files as an
idle one.
"""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from subprocess import DEVNULL

import anyio
from anyio import to_thread

from mnemosyne.core.errors import DocumentFileError
from mnemosyne.core.optional_packages import explain_missing_package
from mnemosyne.formats.files.parse import PDF
from mnemosyne.values import dataclass

MOST_BYTES = 20_000_000
MOST_CHARS = 2_000_000
MOST_SECONDS = 60.0
_WAITING, _START_SECONDS = 3, 30
_TEXTS = {
    ".txt",
    ".text",
    ".log",
    ".md",
    ".markdown",
    ".rst",
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".yaml",
    ".yml",
    ".xml",
}
_PAGES = {".html", ".htm", ".xhtml"}
KINDS = (*sorted(_TEXTS), *sorted(_PAGES), PDF)
"""Endings of the names of files that can be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileText:
    """Text and title of a file. The title is the file's name if the content has none."""

    text: str
    title: str


async def read_document_file(
    path: Path, *, most_bytes: int = MOST_BYTES, most_chars: int = MOST_CHARS, most_seconds: float = MOST_SECONDS
) -> FileText:
    """Return the text and title of a file. The ending of its name (one of `KINDS`) decides how it is read.

    Raises DocumentFileError if:
    - the ending is not one of `KINDS`,
    - the file is missing, too large, damaged, encrypted, empty or without text,
    - parsing takes more than `most_seconds`, or
    - the file is a PDF and pypdf is not installed.
    """
    end = path.suffix.lower()
    if end not in KINDS:
        raise DocumentFileError(
            str(path), f"files that end with {end or 'nothing'} are not read; there are {', '.join(KINDS)}"
        )
    if end == PDF and find_spec("pypdf") is None:
        raise DocumentFileError(str(path), explain_missing_package("PDF", "pypdf", "documents"))
    data = await to_thread.run_sync(_read_bytes, path, most_bytes)
    if end in _TEXTS:
        text, title = await to_thread.run_sync(_decode, data, str(path)), ""
    else:
        text, title = await _parse_apart(data, path, most_chars, most_seconds)
    if not text.strip():
        raise DocumentFileError(str(path), "it holds no text")
    if len(text) > most_chars:
        raise DocumentFileError(str(path), f"it has more than {most_chars:,} characters of text; split it")
    return FileText(text=text, title=title or path.name)


def _read_bytes(path: Path, most: int) -> bytes:
    try:
        if not path.is_file():
            raise DocumentFileError(
                str(path), "there is no such file" if not path.exists() else "it is not a regular file"
            )
        with path.open("rb") as file:
            data = file.read(most + 1)
    except OSError as error:
        raise DocumentFileError(str(path), error.strerror or str(error)) from error
    if len(data) > most:
        raise DocumentFileError(str(path), f"it has more than {most:,} bytes; split it")
    return data


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DocumentFileError(name, f"line {line} is not UTF-8 text; save it as UTF-8") from error
    if "\0" in text:
        raise DocumentFileError(name, "it is not text: it holds NUL characters")
    return text.replace("\r\n", "\n").replace("\r", "\n")


async def _parse_apart(data: bytes, path: Path, most_chars: int, most_seconds: float) -> tuple[str, str]:
    """Return (text, title) of a page or a PDF, parsed in a separate process."""
    seconds = ceil(most_seconds)
    command = [
        sys.executable,
        "-m",
        "mnemosyne.formats.files.parse",
        path.suffix.lower(),
        str(most_chars),
        str(seconds),
    ]
    too_long = DocumentFileError(str(path), f"reading it took longer than {seconds} s; split it")
    try:
        with anyio.fail_after(_WAITING * seconds + _START_SECONDS):
            done = await anyio.run_process(command, input=data, check=False, stderr=DEVNULL)
    except TimeoutError:
        raise too_long from None
    except OSError as error:
        raise DocumentFileError(str(path), f"the program that reads it could not be started ({error})") from error
    try:
        found = json.loads(done.stdout)
    except ValueError:
        # It was ended from outside: by its limit of processor time, or of memory.
        raise too_long if done.returncode < 0 else DocumentFileError(str(path), "its reader failed; split it") from None
    if "fault" in found:
        raise DocumentFileError(str(path), found["fault"])
    text = str(found["text"]).encode("utf-8", "replace").decode("utf-8")
    return text.replace("\0", ""), str(found["title"]).encode("utf-8", "replace").decode("utf-8").replace("\0", "")
