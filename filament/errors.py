"""Defines the errors that filament raises. This module imports nothing from the package.

FilamentError
├── MarkupError     an illegal name of an element or attribute, a misplaced node, or text that is not filament markup
├── PayloadError    a value that YAML cannot carry, or a YAML text that cannot be read
├── AnchorError     an anchor (an `id` or `_anchor`) that occurs at more than one place of a state tree
├── OpError         an op (a change that a model asks for) that is malformed or was refused
└── ReplyError      a reply that needed repair or is odd in form; raised only in strict mode

Without strict mode, reading a model's reply raises none of these errors. The reply is repaired, and each repair is
listed as a correction.
"""

from __future__ import annotations

from collections.abc import Mapping


class FilamentError(Exception):
    """Base class of every error that filament raises on purpose."""


class MarkupError(FilamentError):
    """Raised if a name, a node or a text does not fit the markup."""


class PayloadError(FilamentError):
    """Raised if a YAML body cannot be written or read.

    `line` is the 1-based line of the YAML text. It is None if a value could not be written, because there is no text then.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.reason, self.line = reason, line
        super().__init__(reason if line is None else f"line {line}: {reason}")


class AnchorError(FilamentError):
    """Raised if anchors are not unique.

    `duplicates` maps each anchor that occurs more than once to the JSON Pointers of all its places, in reading order.
    """

    def __init__(self, duplicates: Mapping[str, tuple[str, ...]]) -> None:
        self.duplicates = dict(duplicates)
        listed = "; ".join(f"{anchor!r} at {' and '.join(places)}" for anchor, places in self.duplicates.items())
        super().__init__(f"An `id` or `_anchor` must be unique in the state: {listed}. Rename all but one of each.")


class OpError(FilamentError):
    """Raised if an op is malformed or refused.

    `index` is the 0-based place of the op in the list, `op` is its text, and `reason` states what to do. `code` is a
    value of `state.verdicts.Refusal`.
    """

    def __init__(self, index: int, op: str, reason: str, code: str = "malformed") -> None:
        self.index, self.op, self.reason, self.code = index, op, reason, code
        super().__init__(f"op {index} ({op}): {reason}")


class ReplyError(FilamentError):
    """Raised in strict mode for a reply that needed repair or is odd in form.

    `faults` are the sentences of the reply's log, in the order of the text.
    """

    def __init__(self, faults: tuple[str, ...]) -> None:
        self.faults = faults
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        super().__init__(f"The reply is not as it should be: {faults[0]}{more}")
