"""Another project with an import name of ours in the same environment: each collision names the project to remove."""

from __future__ import annotations

import shutil
import zipfile

import pytest
from environments import ROOT, make_environment

ADVICE = "pip install --force-reinstall --no-deps . in a checkout"
USE = "import jacquard; jacquard.RuntimeConfig(); print('works')"


@pytest.fixture(scope="module")
def environment(wheel, tmp_path_factory):
    return make_environment(tmp_path_factory.mktemp("collision"), wheel)


@pytest.fixture(scope="module")
def foreign_wheel(tmp_path_factory):
    """Make the wheel of a project that owns one import name, in the likeness of those on the package index."""

    def make(name, init):
        path = tmp_path_factory.mktemp("foreign") / f"{name}_of_others-1.0-py3-none-any.whl"
        info = f"{name}_of_others-1.0.dist-info"
        files = {
            f"{name}/__init__.py": init,
            f"{name}/metrics.py": "WHOSE = 'theirs'\n",
            f"{name}/weaver.py": "",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}-of-others\nVersion: 1.0\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/top_level.txt": f"{name}\n",
        }
        with zipfile.ZipFile(path, "w") as archive:
            for file, text in files.items():
                archive.writestr(file, text)
            archive.writestr(f"{info}/RECORD", "".join(f"{file},,\n" for file in (*files, f"{info}/RECORD")))
        return path

    return make


@pytest.fixture
def collide(environment, wheel, foreign_wheel):
    """Put another project into the environment, before ours or after it, as an installer does; remove it afterwards."""
    theirs = []

    def unpack(path):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(environment.packages)

    def install(name, *, last, init="import natsort\n"):
        path = foreign_wheel(name, init)
        theirs.append(path)
        unpack(path)
        if not last:
            unpack(wheel)

    yield install
    for path in theirs:
        for name in zipfile.ZipFile(path).namelist():
            (environment.packages / name).unlink()
        (environment.packages / f"{path.name.partition('-')[0]}-1.0.dist-info").rmdir()
    unpack(wheel)


def names_it(done, name):
    return f"'{name}'" in done.stderr and f"pip uninstall {name}-of-others; {ADVICE}" in done.stderr


def test_an_environment_of_ours_alone_says_nothing(environment):
    done = environment.run("python", "-W", "error", "-c", USE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "works\n", "")


@pytest.mark.parametrize("last", [True, False], ids=["theirs_last", "theirs_first"])
@pytest.mark.parametrize("name", ["filament", "mnemosyne", "jacquard"])
def test_a_project_with_a_name_of_ours_is_named(environment, collide, name, last):
    collide(name, last=last)
    done = environment.run("python", "-c", USE)
    assert done.returncode != 0
    assert names_it(done, name), done.stderr
    command = environment.run("jacquard", "--version")
    assert command.returncode != 0
    assert names_it(command, name), command.stderr


@pytest.mark.parametrize("name", ["filament", "mnemosyne", "jacquard", "evals"])
def test_a_project_that_replaced_a_package_is_named_where_that_package_is_imported(environment, collide, name):
    collide(name, last=True, init="print('theirs')\n")
    done = environment.run("python", "-c", f"import {name}; import {name}")
    assert (done.returncode, done.stdout) == (0, "theirs\n")
    assert names_it(done, name), done.stderr
    assert done.stderr.count("pip uninstall") == 1


@pytest.mark.parametrize("last", [True, False], ids=["theirs_last", "theirs_first"])
def test_another_project_s_evals_stops_the_harness_alone(environment, collide, last):
    collide("evals", last=last, init="")
    done = environment.run("python", "-W", "error", "-c", USE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "works\n", "")
    harness = environment.run("python", "-m", "evals", "--help")
    assert harness.returncode != 0
    assert names_it(harness, "evals"), harness.stderr


@pytest.mark.parametrize("name", ["evals", "mnemosyne"])
def test_a_folder_of_the_user_s_own_is_told_from_a_project(environment, tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("")
    done = environment.run("python", "-c", USE, cwd=tmp_path)
    assert (done.returncode == 0) == (name == "evals")
    if name != "evals":
        assert f"Rename the folder {tmp_path / name}" in done.stderr
        assert "pip" not in done.stderr


def test_the_advice_mends_an_environment(wheel, foreign_wheel, tmp_path):
    environment = make_environment(tmp_path, wheel)
    environment.pip("install", "--no-deps", "--no-index", str(foreign_wheel("jacquard", "import natsort\n")))
    assert environment.run("python", "-c", USE).returncode != 0
    environment.pip("uninstall", "--yes", "jacquard-of-others")
    left = environment.run("python", "-c", USE)
    assert "The package 'jacquard' is missing" in left.stderr
    environment.pip("install", "--force-reinstall", "--no-deps", "--no-index", str(wheel))
    assert environment.run("python", "-W", "error", "-c", USE).stdout == "works\n"


def test_an_editable_installation_names_the_project_too(wheel, foreign_wheel, tmp_path):
    environment = make_environment(tmp_path, wheel)
    for name in ("filament", "mnemosyne", "jacquard", "evals"):
        shutil.rmtree(environment.packages / name)
    (environment.packages / "of_a_checkout.pth").write_text(f"{ROOT}\n")
    assert environment.run("python", "-W", "error", "-c", USE).stdout == "works\n"
    with zipfile.ZipFile(foreign_wheel("jacquard", "import natsort\n")) as archive:
        archive.extractall(environment.packages)
    done = environment.run("python", "-c", USE)
    assert names_it(done, "jacquard"), done.stderr
