"""The wheel stands alone: built, installed into an empty environment, it renders a prompt with the templates it carries."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    home = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(home), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = home.glob("*.whl")
    venv.create(home / "env", with_pip=True)
    python = home / "env" / "bin" / "python"
    install = [str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    subprocess.run(install, check=True, capture_output=True, cwd=home)
    return home


def test_the_wheel_weaves_a_prompt_without_the_repository_or_any_extra(environment):
    jacquard = environment / "env" / "bin" / "jacquard"
    subprocess.run([jacquard, "init", "world"], check=True, capture_output=True, cwd=environment)
    weave = [jacquard, "weave", "--world", "world", "--session", "s", "--input", "Hello there"]
    done = subprocess.run(weave, check=True, capture_output=True, text=True, cwd=environment)
    assert '<context_layer type="deterministic">' in done.stdout
    assert "Hello there" in done.stdout


def test_the_wheel_holds_packages_and_templates_only(environment):
    import zipfile

    (wheel,) = environment.glob("*.whl")
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"filament", "mnemosyne", "jacquard"}
