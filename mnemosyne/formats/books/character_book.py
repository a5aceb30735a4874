"""Reads and writes the book of a character card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.values import BookEntry, WorldBook


def parse_character_book(value: Any, name: str, counter: FieldCounter) -> WorldBook:
    """Return the book of a card under the names of a native world info file; `name` is that of a book without one."""
    raw = value.get("entries") if isinstance(value, Mapping) else None
    entries = []
    for index, entry in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(entry, Mapping):
            counter.keep("data.character_book.entries.*.keys", entry.get("keys"))
            counter.keep("data.character_book.entries.*.content", entry.get("content"))
            fields = {"key": entry.get("keys") or [], "content": entry.get("content") or ""}
            entries.append(BookEntry(uid=str(index), fields=fields))
    return WorldBook(name=name, dialect="character_book", entries=tuple(entries))


def character_book_document(book: WorldBook) -> dict[str, Any]:
    """Return a book as the `character_book` of a card."""
    entries = [
        {
            "keys": list(entry.fields.get("key") or ()),
            "content": str(entry.fields.get("content") or ""),
            "extensions": {},
            "enabled": True,
            "insertion_order": index,
        }
        for index, entry in enumerate(book.entries)
    ]
    return {"name": book.name, "extensions": {}, "entries": entries}
