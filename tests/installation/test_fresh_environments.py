"""What a user meets in a fresh environment, without extras and with them: public names, and the blocks of the docs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import import_module

import pytest
from environments import ROOT, make_environment

from benchmarks.installation import list_files

PAGES = [*sorted(ROOT.glob("[A-Z]*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_NEEDS_EXTRA = re.compile(r"^\s*(?:from|import) (?:jacquard\.client|(?:jacquard|mnemosyne)\.testing)", re.MULTILINE)

WALK = """
import json, pydoc
import jacquard, mnemosyne, filament
from filament import *
from mnemosyne import *
from jacquard import *

told = {}
for package in (filament, mnemosyne, jacquard):
    pydoc.render_doc(package)
    for name in {*package.__all__, *dir(package)}:
        getattr(package, name)
    told[package.__name__] = sorted(package.__all__)
print(json.dumps(told))
"""

EXPLAIN = """
import importlib, json, sys
told = {}
for package, names in json.load(sys.stdin).items():
    for name in names:
        try:
            exec(f"from {package} import {name}")
        except ImportError as error:
            told[name] = str(error)
print(json.dumps(told))
"""

BLOCKS = """
import json, os, sys, tempfile
faults = {}
for page, blocks in json.load(sys.stdin).items():
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(sys.argv[1], os.path.join(folder, "examples"))
        os.chdir(folder)
        space = {"__name__": "docs"}
        for number, block in enumerate(blocks):
            try:
                exec(compile(block, page, "exec"), space)
            except Exception as error:
                faults[f"{page}, block {number + 1}"] = repr(error)
        os.chdir("/")
print(json.dumps(faults))
"""


@pytest.fixture(
    scope="module",
    params=[
        "core",
        pytest.param("local", marks=pytest.mark.full),
        pytest.param("core, installed", marks=pytest.mark.full),
        pytest.param("local, installed", marks=pytest.mark.full),
    ],
)
def environment(request, wheel, tmp_path_factory):
    kind, _, how = request.param.partition(", ")
    extras = () if kind == "core" else (kind,)
    return make_environment(tmp_path_factory.mktemp("fresh"), wheel, *extras, is_linked=not how)


def test_every_walk_over_the_public_names_works(environment):
    done = environment.run("python", "-c", WALK)
    assert done.returncode == 0, done.stderr
    there = json.loads(done.stdout)
    lacking = {package: sorted({*import_module(package).__all__} - {*names}) for package, names in there.items()}
    assert lacking["filament"] == []
    assert lacking["jacquard"] == []
    # The package gives these without exporting them.
    lacking["jacquard"] = ["OtelTracing", "PrometheusMetrics"]
    told = environment.run("python", "-c", EXPLAIN, input=json.dumps(lacking))
    assert told.returncode == 0, told.stderr
    sentences = json.loads(told.stdout)
    assert {*sentences} == {name for names in lacking.values() for name in names}
    assert [
        each for each in sentences.values() if not re.search(r'needs \w+: pip install "\S+\.whl\[\w+\]"', each)
    ] == []


def test_the_blocks_of_the_docs_run(environment):
    blocks = {
        str(page.relative_to(ROOT)): [
            block for block in _BLOCK.findall(page.read_text(encoding="utf-8")) if not _NEEDS_EXTRA.search(block)
        ]
        for page in PAGES
    }
    assert sum(map(len, blocks.values())) > 50
    done = environment.run("python", "-c", BLOCKS, str(ROOT / "examples"), input=json.dumps(blocks))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {}


def read_weights(language):
    """Return (packages, megabytes) by extras, as the page on installation has them."""
    page = (ROOT / "docs" / language / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (none|无|`[\w,]+`) \|.*\| (\d+) \| (\d+) \| \d+ \|$", page, re.MULTILINE)
    return {"core" if "`" not in name else name.strip("`"): (int(count), int(size)) for name, count, size in rows}


def test_both_pages_say_the_same_of_what_each_part_weighs():
    weights = read_weights("en")
    assert weights == read_weights("zh")
    assert {"core", "cli", "local", "local,serve,mcp"} <= set(weights)
    assert weights["core"][0] <= 20


@pytest.mark.full
def test_an_installation_weighs_what_the_page_says(environment, request):
    kind, _, how = request.node.callspec.params["environment"].partition(", ")
    if not how:
        pytest.skip("links weigh nothing")
    packages, megabytes = read_weights("en")[kind]
    assert abs(len([*environment.packages.glob("*.dist-info")]) - packages) <= 3
    found = sum(size for _, size, is_code in list_files(environment.packages) if not is_code) / 1_000_000
    assert found == pytest.approx(megabytes, rel=0.1)


@pytest.mark.full
def test_the_first_commands_of_a_world_run_as_the_readme_writes_them(environment, tmp_path):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```console\n(\$ jacquard author init .*?)^```", readme, re.DOTALL | re.MULTILINE)
    (tmp_path / "help.md").write_text("# Help\n\nThe shop opens at nine.\n", encoding="utf-8")
    for line in block.splitlines():
        done = environment.run("bash", "-c", line.removeprefix("$ "), cwd=tmp_path)
        assert done.returncode == 0, (line, done.stderr)


@pytest.mark.full
def test_the_first_command_of_the_readme_sets_up_a_new_checkout(tmp_path):
    (command,) = re.findall(r"^\$ (make demo) ", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(".venv*", ".git", ".*_cache", ".jacquard"))
    done = subprocess.run(command.split(), capture_output=True, text=True, cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert '<context_layer type="probabilistic"' in done.stdout
