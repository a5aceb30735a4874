"""Reads the book of a character card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.values import BookEntry, WorldBook


def parse_character_book(value: Any, name: str, counter: FieldCounter, prefix: str = "") -> WorldBook:
    """Return the book of a card; `name` is that of a book without one, and fields are counted below `prefix`."""
    raw = value.get("entries") if isinstance(value, Mapping) else None
    entries = []
    for index, entry in enumerate(raw if isinstance(raw, list) else ()):
        if isinstance(entry, Mapping):
            counter.keep(f"{prefix}entries.*.keys", entry.get("keys"))
            counter.keep(f"{prefix}entries.*.content", entry.get("content"))
            fields = {"key": entry.get("keys") or [], "content": entry.get("content") or ""}
            entries.append(BookEntry(uid=str(index), fields=fields))
    own_name = value.get("name") if isinstance(value, Mapping) else None
    name = own_name if isinstance(own_name, str) and own_name.strip() else name
    return WorldBook(name=name, dialect="character_book", entries=tuple(entries))
