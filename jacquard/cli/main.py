"""Starts the command line: entry point of the `jacquard` command."""

from __future__ import annotations

import io
import sys

from jacquard.cli.app import app


def main() -> None:
    """Run the command line."""
    replace_unwritable()
    app()


def replace_unwritable() -> None:
    """Print `?` for characters that the encoding of standard output or standard error lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
