"""The benchmarks' commands of before still run them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("command", "expected"),
    [(["evals.bench", "--list"], "turn_length"), (["evals", "bench", "--help"], "python -m benchmarks rivals")],
)
def test_the_commands_of_before_run_the_benchmarks(command, expected):
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert expected in done.stdout
    assert "this command is now `python -m benchmarks" in done.stderr
