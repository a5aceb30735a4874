"""Reads notes from files: front matter (fields in YAML between two `---` lines at the top) and the text below it.

In the front matter, tags and aliases of YAML are faults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filament.errors import PayloadError
from filament.payload import load_yaml_marked
from mnemosyne.core.plain_values import complete_characters, plain_faults
from mnemosyne.formats.safe_files import decode_text, read_file_bytes
from mnemosyne.values import dataclass

MOST_NOTE_BYTES = 8_000_000
MOST_FRONT_CHARS = 200_000
_MOST_FAULTS = 20
_TEXT_FIELDS = frozenset(
    ("keys", "keywords", "aliases", "alias", "tags", "tag", "refine_keys", "secondary_keys", "keysecondary", "title")
)
"""Fields whose values are always texts: a key `1.10` is not a number."""
_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_NAME = re.compile(r"""["']?([^\s"'#:\-\[\]{}][^:"'\n]{0,100})["']?[ \t]*:(?:[ \t]+(.*))?$""")


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """A note. `name` is the name of its file, `front` its front matter. `text` begins on line `text_line` of the file.

    `faults` are sentences on what is wrong with the note; each names file and line.
    """

    name: str
    front: Mapping[str, Any]
    text: str
    text_line: int = 1
    faults: tuple[str, ...] = ()


def _is_text_field(name: str) -> bool:
    return name.lower() in _TEXT_FIELDS


def read_note(path: Path, name: str) -> Note:
    """Return the note in a file. Raises CorpusError if the file cannot be read, is too large, or is not UTF-8 or UTF-16 text."""
    return parse_note(decode_text(read_file_bytes(path, MOST_NOTE_BYTES), name), name)


def parse_note(text: str, name: str) -> Note:
    """Return a note with the front matter that could be read, and a fault for each part that could not.

    If the front matter is not valid YAML, it is read field by field, so that an error in one field does not affect the
    others.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    opening = _FENCE.match(text)
    if opening is None:
        return Note(name=name, front={}, text=text)
    closing = _FENCE.search(text, opening.end())
    if closing is None:
        fault = f"{name}:1: a line --- opens front matter that never ends; all of it was taken as text."
        return Note(name=name, front={}, text=text, faults=(fault,))
    faults: list[str] = []
    raw = text[opening.end() + 1 : closing.start()]
    front = _read_front(raw, name, faults)
    if front is None:
        faults.append(f"{name}:1: between its first lines --- are no fields; all of it was taken as text.")
        return Note(name=name, front={}, text=text, faults=tuple(faults))
    return Note(
        name=name,
        front=_plain_fields(front, name, faults),
        text=text[closing.end() + 1 :],
        text_line=text.count("\n", 0, closing.end()) + 2,
        faults=tuple(faults),
    )


def _read_front(raw: str, name: str, faults: list[str]) -> dict[str, Any] | None:
    """Return the fields of front matter, or None if the text has no fields."""
    if len(raw) > MOST_FRONT_CHARS:
        return None
    try:
        value = load_yaml_marked(raw, as_text=_is_text_field)[0]
    except PayloadError as error:
        faults.append(
            f"{_place(name, error, 1)}: its front matter is no YAML ({_reason(error)}); it was read field by field."
        )
        return _salvage(raw, name, faults) or None
    return {} if value is None else value if isinstance(value, dict) else None


def _salvage(raw: str, name: str, faults: list[str]) -> dict[str, Any]:
    """Return the fields of front matter that can be read one by one. If a name occurs twice, the first one counts."""
    front: dict[str, Any] = {}
    for line, block in _blocks(raw):
        try:
            value = load_yaml_marked(block, as_text=_is_text_field)[0]
        except PayloadError as error:
            found = _NAME.match(block.rstrip())
            if found and found[2] and found[2][0] not in "[{!":
                value = {found[1].strip(): found[2].strip()}
            else:
                faults.append(f"{_place(name, error, line)}: this field was left out ({_reason(error)}).")
                continue
        if isinstance(value, dict):
            for key, each in value.items():
                front.setdefault(key, each)
        elif value is not None:
            faults.append(f"{name}:{line + 1}: this line is no field, and was left out.")
    return front


def _blocks(raw: str) -> Iterator[tuple[int, str]]:
    """Yield (number of the first line, text) for each top-level field of a YAML text. Lines count from 1."""
    block: list[str] = []
    start = 1
    for number, line in enumerate(raw.split("\n"), 1):
        if block and line[:1] not in ("", " ", "\t", "-", "#", "]", "}"):
            yield start, "\n".join(block)
            block, start = [], number
        block.append(line)
    yield start, "\n".join(block)


def _plain_fields(front: Mapping[str, Any], name: str, faults: list[str]) -> dict[str, Any]:
    """Return the fields whose values can be stored. Each other field becomes a fault."""
    plain = {}
    for key, value in complete_characters(front).items():
        fault = next((reason for _, reason in plain_faults({key: value})), None)
        if fault is None:
            plain[key] = value
        else:
            faults.append(f"{name}: the field {key[:80]!r} {fault}; it was left out.")
    del faults[_MOST_FAULTS:]
    return plain


def _place(name: str, error: PayloadError, line: int) -> str:
    """Return `FILE:LINE` of a fault. The fault is in a block that begins on line `line` of the front matter."""
    return f"{name}:{line + (error.line or 1)}"


def _reason(error: PayloadError) -> str:
    return error.reason.rstrip(".")
