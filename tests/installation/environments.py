"""Fresh environments with the wheel and what it requires, made of links to the packages of this environment, or installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from email import message_from_bytes
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """A virtual environment in `folder / "env"`; commands run in `folder`."""

    folder: Path

    @property
    def scripts(self) -> Path:
        """The folder of its commands."""
        return self.folder / "env" / "bin"

    @property
    def packages(self) -> Path:
        """The folder into which packages are installed."""
        base = str(self.folder / "env")
        return Path(sysconfig.get_path("purelib", vars={"base": base, "platbase": base}))

    def run(self, command: str, *words: str, **options) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, without the packages of any other."""
        options.setdefault("cwd", self.folder)
        bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        bare["PATH"] = os.pathsep.join([str(self.scripts), bare["PATH"]])
        found = shutil.which(command, path=bare["PATH"])
        run = [found or command, *words]
        return subprocess.run(run, capture_output=True, text=True, env=bare | options.pop("env", {}), **options)

    def pip(self, *words: str) -> None:
        """Install or remove packages with this environment's pip; the new one needs none of its own."""
        run = [sys.executable, "-m", "pip", "--python", str(self.folder / "env"), *words]
        subprocess.run(run, check=True, capture_output=True, cwd=self.folder)


def make_environment(
    folder: Path, wheel: Path, *extras: str, is_linked: bool = True, interpreter: str = ""
) -> Environment:
    """Return an environment that holds the wheel (or sdist) with what it requires for these extras, and nothing else.

    `interpreter` is a file ('': this one); packages of another are installed, not linked.
    """
    made = Environment(folder=folder)
    if interpreter:
        subprocess.run([interpreter, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    else:
        venv.create(folder / "env", with_pip=False)
    if is_linked:
        _link_requirements(wheel, made.packages, {*extras})
        words = ["--no-deps", "--no-index", str(wheel)]
    else:
        words = ["-c", str(ROOT / "constraints.txt"), f"{wheel}[{','.join(extras)}]" if extras else str(wheel)]
    made.pip("install", "--quiet", "--no-compile", *words)
    return made


def find_interpreters() -> dict[str, str]:
    """Return the interpreters of this machine that the classifiers of the project name, by their version (`3.12`)."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: Python :: 3." in each]
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in versions:
        files = [shutil.which(f"python{version}"), *sorted(map(str, home.glob(f"{version}.*/bin/python3")))]
        ask = ["-c", "import sys, venv; print('.'.join(map(str, sys.version_info[:2])))"]
        for file in filter(None, files):
            done = subprocess.run([file, *ask], capture_output=True, text=True)
            if done.returncode == 0 and done.stdout.strip() == version:
                found[version] = file
                break
    return found


def _link_requirements(wheel: Path, site: Path, extras: set[str]) -> None:
    """Link what the wheel requires with these extras, and what that requires in turn, into a folder of packages."""
    archive = zipfile.ZipFile(wheel)
    (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    ours = message_from_bytes(archive.read(metadata))
    waiting = [(ours["Name"], extras)]
    seen = set()
    while waiting:
        name, wanted_extras = waiting.pop()
        key = (name, frozenset(wanted_extras))
        if key in seen:
            continue
        seen.add(key)
        if name == ours["Name"]:
            requires = ours.get_all("Requires-Dist", [])
        else:
            found = distribution(name)
            requires = found.requires or ()
            for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
                if not (site / top).exists():
                    (site / top).symlink_to(found.locate_file(top))
        for wanted in map(Requirement, requires):
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": each}) for each in wanted_extras | {""}):
                waiting.append((wanted.name, set(wanted.extras)))
