"""The help of the command line: four groups, and neither an engine nor a store is loaded for it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest
from cli_calls import walk_commands
from typer.testing import CliRunner

from jacquard.cli.app import GROUPS, app


def test_the_help_lists_four_groups_with_a_line_each_and_says_how_to_begin():
    shown = CliRunner().invoke(app, ["--help"], terminal_width=80, prog_name="jacquard").output
    told, _, listed = shown.partition("Commands:\n")
    assert [line.split()[0] for line in listed.splitlines()] == ["play", "author", "memory", "operate"]
    assert "..." not in listed
    assert "Begin: jacquard author init my_world" in told


def test_every_command_stands_in_exactly_one_group():
    names = Counter(name for group in GROUPS.values() for name in group.commands)
    assert set(names.values()) == {1}
    assert {path for path, _ in walk_commands() if len(path) == 2} == {
        (group, name) for group, each in GROUPS.items() for name in each.commands
    }


@pytest.mark.parametrize("group", GROUPS)
def test_the_help_of_a_group_is_short_and_gives_each_command_a_whole_sentence(group):
    shown = CliRunner().invoke(app, [group, "--help"], terminal_width=80, prog_name="jacquard").output
    lines = shown.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in lines if line[2] != " "] == [*GROUPS[group].commands]
    assert "…" not in shown
    assert len(shown.splitlines()) <= 45


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("waeve",), "jacquard play weave"),
        (("tempalte",), "jacquard author template"),
        (("oprate", "serve"), "jacquard operate"),
        (("memory", "serach"), "jacquard memory search"),
        (("play", "serve"), "jacquard operate serve"),
        (("Play", "Weave"), "jacquard play"),
    ],
)
def test_a_mistyped_command_is_answered_with_the_nearest_one(typed, meant):
    done = CliRunner().invoke(app, [*typed])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"Did you mean `{meant}`?" in done.stderr


def test_a_word_that_is_like_no_command_is_refused():
    done = CliRunner().invoke(app, ["xyzzy"])
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: There is no command 'xyzzy'.")


def test_it_loads_no_engine():
    code = (
        "import sys; sys.argv = ['jacquard', '--help']\n"
        "import jacquard.cli.main as line\n"
        "try: line.main()\n"
        "except SystemExit: pass\n"
        "assert not {'jacquard.turns.engine', 'mnemosyne.stores.open', 'jinja2', 'numpy', 'msgspec'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
