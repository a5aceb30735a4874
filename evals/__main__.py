"""`python -m evals`: score retrieval and selection on labelled data."""

from __future__ import annotations

import sys

from jacquard.wiring.installation import check_packages
from mnemosyne.core.optional_packages import explain_missing_package

try:
    check_packages("evals")
    from evals.app import app
    from jacquard.cli.main import replace_unwritable
except ImportError as error:
    is_unexplained = error.name in ("typer", "rich")
    reason = explain_missing_package("The evaluation", str(error.name), "evals") if is_unexplained else error
    sys.exit(f"error: {reason}")

if __name__ == "__main__":
    replace_unwritable()
    app(prog_name="python -m evals")
