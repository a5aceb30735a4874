"""Defines the findings of the lint. A finding names one fault, its place and its remedy. This module must not import a
rule of the lint.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any

from jacquard.templating.files import TemplateFile
from mnemosyne.values import dataclass


class FindingSeverity(StrEnum):
    """Severity of a finding.

    ERROR: the template fails, loses text or breaks the markup. WARNING: the template may fail or lose text, or it costs
    tokens.
    """

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One fault in a template. `line` and `column` count from 1."""

    code: str
    """Kind of the fault, for programs."""
    severity: FindingSeverity
    file: str
    line: int
    column: int
    source_line: str
    message: str
    """Sentence that states the fault."""
    advice: str
    """Sentence that states the remedy."""


_E, _W = FindingSeverity.ERROR, FindingSeverity.WARNING
_CODES: dict[str, tuple[FindingSeverity, str]] = {
    "syntax": (_E, "mend the line; the template cannot be read as it is"),
    "manifest": (_E, "mend template.yaml; docs/en/templates.md lists its keys"),
    "layout": (_E, "mend the layout; the shipped templates/layouts/*.yaml show its form"),
    "profile": (_E, "mend the profile; docs/en/profiles.md lists its keys"),
    "unknown-variable": (_E, "use a variable that Stream A gives, or `{% set %}` it before"),
    "unknown-attribute": (_E, "use a field that is there"),
    "unknown-state": (_W, "put the field into the pack's state, or ask with `is defined` or `| default('')` first"),
    "maybe-missing": (_W, "ask with `is defined` or `| default('')` first: a missing field stops the rendering"),
    "unknown-filter": (_E, "use a filter that the sandbox offers"),
    "unknown-test": (_E, "use a test that the sandbox offers"),
    "needs-filter": (_E, "print it with `| yaml`, or print one of its values"),
    "unsafe-attribute": (_E, "remove it; a template reads the fields of its values and nothing behind them"),
    "unsafe-call": (_E, "remove the call; only a few harmless methods of texts, lists and mappings are offered"),
    "outside-import": (_E, "name a file below the template folders, such as chat/guidance.j2"),
    "dynamic-name": (_W, "write the file's name as a plain text, so that it can be checked"),
    "circular-extends": (_E, "break the circle of extends and includes"),
    "lost-block": (_E, "name a block that the parent has, or it is never printed"),
    "lost-text": (
        _E,
        "put the text into a block: what stands outside of blocks is not printed by a template that extends",
    ),
    "escape-bypass": (_E, "remove it; `| text`, `| yaml` and `| attr` print every value safely"),
    "attribute-escape": (_E, "print values inside quoted attributes with `| attr`"),
    "tag-expression": (_E, "print values between tags or inside quoted attributes, nowhere else in a tag"),
    "tab": (_E, "indent with two blanks"),
    "tab-in-code": (_W, "indent with blanks"),
    "unclosed-tag": (_E, "close the tag, or write `&lt;` for a sign that is no tag"),
    "misnested-tag": (_E, "close tags in the reverse order of opening"),
    "stray-close": (_E, "open the tag before, or remove its end"),
    "unbalanced-branch": (_W, "open and close a tag in the same branch"),
    "bare-markup": (_W, "write `&lt;` for `<` and `&amp;` for `&` where no tag or entity is meant"),
    "unbounded-list": (_W, "loop over a slice (`[:10]` the first, `[-10:]` the last): the list grows during play"),
    "volatile-prefix": (_W, "move what changes into a block whose slot stands after the history"),
    "unused-file": (_W, "name it in template.yaml, or extend or include it, or delete it"),
}
CODES = {code: severity for code, (severity, _) in _CODES.items()}
"""Severity of each code."""


def finding(
    code: str, file: TemplateFile, line: int | None, message: str, *, column: int | None = None, advice: str = ""
) -> Finding:
    """Return a finding in `file`.

    `line` None means the first line, and `column` None means the first character of the line. If `advice` is '', the
    finding has the usual advice of its `code`.
    """
    severity, usual = _CODES[code]
    number = line or 1
    text = file.line(number)
    indent = len(text) - len(text.lstrip()) + 1
    return Finding(
        code=code,
        severity=severity,
        file=show_path(file.shown),
        line=number,
        column=column or indent,
        source_line=text,
        message=message,
        advice=advice or usual,
    )


def sort_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings sorted by file, line and column. Equal findings are returned once."""
    unique = dict.fromkeys(findings)
    return tuple(sorted(unique, key=lambda each: (each.file, each.line, each.column, each.code, each.message)))


def format_finding(each: Finding) -> str:
    """Return a finding as text for a person: place, fault, the line with a mark below the fault, and the remedy."""
    lead = f"{each.file}:{each.line}:{each.column}: {each.severity.value} [{each.code}] {each.message}"
    source = each.source_line.rstrip().replace("\t", "→")
    if not source:
        return f"{lead}\n      {each.advice}"
    before = source[: each.column - 1]
    mark = "".join("\u3000" if _is_wide(sign) else " " for sign in before) + "^"
    return f"{lead}\n    | {source}\n    | {mark} {each.advice}"


def finding_to_json(each: Finding) -> dict[str, Any]:
    """Return a finding in the form that the option `--json` prints."""
    return {
        "code": each.code,
        "severity": each.severity.value,
        "file": each.file,
        "line": each.line,
        "column": each.column,
        "source_line": each.source_line,
        "message": each.message,
        "advice": each.advice,
    }


def show_path(path: str) -> str:
    """Return a path relative to the current folder if it is in this folder; any other path is returned unchanged."""
    try:
        return Path(path).resolve().relative_to(Path(os.curdir).resolve()).as_posix()
    except ValueError:
        return path


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return the end of an error message: `; did you mean 'x'?` if a known name is similar to `name`, else a list of
    the known names. Return '' if there are no known names.
    """
    names: Sequence[str] = sorted(set(known))
    close = get_close_matches(name, names, n=1, cutoff=0.7)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are: {', '.join(names[:24])}" if names else ""


def _is_wide(sign: str) -> bool:
    return unicodedata.east_asian_width(sign) in ("W", "F")
