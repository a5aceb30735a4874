"""Fields of a YAML file, checked one by one; every fault is kept with file, line and field, so that all are reported at once."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from evals.errors import DatasetError
from evals.play.script.values import Pattern
from filament import PayloadError, load_yaml_marked

_MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class YamlFile:
    """One YAML file with the lines of its parts and the faults found so far."""

    path: Path
    value: Any
    lines: Mapping[tuple[str | int, ...], int]
    faults: list[tuple[int, str]] = field(default_factory=list)

    def close(self) -> None:
        """Raise DatasetError with all faults in the order of their lines, if there are any."""
        if self.faults:
            found = sorted(set(self.faults))
            shown = [f"{self.path}:{line}: {what}" for line, what in found[:_MOST_SHOWN]]
            more = len(found) - len(shown)
            raise DatasetError("\n".join((*shown, *([f"… and {more} more faults"] if more else []))))

    def root(self, keys: Collection[str]) -> Fields:
        """Return the fields of the file itself."""
        return Fields(file=self, at=(), label="", value=self.value).only(keys)


def open_yaml(path: Path) -> YamlFile:
    """Read a YAML file; DatasetError when it is none."""
    try:
        value, lines = load_yaml_marked(path.read_text(encoding="utf-8-sig"))
    except PayloadError as error:
        raise DatasetError(f"{path}:{error.line or 1}: {error}") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"{path}: is not UTF-8 at byte {error.start + 1}; save the file as UTF-8.") from error
    except OSError as error:
        raise DatasetError(f"{path}: cannot be read ({error.strerror or error}).") from error
    return YamlFile(path=path, value=value, lines=lines)


class Fields:
    """The fields of one mapping. A field that is missing or of another type gives its default, and a fault."""

    def __init__(self, *, file: YamlFile, at: tuple[str | int, ...], label: str, value: Any) -> None:
        self.file, self.at, self.label = file, at, label
        self._values: dict[str, Any] = value if isinstance(value, dict) else {}
        if not isinstance(value, dict):
            self.fail("", f"is {describe_type(value)}; write a mapping")

    def only(self, keys: Collection[str]) -> Fields:
        """Note every key that is not one of `keys`."""
        for key in self._values:
            if key not in keys:
                near = get_close_matches(key, [*keys], n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(keys)}"
                self.fail(key, f"is not a key here; {hint}")
        return self

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def names(self) -> tuple[str, ...]:
        """Return the keys in their order."""
        return tuple(self._values)

    def line_of(self, *keys: str | int) -> int:
        """Return the line of a part, or that of the nearest part around it."""
        path = (*self.at, *keys)
        while path not in self.file.lines and path:
            path = path[:-1]
        return self.file.lines.get(path, 1)

    def fail(self, key: str, what: str, *places: str | int) -> None:
        """Note a fault of a field (empty: of the mapping itself)."""
        label = ".".join(part for part in (self.label, key) if part)
        line = self.line_of(*([key] if key else []), *places)
        self.file.faults.append((line, f"{label}: {what}" if label else what))

    def text(self, key: str, default: str | None = None, *, may_be_empty: bool = False) -> str:
        """Return a text; without a `default` it must be there."""
        value = self._values.get(key)
        if value is None:
            if default is None:
                self.fail(key, "is missing; write a text")
            return default or ""
        if not isinstance(value, str):
            self.fail(key, f"is {describe_type(value)}; write a text, in quotes where it looks like something else")
            return default or ""
        if not value and not may_be_empty:
            self.fail(key, "is empty; write something or take the key away")
        return value

    def choice(self, key: str, words: Collection[str]) -> str | None:
        """Return one of some words, None if the key is absent."""
        if key not in self:
            return None
        value = self.text(key)
        if value not in words:
            self.fail(key, f"is {value!r}; write one of {', '.join(words)}")
            return None
        return value

    def number(self, key: str, default: int | None = None, *, least: int = 1, most: int | None = None) -> int:
        """Return a whole number in its bounds."""
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(key, "is missing" if value is None else f"is {describe_type(value)}; write a whole number")
            return default or least
        if value < least or (most is not None and value > most):
            bounds = f"from {least}" if most is None else f"from {least} to {most}"
            self.fail(key, f"is {value}; write a whole number {bounds}")
            return default or least
        return value

    def flag(self, key: str) -> bool:
        """Return true or false; absent is false."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, bool):
            self.fail(key, f"is {describe_type(value)}; write true or false")
        return value is True

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts; absent is empty."""
        value = self._values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list):
            self.fail(key, f"is {describe_type(value)}; write a list of texts")
            return ()
        for place, each in enumerate(value):
            if not isinstance(each, str) or not each:
                self.fail(key, f"has {describe_type(each)} at place {place + 1}; write texts in quotes", place)
        return tuple(each for each in value if isinstance(each, str) and each)

    def patterns(self, key: str) -> tuple[Pattern, ...]:
        """Return texts to look for; one between slashes is a regular expression."""
        found = []
        for place, text in enumerate(self.texts(key)):
            regex = None
            if len(text) > 2 and text.startswith("/") and text.endswith("/"):
                try:
                    regex = re.compile(text[1:-1])
                except re.error as error:
                    self.fail(key, f"{text!r} is not a regular expression ({error})", place)
                    continue
            found.append(Pattern(text=text, regex=regex))
        return tuple(found)

    def section(self, key: str, keys: Collection[str] | None = None) -> Fields:
        """Return the fields of a mapping below this one; absent is empty. `keys` None: any."""
        value = self._values.get(key)
        label = ".".join(part for part in (self.label, key) if part)
        made = Fields(file=self.file, at=(*self.at, key), label=label, value={} if value is None else value)
        return made if keys is None else made.only(keys)

    def is_null(self, key: str) -> bool:
        """Say whether a key is there without a value."""
        return key in self._values and self._values[key] is None

    def rows(self, key: str, name: str) -> list[Fields]:
        """Return the mappings of a list; faults in them are reported under `name` and their place, from 1."""
        value = self._values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.fail(key, f"is {describe_type(value)}; write a list")
            return []
        return [
            Fields(file=self.file, at=(*self.at, key, place), label=f"{name} {place + 1}", value=each)
            for place, each in enumerate(value)
        ]


def describe_type(value: Any) -> str:
    """Return what a value is, for a sentence."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
