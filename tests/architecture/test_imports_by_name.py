"""Modules that are imported by a name in a string are held to the contracts of `.importlinter` as well."""

from __future__ import annotations

import ast
import configparser
import importlib.util
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("filament", "mnemosyne", "jacquard")


def strings_that_name_modules():
    """Yield (module, named module) for every string in the packages that is the name of one of our modules."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            source = file.read_text(encoding="utf-8")
            if "import_module" not in source:
                continue
            tree = ast.parse(source)
            if not any(isinstance(node, ast.Name) and node.id == "import_module" for node in ast.walk(tree)):
                continue
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    named = node.value
                    if named.split(".")[0] in PACKAGES and named.count(".") and _is_module(named):
                        yield module, named


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


NAMED = sorted(set(strings_that_name_modules()))


def layers() -> dict[str, dict[str, int]]:
    """Return by container the level of each of its modules, 0 at the bottom."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / ".importlinter", encoding="utf-8")
    found = {"": {name: -place for place, name in enumerate(("jacquard", "mnemosyne", "filament"))}}
    for section in config.sections():
        contract = config[section]
        if contract.get("type") != "layers" or "containers" not in contract:
            continue
        rows = [row.split("|") for row in contract["layers"].strip().splitlines()]
        levels = {name.strip(): -place for place, row in enumerate(rows) for name in row}
        found[contract["containers"].strip()] = levels
    return found


def test_there_are_such_strings():
    assert len(NAMED) > 10


@pytest.mark.parametrize(("module", "named"), NAMED, ids=lambda each: each)
def test_an_import_by_name_points_down(module, named):
    container, upper, lower = find_siblings(module, named)
    levels = layers().get(container)
    if levels is not None:
        assert levels[upper] >= levels[lower], f"{module} imports {named}: {upper} lies below {lower} in {container}"


def find_siblings(module: str, named: str) -> tuple[str, str, str]:
    """Return the folder in which both modules are, and the names under which each is there."""
    here, there = module.split("."), named.split(".")
    shared = 0
    while shared < min(len(here), len(there)) and here[shared] == there[shared]:
        shared += 1
    return ".".join(here[:shared]), here[shared], there[shared]


def test_imports_by_name_leave_every_folder_in_one_direction():
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    for module, named in NAMED:
        graph.add_import(importer=module.removesuffix(".__init__"), imported=named)
    folders = {container for container, _, _ in (find_siblings(*each) for each in NAMED) if container}
    assert {folder: found for folder in folders if (found := graph.nominate_cycle_breakers(folder))} == {}
