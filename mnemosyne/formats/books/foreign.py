"""Helps the readers of lorebooks that come neither from SillyTavern nor from a character card.

A field of such a book becomes the native field (the field of SillyTavern's world info) with the nearest meaning. All
other fields, and the original values of converted ones, are kept unchanged under `original` of the entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.entries import count_unknown, file_of_book
from mnemosyne.formats.books.fields import FIELDS_BY_NAME, NativeField
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

COMMA_KEYS = replace(FIELDS_BY_NAME["key"], is_lossless=True)
"""Field for keys in formats that write all keys as one text with commas."""
COMMA_KEYS_SECONDARY = replace(FIELDS_BY_NAME["keysecondary"], is_lossless=True)


def native_names(**names: str) -> dict[str, NativeField]:
    """Return native fields by their names in another format. The argument `text="content"` means that the other format uses the
    name `text` for the native field `content`.
    """
    return {name: FIELDS_BY_NAME[native] for name, native in names.items()}


def keep_original(
    fields: dict[str, Any],
    left: Mapping[str, Any],
    unsupported: Mapping[str, str],
    counter: FieldCounter,
    path: str,
    named: set[str],
    *,
    counted: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Return `fields` with one more field, `original`. Its value is `left`: the fields of the file that are not native fields.

    The fields of `left` are counted in `counter`. `unsupported` has import notes by field name. A field with the note
    FOR_EXPORT counts as kept, and a field with another note as not supported. All other fields count as unknown, except
    those in `counted`, which the caller has counted already.
    """
    unknown = {}
    for name, value in left.items():
        note = unsupported.get(name)
        if note == FOR_EXPORT:
            counter.keep(f"{path}{name}", value, note)
        elif note is not None:
            counter.refuse(f"{path}{name}", value, note)
        elif name not in counted:
            unknown[name] = value
    count_unknown(unknown, counter, path, named)
    return {**fields, "original": dict(left)} if left else fields


def read_book_file(
    path: Path,
    format_name: str,
    is_format: Callable[[Any], bool],
    parse: Callable[[Any, str, FieldCounter], WorldBook],
    wanted: str,
    note: str = "",
) -> ImportedFile:
    """Return the book of a JSON file, read with `parse`.

    `note` is an import note on the whole file. Raises CorpusError if `is_format` is false for the value of the file. The message
    then says that the file must be `wanted`.
    """
    value = read_json_file(path)
    if not is_format(value):
        raise CorpusError(f"{path}: cannot be read as {format_name}: it must be {wanted}.")
    counter = FieldCounter()
    book = parse(value, path.stem, counter)
    return file_of_book(str(path), format_name, book, counter, (note,) if note else ())
