"""What the page on installation says: torch is announced where it is drawn in, and is drawn in by nothing else."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PAGE = ROOT / "docs" / "en" / "install.md"
OURS = "jacquard-context"


def drawn_in(requirements):
    """Return the names of all packages that these requirements bring, as far as they are installed here."""
    found, waiting = set(), [Requirement(each) for each in requirements]
    while waiting:
        wanted = waiting.pop()
        key = (canonicalize_name(wanted.name), tuple(sorted(wanted.extras)))
        if key in found:
            continue
        found.add(key)
        if wanted.name == OURS:
            needed = [*PROJECT["dependencies"], *(each for extra in wanted.extras for each in EXTRAS[extra])]
        else:
            try:
                needed = requires(wanted.name) or []
            except PackageNotFoundError:
                continue
        environments = [{"extra": extra} for extra in (*wanted.extras, "")]
        waiting += [
            each
            for each in map(Requirement, needed)
            if each.marker is None or any(each.marker.evaluate(environment) for environment in environments)
        ]
    return {name for name, _ in found}


def test_the_page_warns_of_torch_where_the_command_stands():
    install = PAGE.read_text(encoding="utf-8")
    for words in ('pip install ".[local]"', "CUDA", "GB", "+cpu", 'pip install ".[local,embed]"'):
        assert words in install


@pytest.mark.parametrize(("extras", "with_torch"), [("local,embed", True), ("local", False)])
def test_torch_comes_with_embed_and_not_with_local(extras, with_torch):
    assert f'pip install ".[{extras}]"' in PAGE.read_text(encoding="utf-8")
    packages = drawn_in([f"{OURS}[{extras}]"])
    assert {"litellm", "onnxruntime"} <= packages
    assert ("torch" in packages) == with_torch


def test_what_only_large_memories_need_is_asked_for_by_name():
    assert drawn_in([f"{OURS}[local,serve,mcp,evals]"]).isdisjoint(("lancedb", "pyarrow"))
    assert {"lancedb", "pyarrow"} <= drawn_in([f"{OURS}[lance]"])


def test_no_address_of_a_package_host_stands_in_the_docs():
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"--(extra-)?index-url|download\.pytorch", text), page
