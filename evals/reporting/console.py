"""Shared parts of the commands: printing, writing a report, failing."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from evals.errors import SetupError
from jacquard.cli.language import speak
from jacquard.cli.terminal import TerminalConsole
from mnemosyne.core.masking.controls import escape_json_controls

STANDARD_OUTPUT = Path("-")
error_output = TerminalConsole(stderr=True, highlight=False, soft_wrap=True)


def standard_output() -> Console:
    """Return the console for results."""
    return TerminalConsole(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 140)


def keep_json(value: Mapping[str, Any], file: Path | None) -> bool:
    """Write a value as JSON where it is wanted; True if a person should be shown it too."""
    text = escape_json_controls(json.dumps(value, ensure_ascii=False, indent=1)) + "\n"
    if file == STANDARD_OUTPUT:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return False
    if file is not None:
        file.write_text(text, encoding="utf-8", errors="replace")
    return True


def check_place(file: Path | None) -> None:
    """See before the work that its report can be written after it; SetupError."""
    if file is None or file == STANDARD_OUTPUT:
        return
    if file.is_dir():
        raise SetupError(f"{file} is a folder; name a file for the report.")
    file.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise SetupError(f"{file} cannot be written; name another place for the report.")


def fail(message: str, code: int = 1) -> typer.Exit:
    """Print an error, in the language of the environment if it is one of Jacquard's own; return the exit to raise."""
    error_output.print(Text(f"error: {speak(message)}", style="bold red"))
    return typer.Exit(code)
