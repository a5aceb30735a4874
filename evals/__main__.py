"""`python -m evals`: score retrieval and selection on labelled data."""

from __future__ import annotations

import sys

try:
    from evals.app import app
except ImportError as error:
    sys.exit(f"error: {error}")

if __name__ == "__main__":
    app(prog_name="python -m evals")
