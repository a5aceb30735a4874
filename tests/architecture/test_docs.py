"""The docs are run: every ```python block of a page, in order, in one namespace; every ```console command exists."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest
from cli_calls import find_command
from typer.main import get_command

from benchmarks.__main__ import app as benchmarks_app
from evals.app import app as evals_app

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("[A-Z]*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
_COMMAND = re.compile(r"^\$ jacquard ([a-z]+ [a-z]+)", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_blocks_run(page, tmp_path, monkeypatch):
    blocks = _BLOCK.findall(page.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    namespace = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if target.startswith("reference/"):  # made from the code; the build of the site checks it
            continue
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_shown_exist(page):
    text = page.read_text(encoding="utf-8")
    assert [words for words in _COMMAND.findall(text) if find_command(*words.split()) is None] == []


PROGRAMS = {name: get_command(app) for name, app in (("benchmarks", benchmarks_app), ("evals", evals_app))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_programs_that_are_shown_exist(page):
    shown = re.findall(
        r"python -m (benchmarks|evals)((?:\.\w+)+)?(?: +([a-z][\w-]*))?", page.read_text(encoding="utf-8")
    )
    assert [(name, word) for name, _, word in shown if word and word not in PROGRAMS[name].commands] == []
    modules = [ROOT / f"{name}{dotted.replace('.', '/')}.py" for name, dotted, _ in shown if dotted]
    assert [str(file) for file in modules if "__main__" not in file.read_text(encoding="utf-8")] == []


def find_missing_names(text: str) -> list[str]:
    """Return the modules and files in back-ticks that are not in the repository; NAME and … stand for a part of a name."""
    spans = [span for span in _SPAN.findall(_FENCE.sub("", text)) if "NAME" not in span and "…" not in span]
    modules = [span for span in spans if _MODULE.fullmatch(span) and not _is_in_code(span)]
    paths = [span for span in spans if _PATH.fullmatch(span) and not list(ROOT.glob(span))]
    return modules + paths + [span for span in spans if _FILE.fullmatch(span) and span not in _FILE_NAMES]


_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_PACKAGES = ("jacquard", "mnemosyne", "filament", "evals", "benchmarks")
_MODULE = re.compile(rf"(?:{'|'.join(_PACKAGES)})(?:\.[A-Za-z_]\w*)+")
_PATH = re.compile(rf"(?:{'|'.join((*_PACKAGES, 'templates', 'examples', 'tests', 'docs'))})/[^\s{{}}]+")
_FILE = re.compile(r"[a-z_]\w*\.py")
_FILE_NAMES = {file.name for folder in (*_PACKAGES, "tests") for file in (ROOT / folder).rglob("*.py")}
_SOURCES = "".join(file.read_text(encoding="utf-8") for folder in _PACKAGES for file in (ROOT / folder).rglob("*.py"))


def _is_in_code(dotted: str) -> bool:
    """Whether it is a module, a name in one, or written as a text in the code (a span, a group of entry points)."""
    span = dotted.removeprefix("jacquard.")  # spans of the engine's methods get this prefix when they are opened
    if f'"{dotted}"' in _SOURCES or f'"{span}"' in _SOURCES:
        return True
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        return reduce(lambda value, name: getattr(value, name, None), parts[length:], found) is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_modules_and_files_that_are_named_exist(page):
    if page.name != "CHANGELOG.md":  # it names what older releases had
        assert find_missing_names(page.read_text(encoding="utf-8")) == []


def test_missing_names_are_found():
    text = "`jacquard.turns.engine` `jacquard.turns.gone` `mnemosyne/stores/gone_*.py` `fusion.py` `gone.py` `mnemosyne/NAME/`"
    assert find_missing_names(text) == ["jacquard.turns.gone", "mnemosyne/stores/gone_*.py", "gone.py"]


@pytest.mark.parametrize("package", ["filament", "mnemosyne", "jacquard"])
def test_the_table_of_folders_has_every_folder_and_module_of_a_package(package):
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split(f"| `{package}/` |")[1].split("\n\n")[0]
    rows = [row.split("|")[1] for row in table.splitlines()[2:]]
    named = sorted(name for row in rows for name in _SPAN.findall(row))
    entries = [path for path in (ROOT / package).iterdir() if not path.name.startswith("__")]
    folders = [f"{path.name}/" for path in entries if (path / "__init__.py").exists()]
    assert named == sorted(folders + [path.name for path in entries if path.suffix == ".py"])


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "decisions").glob("*.md")), ids=lambda page: page.stem)
def test_a_decision_states_its_question_its_alternatives_and_its_measurements(page):
    text = page.read_text(encoding="utf-8")
    places = [text.find(f"**{part}.**") for part in ("Question", "Decision", "Alternatives", "Measurements")]
    assert min(places) > 0
    assert places[:2] == sorted(places[:2])
    measurements = text[places[3] :].partition("\n**")[0]
    assert re.search(r"\]\(|`(?:python -m|make|tests/|lint-imports|wc)", measurements), "it links no measurement"
