"""Reads SillyTavern's world info: an object with `entries`, which are entries by uid.

Similar files of other programs are read too. Their `entries` may be a list. Their fields may be in snake case, have the
names of a card's book, or be in the `extensions` of an entry. A missing `selective` means true, as in SillyTavern.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.conversions import kind_of
from mnemosyne.formats.books.entries import build_entries, count_extra, count_unknown, file_of_book, numbered
from mnemosyne.formats.books.fields import EXTENSION_NAMES, FIELDS_BY_NAME, OTHER_NAMES, take_fields
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

FORMAT = "world_info"


def is_world_info(value: Any) -> bool:
    """Return whether a JSON value may be a book of world info. Books of NovelAI and Agnai also have `entries`; for these, the
    result is False.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("entries"), Mapping | list):
        return False
    return "lorebookVersion" not in value and value.get("kind") != "memory"


def read_world_info(path: Path) -> ImportedFile:
    """Return the book in a file of world info. The book is named after the file, because cards and chats refer to a book by the
    name of its file.

    Raises CorpusError if the file cannot be read or is not world info.
    """
    value = read_json_file(path)
    counter = FieldCounter()
    if not is_world_info(value):
        raise CorpusError(
            f"{path}: is not world info: it must be a JSON object with `entries`, an object of entries by uid."
        )
    return file_of_book(str(path), FORMAT, parse_world_info(value, path.stem, counter), counter)


def parse_world_info(value: Any, name: str, counter: FieldCounter, prefix: str = "") -> WorldBook:
    """Return the book of a JSON value, named `name`; `prefix` is put before the names of counted fields.

    Entries that cannot be read are counted and skipped. Raises CorpusError if `value` is not an object with `entries`.
    """
    entries = value.get("entries") if isinstance(value, Mapping) else None
    if not isinstance(entries, Mapping | list):
        found = f"its `entries` are {kind_of(entries)}" if isinstance(value, Mapping) else f"it is {kind_of(value)}"
        raise CorpusError(f"{name}: is not world info: {found}. It must be an object with `entries` by uid.")
    extra = {field: each for field, each in value.items() if field != "entries"}
    count_extra(extra, counter, prefix)
    path, named = f"{prefix}entries.*.", set[str]()
    rows = entries.items() if isinstance(entries, Mapping) else numbered(entries)
    built = build_entries(
        rows,
        lambda entry: _read_fields(entry, counter, path, named),
        counter,
        path,
        uid_names=("uid", "id"),
        key_names=("key", "keys"),
    )
    return WorldBook(name=name, dialect=FORMAT, entries=built, extra=extra)


def _read_fields(entry: Mapping[str, Any], counter: FieldCounter, path: str, named: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    left = take_fields(entry, FIELDS_BY_NAME, fields, counter, path)
    left = take_fields(left, OTHER_NAMES, fields, counter, path)
    left.pop("uid" if "uid" in left else "id", None)
    extensions = left.pop("extensions", None)
    if isinstance(extensions, Mapping):
        extensions = take_fields(
            extensions, EXTENSION_NAMES, fields, counter, path, place="extensions.", keeps_unusable=True
        )
        count_unknown(extensions, counter, f"{path}extensions.", named)
        if extensions:
            left["extensions"] = extensions
    else:
        counter.refuse(f"{path}extensions", extensions, f"{kind_of(extensions)} is not an object; left out")
    count_unknown({key: each for key, each in left.items() if key != "extensions"}, counter, path, named)
    return fields | left
