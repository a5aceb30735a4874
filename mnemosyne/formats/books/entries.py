"""Builds the entries of a book from rows of a file. Unusable rows are reported and skipped, and every entry gets a unique
uid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mnemosyne.formats.books.conversions import has_keys, has_text, kind_of
from mnemosyne.formats.books.fields import BY_ACTIVATION
from mnemosyne.formats.books.keys import leading_decorators
from mnemosyne.formats.losses import FOR_EXPORT, FieldCounter, count_macros
from mnemosyne.schema.imported_files import BookEntry, ImportedFile, WorldBook

UNKNOWN = f"unknown; {FOR_EXPORT}"
_MOST_NAMED_UIDS = 8
_MOST_NAMED_FIELDS = 200
_MOST_NAME_CHARS = 80
_HEEDED_DECORATORS = frozenset({"activate", "dont_activate"})
_DECORATORS = frozenset(
    {
        "activate_only_after", "activate_only_every", "keep_activate_after_match", "dont_activate_after_match",
        "depth", "instruct_depth", "reverse_depth", "reverse_instruct_depth", "role", "scan_depth",
        "instruct_scan_depth", "is_greeting", "position", "ignore_on_max_context", "additional_keys", "exclude_keys",
        "is_user_icon", "disable_ui_prompt", "end", "probability", "priority", "match_full_word",
        "match_partial_word", "exclude_keys_all", "recursive", "unrecursive", "no_recursive_search", "inject_lore",
        "inject_at", "inject_replace", "inject_prepend",
    }
)  # fmt: skip
"""Decorators (`@@NAME` lines above an entry's text) of V3 cards and of Risu that SillyTavern ignores."""

ReadFields = Callable[[Mapping[str, Any]], dict[str, Any]]


def build_entries(
    rows: Iterable[tuple[str, Any]],
    read_fields: ReadFields,
    counter: FieldCounter,
    path: str,
    *,
    uid_names: tuple[str, ...],
    content_names: tuple[str, ...] = ("content",),
    key_names: tuple[str, ...],
) -> tuple[BookEntry, ...]:
    """Return the entries of `rows`, in their order.

    A row is (fallback uid, entry). The uid of an entry is the first of the fields `uid_names` that is a number or text,
    or else the fallback uid. If an earlier entry has the same uid, the later one gets a free number.

    A row is skipped if it is not a mapping, or if its fields `content_names` and `key_names` are all empty. Skipped rows
    are counted under `path`, with a note that names the first of them.

    `read_fields` returns the native fields of one entry and counts them. Decorators and macros are counted here.
    """
    whole: list[tuple[str, str, Mapping[str, Any]]] = []
    faulty: dict[str, list[str]] = {}
    for fallback, row in rows:
        if not isinstance(row, Mapping):
            faulty.setdefault(f"{kind_of(row)}, not an object", []).append(fallback)
            continue
        uid = next((each for name in uid_names if (each := _uid_of(row.get(name)))), "")
        has_content = any(has_text(row.get(name)) for name in content_names)
        if has_content or any(has_keys(row.get(name)) for name in key_names):
            whole.append((uid, fallback, row))
            _count_uid(next((row[name] for name in uid_names if name in row), None), counter, path)
        else:
            faulty.setdefault("an entry without text and keys", []).append(uid or fallback)
    for reason, uids in faulty.items():
        note = f"{reason}; passed by: {_name_uids(uids)}"
        for _ in uids:
            counter.refuse(path.removesuffix("."), note=note)
    return tuple(
        BookEntry(uid=uid, fields=_read(row, read_fields, counter, path))
        for uid, row in _with_own_uids(whole, counter, path)
    )


def count_unknown(fields: Mapping[str, Any], counter: FieldCounter, path: str, named: set[str]) -> None:
    """Count unknown fields as kept. `named` has the names that were counted so far, and new names are added to it. After 200
    names, all further fields are counted under one name.
    """
    for name, value in fields.items():
        if name in named or len(named) < _MOST_NAMED_FIELDS:
            named.add(name)
            counter.keep(f"{path}{name[:_MOST_NAME_CHARS]}", value, UNKNOWN)
        else:
            counter.keep(f"{path}…", value, UNKNOWN)


def count_extra(extra: Mapping[str, Any], counter: FieldCounter, path: str) -> None:
    """Count the fields of a book outside of its entries. They are kept and have no effect."""
    for name in list(extra)[:_MOST_NAMED_FIELDS]:
        counter.keep(f"{path}{name[:_MOST_NAME_CHARS]}", extra[name], "" if name == "name" else FOR_EXPORT)
    for name in list(extra)[_MOST_NAMED_FIELDS:]:
        counter.keep(f"{path}…", extra[name], FOR_EXPORT)


def numbered(rows: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Return (uid, row) for each row of a list. The uid is the position in the list."""
    return ((str(index), row) for index, row in enumerate(rows))


def file_of_book(
    path: str, format_name: str, book: WorldBook, counter: FieldCounter, notes: tuple[str, ...] = ()
) -> ImportedFile:
    """Return the content of the file `path`, which has one book. After `notes`, further notes report the skipped entries."""
    fates = counter.fates()
    notes += tuple(f"{fate.count} × {fate.note}" for fate in fates if fate.field.endswith("entries.*") and fate.note)
    return ImportedFile(path=path, format=format_name, books=(book,), fates=fates, notes=notes)


def _read(row: Mapping[str, Any], read_fields: ReadFields, counter: FieldCounter, path: str) -> dict[str, Any]:
    fields = read_fields(row)
    content = fields.get("content", "")
    for name in leading_decorators(content):
        if name in _HEEDED_DECORATORS:
            counter.keep(f"{path}content: @@{name}", note=BY_ACTIVATION)
        else:
            known = name if name in _DECORATORS else "…"
            counter.refuse(f"{path}content: @@{known}", note="SillyTavern does not heed it; kept in the text")
    count_macros((content,), f"{path}content", counter)
    count_macros((*fields.get("key", ()), *fields.get("keysecondary", ())), f"{path}key", counter)
    return fields


def _uid_of(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return ""
    return str(value) if str(value).strip() else ""


def _count_uid(value: Any, counter: FieldCounter, path: str) -> None:
    if _uid_of(value):
        counter.keep(f"{path}uid", value)
    else:
        counter.change(
            f"{path}uid", value, f"{kind_of(value)} is no number and no text; the place in the file is taken"
        )


def _with_own_uids(
    rows: list[tuple[str, str, Mapping[str, Any]]], counter: FieldCounter, path: str
) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (uid, entry) for each of `rows`, so that every uid occurs once. A row is (own uid or empty, uid by place,
    entry).

    The first entry with a uid keeps it. A later entry with the same uid gets the lowest free number. So does an entry
    without its own uid if its place is the uid of another entry.
    """
    own = {uid for uid, _, _ in rows}
    reserved = own.union(place for _, place, _ in rows)
    used: set[str] = set()
    again: list[str] = []
    number = 0
    result = []
    for uid, place, row in rows:
        chosen = uid or place
        if chosen in used or (not uid and place in own):
            if uid:
                again.append(uid)
            while (chosen := str(number)) in reserved:
                number += 1
            number += 1
        used.add(chosen)
        result.append((chosen, row))
    note = f"another entry has it; renumbered: {_name_uids(again)}"
    for _ in again:
        counter.change(f"{path}uid", note=note)
    return result


def _name_uids(uids: list[str]) -> str:
    named = ", ".join(repr(uid[:40]) for uid in uids[:_MOST_NAMED_UIDS])
    return f"uid {named}{', …' if len(uids) > _MOST_NAMED_UIDS else ''}"
