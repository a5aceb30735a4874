"""Reads memory books of Agnai (`{"kind": "memory", "entries": […]}`) as books of lore."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.conversions import has_text
from mnemosyne.formats.books.entries import build_entries, count_extra, numbered
from mnemosyne.formats.books.fields import BY_ACTIVATION, ENABLED, take_fields
from mnemosyne.formats.books.foreign import keep_original, native_names, read_book_file
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

FORMAT = "agnai"
_NAMES = {
    "enabled": ENABLED,
    **native_names(
        keywords="key",
        entry="content",
        weight="order",
        comment="comment",
        constant="constant",
        selective="selective",
        secondaryKeys="keysecondary",
        position="position",
    ),
}
_TITLE = native_names(name="comment")
_UNSUPPORTED = {"priority": "which entries Agnai chooses first; `order` decides here", "name": FOR_EXPORT}
_NOTE = "Keys match whole words, as in Agnai (matchWholeWords: true); keys with * and ? became patterns."
_SPECIAL = re.compile(r"[\\^$.|+()\[\]{}/-]")


def is_agnai(value: Any) -> bool:
    """Return whether a JSON value is a memory book of Agnai."""
    return isinstance(value, Mapping) and value.get("kind") == "memory" and isinstance(value.get("entries"), list)


def read_agnai(path: Path) -> ImportedFile:
    """Return the book in a file of Agnai. Raises CorpusError if the file cannot be read or is not a memory book of Agnai."""
    return read_book_file(path, FORMAT, is_agnai, parse_agnai, '{"kind": "memory", "entries": […]}', _NOTE)


def parse_agnai(value: Any, name: str, counter: FieldCounter) -> WorldBook:
    """Return the book in `value`. `name` is the name of the book if `value` has none. Fields are counted in `counter`.

    Raises CorpusError if the value is not a memory book.
    """
    if not is_agnai(value):
        raise CorpusError(f'{name}: is not a memory book of Agnai: it must be {{"kind": "memory", "entries": […]}}.')
    extra = {field: each for field, each in value.items() if field != "entries"}
    count_extra(extra, counter, "")
    path, named = "entries.*.", set[str]()
    entries = build_entries(
        numbered(value["entries"]),
        lambda entry: _read_fields(entry, counter, path, named),
        counter,
        path,
        uid_names=("id",),
        content_names=("entry",),
        key_names=("keywords",),
    )
    own_name = value.get("name")
    return WorldBook(
        name=own_name if isinstance(own_name, str) and own_name.strip() else name,
        dialect=FORMAT,
        entries=entries,
        extra=extra,
    )


def wildcard_pattern(keyword: str) -> str:
    r"""Return a keyword with wildcards as a regular expression `/pattern/i`. `*` matches any characters of a word, `?`
    matches one.

    The pattern matches whole words: it begins and ends with `\b`. If the keyword begins (or ends) with `*`, or with a character
    outside of `[A-Za-z0-9_]` such as a Chinese one, there is no `\b` at this end, because JavaScript (and so Agnai) sees no word
    boundary there.
    """
    body = _SPECIAL.sub(lambda found: f"\\{found[0]}", keyword.strip())
    body = re.sub(r"\*+", lambda _: r"\w*", body).replace("?", r"\w")
    first, last = keyword.strip()[0], keyword.strip()[-1]
    return f"/{_boundary(first)}{body}{_boundary(last)}/i"


def _boundary(char: str) -> str:
    return r"\b" if char in "?_" or (char.isascii() and char.isalnum()) else ""


def _read_fields(entry: Mapping[str, Any], counter: FieldCounter, path: str, named: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    left = take_fields(entry, _NAMES, fields, counter, path)
    left.pop("id", None)
    if not has_text(fields.get("comment")):
        left = take_fields(left, _TITLE, fields, counter, path)
    keys = fields.get("key", [])
    if any("*" in key or "?" in key for key in keys):
        fields["key"] = [wildcard_pattern(key) if "*" in key or "?" in key else key for key in keys]
        left["keywords"] = entry["keywords"]
        counter.change(f"{path}keywords", note=f"keys with * and ? became patterns; {BY_ACTIVATION}")
    fields = {"selective": False, "matchWholeWords": True, **fields}
    return keep_original(fields, left, _UNSUPPORTED, counter, path, named, counted=("keywords",))
