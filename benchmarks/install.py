"""What an installation takes: seconds, megabytes and packages, by pip and by uv, each in an empty environment.

The project is built into a wheel once; every case installs that wheel, not the checkout. Caches of the installers are off, so
that each case downloads everything. Then one turn of the Chinese and of the English example world runs in the new environment,
with an empty cache of models; the figures say whether its vectors knew the language.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from anyio import to_thread
from rich.console import Console
from rich.table import Table

from evals.errors import EvalError
from evals.reporting.machine import load, machine

ROOT = Path(__file__).parents[1]
TOOLS = ("pip", "uv")
INPUTS = {"zh": "那把钥匙是不是开启神庙的?我记得之前提到过。", "en": "Is that the key that opens the temple?"}

NO_VECTORS = ("no_embedder", "embedder_unavailable", "vectors_unfit", "no_vectors", "vectors_late")
"""Codes of a receipt whose recall went without vectors."""

Say = Callable[[str], None]
Progress = Callable[[str, int, int], None]


async def run(extras: Sequence[str], tools: Sequence[str], python: str, say: Say, progress: Progress) -> dict[str, Any]:
    """Install the wheel with each of `extras` (several joined by `+`; `core` for none) by each of `tools`, into environments
    of `python`; EvalError names the command that failed and the end of its output.
    """
    return await to_thread.run_sync(_run, extras, tools, python, say, progress)


def _run(extras: Sequence[str], tools: Sequence[str], python: str, say: Say, progress: Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="jacquard-install-") as kept:
        folder = Path(kept)
        say("building the wheel")
        _call([sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)])
        wheel = next(folder.glob("*.whl"))
        cases = [(extra, tool) for extra in extras for tool in tools]
        rows = []
        for done, (extra, tool) in enumerate(cases):
            progress("installing", done, len(cases))
            say(f"installing {extra} by {tool}")
            rows.append(_measure(wheel, extra, tool, python, folder / "environment"))
        version = _call([python, "--version"]).strip()
    return {"machine": machine(), "load": load(), "python": version, "installs": rows}


def _measure(wheel: Path, extra: str, tool: str, python: str, environment: Path) -> dict[str, Any]:
    wanted = str(wheel) if extra == "core" else f"{wheel}[{extra.replace('+', ',')}]"
    shutil.rmtree(environment, ignore_errors=True)
    _call([python, "-m", "venv", str(environment)])
    inside = environment / "bin" / "python"
    before = _megabytes(environment)
    started = perf_counter()
    if tool == "uv":
        _call([sys.executable, "-m", "uv", "pip", "install", "--no-cache", "--python", str(inside), wanted])
    else:
        _call([str(inside), "-m", "pip", "install", "--quiet", "--no-compile", "--no-cache-dir", wanted])
    seconds = perf_counter() - started
    listed = json.loads(_call([str(inside), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]))
    row: dict[str, Any] = {
        "extra": extra,
        "tool": tool,
        "seconds": round(seconds, 1),
        "megabytes": round(_megabytes(environment) - before),
        "packages": len(listed),
        "torch": any(one["name"] == "torch" for one in listed),
    }
    if extra != "core":
        row["vectors"] = {language: _vectors(environment, language) for language in INPUTS}
    shutil.rmtree(environment)
    return row


def _vectors(environment: Path, language: str) -> str:
    """Return `yes` if the first turn of the example world recalls by vectors, else the degradation that kept them out."""
    world = ROOT / "examples/whispering_forest" / language
    command = [str(environment / "bin" / "jacquard"), "weave", "--world", str(world), "--session", "install", "--json"]
    command += ["--store", str(environment / "store" / language), "--input", INPUTS[language]]
    cache = {"MNEMOSYNE_CACHE_DIR": str(environment / "models"), "PYTHONDONTWRITEBYTECODE": "1"}
    woven = json.loads(_call(command, cache))
    codes = [one["code"] for one in woven["report"]["degradations"]]
    return next((code for code in codes if code in NO_VECTORS), "yes")


def _call(command: list[str], extra: Mapping[str, str] | None = None) -> str:
    """Run a command outside the checkout and return its output. The caller's own paths and bytecode settings are left out."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")} | dict(extra or {})
    done = subprocess.run(
        command, cwd=tempfile.gettempdir(), env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise EvalError(
            f"{' '.join(command)} failed ({done.returncode}): {(done.stderr or done.stdout)[-600:].strip()}"
        )
    return done.stdout


def _megabytes(folder: Path) -> float:
    """Return what the files below a folder take, in 1,000,000 bytes."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) / 1e6


def show(figures: Mapping[str, Any], out: Console) -> None:
    """Print the table."""
    table = Table(title=f"Installation of the wheel, {figures['python']}, no caches, nothing compiled to bytecode")
    for name in ("extra", "by", "seconds", "MB", "packages", "torch", "vectors zh", "vectors en"):
        table.add_column(name, justify="right" if name in ("seconds", "MB", "packages") else "left")
    for row in figures["installs"]:
        vectors = row.get("vectors", {})
        numbers = (f"{row['seconds']:.1f}", str(row["megabytes"]), str(row["packages"]))
        languages = (vectors.get("zh", "-"), vectors.get("en", "-"))
        table.add_row(row["extra"], row["tool"], *numbers, "yes" if row["torch"] else "no", *languages)
    out.print(table)
