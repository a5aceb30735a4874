"""The book of a character card (V2, V3), and the stand-alone lorebook of V3, by SillyTavern's conversion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.fields import BY_ACTIVATION, FOR_EXPORT, NATIVE, SPELLINGS, convert_fields, spell_snake
from mnemosyne.formats.books.world_info import walk_entries
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.macros import count_macros
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.formats.values import BookEntry, ImportedFile, WorldBook

FORMAT = "lorebook"
SPEC = "lorebook_v3"
CARD = "card"
"""The field of an entry that keeps what a card's entry says and world info has no name for, `extensions` too."""

ENTRY_FIELDS = {
    "keys": "key",
    "secondary_keys": "keysecondary",
    "content": "content",
    "comment": "comment",
    "constant": "constant",
    "selective": "selective",
    "insertion_order": "order",
    "enabled": "disable",
    "key": "key",
    "keysecondary": "keysecondary",
    "order": "order",
    "disable": "disable",
}
"""The fields of a card's entry that are those of world info."""
EXTENSION_FIELDS = {spell_snake(name): name for name in NATIVE if name not in ENTRY_FIELDS.values()} | {
    name: name for name in SPELLINGS if name in NATIVE and name not in ENTRY_FIELDS.values()
}
"""The extensions of a card's entry that are fields of world info, in both spellings."""


def is_lorebook(value: Any) -> bool:
    """Return whether a JSON value is a stand-alone lorebook of the card specification."""
    return isinstance(value, Mapping) and value.get("spec") == SPEC and isinstance(value.get("data"), Mapping)


def read_lorebook(path: Path) -> ImportedFile:
    """Return the book in a stand-alone lorebook file; CorpusError for a file that holds none."""
    value = read_json_file(path)
    if not is_lorebook(value):
        raise CorpusError(f"{path}: is no lorebook; it needs `spec: {SPEC}` and `data`.")
    counter, notes = FieldCounter(), list[str]()
    book = parse_character_book(value["data"], path.stem, counter, notes, prefix="data.")
    return ImportedFile(path=str(path), format=FORMAT, books=(book,), fates=counter.fates(), notes=tuple(notes))


def parse_character_book(
    value: Any,
    name: str,
    counter: FieldCounter,
    notes: list[str] | None = None,
    *,
    prefix: str = "data.character_book.",
) -> WorldBook:
    """Return the book of a card; `name` is that of a book without one. No book (None) has no entries.

    As in SillyTavern a missing `selective` means false, and settings of the whole book are kept without effect.
    """
    told = [] if notes is None else notes
    book: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    extra = {key: each for key, each in book.items() if key != "entries"}
    for key, each in extra.items():
        counter.keep(f"{prefix}{key}", each, "" if key == "name" else FOR_EXPORT)
    entries: dict[str, BookEntry] = {}
    for uid, raw in walk_entries(book.get("entries"), told):
        if uid in entries:
            told.append(f"entry {uid}: its id is used twice; it is kept as {uid}-{len(entries)}")
            uid = f"{uid}-{len(entries)}"
        entries[uid] = BookEntry(uid=uid, fields=_convert(raw, counter, f"{prefix}entries.*."))
    count_macros(
        (str(each.fields.get("content", "")) for each in entries.values()), f"{prefix}entries.*.content", counter
    )
    own = book.get("name")
    return WorldBook(
        name=own if isinstance(own, str) and own.strip() else name,
        dialect="character_book",
        entries=tuple(entries.values()),
        extra=extra,
    )


def _convert(raw: Mapping[str, Any], counter: FieldCounter, prefix: str) -> dict[str, Any]:
    native, others = convert_fields(raw, counter, prefix, ENTRY_FIELDS)
    extensions = others.pop("extensions", None)
    made: dict[str, Any] = {}
    if isinstance(extensions, Mapping):
        made, rest = convert_fields(extensions, counter, f"{prefix}extensions.", EXTENSION_FIELDS)
        counter.keep_others(f"{prefix}extensions.", rest, ())
        others["extensions"] = rest
    elif extensions is not None:
        counter.change(f"{prefix}extensions", extensions, "is no mapping; kept for export")
        others["extensions"] = extensions
    if "selective" not in raw:
        native["selective"] = False
    if "position" not in made and raw.get("position") not in ("before_char", 0, None):
        made["position"] = 1
    if "comment" not in native and isinstance(raw.get("name"), str) and raw["name"].strip():
        native["comment"] = raw["name"]
    _count_card_fields(others, native, counter, prefix)
    return {**native, **made, CARD: others} if others else {**native, **made}


def _count_card_fields(
    others: Mapping[str, Any], native: Mapping[str, Any], counter: FieldCounter, prefix: str
) -> None:
    """Count what a card's entry has beside world info's fields, and the decorators of its text."""
    for name, value in others.items():
        if name == "position":
            counter.keep(f"{prefix}{name}", value, BY_ACTIVATION)
        elif name == "use_regex":
            is_odd = value is True and any(not key.startswith("/") for key in native.get("key", ()))
            note = "keys without /…/ are read as plain text, as SillyTavern does" if is_odd else ""
            counter.keep(f"{prefix}{name}", value, note)
        elif name not in ("extensions", "id"):
            counter.keep(f"{prefix}{name}", value, FOR_EXPORT)
    for line in str(native.get("content", "")).split("\n", 40)[:40]:
        if not line.startswith("@@"):
            return
        word = line[:60].lstrip("@").split(" ")[0]
        counter.keep(f"{prefix}content: @@{word}", True, BY_ACTIVATION)
