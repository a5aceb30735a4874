"""The faults of a document, collected before anything is raised. It imports nothing of mnemosyne but errors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from mnemosyne.core.errors import SchemaValidationError

_WORD = re.compile(r"[\w-]+")


class Severity(StrEnum):
    """How serious a fault is: a document with an error is refused; a warning is reported and the document is accepted."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One fault: `path` in JSON names (`session.messages[2].role`), `what` is wrong and what to do, `code` for
    programs.

    Codes of the structure: `missing`, `kind`, `value`, `empty`, `plain`, `version`. Of the invariants: `duplicate`,
    `dangling`, `unlinked`, `cycle`, `range`, `sum`, `key`. Of values that are kept as written: `placeholder`, `alias`.
    """

    path: str
    what: str
    code: str
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        return f"{self.path}: {self.what}" if self.path else self.what


STRUCTURE = frozenset({"missing", "kind", "value", "empty", "plain", "version"})
"""Codes of the faults that a JSON Schema finds too (except `plain`: infinite numbers, text that UTF-8 cannot write)."""


def raise_errors(faults: Iterable[Fault]) -> None:
    """Raise SchemaValidationError with every fault that is an error, if there is any."""
    errors = tuple(str(fault) for fault in faults if fault.severity is Severity.ERROR)
    if errors:
        raise SchemaValidationError(errors)


def child(path: str, step: str | int) -> str:
    """Return the path of a child as people write it: `tasks[2].name`, or `evidences["a.b"]` for a key that is not a
    word.
    """
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _WORD.fullmatch(step) is None:
        return f"{path}[{json.dumps(step, ensure_ascii=True)}]"
    return f"{path}.{step}" if path else step
