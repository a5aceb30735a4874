"""Commands as a user types them, in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner

from jacquard.cli.app import app


def call(*args: object, codes: tuple[int, ...] = (0,)) -> Any:
    """Run a command and return its result. A traceback is never an answer, and the exit code is one of `codes`."""
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in codes, f"exit code {done.exit_code}: {done.output}"
    return done
