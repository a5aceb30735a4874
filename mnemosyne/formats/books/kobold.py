"""Reads world info of KoboldAI and KoboldAI Lite, and story cards of AI Dungeon, as books of lore.

Both are lists of entries whose keys are one text with commas. A saved game of KoboldAI contains the list as `worldinfo`,
an adventure of AI Dungeon as `storyCards` or `worldInfo`. Nothing else is read from such a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.conversions import has_text, kind_of, to_keys
from mnemosyne.formats.books.entries import build_entries, numbered
from mnemosyne.formats.books.fields import BY_ACTIVATION, take_fields
from mnemosyne.formats.books.foreign import (
    COMMA_KEYS,
    COMMA_KEYS_SECONDARY,
    keep_original,
    native_names,
    read_book_file,
)
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

KOBOLD, AI_DUNGEON = "kobold", "ai_dungeon"
_KOBOLD_NAMES = {
    "key": COMMA_KEYS,
    "keysecondary": COMMA_KEYS_SECONDARY,
    **native_names(
        content="content",
        comment="comment",
        constant="constant",
        selective="selective",
        probability="probability",
        widisabled="disable",
    ),
}
_AI_DUNGEON_NAMES = {"keys": COMMA_KEYS, **native_names(value="content", entry="content", title="comment")}
_TITLE = native_names(name="comment")
_KOBOLD_UNSUPPORTED = {
    **dict.fromkeys(("folder", "num", "init", "title"), FOR_EXPORT),
    "wigroup": "a group that is switched on and off together; groups of world info are something else",
}
_AI_DUNGEON_UNSUPPORTED = dict.fromkeys(
    ("type", "description", "useForCharacterCreation", "name", "createdAt", "updatedAt", "userId"), FOR_EXPORT
)
_NOTE = "Keys match parts of words (matchWholeWords: false)."
_KOBOLD_WANTED = 'a list of entries with "key" and "content", or a saved game with "worldinfo"'
_AI_DUNGEON_WANTED = (
    'a list of cards with "keys" and "value" or "entry", or an adventure with "storyCards" or "worldInfo"'
)
_NOT_ANY = 2


def is_kobold(value: Any) -> bool:
    """Return whether a JSON value is world info of KoboldAI, or a saved game that contains it."""
    rows = _rows(value, ("worldinfo",))
    return rows is not None and _has(rows, ("key",), ("content",))


def is_ai_dungeon(value: Any) -> bool:
    """Return whether a JSON value is a list of cards of AI Dungeon, or an adventure that contains such a list."""
    rows = _rows(value, ("storyCards", "worldInfo"))
    return rows is not None and _has(rows, ("keys",), ("value", "entry"))


def read_kobold(path: Path) -> ImportedFile:
    """Return the book in a file of KoboldAI. Raises CorpusError if the file cannot be read or has no world info of KoboldAI."""
    return read_book_file(path, KOBOLD, is_kobold, parse_kobold, _KOBOLD_WANTED, _NOTE)


def read_ai_dungeon(path: Path) -> ImportedFile:
    """Return the book in a file of AI Dungeon. Raises CorpusError if the file cannot be read or has no cards of AI Dungeon."""
    return read_book_file(path, AI_DUNGEON, is_ai_dungeon, parse_ai_dungeon, _AI_DUNGEON_WANTED, _NOTE)


def parse_kobold(value: Any, name: str, counter: FieldCounter) -> WorldBook:
    """Return the book of a JSON value, named `name`. Raises CorpusError if the value has no entries of KoboldAI."""
    if not is_kobold(value):
        raise CorpusError(f"{name}: is not world info of KoboldAI: it must be {_KOBOLD_WANTED}.")
    _count_rest_of_game(value, ("worldinfo",), counter)
    path, named = "entries.*.", set[str]()

    def read_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        left = take_fields(entry, _KOBOLD_NAMES, fields, counter, path)
        left.pop("uid", None)
        fields = {"selective": False, "matchWholeWords": False, **fields}
        _read_anti_keys(left.get("keyanti"), fields, counter, path)
        return keep_original(fields, left, _KOBOLD_UNSUPPORTED, counter, path, named, counted=("keyanti",))

    rows = _rows(value, ("worldinfo",)) or []
    entries = build_entries(numbered(rows), read_fields, counter, path, uid_names=("uid",), key_names=("key",))
    return WorldBook(name=name, dialect=KOBOLD, entries=entries)


def parse_ai_dungeon(value: Any, name: str, counter: FieldCounter) -> WorldBook:
    """Return the book of a JSON value, named `name`. Raises CorpusError if the value has no cards of AI Dungeon."""
    if not is_ai_dungeon(value):
        raise CorpusError(f"{name}: is not a list of cards of AI Dungeon: it must be {_AI_DUNGEON_WANTED}.")
    _count_rest_of_game(value, ("storyCards", "worldInfo"), counter)
    path, named = "entries.*.", set[str]()

    def read_fields(entry: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        left = take_fields(entry, _AI_DUNGEON_NAMES, fields, counter, path)
        left.pop("id", None)
        if not has_text(fields.get("comment")):
            left = take_fields(left, _TITLE, fields, counter, path)
        fields = {"selective": False, "matchWholeWords": False, **fields}
        return keep_original(fields, left, _AI_DUNGEON_UNSUPPORTED, counter, path, named)

    entries = build_entries(
        numbered(_rows(value, ("storyCards", "worldInfo")) or []),
        read_fields,
        counter,
        path,
        uid_names=("id",),
        content_names=("value", "entry"),
        key_names=("keys",),
    )
    return WorldBook(name=name, dialect=AI_DUNGEON, entries=entries)


def _rows(value: Any, names: tuple[str, ...]) -> list[Any] | None:
    """Return the list of entries of a file: the file itself, or its first field of `names` that is a list."""
    if isinstance(value, list):
        return value
    if not isinstance(value, Mapping):
        return None
    return next((rows for name in names if isinstance(rows := value.get(name), list)), None)


def _has(rows: list[Any], *names: tuple[str, ...]) -> bool:
    """Return whether a row is an object that has at least one field of each group in `names`."""
    return any(isinstance(row, Mapping) and all(any(name in row for name in group) for group in names) for row in rows)


def _count_rest_of_game(value: Any, names: tuple[str, ...], counter: FieldCounter) -> None:
    if isinstance(value, Mapping):
        for name, each in list(value.items())[:200]:
            if name not in names:
                counter.refuse(name[:80], each, "of a saved game only the world info is read")


def _read_anti_keys(value: Any, fields: dict[str, Any], counter: FieldCounter, path: str) -> None:
    """Read keys that must not occur in the chat, as secondary keys with NOT_ANY. If the entry has secondary keys, they
    are refused.
    """
    try:
        keys = to_keys(value)
    except ValueError:
        counter.refuse(f"{path}keyanti", value, f"{kind_of(value)} is not a list of keys; kept for export")
        return
    if fields["selective"] and fields.get("keysecondary"):
        counter.refuse(
            f"{path}keyanti", keys, "an entry has secondary keys or keys that must be absent; kept for export"
        )
    elif keys:
        fields |= {"keysecondary": keys, "selective": True, "selectiveLogic": _NOT_ANY}
        counter.change(f"{path}keyanti", keys, f"became secondary keys with NOT_ANY; {BY_ACTIVATION}")
