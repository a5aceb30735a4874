"""Docstrings, comments and docs keep to plain words: phrases that readers stumbled over do not come back. The list grows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("benchmarks", "docs", "evals", "jacquard")
BANNED = re.compile(
    r"rooms? exists?|\bthis room\b|\bone room\b|\brooms? of\b|\bbrothers\b|turn's back|\bthe house\b|\bthe road of\b"
    r"|behind a committed turn|\bby one door\b|\bthe same sooner\b|\bis let be\b|\bso many of the newest\b"
    r"|\bmood of the moment\b|\bat its orders\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_banned_phrase(folder: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in sorted((ROOT / folder).rglob("*"))
        if file.suffix in {".py", ".md"}
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := BANNED.search(line)) is not None
    ]
    assert found == []


# Of the two lower packages: figures of speech, words of another century, and forms that are not English.
BANNED_BELOW = re.compile(
    r"\banew\b|\b(?:is|are|was|were|be|been) told\b|\btold (?:by|of|whole|along)\b|\btells? of\b|\blet be\b|\bcome what may\b"
    r"|\bnobody asks\b|\basks? anything of\b|\ban evidence\b(?! (?:item|block))|\bevidences (?:that|whose|which)\b"
    r"|\bstands? (?:there|anywhere|nowhere|twice|in|at|on|beside)\b|\bgo(?:es)? whole\b|\bone a (?:turn|branch|line|text)\b"
    r"|\b(?:be|is|was) had\b|\bto mend\b|\bsecond look\b|\btwice is fine\b|\bwork in hand\b|\bthe talk\b|\bthis talk\b"
    r"|\bwhat became of\b|\bfor the caller's eyes\b|\blies (?:in|at|on|below|beside)\b|\bas ever\b|\bgone on with\b",
    re.IGNORECASE,
)
LOWER = ("filament", "mnemosyne")
PACKAGES = (*LOWER, "jacquard")
NOT_PROSE = ("mnemosyne/testing/redactor_samples.py", "mnemosyne/retrieval/text/words.py")


@pytest.mark.parametrize("package", LOWER)
def test_no_banned_phrase_in_the_lower_packages(package: str) -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in sorted((ROOT / package).rglob("*.py"))
        if file.relative_to(ROOT).as_posix() not in NOT_PROSE
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        for match in (BANNED.search(line), BANNED_BELOW.search(line))
        if match is not None
    ]
    assert found == []


# Of the documentation: the same, except where a page has its reasons (a tag of a reply, `--anew`, a quotation of a model).
BANNED_IN_DOCS = re.compile(
    r"(?<!--)\banew\b|\b(?:is|are|was|were|be|been) told\b|\btold (?:by|of|whole|along)\b|\bnobody asks\b|\ban evidence\b"
    r"|\bstands? (?:there|anywhere|nowhere|twice|in|at|on|beside)\b|\bgo(?:es)? whole\b|\b(?:can|be|is|was) had\b|\bto mend\b"
    r"|\bsecond look\b|\bwork in hand\b|\b(?:the|this) talk\b|\bwhat became of\b|\blies (?:in|at|on|below|beside)\b|\bas ever\b"
    r"|\bgo(?:es|ne)? on (?:with|without|behind)\b|\bcomes? of (?:it|that)\b|\bthe papers\b|\btapes?\b(?!`)|\bwhoever asks\b",
    re.IGNORECASE,
)


def test_no_banned_phrase_in_the_docs() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}: {match[0]}"
        for file in [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
        for number, line in enumerate(file.read_text(encoding="utf-8").replace("0021-tape", "").splitlines(), 1)
        if (match := BANNED_IN_DOCS.search(line)) is not None
    ]
    assert found == []


@pytest.mark.parametrize("package", PACKAGES)
def test_public_functions_name_the_errors_that_they_raise(package: str) -> None:
    """In their own docstring or in that of their class. The docstrings of commands are the texts of `--help`, for users."""
    found = [
        f"{file.relative_to(ROOT)}:{function.lineno}: {function.name} does not name {error}"
        for file in sorted((ROOT / package).rglob("*.py"))
        if "testing" not in file.parts and "commands" not in file.parts
        for function, above in _public_functions(ast.parse(file.read_text(encoding="utf-8")), "")
        for error in sorted(_raised(function))
        if error not in f"{ast.get_docstring(function) or ''} {above}"
    ]
    assert found == []


def _public_functions(
    node: ast.Module | ast.ClassDef, above: str
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from _public_functions(child, ast.get_docstring(child) or "")
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and (
            not child.name.startswith("_") or child.name in ("__init__", "__post_init__")
        ):
            yield child, above


def _raised(node: ast.AST) -> set[str]:
    """Return the names of the classes that a function raises itself, without its inner functions."""
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(child, ast.Raise) and child.exc is not None:
            raised = child.exc.func if isinstance(child.exc, ast.Call) else child.exc
            name = raised.id if isinstance(raised, ast.Name) else getattr(raised, "attr", "")
            names |= {name} if name[:1].isupper() else set()
        names |= _raised(child)
    return names


ELSEWHERE = re.compile(r"\bseed 00\d|\bspec (?:[A-Z]\d|\d\.\d)|\borigin \d+\.\d|\blab \d", re.IGNORECASE)
"""References to documents that are not in the repository; `docs/design.md` has the rules that the code keeps."""
NOT_YET = ("mnemosyne/stores/", "jacquard/pipeline/")


def test_no_reference_leads_out_of_the_repository() -> None:
    folders = (*PACKAGES, "benchmarks", "docs", "evals", "templates")
    found = [
        f"{name}:{number}: {match[0]}"
        for file in sorted(file for folder in folders for file in (ROOT / folder).rglob("*"))
        if file.suffix in {".py", ".md", ".yaml"}
        and not (name := file.relative_to(ROOT).as_posix()).startswith(NOT_YET)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if (match := ELSEWHERE.search(line)) is not None
    ]
    assert found == []
