"""The benchmarks' place until November 2026; `python -m evals.bench` still runs them."""
