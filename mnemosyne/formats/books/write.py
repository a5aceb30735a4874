"""Writes books of lore."""

from __future__ import annotations

from typing import Any

from mnemosyne.formats.values import WorldBook


def character_book_json(book: WorldBook) -> dict[str, Any]:
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
