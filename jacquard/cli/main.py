"""Starts the command line: entry point of the `jacquard` command."""

from __future__ import annotations

import io
import sys

from mnemosyne.core.optional_packages import explain_missing_package


def main() -> None:
    """Run the command line. If a package of the extra `cli` is missing, exit with one line that says how to install it."""
    replace_unwritable()
    try:
        from jacquard.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"error: {explain_missing_package('The command line', error.name, 'cli')}")
    app()


def replace_unwritable() -> None:
    """Print `?` for characters that the encoding of standard output or standard error lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
