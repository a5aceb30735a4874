"""Reads lorebooks of NovelAI (JSON with `lorebookVersion`) as books of lore."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.conversions import to_other_flag
from mnemosyne.formats.books.entries import build_entries, count_extra, count_unknown, numbered
from mnemosyne.formats.books.fields import BY_ACTIVATION, ENABLED, FIELDS_BY_NAME, take_fields
from mnemosyne.formats.books.foreign import keep_original, native_names, read_book_file
from mnemosyne.formats.books.keys import is_regex_key
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter
from mnemosyne.schema.imported_files import ImportedFile, WorldBook

FORMAT = "novelai"
_NAMES = {
    "enabled": ENABLED,
    "nonStoryActivatable": replace(FIELDS_BY_NAME["excludeRecursion"], convert=to_other_flag, is_lossless=True),
    **native_names(displayName="comment", text="content", keys="key", forceActivation="constant"),
}
_CONTEXT_NAMES = native_names(budgetPriority="order")
_UNSUPPORTED = {
    "searchRange": "NovelAI searches so many characters; here whole messages are searched",
    "keyRelative": "the place of an entry does not depend on where its key was found",
    "loreBiasGroups": "biases of single tokens",
    "advancedConditions": "conditions on the story in the form of NovelAI",
    "category": FOR_EXPORT,
    "hidden": FOR_EXPORT,
    "lastUpdatedAt": FOR_EXPORT,
}
_CONTEXT_UNSUPPORTED = {
    "prefix": "text before an entry; kept for export",
    "suffix": "text after an entry; kept for export",
    **dict.fromkeys(("tokenBudget", "reservedTokens"), "an entry has no budget of its own; kept for export"),
    **dict.fromkeys(("trimDirection", "maximumTrimType"), "an entry is shown whole or not at all; kept for export"),
    **dict.fromkeys(("insertionType", "insertionPosition"), "counted in lines or tokens from an end; kept for export"),
}
_NOTE = "Keys match whole words, as in NovelAI (matchWholeWords: true)."
_WANTED = 'an object with "lorebookVersion" and a list "entries"'
_AND_ALL = 3


def is_novelai(value: Any) -> bool:
    """Return whether a JSON value is a lorebook of NovelAI."""
    return isinstance(value, Mapping) and "lorebookVersion" in value and isinstance(value.get("entries"), list)


def read_novelai(path: Path) -> ImportedFile:
    """Return the book in a file of NovelAI. Raises CorpusError if the file cannot be read or is not a lorebook of NovelAI."""
    return read_book_file(path, FORMAT, is_novelai, parse_novelai, _WANTED, _NOTE)


def parse_novelai(value: Any, name: str, counter: FieldCounter) -> WorldBook:
    """Return the book of a JSON value, named `name`. If a category is switched off, its entries are disabled.

    Raises CorpusError if the value is not a lorebook of NovelAI.
    """
    if not is_novelai(value):
        raise CorpusError(f"{name}: is not a lorebook of NovelAI: it must be {_WANTED}.")
    extra = {field: each for field, each in value.items() if field != "entries"}
    count_extra(extra, counter, "")
    categories = extra.get("categories")
    switched_off = {
        category["id"]
        for category in (categories if isinstance(categories, list) else ())
        if isinstance(category, Mapping) and category.get("enabled") is False and isinstance(category.get("id"), str)
    }
    path, named = "entries.*.", set[str]()
    entries = build_entries(
        numbered(value["entries"]),
        lambda entry: _read_fields(entry, switched_off, counter, path, named),
        counter,
        path,
        uid_names=("id",),
        content_names=("text",),
        key_names=("keys",),
    )
    return WorldBook(name=name, dialect=FORMAT, entries=entries, extra=extra)


def _read_fields(
    entry: Mapping[str, Any], switched_off: set[str], counter: FieldCounter, path: str, named: set[str]
) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    left = take_fields(entry, _NAMES, fields, counter, path)
    left.pop("id", None)
    context = left.get("contextConfig")
    if isinstance(context, Mapping):
        _count_context(take_fields(context, _CONTEXT_NAMES, fields, counter, path), counter, path, named)
    else:
        counter.refuse(f"{path}contextConfig", context, "not an object; kept for export")
    if isinstance(category := left.get("category"), str) and category in switched_off:
        fields["disable"] = True
        counter.change(f"{path}disable", note="its category is switched off")
    fields = {"selective": False, "excludeRecursion": True, "matchWholeWords": True, **fields}
    if _split_joined_keys(fields, counter, path):
        left["keys"] = entry["keys"]
    return keep_original(fields, left, _UNSUPPORTED, counter, path, named, counted=("contextConfig", "keys"))


def _count_context(context: Mapping[str, Any], counter: FieldCounter, path: str, named: set[str]) -> None:
    for name, value in context.items():
        if name == "suffix" and value == "\n":
            counter.keep(f"{path}contextConfig.suffix", value)
        elif name in _CONTEXT_UNSUPPORTED:
            counter.refuse(f"{path}contextConfig.{name}", value, _CONTEXT_UNSUPPORTED[name])
    unknown = {name: value for name, value in context.items() if name not in _CONTEXT_UNSUPPORTED}
    count_unknown(unknown, counter, f"{path}contextConfig.", named)


def _split_joined_keys(fields: dict[str, Any], counter: FieldCounter, path: str) -> bool:
    """Read keys joined with `&`, which NovelAI wants to find all. Return whether the keys were changed.

    A native entry can express this only for all its keys. So a joined key is split only if the entry has no other key.
    """
    keys = fields.get("key", [])
    joined = [key for key in keys if "&" in key and not is_regex_key(key)]
    parts = [part.strip() for key in joined for part in key.split("&") if part.strip()]
    if not joined:
        return False
    if len(keys) > 1 or len(parts) < 2:
        counter.change(f"{path}keys", note="keys joined with & are looked for as one text")
        return False
    fields |= {"key": parts[:1], "keysecondary": parts[1:], "selective": True, "selectiveLogic": _AND_ALL}
    counter.change(f"{path}keys", note=f"parts after the first & became secondary keys; {BY_ACTIVATION}")
    return True
