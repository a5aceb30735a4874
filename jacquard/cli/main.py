"""Entry point of the `jacquard` command."""

from __future__ import annotations

import io
import sys

from jacquard.cli.app import app


def main() -> None:
    """Run the command line."""
    replace_unwritable()
    app()


def replace_unwritable() -> None:
    """Write characters that the code page of standard output and error lacks as `?`, for the whole process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
