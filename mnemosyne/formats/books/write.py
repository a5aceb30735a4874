"""Writes books: as world info of SillyTavern, and as the book of a character card. Pure."""

from __future__ import annotations

from typing import Any

from mnemosyne.formats.books.character_book import CARD, EXTENSION_FIELDS
from mnemosyne.formats.books.fields import NATIVE, spell_snake, with_defaults
from mnemosyne.formats.values import BookEntry, WorldBook

_IN_ENTRY = {"key", "keysecondary", "content", "comment", "constant", "selective", "order", "disable"}


def world_info_json(book: WorldBook) -> dict[str, Any]:
    """Return a book as a world info file that SillyTavern opens: every field is there, entries are by uid."""
    extra = dict(book.extra) if book.dialect == "sillytavern" else {"name": book.name}
    return {"entries": {entry.uid: _native(entry, place) for place, entry in enumerate(book.entries)}, **extra}


def character_book_json(book: WorldBook) -> dict[str, Any]:
    """Return a book as the `character_book` of a card: specification fields in the entry, all others as extensions."""
    extra = dict(book.extra) if book.dialect == "character_book" else {}
    return {"name": book.name, "extensions": {}, **extra, "entries": [_card_entry(entry) for entry in book.entries]}


def _native(entry: BookEntry, place: int) -> dict[str, Any]:
    fields = dict(with_defaults(entry.fields))
    if fields.get("displayIndex") is None:
        fields["displayIndex"] = place
    return {"uid": _number(entry.uid), **fields}


def _card_entry(entry: BookEntry) -> dict[str, Any]:
    fields = dict(entry.fields)
    own = fields.pop(CARD, {})
    own = dict(own) if isinstance(own, dict) else {}
    left = own.pop("extensions", {})
    extensions = dict(left) if isinstance(left, dict) else {}
    for name in NATIVE:
        if name not in _IN_ENTRY and name in fields:
            extensions[spell_snake(name)] = fields[name]
    unknown = {name: value for name, value in fields.items() if name not in NATIVE}
    return {
        "id": _number(entry.uid),
        "keys": list(fields.get("key", [])),
        "secondary_keys": list(fields.get("keysecondary", [])),
        "comment": fields.get("comment", ""),
        "content": fields.get("content", ""),
        "constant": fields.get("constant", False),
        "selective": fields.get("selective", True),
        "insertion_order": fields.get("order", 100),
        "enabled": not fields.get("disable", False),
        "position": "before_char" if fields.get("position", 0) == 0 else "after_char",
        **unknown,
        **own,
        "extensions": extensions,
    }


def _number(uid: str) -> int | str:
    return (
        int(uid)
        if uid.isascii() and uid.isdecimal() and (uid == "0" or not uid.startswith("0")) and len(uid) < 16
        else uid
    )


assert set(EXTENSION_FIELDS.values()) == {name for name in NATIVE if name not in _IN_ENTRY}
