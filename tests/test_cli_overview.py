"""The overview of the commands is that of the commands themselves, and costs neither an engine nor a store."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.cli.overview import overview
from jacquard.cli.publish import OVERVIEW, overview_json


def test_every_command_has_its_line_in_the_overview():
    """Where a command was added or its first sentence changed, run `python -m jacquard.cli.publish`."""
    assert OVERVIEW.read_text(encoding="utf-8") == overview_json()


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
