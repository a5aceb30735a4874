"""Reads files with one JSON mapping per line, as a stream and within limits. A faulty line is reported with its number."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.core.plain_values import make_plain, plain_faults
from mnemosyne.formats.archives import ZIP_MARK, open_archive, read_member
from mnemosyne.formats.safe_files import MOST_BYTES, MOST_LINE_BYTES, decode_text, read_file_bytes, unread_json
from mnemosyne.values import dataclass

_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True, kw_only=True, slots=True)
class JsonLine:
    """A line that is not blank. `number` counts from 1. `value` is the mapping of the line; if it is None, `fault` has
    the reason.

    If `is_repaired`, the line contained a value that cannot be stored (half a character, or a number that is too large),
    and the value was replaced.
    """

    number: int
    value: dict[str, Any] | None
    fault: str = ""
    is_repaired: bool = False


def read_json_lines(path: Path, *, most_lines: int | None = None) -> Iterator[JsonLine]:
    """Yield the lines of a file that are not blank, one at a time. If `most_lines` is not None, stop after that line number.

    A line has a fault if it is too long, is not text, is not JSON, or is not a mapping. Raises CorpusError if the file is
    missing or cannot be read.
    """
    for number, raw in _read_raw_lines(path):
        if most_lines is not None and number > most_lines:
            return
        if raw is None:
            yield JsonLine(number=number, value=None, fault=f"is longer than {MOST_LINE_BYTES:,} bytes")
        elif raw.strip(b"\xef\xbb\xbf \t\r\n"):
            yield _parse_line(number, raw)


def _read_raw_lines(path: Path) -> Iterator[tuple[int, bytes | None]]:
    """Yield (number, bytes in UTF-8) of each line. The bytes are None if the line is too long; the line is skipped then."""
    try:
        if not path.is_file():
            raise CorpusError(f"{path}: {'is not a regular file' if path.exists() else 'there is no such file'}.")
        with path.open("rb") as file:
            is_utf16 = file.read(2).startswith(_UTF16)
        if is_utf16:
            with path.open(encoding="utf-16", errors="replace", newline="\n") as text:
                for number, line in enumerate(iter(lambda: text.readline(MOST_LINE_BYTES // 4), ""), start=1):
                    yield number, line.encode("utf-8", "replace")
            return
        with path.open("rb") as file:
            number = 0
            while raw := file.readline(MOST_LINE_BYTES + 1):
                number += 1
                if len(raw) <= MOST_LINE_BYTES:
                    yield number, raw
                    continue
                while raw and not raw.endswith(b"\n"):
                    raw = file.readline(MOST_LINE_BYTES)
                yield number, None
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror or error}).") from error


def _parse_line(number: int, raw: bytes) -> JsonLine:
    try:
        value = json.loads(decode_text(raw, "line"))
    except CorpusError as error:
        return JsonLine(number=number, value=None, fault=str(error).partition(": ")[2].rstrip("."))
    except json.JSONDecodeError as error:
        return JsonLine(number=number, value=None, fault=f"is not JSON at character {error.pos + 1} ({error.msg})")
    except (RecursionError, ValueError) as error:
        return JsonLine(number=number, value=None, fault=unread_json(error))
    if not isinstance(value, dict):
        return JsonLine(number=number, value=None, fault="is JSON, but no mapping")
    if next(plain_faults(value), None) is None:
        return JsonLine(number=number, value=value)
    repaired = make_plain(value)
    for _, reason in plain_faults(repaired):
        return JsonLine(number=number, value=None, fault=reason)
    return JsonLine(number=number, value=repaired, is_repaired=True)


def read_loose_json(path: Path, most_bytes: int = MOST_BYTES, *, member: str = "") -> Any:
    """Return the JSON value of a file. Values that cannot be stored are replaced as `make_plain` does.

    If `member` is given and the file is a zip archive, the file `member` in the archive is read. Raises CorpusError if
    the file cannot be read, or (with line and column) if its text is not JSON.
    """
    name = str(path)
    if member and read_file_bytes(path, len(ZIP_MARK), whole=False) == ZIP_MARK:
        name = f"{path}: {member}"
        with open_archive(path) as archive:
            data = read_member(archive, member, most_bytes)
    else:
        data = read_file_bytes(path, most_bytes)
    try:
        return make_plain(json.loads(decode_text(data, name)))
    except json.JSONDecodeError as error:
        raise CorpusError(f"{name}:{error.lineno}:{error.colno}: is not JSON ({error.msg}).") from None
    except (RecursionError, ValueError) as error:
        raise CorpusError(f"{name}: {unread_json(error)}.") from None
