"""Counts the fate of each field while an importer reads a file: kept, changed or not supported."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from mnemosyne.core.plain_values import REPLACEMENT
from mnemosyne.schema.imported_files import Fate, FieldFate

FOR_EXPORT = "kept for export"
"""Import note on fields that do not affect prompts."""
AT_INPUT = "the text stands right before the input"
"""Import note on a text that other programs put between the messages of the chat. Here the text is put before the input."""
HALF_CHARACTER = f"a character in it is not whole; now {REPLACEMENT}"
"""Import note on a text with half a character (a single UTF-16 surrogate), which was replaced."""
_MOST_FIELDS = 2_000
_MACROS = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_]{0,40})(?=[}:\s])")


class FieldCounter:
    """Counts the values of a file by field, fate and note, in the order of their first appearance.

    Empty values (None, an empty text, list or mapping) are not counted. In all methods `note` explains the fate to the
    user.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[str, Fate, str], int] = {}

    def keep(self, field: str, value: Any = True, note: str = "") -> None:
        """Count a value that is kept."""
        self.count(field, Fate.KEPT, value, note)

    def change(self, field: str, value: Any = True, note: str = "") -> None:
        """Count a value that is imported in another form than the file has; `note` describes the change."""
        self.count(field, Fate.CHANGED, value, note)

    def refuse(self, field: str, value: Any = True, note: str = "") -> None:
        """Count a value that is not used here; `note` gives the reason."""
        self.count(field, Fate.NOT_SUPPORTED, value, note)

    def count(self, field: str, fate: Fate, value: Any = True, note: str = "") -> None:
        """Count a value of a field with its fate, unless the value is empty. A value with a replaced character counts as
        changed.
        """
        if value is None or (isinstance(value, str | list | tuple | Mapping) and not value):
            return
        if fate is not Fate.NOT_SUPPORTED and _holds_replacement(value):
            fate, note = Fate.CHANGED, f"{note}; {HALF_CHARACTER}" if note else HALF_CHARACTER
        key = (field, fate, note)
        if len(self._counts) >= _MOST_FIELDS and key not in self._counts:
            # Names of fields are foreign text; a file may have as many as it likes.
            key = ("(other fields)", fate, "")
        self._counts[key] = self._counts.get(key, 0) + 1

    def keep_others(self, prefix: str, fields: Mapping[str, Any], known: Collection[str]) -> None:
        """Count the fields of a mapping whose names are not in `known`. They are kept for export; `prefix` is put before
        their names.
        """
        for name in fields:
            if name not in known:
                self.keep(f"{prefix}{name}", fields[name], "unknown; kept for export")

    def fates(self) -> tuple[FieldFate, ...]:
        """Return the counts so far, one `FieldFate` for each field, fate and note."""
        return tuple(
            FieldFate(field=field, fate=fate, count=count, note=note)
            for (field, fate, note), count in self._counts.items()
        )


def _holds_replacement(value: Any) -> bool:
    """Return whether a JSON value contains a character that was replaced."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str):
            if REPLACEMENT in each:
                return True
        elif isinstance(each, Mapping):
            stack.extend(each.values())
        elif isinstance(each, list | tuple):
            stack.extend(each)
    return False


def count_macros(texts: Iterable[str], field: str, counter: FieldCounter) -> None:
    """Count the macros (`{{NAME}}`) in `texts` as changed, because prompts show them unchanged. Macros that are filled in
    are not counted.
    """
    for text in texts:
        if "{{" not in text:
            continue
        for found in _MACROS.finditer(text):
            name = found[1].lower()
            if name not in ("char", "user", "bot", "newline", "noop", "trim", "comment"):
                counter.change(f"{field}: {{{{{name}}}}}", note="a macro; shown as it is written, never run")
