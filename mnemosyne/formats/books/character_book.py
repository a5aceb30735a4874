"""Reads the book of lore in a V2 or V3 card, and the file `{"spec": "lorebook_v3", "data": …}` with only such a book.

Fields are converted to native fields (the fields of SillyTavern's world info) as SillyTavern does. A missing `selective`
means false, `insertion_order` is the native `order`, and a field in the `extensions` of an entry takes precedence.

Data without a native field are kept in two mappings of the entry, and an export writes them back. `extensions` has the
entry's extensions that did not become native fields. `original` has the fields without a native name: `name`, `priority`,
`case_sensitive`, unknown fields, and `use_regex` if its value does not follow from the keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.conversions import kind_of
from mnemosyne.formats.books.entries import build_entries, count_extra, count_unknown, file_of_book, numbered
from mnemosyne.formats.books.fields import (
    BY_ACTIVATION,
    CARD_NAMES,
    EXTENSION_NAMES,
    FIELDS_BY_NAME,
    OTHER_NAMES,
    take_fields,
    to_position,
)
from mnemosyne.formats.books.keys import is_regex_key
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

FORMAT = "lorebook_v3"
IN_CARD = "character_book"
OWN_EXTENSION = "jacquard/world_info"
"""Extension of a card's entry in which an export keeps the parts of `fields` and `original` that the card format has no
place for.
"""

_HELD = ("name", "priority", "case_sensitive", "use_regex", "position")
_TAKEN = ("id", "uid", "extensions", "position")
_NOT_HEEDED = f"SillyTavern does not heed it; {FOR_EXPORT}"
_AFTER_CHAR = 1
_MOST_NAMED = 100
_TOP_NAMES = {**OTHER_NAMES, **FIELDS_BY_NAME}


def is_lorebook(value: Any) -> bool:
    """Return whether a JSON value is a file with only a book, in the card format V3."""
    return isinstance(value, Mapping) and value.get("spec") == FORMAT


def read_lorebook(path: Path) -> ImportedFile:
    """Return the book of a file with only a book. Its name is the name in the book, or else the name of the file.

    Raises CorpusError if the file cannot be read or has no such book.
    """
    value = read_json_file(path)
    if not is_lorebook(value) or not isinstance(value.get("data"), Mapping):
        raise CorpusError(f'{path}: is not a lorebook: it must be {{"spec": "lorebook_v3", "data": {{…}}}}.')
    counter = FieldCounter()
    for name in ("spec", "spec_version"):
        counter.keep(name, value.get(name))
    others = {name: each for name, each in value.items() if name not in ("spec", "spec_version", "data")}
    for index, (name, each) in enumerate(others.items()):
        counter.refuse(name[:80] if index < _MOST_NAMED else "…", each, "beside the book; left out")
    book = parse_character_book(value["data"], path.stem, counter, "data.")
    book = WorldBook(name=book.name, dialect=FORMAT, entries=book.entries, extra=book.extra)
    return file_of_book(str(path), FORMAT, book, counter)


def parse_character_book(value: Any, name: str, counter: FieldCounter, prefix: str = "") -> WorldBook:
    """Return the book of a card. `name` is the name of the book if it has none; `prefix` is put before the names of
    counted fields.

    Null is an empty book. Entries that cannot be read are counted and skipped. Raises CorpusError if `value` is neither
    null nor an object, or if its `entries` are neither a list nor an object.
    """
    book = {} if value is None else value
    if not isinstance(book, Mapping):
        raise CorpusError(
            f"{name}: the book of a card is {kind_of(value)}; it must be an object with a list `entries`."
        )
    entries = book.get("entries")
    if entries is not None and not isinstance(entries, Mapping | list):
        raise CorpusError(f"{name}: the `entries` of the book are {kind_of(entries)}; they must be a list.")
    own_name = book.get("name")
    extra = {field: each for field, each in book.items() if field != "entries"}
    if isinstance(own_name, str) and own_name.strip():
        name = own_name
        counter.keep(f"{prefix}name", extra.pop("name"))
    count_extra(extra, counter, prefix)
    path, named = f"{prefix}entries.*.", set[str]()
    rows = entries.items() if isinstance(entries, Mapping) else numbered(entries or ())
    built = build_entries(
        rows,
        lambda entry: _read_fields(entry, counter, path, named),
        counter,
        path,
        uid_names=("id", "uid"),
        key_names=("keys", "key"),
    )
    return WorldBook(name=name, dialect=IN_CARD, entries=built, extra=extra)


def uses_regex(keys: Any) -> bool:
    """Return whether at least one of the keys has the form of a regular expression."""
    return any(is_regex_key(key) for key in keys if isinstance(key, str))


def is_own_field(name: str) -> bool:
    """Return whether an export writes the field `name` of `original` back unchanged into the entry of a card."""
    return name in _HELD[:-1] or (name not in _TOP_NAMES and name not in CARD_NAMES and name not in _TAKEN)


def _read_fields(entry: Mapping[str, Any], counter: FieldCounter, path: str, named: set[str]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    left = take_fields(entry, CARD_NAMES, fields, counter, path)
    left.pop("id" if "id" in left else "uid", None)
    held = {name: left.pop(name) for name in _HELD if name in left}
    extensions = left.pop("extensions", None)
    is_from_sillytavern = False
    if isinstance(extensions, Mapping):
        is_from_sillytavern = any(name in EXTENSION_NAMES for name in extensions)
        extensions = take_fields(
            extensions, EXTENSION_NAMES, fields, counter, path, place="extensions.", keeps_unusable=True
        )
    else:
        counter.refuse(f"{path}extensions", extensions, f"{kind_of(extensions)} is not an object; left out")
        extensions = {}
    left = take_fields(left, _TOP_NAMES, fields, counter, path)
    _read_position(held.pop("position", None), fields, counter, path)
    if "selective" not in fields:
        fields["selective"] = False
    original = _read_held(held, fields, is_from_sillytavern, counter, path) | left
    own = extensions.get(OWN_EXTENSION)
    if _is_own(own):
        del extensions[OWN_EXTENSION]
        original |= own.get("original", {})
        fields = dict(own.get("fields", {})) | fields
        count_unknown(own.get("fields", {}), counter, path, named)
    count_unknown(left, counter, path, named)
    count_unknown(extensions, counter, f"{path}extensions.", named)
    return fields | {name: each for name, each in (("extensions", extensions), ("original", original)) if each}


def _read_position(value: Any, fields: dict[str, Any], counter: FieldCounter, path: str) -> None:
    """Read the position of an entry, unless its extensions have one. An unknown position becomes: after the character."""
    if "position" in fields:
        counter.keep(f"{path}position", value, "extensions.position takes precedence")
        return
    try:
        fields["position"] = to_position(value)
    except ValueError:
        fields["position"] = _AFTER_CHAR
        counter.change(f"{path}position", value, "not known; after the character, as in SillyTavern")
        return
    if value in ("before_char", "after_char"):
        counter.keep(f"{path}position", value, BY_ACTIVATION if fields["position"] else "")
    else:
        counter.change(
            f"{path}position", value, f"{kind_of(value)} that the card format does not have; read by its meaning"
        )


def _read_held(
    held: dict[str, Any], fields: dict[str, Any], is_from_sillytavern: bool, counter: FieldCounter, path: str
) -> dict[str, Any]:
    """Count the fields that have no native name, and return the ones that an export needs."""
    name, use_regex = held.get("name"), held.get("use_regex")
    if isinstance(name, str) and name.strip() and not str(fields.get("comment", "")).strip():
        fields["comment"] = name
        counter.keep(f"{path}name", name, "the title, as there is no comment")
    else:
        counter.keep(f"{path}name", name, FOR_EXPORT)
    for field in ("priority", "case_sensitive"):
        counter.keep(f"{path}{field}", held.get(field), _NOT_HEEDED)
    keys = fields.get("key", [])
    if use_regex is True and not is_from_sillytavern and not all(is_regex_key(key) for key in keys):
        counter.change(
            f"{path}use_regex", note="keys that are no /pattern/ are looked for as plain text, as in SillyTavern"
        )
    else:
        counter.keep(f"{path}use_regex", use_regex, _NOT_HEEDED)
    if use_regex is uses_regex(keys):
        del held["use_regex"]
    return held


def _is_own(value: Any) -> bool:
    """Return whether our own export wrote an extension, and none of its fields has the name of a native field."""
    if not isinstance(value, Mapping) or not set(value) <= {"fields", "original"}:
        return False
    fields, original = value.get("fields", {}), value.get("original", {})
    if not isinstance(fields, Mapping) or not isinstance(original, Mapping):
        return False
    return not any(name in FIELDS_BY_NAME or name in ("uid", "extensions") for name in fields)
