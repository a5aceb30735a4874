"""The entry point of the `jacquard` command: its overview is printed without loading an engine."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module

from jacquard.cli.overview import overview

_COMPLETING = "_JACQUARD_COMPLETE"


def main() -> None:
    """Run the command line."""
    replace_unwritable()
    if sys.argv[1:] in ([], ["--help"], ["--version"]) and _COMPLETING not in os.environ:
        overview()()
    else:
        import_module("jacquard.cli.app").app()


def replace_unwritable() -> None:
    """Have characters that the code page of standard output and error does not know written as `?`, for the whole process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
