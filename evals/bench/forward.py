"""The benchmarks moved from `evals.bench` to `benchmarks`; the commands of before still run them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NoReturn


def run_benchmarks(arguments: Sequence[str]) -> NoReturn:
    """Replace this process with `python -m benchmarks ARGUMENTS…`.

    A process and no import: the benchmarks use the evals, so an import would close a circle.
    """
    if find_spec("benchmarks") is None:
        sys.exit("The benchmarks are no part of the installed package: run them from a checkout of the project.")
    command = [sys.executable, "-m", "benchmarks", *arguments]
    print(f"note: this command is now `python -m benchmarks {' '.join(arguments)}`", file=sys.stderr, flush=True)
    os.execv(sys.executable, command)
