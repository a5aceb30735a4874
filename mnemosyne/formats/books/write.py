"""Writes books of lore as SillyTavern's world info, or as the book of a V2 or V3 card.

Reading the written JSON value restores every field of `BookEntry.fields` and of `WorldBook.extra`. World info is written
with all native fields, so that a field that was absent has SillyTavern's default when it is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from mnemosyne.formats.books.character_book import OWN_EXTENSION, is_own_field, uses_regex
from mnemosyne.formats.books.fields import DEFAULTS, NATIVE_FIELDS
from mnemosyne.schema.imported_files import BookEntry, WorldBook

_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,14}", re.ASCII)
_LATER = ("uid", "extensions", "original")


def world_info_json(book: WorldBook) -> dict[str, Any]:
    """Return a book as a file of world info: `entries` by uid. Each entry has every field that SillyTavern gives to a new
    entry.

    A `uid` that is written like a number becomes a number. If an entry has no `displayIndex`, its place in the book is written.
    If an entry has no `addMemo`, true is written if the entry has a comment.
    """
    entries = {entry.uid: _native_entry(entry, index) for index, entry in enumerate(book.entries)}
    return {"entries": entries, **{name: value for name, value in book.extra.items() if name != "entries"}}


def character_book_json(book: WorldBook) -> dict[str, Any]:
    """Return a book as the `character_book` of a V2 or V3 card, or as the `data` of a file with only a book.

    Native fields are written as SillyTavern does, in the `extensions` of an entry. Data that the card format has no place
    for is written to the extension `jacquard/world_info`. `use_regex` keeps the value that the card had. If the card
    had none, `use_regex` is true if a key is a `/pattern/`.
    """
    extra = {name: value for name, value in book.extra.items() if name not in ("name", "entries")}
    if not isinstance(extra.get("extensions"), Mapping):
        extra["extensions"] = {}
    return {"name": book.name, **extra, "entries": [_card_entry(entry) for entry in book.entries]}


def _native_entry(entry: BookEntry, index: int) -> dict[str, Any]:
    fields = entry.fields
    defaults = {name: list(value) if isinstance(value, list) else value for name, value in DEFAULTS.items()}
    defaults |= {"addMemo": bool(fields.get("comment")), "displayIndex": index, "extensions": {}}
    return {"uid": _uid(entry.uid), **defaults, **{name: value for name, value in fields.items() if name != "uid"}}


def _card_entry(entry: BookEntry) -> dict[str, Any]:
    fields = entry.fields
    values = {**DEFAULTS, **fields}
    kept = fields.get("original")
    original = dict(kept) if isinstance(kept, Mapping) else {}
    spread = {name: original.pop(name) for name in tuple(original) if is_own_field(name)}
    keys = list(values["key"])
    return {
        "use_regex": uses_regex(keys),
        **spread,
        "id": _uid(entry.uid),
        "keys": keys,
        "secondary_keys": list(values["keysecondary"]),
        "comment": values["comment"],
        "content": values["content"],
        "constant": values["constant"],
        "selective": values["selective"],
        "insertion_order": values["order"],
        "enabled": not values["disable"],
        "position": "before_char" if values["position"] == 0 else "after_char",
        "extensions": _card_extensions(fields, values["position"], original),
    }


def _card_extensions(fields: Mapping[str, Any], position: int, original: Mapping[str, Any]) -> dict[str, Any]:
    """Return the extensions of an entry: its own, the native fields, and all other fields under OWN_EXTENSION.

    If the only native field is the position and a card has a word for it, the position is not repeated here.
    """
    extensions = fields.get("extensions")
    made = dict(extensions) if isinstance(extensions, Mapping) else {}
    native = {each.extension: fields[each.name] for each in NATIVE_FIELDS if each.extension and each.name in fields}
    if native.keys() - {"position"} or position > 1:
        made |= native
    rest = {name: value for name, value in fields.items() if name not in _NATIVE and name not in _LATER}
    if "original" in fields and not isinstance(fields["original"], Mapping):
        rest["original"] = fields["original"]
    own = {name: value for name, value in (("fields", rest), ("original", original)) if value}
    return made | ({OWN_EXTENSION: own} if own else {})


_NATIVE = frozenset(field.name for field in NATIVE_FIELDS)


def _uid(uid: str) -> int | str:
    """Return a uid as a number if it is written as JavaScript writes numbers. Reading the number gives the same text again."""
    return int(uid) if _WHOLE_NUMBER.fullmatch(uid) else uid
