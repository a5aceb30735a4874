"""The gate of a turn's cost: no change may let a turn do more than the kept counts say. They do not depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.costs.costs import PARTS, find_growth, read_baseline

BASELINE = Path(__file__).with_name("costs_baseline.json")


def bench(*arguments):
    """Run in a process of its own, because Python counts no calls in threads that run already."""
    command = [sys.executable, "-m", "benchmarks", "costs", "--turns", "5", "--warm-turns", "5", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_no_change_lets_a_turn_do_more(tmp_path):
    """Where a count is meant to grow, or has fallen, write it again, with
    `python -m benchmarks costs --turns 5 --warm-turns 5 --write-baseline FILE`.
    """
    told = tmp_path / "figures.json"
    done = bench("--baseline", BASELINE, "--json", told)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(told.read_text())
    assert all(figures["counts"]["prepare"][name] for name in ("python calls", "thread hops", "sql transactions"))
    kept = read_baseline(BASELINE)
    kept["counts"]["thread hops"] -= 1
    assert len(find_growth(figures, kept)) == 1, "a gate that never closes"
    assert set(figures["counts"]) == set(PARTS)
