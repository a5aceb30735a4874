"""Tests use public names and parts of their own: nothing of ours is patched, and nothing private is looked at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
OURS = ("filament", "mnemosyne", "jacquard", "evals", "benchmarks")
FILES = sorted(TESTS.rglob("*.py"))
PATCHABLE = frozenset({"os", "socket", "socket.socket", "sys", "tempfile"})
"""Modules of the standard library by which a test keeps the network away, fills the disk or chooses a folder."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def own_names(tree: ast.AST) -> frozenset[str]:
    """Return every name that a file itself gives to something: its private ones may be used in it."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
            names.add(node.attr)
    return frozenset(names)


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def root_of(node: ast.expr) -> str:
    """Return the name at which a dotted expression begins, empty where it begins with something else."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def faults(source: str) -> Iterator[str]:
    """Yield what a test file does that it should not, each with its line."""
    tree = ast.parse(source)
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            if parts[0] in OURS:
                yield from (f"{node.lineno}: imports {name}" for name in parts if is_private(name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if not (is_self(node.value) or is_super(node.value) or node.attr in own):
                yield f"{node.lineno}: uses .{node.attr}"
        elif isinstance(node, ast.Call):
            yield from (f"{node.lineno}: {fault}" for fault in faults_of_call(node))


def faults_of_call(call: ast.Call) -> Iterator[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("patch", "patch_object") or (name == "object" and root_of(call.func) in ("mock", "patch", "mocker")):
        yield "patches by mock"
    if name in ("setattr", "delattr") and isinstance(call.func, ast.Attribute) and call.args:
        target = call.args[0]
        if ast.unparse(target) not in PATCHABLE:
            yield f"patches {ast.unparse(target)}"
    if name in ("getattr", "setattr") and len(call.args) > 1:
        named = call.args[1].value if isinstance(call.args[1], ast.Constant) else None
        if isinstance(named, str) and is_private(named):
            yield f"uses {named} by its name"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(TESTS).as_posix())
def test_nothing_of_ours_is_patched_and_nothing_private_is_used(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("from jacquard.turns.compose import _Waiting", "1: imports _Waiting"),
        ("from mnemosyne._x import y", "1: imports _x"),
        ("engine._parts.events", "1: uses ._parts"),
        ("monkeypatch.setattr(LanceIndex, 'absorb', slow)", "1: patches LanceIndex"),
        (
            "monkeypatch.setattr('jacquard.turns.compose.load_layout', f)",
            "1: patches 'jacquard.turns.compose.load_layout'",
        ),
        ("monkeypatch.setattr(runtime.store, 'turn', f)", "1: patches runtime.store"),
        ("mock.patch('jacquard.x')", "1: patches by mock"),
        ("getattr(engine, '_parts')", "1: uses _parts by its name"),
        ("monkeypatch.setattr(os, 'fsync', f)", None),
        ("class A:\n def __init__(self):\n  self._x = 1\ndef f(a):\n return a._x", None),
        ("value.__class__", None),
    ],
)
def test_the_check_finds_what_it_is_for(source: str, fault: str | None) -> None:
    assert list(faults(source)) == ([] if fault is None else [fault])
