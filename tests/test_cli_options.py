"""Options of the command itself: its version, and completion in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.cli.app import app


def test_the_version_is_that_of_the_installed_package():
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"jacquard {version('jacquard-context')}\n")


def test_a_shell_is_given_the_commands_that_begin_so():
    words = {"COMP_WORDS": "jacquard memory e", "COMP_CWORD": "2", "_JACQUARD_COMPLETE": "complete_bash"}
    done = _run_command(words)
    assert done.stdout.split() == ["edit", "evidence", "export", "erase"]


def test_a_shell_is_given_the_options_of_a_command():
    words = {"COMP_WORDS": "jacquard play weave --sess", "COMP_CWORD": "3", "_JACQUARD_COMPLETE": "complete_bash"}
    assert _run_command(words).stdout.split() == ["--session"]


def test_the_completion_script_can_be_shown():
    # Without a shell among the processes above it, as in CI, the command cannot detect one: the shell is named.
    done = _run_command({"_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}, "--show-completion", "bash")
    assert done.returncode == 0, done.stderr
    assert "complete -o default -F _jacquard_completion jacquard" in done.stdout


RUN_EACH = """
import json, sys
from jacquard.cli.main import main
codes = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["jacquard", *words]
    try:
        main()
    except SystemExit as end:
        codes.append(end.code)
sys.stdout.flush()
sys.stderr.write(f"\\n{codes}")
"""


@pytest.mark.parametrize("code_page", ["gbk", "cp1252", "ascii", "utf-8"])
def test_output_is_written_in_any_code_page(code_page, tmp_path):
    store = ("--store", str(tmp_path / "store"))
    place = ("--session", "s", *store)
    commands = (
        ("play", "weave", "--help"),
        ("play", "weave", "--profile", "assistant", "--embedder", "none", "--input", "Where is 👩‍🚀? 钥匙 é", *place),
        ("play", "commit", "--text", "她在 👩‍🚀。", *place),
        ("play", "explain", *store),
        ("play", "explain", "--find", "👩‍🚀", *store),
        ("play", "sessions", "👩‍🚀", *store),
        ("play", "history", *place),
        ("play", "state", "--session", "👩‍🚀", *store),
    )
    done = subprocess.run(
        [sys.executable, "-c", RUN_EACH, json.dumps(commands)],
        capture_output=True,
        encoding=code_page,
        errors="replace",
        env={**os.environ, "PYTHONIOENCODING": f"{code_page}:strict"},
    )
    assert done.stderr.splitlines()[-1] == str([0, 0, 0, 0, 0, 0, 0, 1]), done.stderr
    assert "Traceback" not in done.stderr
    assert "There is no session" in done.stderr
    assert ("é" if code_page == "cp1252" else "钥匙" if code_page in ("gbk", "utf-8") else "Where is ?") in done.stdout


def _run_command(environment, *arguments):
    command = [str(Path(sys.executable).with_name("jacquard")), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env={**os.environ, **environment})
