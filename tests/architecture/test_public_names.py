"""The public names of each package: complete, documented, and the only way in for docs, examples and evals."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("filament", "mnemosyne", "jacquard")
CONTRACTS = ("jacquard.client", "jacquard.integrations", "jacquard.sync", "jacquard.testing", "mnemosyne.testing")
"""What needs another package has a module of its own: the client httpx, contract suites pytest, adapters their frameworks."""
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def public(package: str) -> set[str]:
    return set(importlib.import_module(package).__all__)


def imports_of(source: str):
    """Yield (module, name) of every `from … import …` of our packages."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in PACKAGES:
            for alias in node.names:
                yield node.module, alias.name


@functools.cache
def imported_by_stubs() -> dict[tuple[str, str], str]:
    """Return the package whose stub imports a name, by the module that defines it and the name."""
    found = {}
    for package in ("mnemosyne", "jacquard"):
        tree = ast.parse((ROOT / package / "__init__.pyi").read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom):
                found |= {(f"{package}.{node.module}", alias.name): package for alias in node.names}
    return found


def origins() -> dict[tuple[str, str], str]:
    """Return the package that exports a public name, by the module that defines it and the name."""
    return {each: package for each, package in imported_by_stubs().items() if each[1] in public(package)}


@pytest.mark.parametrize("package", PACKAGES)
def test_public_names_are_there_once(package):
    module = importlib.import_module(package)
    assert len(module.__all__) == len(set(module.__all__))  # ruff sees to their order
    assert all(hasattr(module, name) for name in module.__all__)


@pytest.mark.parametrize("package", ["mnemosyne", "jacquard"])
def test_an_internal_name_of_the_package_warns_and_names_its_module(package):
    public_names = public(package)
    internal = {name: module for (module, name), owner in imported_by_stubs().items() if owner == package}
    assert public_names <= internal.keys()
    for name in sorted(internal.keys() - public_names)[:20]:
        with pytest.warns(DeprecationWarning, match=f"{package}.{name} is internal and leaves the package in 0.2"):
            getattr(importlib.import_module(package), name)


@pytest.mark.parametrize("package", PACKAGES)
def test_public_classes_and_functions_are_documented(package):
    module = importlib.import_module(package)
    named = {name: getattr(module, name) for name in module.__all__}
    bare = [
        name
        for name, value in named.items()
        if (inspect.isclass(value) or inspect.isfunction(value)) and not (value.__doc__ or "").strip()
    ]
    assert bare == []


def test_a_name_belongs_to_one_package():
    assert public("jacquard") & public("mnemosyne") == set()


@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda page: page.name
)
def test_docs_import_public_names_alone(page):
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        deep = [each for each in imports_of(block) if each[0] not in PACKAGES and not each[0].startswith(CONTRACTS)]
        assert deep == []


FILES = [
    path for folder in ("tests", "evals", "benchmarks", "examples") for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_public_name_is_imported_from_its_package(file):
    """A test of a part may import that part; what is public is imported as users import it."""
    exported = origins()
    found = [each for each in imports_of(file.read_text(encoding="utf-8")) if each in exported]
    assert found == []
