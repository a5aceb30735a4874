"""Lorebooks of Risu, Agnai, NovelAI, KoboldAI and AI Dungeon as books of world info.

What has the same meaning becomes a native field; all else is kept under `original`, and the report says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.fields import NATIVE
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.macros import count_macros
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.formats.values import BookEntry, ImportedFile, WorldBook

ORIGINAL = "original"


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """A format: its name, how a file of it is known, where its entries are, and what its fields are called in world info.

    `flips` are fields that say the opposite of the native one. `changed` says what becomes of a field that means something else
    here.
    """

    name: str
    is_book: Callable[[Any], bool]
    entries: Callable[[Any], Iterable[Any]]
    fields: Mapping[str, str]
    flips: frozenset[str] = frozenset()
    changed: Mapping[str, str]


def _is_risu(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "risu" and isinstance(value.get("data"), list)


def _is_agnai(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("kind") == "memory" and isinstance(value.get("entries"), list)


def _is_novelai(value: Any) -> bool:
    return isinstance(value, Mapping) and "lorebookVersion" in value and isinstance(value.get("entries"), list)


def _is_kobold(value: Any) -> bool:
    entries = _kobold_entries(value)
    return bool(entries) and all(
        isinstance(entry, Mapping)
        and bool({"key", "keys"} & set(entry))
        and bool({"content", "value", "entry"} & set(entry))
        for entry in entries[:20]
    )


def _kobold_entries(value: Any) -> list[Any]:
    found = value.get("worldinfo") or value.get("folders") if isinstance(value, Mapping) else value
    return found if isinstance(found, list) else []


_BUDGET = "the budget of its program; kept for export"
RISU = Dialect(
    name="risu",
    is_book=_is_risu,
    entries=lambda value: value["data"],
    fields={
        "key": "key",
        "secondkey": "keysecondary",
        "comment": "comment",
        "content": "content",
        "insertorder": "order",
        "alwaysActive": "constant",
        "selective": "selective",
        "activationPercent": "probability",
    },
    changed={"useRegex": "keys become /…/", "mode": "folders are left out; other modes are read as usual entries"},
)
AGNAI = Dialect(
    name="agnai",
    is_book=_is_agnai,
    entries=lambda value: value["entries"],
    fields={"name": "comment", "keywords": "key", "entry": "content", "weight": "order", "enabled": "disable"},
    flips=frozenset({"enabled"}),
    changed={"priority": _BUDGET},
)
NOVELAI = Dialect(
    name="novelai",
    is_book=_is_novelai,
    entries=lambda value: value["entries"],
    fields={
        "displayName": "comment",
        "keys": "key",
        "text": "content",
        "enabled": "disable",
        "forceActivation": "constant",
        "searchRange": "",
    },
    flips=frozenset({"enabled"}),
    changed={"contextConfig": "its budgetPriority becomes the order; the rest is kept for export"},
)
KOBOLD = Dialect(
    name="kobold",
    is_book=_is_kobold,
    entries=_kobold_entries,
    fields={
        "key": "key",
        "keys": "key",
        "keysecondary": "keysecondary",
        "content": "content",
        "value": "content",
        "entry": "content",
        "comment": "comment",
        "title": "comment",
        "name": "comment",
        "selective": "selective",
        "constant": "constant",
        "probability": "probability",
        "wigroup": "group",
        "widisabled": "disable",
    },
    changed={"keyanti": "words that keep an entry away; kept for export"},
)
DIALECTS = (RISU, AGNAI, NOVELAI, KOBOLD)


def read_other_lorebook(path: Path, dialect: Dialect) -> ImportedFile:
    """Return the book in a file of another program; CorpusError for a file that holds none."""
    value = read_json_file(path)
    if not dialect.is_book(value):
        raise CorpusError(f"{path}: is no lorebook of the format {dialect.name}.")
    counter, notes = FieldCounter(), list[str]()
    entries: list[BookEntry] = []
    for number, raw in enumerate(dialect.entries(value)):
        if not isinstance(raw, Mapping):
            notes.append(f"entry {number}: is no mapping; it is left out")
        elif raw.get("mode") == "folder" or raw.get("type") == "folder":
            notes.append(f"entry {number}: is a folder; its entries are read")
        else:
            entries.append(BookEntry(uid=str(number), fields=_convert(raw, dialect, counter)))
    count_macros((str(entry.fields.get("content", "")) for entry in entries), "*.content", counter)
    name = value.get("name") if isinstance(value, Mapping) else None
    book = WorldBook(
        name=name if isinstance(name, str) and name.strip() else path.stem, dialect=dialect.name, entries=tuple(entries)
    )
    return ImportedFile(path=str(path), format=dialect.name, books=(book,), fates=counter.fates(), notes=tuple(notes))


def _convert(raw: Mapping[str, Any], dialect: Dialect, counter: FieldCounter) -> dict[str, Any]:
    native: dict[str, Any] = {}
    original: dict[str, Any] = {}
    for name, value in raw.items():
        target = dialect.fields.get(name)
        if not target or target in native or value is None:
            original[name] = value
            if name in dialect.changed:
                counter.change(f"*.{name}", value, dialect.changed[name])
            else:
                counter.refuse(f"*.{name}", value, "no such thing in world info; kept for export")
            continue
        field = NATIVE[target]
        try:
            made = field.convert(value)
        except ValueError as error:
            original[name] = value
            counter.change(f"*.{name}", value, f"{error}; the default counts")
            continue
        native[target] = not made if name in dialect.flips else made
        counter.keep(f"*.{name}", value, "" if made == field.default else field.note)
    if raw.get("useRegex") is True:
        native["key"] = [key if key.startswith("/") else f"/{key}/" for key in native.get("key", [])]
    config = raw.get("contextConfig")
    if isinstance(config, Mapping) and isinstance(config.get("budgetPriority"), int):
        native["order"] = config["budgetPriority"]
    if "keysecondary" in native and "selective" not in native:
        native["selective"] = True
    fields = {name: value for name, value in native.items() if value != NATIVE[name].default}
    return {**fields, ORIGINAL: original} if original else fields
