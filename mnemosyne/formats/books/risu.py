"""Reads lorebooks of Risuai (`{"type": "risu", "data": […]}`) as books of lore."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.entries import build_entries, count_extra, numbered
from mnemosyne.formats.books.fields import BY_ACTIVATION, take_fields
from mnemosyne.formats.books.foreign import (
    COMMA_KEYS,
    COMMA_KEYS_SECONDARY,
    keep_original,
    native_names,
    read_book_file,
)
from mnemosyne.formats.books.keys import is_regex_key
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

FORMAT = "risu"
_NAMES = {
    "key": COMMA_KEYS,
    "secondkey": COMMA_KEYS_SECONDARY,
    **native_names(
        comment="comment",
        content="content",
        insertorder="order",
        alwaysActive="constant",
        selective="selective",
        activationPercent="probability",
    ),
}
_UNSUPPORTED = {"folder": FOR_EXPORT, "bookVersion": FOR_EXPORT, "loreCache": "a cache of Risuai"}
_COUNTED = ("mode", "useRegex", "extentions")
_NOTE = "Keys match parts of words, as in Risuai (matchWholeWords: false)."


def is_risu(value: Any) -> bool:
    """Return whether a JSON value is a lorebook of Risuai."""
    return isinstance(value, Mapping) and value.get("type") == FORMAT and isinstance(value.get("data"), list)


def read_risu(path: Path) -> ImportedFile:
    """Return the book in a file of Risuai. Raises CorpusError if the file cannot be read or is not a lorebook of Risuai."""
    return read_book_file(path, FORMAT, is_risu, parse_risu, '{"type": "risu", "data": […]}', _NOTE)


def parse_risu(value: Any, name: str, counter: FieldCounter) -> WorldBook:
    """Return the book of a JSON value, named `name`. Folders are not entries; they are kept in `extra["folders"]`.

    Raises CorpusError if the value is not a lorebook of Risuai.
    """
    if not is_risu(value):
        raise CorpusError(f'{name}: is not a lorebook of Risuai: it must be {{"type": "risu", "data": […]}}.')
    extra = {field: each for field, each in value.items() if field != "data"}
    count_extra(extra, counter, "")
    rows: list[Any] = []
    folders: list[Any] = []
    for row in value["data"]:
        (folders if isinstance(row, Mapping) and row.get("mode") == "folder" else rows).append(row)
    if folders:
        extra["folders"] = folders
        for folder in folders:
            counter.keep("folders.*", folder, FOR_EXPORT)
    path, named = "entries.*.", set[str]()
    entries = build_entries(
        numbered(rows),
        lambda entry: _read_fields(entry, counter, path, named),
        counter,
        path,
        uid_names=("id",),
        key_names=("key",),
    )
    return WorldBook(name=name, dialect=FORMAT, entries=entries, extra=extra)


def _read_fields(entry: Mapping[str, Any], counter: FieldCounter, path: str, named: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    left = take_fields(entry, _NAMES, fields, counter, path)
    left.pop("id", None)
    mode, use_regex, extensions = (left.get(name) for name in _COUNTED)
    if mode == "constant":
        fields["constant"] = True
    if mode in ("normal", "constant"):
        counter.keep(f"{path}mode", mode, FOR_EXPORT)
    else:
        counter.refuse(f"{path}mode", mode, "read as an entry of its own")
    patterns = [is_regex_key(key) for key in fields.get("key", ())]
    if use_regex is True and not all(patterns):
        counter.change(
            f"{path}useRegex", note="a key that is no /pattern/ is looked for as text; Risuai never finds it"
        )
    elif use_regex is not True and any(patterns):
        counter.change(f"{path}useRegex", note="a key in slashes is a pattern here, and plain text in Risuai")
    else:
        counter.keep(f"{path}useRegex", use_regex, FOR_EXPORT)
    if isinstance(extensions, Mapping) and isinstance(is_case := extensions.get("risu_case_sensitive"), bool):
        fields["caseSensitive"] = is_case
        counter.keep(f"{path}caseSensitive", is_case, BY_ACTIVATION)
    elif extensions:
        counter.keep(f"{path}extentions", extensions, FOR_EXPORT)
    fields = {"selective": False, "matchWholeWords": False, **fields}
    return keep_original(fields, left, _UNSUPPORTED, counter, path, named, counted=_COUNTED)
