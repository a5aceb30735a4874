"""Errors of filament. This module imports nothing.

FilamentError
├── MarkupError     a name that no element or attribute may have, a misplaced node, text that is not filament markup
├── PayloadError    a value that YAML cannot carry, or a YAML text that cannot be read
├── AnchorError     an anchor occurs at more than one place of a state tree
├── OpError         an op is malformed or was refused
└── ReplyError      in strict mode: a reply needed repair or is odd in form

Without strict mode a model's reply raises none of them: the reply is repaired, and every repair is listed as a
correction.
"""

from __future__ import annotations

from collections.abc import Mapping


class FilamentError(Exception):
    """Root of everything that filament raises on purpose."""


class MarkupError(FilamentError):
    """A name, a node or a text does not fit the markup."""


class PayloadError(FilamentError):
    """A YAML body cannot be written or read; `line` is 1-based, None when a value (not a text) is at fault."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.reason, self.line = reason, line
        super().__init__(reason if line is None else f"line {line}: {reason}")


class AnchorError(FilamentError):
    """Anchors are not unique; `duplicates` maps each one to the JSON Pointers of all its places, in reading order."""

    def __init__(self, duplicates: Mapping[str, tuple[str, ...]]) -> None:
        self.duplicates = dict(duplicates)
        listed = "; ".join(f"{anchor!r} at {' and '.join(places)}" for anchor, places in self.duplicates.items())
        super().__init__(f"An `id` or `_anchor` must be unique in the state: {listed}. Rename all but one of each.")


class OpError(FilamentError):
    """An op was refused; `index` is its place in the list (0-based), `op` its text, `reason` what to do about it.

    `code` is one of `state.verdicts.Refusal`.
    """

    def __init__(self, index: int, op: str, reason: str, code: str = "malformed") -> None:
        self.index, self.op, self.reason, self.code = index, op, reason, code
        super().__init__(f"op {index} ({op}): {reason}")


class ReplyError(FilamentError):
    """A reply needed repair or is odd in form; `faults` are the sentences of its log, in the order of the text."""

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"The reply is not as it should be: {faults[0]}{more}")
