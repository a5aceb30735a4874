"""Another project's files in a package of ours: an error that names them, before anything else of ours is imported."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jacquard.wiring.installation import PACKAGES

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder as pip would fill it, with the metadata of another project that owns `mnemosyne` too."""
    place = tmp_path_factory.mktemp("env") / "site-packages"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, place / package, ignore=shutil.ignore_patterns("__pycache__", "*.jsonl"))
    other = place / "mnemosyne-0.1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: mnemosyne\nVersion: 0.1.0\n", encoding="utf-8")
    (other / "top_level.txt").write_text("mnemosyne\n", encoding="utf-8")
    return place


def import_jacquard(place):
    run = [sys.executable, "-c", "import jacquard; jacquard.RuntimeConfig"]
    return subprocess.run(run, cwd=place, capture_output=True, text=True, env={"PYTHONPATH": str(place)})


def test_modules_and_folders_are_listed_completely():
    for package, (docstring, entries) in PACKAGES.items():
        found = {path.stem for path in (ROOT / package).iterdir() if path.is_dir() or path.suffix == ".py"}
        assert {name for name in found if name[0] not in "_."} == set(entries.split())
        assert (ROOT / package / "__init__.py").read_text(encoding="utf-8").startswith(f'"""{docstring}')


def test_what_runs_when_python_starts_knows_the_packages_too():
    # Read, not run: it would take this process for one in which all four were replaced.
    lines = (ROOT / "startup" / "jacquard_context_startup.py").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith("_BEGINNINGS = ")]
    beginnings = {package: docstring for package, (docstring, _) in PACKAGES.items()}
    assert ast.literal_eval(line.partition(" = ")[2]) == beginnings


def test_data_of_an_editable_installation_replaces_nothing(tmp_path):
    place = tmp_path / "site-packages"
    (place / "jacquard" / "_templates").mkdir(parents=True)
    shutil.copy(ROOT / "startup" / "jacquard_context_startup.py", place)
    code = "import sys, jacquard_context_startup as it; print(sorted(it._replaced), it._Notice in map(type, sys.meta_path))"
    run = [sys.executable, "-S", "-c", code]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(place)})
    assert done.stdout == "[] False\n"


def test_another_release_first_on_the_path_is_imported_without_a_word(tmp_path):
    place, other = tmp_path / "site-packages", tmp_path / "other"
    (place / "jacquard").mkdir(parents=True)
    (place / "jacquard" / "cli.py").touch()
    shutil.copy(ROOT / "startup" / "jacquard_context_startup.py", place)
    (other / "jacquard" / "wiring").mkdir(parents=True)
    (other / "jacquard" / "__init__.py").touch()
    (other / "jacquard" / "wiring" / "installation.py").touch()
    run = [sys.executable, "-S", "-c", "import jacquard_context_startup, jacquard; print(jacquard.__file__)"]
    path = f"{other}{os.pathsep}{place}"
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True, env={"PYTHONPATH": path})
    assert (done.stdout.strip(), done.stderr) == (str(other / "jacquard" / "__init__.py"), "")


def test_files_of_ours_alone_are_imported(installed):
    done = import_jacquard(installed)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_beside_ours_is_named_with_the_project_to_remove(installed):
    stray = installed / "mnemosyne" / "cli.py"
    stray.touch()
    done = import_jacquard(installed)
    stray.unlink()
    assert "cli.py in " in done.stderr
    assert "another project with the import name 'mnemosyne'" in done.stderr
    assert "pip uninstall mnemosyne; pip install --force-reinstall --no-deps . in a checkout of it." in done.stderr
