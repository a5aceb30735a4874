"""The wheel and the sdist stand alone: installed into an empty environment, they render a prompt with what they carry."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from email import message_from_bytes

import pytest
from environments import ROOT, find_interpreters, make_environment

START_SECONDS = 300.0


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


def test_the_metadata_say_who_made_it_where_it_is_and_for_which_pythons(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
    metadata = message_from_bytes(archive.read(name))
    assert metadata["Author"] == metadata["Maintainer"] == "The Jacquard authors"
    addresses = dict(each.split(", ", 1) for each in metadata.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog", "Security policy"} == set(addresses)
    assert metadata["License-Expression"] == "Apache-2.0"
    versions = {each.rpartition(" ")[2] for each in metadata.get_all("Classifier") if ":: Python :: 3." in each}
    for workflow in ("ci.yml", "release.yml"):
        text = (ROOT / ".github" / "workflows" / workflow).read_text(encoding="utf-8")
        tested = re.search(r"python: \[(.+)\]", text)[1]
        assert versions == {each.strip('"') for each in tested.split(", ")}
    assert metadata["Requires-Python"] == f">={min(versions, key=lambda each: int(each.partition('.')[2]))}"


def test_version_and_changelog_name_the_same_release():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[([\d.]+)\] - (?:Unreleased|20\d\d-\d\d-\d\d)$", text, re.MULTILINE)
    assert newest[1] == project["version"]


@pytest.mark.full
@pytest.mark.parametrize("version", sorted(find_interpreters()))
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_wheel_and_sdist_install_on_every_python_and_weave_the_demo(kind, version, wheel, tmp_path):
    (package,) = wheel.parent.glob(kind)
    interpreter = find_interpreters()[version]
    made = make_environment(tmp_path, package, "cli", is_linked=False, interpreter=interpreter)
    world = next(made.folder.glob("env/lib/python*/site-packages/evals/_examples/whispering_forest/zh"))
    words = ("play", "weave", "--world", str(world), "--session", "demo", "--input", "那把钥匙是不是开启神庙的?")
    done = made.run("jacquard", *words)
    assert done.returncode == 0, done.stderr
    assert '<context_layer type="probabilistic"' in done.stdout
    walk = "import filament, jacquard, mnemosyne\nfor p in (filament, mnemosyne, jacquard): [getattr(p, n) for n in p.__all__]"
    walked = made.run("python", "-W", "error", "-c", walk)
    assert walked.returncode == 0, walked.stderr


def test_the_studio_without_its_extra_names_it(environment):
    done = environment.run("jacquard", "studio", "--no-browser")
    assert done.returncode == 1
    assert re.search(
        r'The service needs \w+: pip install "jacquard_context-[\d.]+-py3-none-any\.whl\[serve\]"',
        " ".join(done.stderr.split()),
    )


@pytest.fixture(scope="module")
def installers(tmp_path_factory):
    """Return the folder of the commands `pipx` and `uvx`, installed for these tests."""
    folder = tmp_path_factory.mktemp("installers")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([folder / "bin" / "pip", "install", "--quiet", "pipx", "uv"], check=True, capture_output=True)
    return folder / "bin"


def find_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


@pytest.mark.full
@pytest.mark.parametrize("version", sorted(find_interpreters())[-1:])
@pytest.mark.parametrize("how", ["pipx run", "pipx install", "uvx"])
def test_one_command_leads_from_the_wheel_to_the_studio(how, version, wheel, installers, tmp_path):
    spec, interpreter, port = f"{wheel}[serve]", find_interpreters()[version], find_port()
    homes = {"PIPX_HOME": tmp_path / "pipx", "PIPX_BIN_DIR": tmp_path / "bin", "UV_CACHE_DIR": tmp_path / "uv"}
    variables = {**os.environ, **{name: str(value) for name, value in homes.items()}}
    variables.pop("PYTHONPATH", None)
    start = {
        "pipx run": [installers / "pipx", "run", "--python", interpreter, "--spec", spec, "jacquard"],
        "pipx install": [tmp_path / "bin" / "jacquard"],
        "uvx": [installers / "uvx", "--python", interpreter, "--from", spec, "jacquard"],
    }[how]
    if how == "pipx install":
        install = [installers / "pipx", "install", "--python", interpreter, spec]
        subprocess.run(install, check=True, env=variables, capture_output=True)
    log = tmp_path / "log"
    with log.open("w") as file:
        command = [*map(str, start), "studio", "--no-browser", "--port", port, "--embedder", "none"]
        studio = subprocess.Popen(
            command, cwd=tmp_path, env=variables, stdout=file, stderr=file, start_new_session=True
        )
    try:
        until = time.monotonic() + START_SECONDS
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/", headers={"Accept": "text/html"})
        page = ""
        while not page and time.monotonic() < until:
            assert studio.poll() is None, log.read_text()
            try:
                with urllib.request.urlopen(asked, timeout=10) as answer:
                    page = answer.read().decode()
            except OSError:
                time.sleep(0.5)
        assert "<title>" in page, log.read_text()
    finally:
        os.killpg(studio.pid, signal.SIGTERM)
        studio.wait(60)


@pytest.mark.full
@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git on this machine")
def test_a_release_is_built_checked_and_listed_and_built_again_byte_for_byte(tmp_path):
    checkout = tmp_path / "checkout"
    skipped = (".venv*", ".git", ".*_cache", ".jacquard", "dist", "build", "site", ".hypothesis")
    shutil.copytree(ROOT, checkout, ignore=shutil.ignore_patterns(*skipped))
    author = ("-c", "user.name=a", "-c", "user.email=a@a.invalid")
    for words in (("init", "--quiet"), ("add", "--all"), (*author, "commit", "--quiet", "--message", "A release")):
        subprocess.run(["git", *words], cwd=checkout, check=True, capture_output=True)
    variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOURCE_DATE_EPOCH")}
    done = subprocess.run(["make", "release"], cwd=checkout, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    dist = checkout / "dist"
    sums = dict(line.split()[::-1] for line in (dist / "SHA256SUMS").read_text().splitlines())
    assert {*sums, "SHA256SUMS"} == {file.name for file in dist.iterdir()}
    assert {name: hashlib.sha256((dist / name).read_bytes()).hexdigest() for name in sums} == sums
    (bill,) = dist.glob("*.cdx.json")
    listed = json.loads(bill.read_text(encoding="utf-8"))
    assert (listed["bomFormat"], listed["specVersion"]) == ("CycloneDX", "1.6")
    assert {"numpy", "litellm", "starlette", "mcp", "psycopg"} <= {each["name"] for each in listed["components"]}
    assert listed["metadata"]["component"]["name"] == "jacquard-context"
    assert str(tmp_path) not in bill.read_text(encoding="utf-8")
    again = {
        **variables,
        "SOURCE_DATE_EPOCH": subprocess.check_output(
            ["git", "log", "-1", "--format=%ct"], cwd=checkout, text=True
        ).strip(),
    }
    build = [
        str(checkout / ".venv-release/bin/python"),
        "-m",
        "build",
        "--outdir",
        str(tmp_path / "again"),
        str(checkout),
    ]
    subprocess.run(build, check=True, env=again, capture_output=True)
    for file in (tmp_path / "again").iterdir():
        assert hashlib.sha256(file.read_bytes()).hexdigest() == sums[file.name]


def test_the_harness_of_the_wheel_says_which_extra_it_needs(environment):
    done = environment.run("python", "-m", "evals", "--help")
    assert done.returncode == 1
    assert '-py3-none-any.whl[evals]"' in done.stderr
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
