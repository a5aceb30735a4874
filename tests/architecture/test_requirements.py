"""Each requirement of `tests/requirements.toml` has tests that exist, a decision that exists, or a reason why it is missing."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIST = tomllib.loads((ROOT / "tests" / "requirements.toml").read_text(encoding="utf-8"))
DOCUMENTS: dict[str, Any] = LIST["documents"]
ROWS = [(name, row) for name in DOCUMENTS for row in LIST[name]]
KEYS = {"section", "states", "tests", "decision", "missing"}


@cache
def names_of(file: Path) -> frozenset[str]:
    """Return the tests of a file as pytest names them: `test_x`, `Class::test_x`, and `TestClass` that inherits its tests."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = {node.name for node in tree.body if isinstance(node, functions)}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{child.name}" for child in node.body if isinstance(child, functions)}
            found |= {node.name} if node.name.startswith("Test") and node.bases else set()
    return frozenset(name for name in found if name.rpartition("::")[2].startswith(("test_", "Test")))


def is_test(name: str) -> bool:
    file, _, test = name.partition("::")
    return (ROOT / file).is_file() and test in names_of(ROOT / file)


def show(name: str, row: dict[str, Any]) -> str:
    return f"{name} {row['section']}: {row['states']}"


def test_every_test_that_is_named_exists() -> None:
    assert [
        f"{show(name, row)}: {test}" for name, row in ROWS for test in row.get("tests", ()) if not is_test(test)
    ] == []


def test_every_decision_that_is_named_exists() -> None:
    kept = {file.name[:4] for file in (ROOT / "docs" / "decisions").glob("*.md")}
    assert [show(name, row) for name, row in ROWS if "decision" in row and row["decision"] not in kept] == []


def test_every_row_holds_or_says_why_not() -> None:
    for name, row in ROWS:
        assert set(row) <= KEYS, show(name, row)
        assert row["section"], show(name, row)
        assert row["states"].endswith("."), show(name, row)
        assert row.get("tests") or row.get("decision") or row.get("missing"), show(name, row)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_row_of_a_document_is_lost_or_twice_there(name: str) -> None:
    assert set(LIST) == {"documents", *DOCUMENTS}
    assert len(LIST[name]) == DOCUMENTS[name]["rows"]
    told = [(row["section"], row["states"]) for row in LIST[name]]
    assert len(set(told)) == len(told)


def test_a_missing_test_is_found() -> None:
    own = Path(__file__).relative_to(ROOT).as_posix()
    assert is_test(f"{own}::test_a_missing_test_is_found")
    assert not is_test(f"{own}::test_of_nothing")
    assert not is_test("tests/nowhere.py::test_a_missing_test_is_found")
    assert is_test("jacquard/testing/pruner.py::PrunerContract::test_must_blocks_never_dropped")
