"""Commands as a user types them, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from jacquard.cli.app import app


def find_command(*path: str) -> Any:
    """Return the command that is run by these words, or None."""
    found: Any = get_command(app)
    for name in path:
        found = found.get_command(None, name) if isinstance(found, TyperGroup) else None
    return found


def walk_commands(*path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command below a group, and the words that run it."""
    found = find_command(*path)
    for name in found.list_commands(None) if isinstance(found, TyperGroup) else ():
        yield (*path, name), find_command(*path, name)
        yield from walk_commands(*path, name)


def call(*args: object, codes: tuple[int, ...] = (0,)) -> Any:
    """Run a command and return its result. A traceback is never an answer, and the exit code is one of `codes`."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in codes, f"exit code {done.exit_code}: {done.output}"
    return done
