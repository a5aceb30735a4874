"""The overview of the commands is that of the commands themselves, and costs neither an engine nor a store."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.cli.overview import SUMMARIES, overview


def test_every_command_has_its_line_in_the_overview():
    """A new command or group needs a line in `SUMMARIES`, with the first sentence of its help."""
    commands = get_command(app).commands
    assert list(SUMMARIES.items()) == [(name, each.get_short_help_str(1_000)) for name, each in commands.items()]


@pytest.mark.parametrize("columns", [60, 200])
@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_the_overview_prints_what_the_command_line_does(arguments, columns):
    shown = [
        CliRunner().invoke(each, arguments, terminal_width=columns, prog_name="jacquard") for each in (app, overview())
    ]
    assert shown[0].output == shown[1].output
    assert shown[0].exit_code == shown[1].exit_code == 0


def test_it_loads_no_engine():
    code = (
        "import sys; sys.argv = ['jacquard', '--help']\n"
        "import jacquard.cli.main as line\n"
        "try: line.main()\n"
        "except SystemExit: pass\n"
        "assert not {'jacquard.turns.engine', 'mnemosyne.stores.open', 'jinja2', 'numpy', 'msgspec'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
