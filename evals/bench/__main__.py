"""`python -m evals.bench` is `python -m benchmarks`."""

from __future__ import annotations

import sys

from evals.bench.forward import run_benchmarks

run_benchmarks(sys.argv[1:])
