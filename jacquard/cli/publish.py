"""Writes the summaries of all commands into a file, from which the overview of the command line is printed.

Run `python -m jacquard.cli.publish` after a change of a command's first sentence, and for a new command.
"""

from __future__ import annotations

import json
from pathlib import Path

from typer.main import get_command

from jacquard.cli.app import app
from mnemosyne.files import write_file

OVERVIEW = Path(__file__).with_name("overview.json")
_WHOLE = 1_000


def overview_json() -> str:
    """Return the first sentence of each command and group, by name, in their order."""
    commands = getattr(get_command(app), "commands", {})
    summaries = {name: each.get_short_help_str(_WHOLE) for name, each in commands.items()}
    return json.dumps(summaries, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    write_file(OVERVIEW, overview_json())
