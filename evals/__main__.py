"""`python -m evals`: score retrieval and selection on labelled data."""

from __future__ import annotations

import sys

from jacquard.wiring.installation import check_packages

try:
    check_packages("evals")
    from evals.app import app
    from jacquard.cli.main import replace_unwritable
except ImportError as error:
    sys.exit(f"error: {error}")

if __name__ == "__main__":
    replace_unwritable()
    app(prog_name="python -m evals")
