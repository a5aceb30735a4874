"""Places in a pack, and the list that collects all faults before anything is raised."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from mnemosyne.core.errors import WorldPackError
from mnemosyne.core.plain_values import Path as KeyPath

MAX_FAULTS = 200
_MOST_COMPARED = 2_000
"""So many words are compared with a misspelt one, which takes some ten milliseconds."""
NO_LINES: Mapping[KeyPath, int] = {(): 0}


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLocation:
    """A key of one file: `file` relative to the pack, `path` from the file's root, `prefix` the name of that root.

    `lines` maps key paths to 1-based lines; a path that is not in it has the line of its nearest parent. `NO_LINES`: there is no
    such file, or it is a folder. `names` are shown in place of keys, by the path of a key without numbers (`lore.id`).
    """

    file: str
    path: KeyPath = ()
    prefix: str = ""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def at(self, *steps: str | int) -> SourceLocation:
        """Return the place of a child at these steps."""
        return replace(self, path=(*self.path, *steps))

    @property
    def line(self) -> int:
        """The 1-based line of the key, or of its nearest parent that has one; 0 if there are no lines."""
        for length in range(len(self.path), -1, -1):
            if (line := self.lines.get(self.path[:length])) is not None:
                return line
        return 1

    @property
    def key(self) -> str:
        """The key as people write it: `lore[3].category`, `state.hero.health`."""
        text, keys = self.prefix, ""
        for step in self.path:
            if isinstance(step, int):
                text += f"[{step}]"
                continue
            keys = f"{keys}.{step}" if keys else step
            name = self.names.get(keys, step)
            text += f".{name}" if text else name
        return text

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(kw_only=True, slots=True)
class FaultList:
    """All faults or doubts found so far, each once; `close` raises if there are any. `most`: `add` raises at so many (0: never)."""

    most: int = 0
    _found: dict[tuple[str, int, str, str], None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, place: SourceLocation, what: str) -> None:
        """Add a fault at `place`; `what` says what is wrong and, after a semicolon, what to do. WorldPackError at `most` faults."""
        self._found[place.file, place.line, place.key, what] = None
        if len(self._found) == self.most:
            raise WorldPackError((*self.sentences(), "… and perhaps more; correct these first"))

    def close(self) -> None:
        """Raise WorldPackError with all faults, by file and line, if there is any."""
        if self._found:
            raise WorldPackError(self.sentences())

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each, by file and line, `world.yaml` first."""
        ordered = sorted(self._found, key=lambda each: (each[0] != "world.yaml", each[0], each[1]))
        said = [
            ": ".join(part for part in (f"{file}:{line}" if line else file, key, what) if part)
            for file, line, key, what in ordered
        ]
        if len(said) > MAX_FAULTS:
            said[MAX_FAULTS:] = [f"… and {len(said) - MAX_FAULTS} more faults; correct these first"]
        return tuple(said)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the known word most similar to `word`, or an empty text."""
    choices = list(islice(known, _MOST_COMPARED))
    near = difflib.get_close_matches(word, choices, n=1)
    if not near:
        near = difflib.get_close_matches(word.casefold(), choices, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def kind_name(value: object) -> str:
    """Return the kind of a YAML value in words (`a list`, `text`)."""
    names: dict[type, str] = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "a mapping",
    }
    return "empty" if value is None else names.get(type(value), f"a {type(value).__name__}")
