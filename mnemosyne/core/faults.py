"""Collects the faults of a file or value tree, each with its file, line and key, so that all are reported at once."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from enum import StrEnum
from itertools import islice
from math import inf
from typing import Any

from mnemosyne.core.plain_values import Path as KeyPath
from mnemosyne.values import dataclass

NO_LINES: Mapping[KeyPath, int] = {(): 0}
_MOST_COMPARED = 2_000
"""Maximum number of words that are compared with a misspelt word. This many comparisons take some ten milliseconds."""
_WORD = re.compile(r"[\w-]+")
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "empty",
}


class Severity(StrEnum):
    """Weight of a fault. A tree with an error is refused. A warning is reported, and the tree is accepted."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceLocation:
    """Place of one key in a file, for the message of a fault.

    - `file`: the file's name for people.
    - `path`: the keys from the root of the file.
    - `prefix`: the name of the root, before the first key.
    - `lines`: the 1-based line of each key path. A path that is missing here has the line of its nearest parent.
      `NO_LINES` means that there are no lines, because the file is missing or is a folder.
    - `names`: names for people that replace keys. A key is looked up by its path without list numbers (`lore.id`).
    """

    file: str = ""
    path: KeyPath = ()
    prefix: str = ""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def at(self, *steps: str | int) -> SourceLocation:
        """Return the location of the child that these steps (keys or list numbers) lead to."""
        return replace(self, path=(*self.path, *steps))

    @property
    def line(self) -> int:
        """The 1-based line of the key, or of its nearest parent that has a line. 0 if the place has no lines."""
        for length in range(len(self.path), -1, -1):
            if (line := self.lines.get(self.path[:length])) is not None:
                return line
        return 1 if self.file else 0

    @property
    def key(self) -> str:
        """The key in the form for people: `lore[3].category`, `state.hero.health`."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One fault. `what` states what is wrong and what to do; `path` is the key (`session.messages[2].role`).

    `code` is for programs. The structure of a tree has the codes `missing`, `unknown`, `kind`, `value`, `empty` and
    `plain`; some kinds of files have more. `line` is 1-based. If the tree was not read from a file, `file` is '' and
    `line` is 0.
    """

    path: str
    what: str
    code: str = "value"
    severity: Severity = Severity.ERROR
    file: str = ""
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return ": ".join(part for part in (where, self.path, self.what) if part)


@dataclass(kw_only=True, slots=True)
class FaultList:
    """All faults found so far, in the order of reading, without repetitions. Faults after the first `most` are only
    counted.
    """

    most: float = inf
    _found: dict[Fault, None] = field(default_factory=dict)
    _unnamed: int = 0

    def __len__(self) -> int:
        return len(self._found)

    @property
    def is_full(self) -> bool:
        """Whether `most` faults are listed, so that further faults are only counted and need no sentence."""
        return len(self._found) >= self.most

    @property
    def found(self) -> tuple[Fault, ...]:
        """The listed faults, without those that were only counted."""
        return tuple(self._found)

    def add(
        self, place: SourceLocation, what: str, *, code: str = "value", severity: Severity = Severity.ERROR
    ) -> None:
        """Add a fault at `place`. `what` states what is wrong and, after a semicolon, what to do."""
        if self.is_full:
            self._unnamed += 1
            return
        fault = Fault(path=place.key, what=what, code=code, severity=severity, file=place.file, line=place.line)
        self._found[fault] = None

    def sentences(self) -> tuple[str, ...]:
        """Return one sentence for each listed fault, by file and line, and one last sentence if further faults were
        counted.
        """
        ordered = sorted(self._found, key=lambda fault: (fault.file, fault.line))
        more = (f"and {self._unnamed} more faults",) if self._unnamed else ()
        return (*map(str, ordered), *more)


def child(path: str, step: str | int) -> str:
    """Return the path of a child in a document: `tasks[2].name`. A key that is not a word is quoted: `evidences["a.b"]`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _WORD.fullmatch(step) is None:
        return f"{path}[{json.dumps(step, ensure_ascii=True)}]"
    return f"{path}.{step}" if path else step


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, with the word in `known` most similar to `word`. Return '' if no word is similar."""
    choices = list(islice(known, _MOST_COMPARED))
    near = difflib.get_close_matches(word, choices, n=1) or difflib.get_close_matches(word.casefold(), choices, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def kind_name(value: object) -> str:
    """Return the kind of a value in words (`a list`, `text`)."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


class Wording:
    """Sentences of the faults that every shape (expected structure of a tree) can have.

    A kind of file that needs other sentences overrides the methods in a subclass.
    """

    def wrong_kind(self, value: Any, wanted: str) -> str:
        """Return the sentence for a value that is not of the kind `wanted` (`a list`)."""
        hint = "; change it"
        if wanted == "text" and isinstance(value, bool | int | float):
            hint = "; write it in quotes"
        elif wanted == "text" and value is not None and not isinstance(value, list | dict):
            hint = "; write it in quotes, because YAML reads it as something else"
        elif wanted == "a list" and isinstance(value, str):
            hint = "; write [ ] around it"
        elif value is None:
            hint = "; fill it in or remove the key"
        return f"is {kind_name(value)}, but must be {wanted}{hint}"

    def hidden(self, wanted: str) -> str:
        """Return the sentence for a credential that is not of the kind `wanted`. The sentence does not show the credential."""
        return f"must be {wanted}; put it in quotes"

    def outside(self, value: float, low: float | None, high: float | None) -> str:
        """Return the sentence for a number below `low` or above `high`."""
        return f"is {value}; it must be {f'{low:g} or more' if high is None else f'between {low:g} and {high:g}'}"

    def no_choice(self, value: str, words: tuple[str, ...]) -> str:
        """Return the sentence for a text that is not one of `words`."""
        near = did_you_mean(value, words) or "; choose one of these"
        return f"is {value[:80]!r}, but must be one of {', '.join(words)}{near}"

    def missing(self, name: str, doc: str, unknown: tuple[str, ...]) -> str:
        """Return the sentence for a missing required key. `unknown` are the keys at this place that have no meaning."""
        return f"is missing; write it. {doc}".rstrip()

    def unknown(self, key: str, path: KeyPath, label: str, known: tuple[str, ...], unwritten: tuple[str, ...]) -> str:
        """Return the sentence for a key that `label` does not have.

        `known` are all keys that `label` can have; `unwritten` are the keys in `known` that are missing at this place.
        """
        near = did_you_mean(key, unwritten) or f"; known keys: {', '.join(known)}"
        return f"is not a key of {label}{near}"

    def unknown_of(self, key: str, known: tuple[str, ...]) -> str:
        """Return the sentence for a key of a mapping that may contain only the `known` keys."""
        return f"is not a key of this mapping{did_you_mean(key, known) or '; known keys: ' + ', '.join(known)}"

    def empty(self) -> str:
        """Return the sentence for an empty text."""
        return "is empty; write something or remove it"

    def too_few(self, count: int, least: int) -> str:
        """Return the sentence for a list of fewer than `least` items."""
        return f"has {count} items; write at least {least}"
