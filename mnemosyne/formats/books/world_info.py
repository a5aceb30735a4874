"""World info of SillyTavern: a JSON object with `entries`, by uid or as a list, in any of the spellings that files have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mnemosyne.core.errors import CorpusError
from mnemosyne.formats.books.fields import FOR_EXPORT, convert_fields
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.formats.macros import count_macros
from mnemosyne.formats.safe_files import read_json_file
from mnemosyne.formats.values import BookEntry, ImportedFile, WorldBook

FORMAT = "world-info"
MOST_ENTRIES = 200_000


def is_world_info(value: Any) -> bool:
    """Return whether a JSON value is world info: a mapping whose `entries` are mappings."""
    entries = value.get("entries") if isinstance(value, Mapping) else None
    if isinstance(entries, Mapping):
        return all(isinstance(entry, Mapping) for entry in list(entries.values())[:20])
    return isinstance(entries, list) and any(
        isinstance(entry, Mapping) and ("content" in entry or "key" in entry or "keys" in entry)
        for entry in entries[:20]
    )


def read_world_info(path: Path) -> ImportedFile:
    """Return the book in a world info file; CorpusError for a file that holds none."""
    value = read_json_file(path)
    if not isinstance(value, Mapping) or not isinstance(value.get("entries"), Mapping | list):
        raise CorpusError(f"{path}: has no `entries`; a world info file has an object with them.")
    counter, notes = FieldCounter(), list[str]()
    book = parse_world_info(value, path.stem, counter, notes)
    return ImportedFile(path=str(path), format=FORMAT, books=(book,), fates=counter.fates(), notes=tuple(notes))


def parse_world_info(
    value: Mapping[str, Any], name: str, counter: FieldCounter, notes: list[str] | None = None
) -> WorldBook:
    """Return a book; `name` is that of a file without one. What cannot be an entry is named in `notes` and passed by."""
    extra = {key: each for key, each in value.items() if key != "entries"}
    for key, each in extra.items():
        counter.keep(key, each, "" if key == "name" else FOR_EXPORT)
    entries: dict[str, BookEntry] = {}
    told = [] if notes is None else notes
    for uid, raw in walk_entries(value["entries"], told):
        if uid in entries:
            told.append(f"entry {uid}: its uid is used twice; it is kept as {uid}-{len(entries)}")
            uid = f"{uid}-{len(entries)}"
        native, others = convert_fields(_without_uid(raw), counter, "entries.*.")
        counter.keep_others("entries.*.", others, ())
        if "comment" not in native and isinstance(others.get("name"), str) and others["name"]:
            native["comment"] = others["name"]
        if not native.get("content") and not native.get("key"):
            told.append(f"entry {uid}: has neither text nor keys; it is kept for export")
        entries[uid] = BookEntry(uid=uid, fields={**native, **others})
    count_macros((str(entry.fields.get("content", "")) for entry in entries.values()), "entries.*.content", counter)
    own = value.get("name")
    return WorldBook(
        name=own if isinstance(own, str) and own.strip() else name,
        dialect="sillytavern",
        entries=tuple(entries.values()),
        extra=extra,
    )


def walk_entries(entries: Any, notes: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the entries of a list or of a mapping by uid, each with its uid; what is no entry is named in `notes`."""
    pairs = entries.items() if isinstance(entries, Mapping) else enumerate(entries if isinstance(entries, list) else ())
    for number, (place, raw) in enumerate(pairs):
        if number >= MOST_ENTRIES:
            notes.append(f"the book has more than {MOST_ENTRIES:,} entries; the rest is left out")
            return
        if not isinstance(raw, Mapping):
            notes.append(f"entry {str(place)[:40]}: is no mapping; it is left out")
            continue
        told = raw.get("uid", raw.get("id"))
        uid = (
            str(told)
            if isinstance(told, str | int) and not isinstance(told, bool) and str(told).strip()
            else str(place)
        )
        yield uid[:100], raw


def _without_uid(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key != "uid"}
