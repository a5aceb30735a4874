"""The wheel stands alone: built, installed into an empty environment, it renders a prompt with the templates it carries."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile

import pytest
from environments import ROOT, make_environment


@pytest.fixture(scope="module", params=["linked", pytest.param("installed", marks=pytest.mark.full)])
def environment(request, wheel, tmp_path_factory):
    return make_environment(
        tmp_path_factory.mktemp("alone"), wheel, "cli", "testing", is_linked=request.param == "linked"
    )


def test_the_wheel_weaves_a_prompt_without_the_repository_and_with_no_extra_but_the_command_line(environment):
    environment.run("jacquard", "author", "init", "world", check=True)
    weave = ("play", "weave", "--world", "world", "--session", "s", "--input", "Hello there")
    done = environment.run("jacquard", *weave, check=True)
    assert '<context_layer type="deterministic">' in done.stdout
    assert "Hello there" in done.stdout


def test_the_wheel_holds_packages_and_templates_only(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        *("filament", "mnemosyne", "jacquard", "evals"),
        *("jacquard_context.pth", "jacquard_context_startup.py"),
    }
    prompts = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "jacquard" / "adapters" / "prompts").glob("*/*.t*")
    ]
    assert prompts
    assert set(prompts) <= set(names)
    plays = [path.relative_to(ROOT).as_posix() for path in (ROOT / "evals" / "plays").rglob("*.yaml")]
    shared = [
        f"jacquard/authoring/replay/turn_{name}" for name in ("page.html.j2", "parts.html.j2", "page.css", "texts.toml")
    ]
    assert {*plays, "evals/plays/gate.json", *shared} <= set(names)
    studio = [path for path in (ROOT / "jacquard" / "studio").glob("*/*") if path.suffix != ".pyc"]
    assert {path.relative_to(ROOT).as_posix() for path in studio} <= set(names)


def test_wheel_and_sdist_are_fit_for_the_package_index(wheel):
    packages = sorted(map(str, (*wheel.parent.glob("*.whl"), *wheel.parent.glob("*.tar.gz"))))
    assert len(packages) == 2
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *packages], check=True, capture_output=True)
    # W002: files of the same text in two languages. W009: four packages are one distribution.
    contents = [sys.executable, "-m", "check_wheel_contents", "--ignore", "W002,W009", packages[0]]
    done = subprocess.run(contents, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_harness_of_the_wheel_says_which_extra_it_needs(environment):
    done = environment.run("python", "-m", "evals", "--help")
    assert done.returncode == 1
    assert 'pip install ".[evals]"' in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_the_gate_runs_from_the_wheel_with_the_example_worlds_in_it(wheel, tmp_path):
    place = tmp_path / "alone"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    run = [sys.executable, "-m", "evals", "gate"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=place, env={**os.environ, "PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stdout + done.stderr


SUITES = """
from jacquard import PruneResult
from jacquard import GreedyPriorityPruner
from jacquard.testing.pruner import PrunerContract
from jacquard.testing.smoke import EngineSmoke
from mnemosyne.testing.store import StoreContract


class Lazy:
    def prune(self, blocks, budget, rules=None):
        return PruneResult(kept=tuple(blocks), decisions=())


class TestGreedy(PrunerContract):
    def make_pruner(self):
        return GreedyPriorityPruner()


class TestLazy(TestGreedy):
    def make_pruner(self):
        return Lazy()


class TestSmoke(EngineSmoke):
    pass
"""


def test_the_shipped_suites_run_from_the_wheel_and_find_a_part_that_breaks_its_rules(environment):
    (environment.folder / "test_mine.py").write_text(SUITES, encoding="utf-8")
    done = environment.run("python", "-m", "pytest", "-q", "-W", "error", "test_mine.py")
    failed = {line.split()[1].partition("::")[2] for line in done.stdout.splitlines() if line.startswith("FAILED")}
    assert {name.partition("::")[0] for name in failed} == {"TestLazy"}, done.stdout
    assert {name.partition("::")[2] for name in failed} == {
        "test_budget_respected",
        "test_decisions_cover_all_blocks",
        "test_must_blocks_that_do_not_fit_are_named",
        "test_what_is_too_guarded_is_never_kept_as_it_is",
        "test_what_is_too_old_leaves",
    }
    assert "a block that is kept costs its own tokens" in done.stdout
    assert "site-packages" in done.stdout
