"""The wheel stands alone: built, installed into an empty environment, it renders a prompt with the templates it carries."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=["linked", pytest.param("installed", marks=pytest.mark.full)])
def environment(request, tmp_path_factory):
    """Return a folder with the wheel, and an environment `env` that holds it with what it requires and nothing else.

    The packages that it requires are links to those of this environment; the long form installs them.
    """
    home = tmp_path_factory.mktemp("wheel")
    # The wheel is built from the sdist, as an installer without a wheel does.
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(home), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = home.glob("*.whl")
    # This environment's pip installs into the new one, which then needs none of its own.
    venv.create(home / "env", with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(home / "env"), "install", "--quiet", "--no-compile"]
    if request.param == "linked":
        link_requirements(wheel, home / "env")
        words = ["--no-deps", "--no-index", str(wheel)]
    else:
        words = ["-c", str(ROOT / "constraints.txt"), f"{wheel}[testing]"]
    subprocess.run([*pip, *words], check=True, capture_output=True, cwd=home)
    return home


def link_requirements(wheel: Path, env: Path) -> None:
    """Link what the wheel requires with its extra `testing`, and what that requires in turn, into an environment."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    site = Path(sysconfig.get_path("purelib", vars={"base": str(env), "platbase": str(env)}))
    waiting = [(text, {"testing"}) for text in message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])]
    seen = set()
    while waiting:
        text, extras = waiting.pop()
        wanted = Requirement(text)
        key = (wanted.name, frozenset(wanted.extras))
        if key in seen or not any(wanted.marker is None or wanted.marker.evaluate({"extra": e}) for e in extras | {""}):
            continue
        seen.add(key)
        found = distribution(wanted.name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(found.locate_file(top))
        waiting += [(each, set(wanted.extras)) for each in found.requires or ()]


def test_the_wheel_weaves_a_prompt_without_the_repository_or_any_extra(environment):
    jacquard = environment / "env" / "bin" / "jacquard"
    subprocess.run([jacquard, "init", "world"], check=True, capture_output=True, cwd=environment)
    weave = [jacquard, "weave", "--world", "world", "--session", "s", "--input", "Hello there"]
    done = subprocess.run(weave, check=True, capture_output=True, text=True, cwd=environment)
    assert '<context_layer type="deterministic">' in done.stdout
    assert "Hello there" in done.stdout


def test_the_wheel_holds_packages_and_templates_only(environment):
    (wheel,) = environment.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"filament", "mnemosyne", "jacquard", "evals"}
    prompts = [
        path.relative_to(ROOT).as_posix() for path in (ROOT / "jacquard" / "adapters" / "prompts").glob("*/*.t*")
    ]
    assert prompts
    assert set(prompts) <= set(names)
    plays = [path.relative_to(ROOT).as_posix() for path in (ROOT / "evals" / "plays").rglob("*.yaml")]
    assert {*plays, "evals/plays/gate.json", "jacquard/authoring/replay/turn_page.html.j2"} <= set(names)


def test_wheel_and_sdist_are_fit_for_the_package_index(environment):
    packages = sorted(map(str, (*environment.glob("*.whl"), *environment.glob("*.tar.gz"))))
    assert len(packages) == 2
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *packages], check=True, capture_output=True)
    # W002: files of the same text in two languages. W009: four packages are one distribution.
    contents = [sys.executable, "-m", "check_wheel_contents", "--ignore", "W002,W009", packages[0]]
    done = subprocess.run(contents, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_harness_of_the_wheel_says_which_extra_it_needs(environment):
    run = [environment / "env" / "bin" / "python", "-m", "evals", "--help"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=environment)
    assert done.returncode == 1
    assert "pip install 'jacquard-context[evals]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.full
def test_the_gate_runs_from_the_wheel_with_the_example_worlds_in_it(environment):
    (wheel,) = environment.glob("*.whl")
    place = environment / "alone"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(place), str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    run = [sys.executable, "-m", "evals", "gate"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=place, env={**os.environ, "PYTHONPATH": str(place)})
    assert done.returncode == 0, done.stdout + done.stderr


SUITES = """
from jacquard.core.protocols import PruneResult
from jacquard.pipeline.weaving.pruners.greedy import GreedyPriorityPruner
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
    (environment / "test_mine.py").write_text(SUITES, encoding="utf-8")
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = [environment / "env" / "bin" / "python", "-m", "pytest", "-q", "-W", "error", "test_mine.py"]
    done = subprocess.run(run, capture_output=True, text=True, cwd=environment, env=bare)
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
