"""The store of a command: every command that opens one takes it from the same settings, and says which one it is."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from cli_calls import walk_commands
from typer.testing import CliRunner

from jacquard.cli.app import app

FOREST = Path(__file__).parents[1] / "examples" / "whispering_forest" / "zh"
VARIABLE = "JACQUARD_SERVICE__STORE"
SESSION = ("--session", "demo")
WORDS = ("--input", "往东走。")
SERVES = ("operate serve", "operate studio", "operate mcp")
"""Commands that go on until they are stopped."""
EXIT_CODES = {"memory consolidate": 1, "memory accept": 1, "memory reject": 1}
"""Exit codes other than 0: no model is configured, and no memory waits for a yes."""
ARGUMENTS = {
    "play weave": (*SESSION, *WORDS),
    "play commit": (*SESSION, "--text", "你向东走去。"),
    "play action": (*SESSION, "--input", "喝一瓶治疗药水"),
    "play sessions list": (),
    "play sessions continue": ("demo", "demo-2"),
    "play state": SESSION,
    "play history": SESSION,
    "play fork": (*SESSION, "--turn", "p039", "--name", "east"),
    "play switch": (*SESSION, "--name", "west"),
    "play explain": SESSION,
    "author replay": SESSION,
    "memory source": ("mnemosyne://session:demo/turn/p001",),
    "memory import": ("notes.md", "--session", "other"),
    "memory export": ("demo", "--format", "chat"),
    "operate reindex": (),
    "operate check": (),
    "memory erase": SESSION,
    "operate sweep": (),
    "operate archive": SESSION,
    "memory consolidate": SESSION,
    "operate serve": ("--port", "{port}"),
    "operate studio": ("--port", "{port}", "--no-browser"),
    "operate mcp": (),
    "operate migrate": (),
    "operate backup": ("new.backup",),
    "operate restore": ("whole.backup",),
    "operate housekeeping": ("--once",),
    "operate doctor": (),
    "operate doc export": ("demo",),
    "operate doc import": ("demo.json",),
    "memory evidence add": ("notes.md", *SESSION),
    "memory lore list": ("whispering_forest",),
    "memory lore add": ("whispering_forest", "--text", "The mill stands still."),
    "memory lore edit": ("whispering_forest", "{lore}", "--text", "The mill turns."),
    "memory lore compare": ("demo", *WORDS),
    "memory search": ("mill", *SESSION),
    "memory facts": SESSION,
    "memory show": ("{memory}", *SESSION),
    "memory remember": ("The bridge is down.", *SESSION),
    "memory edit": ("{memory}", "The mill burnt down.", *SESSION),
    "memory supersede": ("{memory}", *SESSION),
    "memory pin": ("{memory}", *SESSION),
    "memory unpin": ("{pinned}", *SESSION),
    "memory undo": ("{edit}", *SESSION),
    "memory forget": ("{memory}", *SESSION),
    "memory proposals": SESSION,
    "memory accept": ("{memory}", *SESSION),
    "memory reject": ("{memory}", *SESSION),
    "memory log": SESSION,
    "author template preview": SESSION,
    "author template diff": ("chat", "dense", *SESSION),
    "author template watch": (*SESSION, "--renders", "1"),
    "operate tokens create": ("--tenant", "me"),
    "operate tokens list": (),
    "operate tokens revoke": ("{token}",),
    "operate snapshot publish": ("whispering_forest", "--at", "snapshots"),
}
"""What each command needs besides its store."""
COMMANDS = {" ".join(path): each for path, each in walk_commands() if any(one.name == "store" for one in each.params)}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """Return a folder with a store in which every command has something to do, and the ids of what is in it."""
    folder = tmp_path_factory.mktemp("played")
    store = ("--store", str(folder / "mine"))

    def run(*args):
        done = CliRunner().invoke(app, [*map(str, args)])
        assert done.exit_code == 0, done.output
        return done.stdout

    def remember(text):
        return json.loads(run("memory", "remember", text, *SESSION, "--json", *store))

    run("play", "weave", "--world", FOREST, *SESSION, *WORDS, "--embedder", "none", *store)
    run("play", "commit", *SESSION, "--text", "你向东走去。", *store)
    run("play", "fork", *SESSION, "--turn", "p040", "--name", "west", *store)
    run("play", "switch", *SESSION, "--name", "main", *store)
    run("play", "weave", *SESSION, *WORDS, "--embedder", "none", *store)
    pinned = remember("The key opens the mill.")["memory_id"]
    run("memory", "pin", pinned, *SESSION, *store)
    edit = remember("The mill is old.")
    lore = run("memory", "lore", "add", "whispering_forest", "--text", "The mill is red.", "--json", *store)
    token = run("operate", "tokens", "create", "--tenant", "me", "--json", *store)
    run("operate", "backup", folder / "whole.backup", *store)
    run("operate", "doc", "export", "demo", "--out", folder / "demo.json", *store)
    (folder / "notes.md").write_text("# The mill\n\nIt stands by the river.\n", encoding="utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ids = {"port": port, "memory": edit["memory_id"], "edit": edit["edit_id"], "pinned": pinned}
    return folder, ids | {"lore": json.loads(lore)["entry_id"], "token": json.loads(token)["token_id"]}


@pytest.fixture
def call(played, tmp_path, monkeypatch):
    """Run a command in a folder with a copy of the played store, named `mine`."""
    folder, ids = played
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)

    def run(name, *options, environment=()):
        given = [*name.split(), *(each.format(**ids) for each in ARGUMENTS[name]), *options]
        if any(each.name == "embedder" for each in COMMANDS[name].params):
            given += ["--embedder", "none"]
        if name in SERVES:
            return run_process(given, environment)
        return CliRunner().invoke(app, given, env=dict(environment))

    return run


def run_process(arguments, environment):
    command = [sys.executable, "-m", "jacquard", *arguments]
    done = subprocess.run(command, input="", capture_output=True, text=True, env=os.environ | dict(environment))
    return SimpleNamespace(exit_code=done.returncode, stderr=done.stderr, output=done.stdout + done.stderr)


def mine(name):
    """Return the store for a command; a restore needs an empty one, and an import of a session one without it."""
    return "empty" if name in ("operate restore", "operate doc import") else "mine"


def test_every_command_with_a_store_is_called_here_and_takes_settings():
    assert set(COMMANDS) == set(ARGUMENTS)
    assert [name for name, each in COMMANDS.items() if not any(one.name == "config" for one in each.params)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_uses_the_store_of_the_environment_or_says_why_not(call, name):
    done = call(name, environment={VARIABLE: "nosuch://x:secret@y"})
    # A client of MCP is told with its first call.
    assert done.exit_code != 0 or name == "operate mcp"
    assert "nosuch://" in done.stderr
    assert "secret" not in done.output
    assert not Path(".jacquard").exists()


@pytest.mark.parametrize("name", [each for each in COMMANDS if each not in SERVES])
def test_a_command_uses_the_store_of_the_environment_and_names_it(call, name):
    done = call(name, environment={VARIABLE: mine(name)})
    assert done.exit_code == EXIT_CODES.get(name, 0), done.output
    assert f"store: {mine(name)} ({VARIABLE})" in done.stderr
    assert not Path(".jacquard").exists()


@pytest.mark.parametrize("name", [each for each in COMMANDS if each not in SERVES])
def test_a_command_uses_the_store_of_a_settings_file(call, name):
    Path("settings.yaml").write_text(f"service:\n  store: {mine(name)}\n")
    done = call(name, "--config", "settings.yaml")
    assert done.exit_code == EXIT_CODES.get(name, 0), done.output
    assert f"store: {mine(name)} (service.store of settings.yaml)" in done.stderr
    assert not Path(".jacquard").exists()


@pytest.mark.parametrize("name", [each for each in COMMANDS if each not in SERVES])
def test_the_option_wins_over_the_settings(call, name):
    done = call(name, "--store", mine(name), environment={VARIABLE: "nosuch://"})
    assert done.exit_code == EXIT_CODES.get(name, 0), done.output
    assert not Path(".jacquard").exists()


def test_the_environment_wins_over_a_settings_file(call):
    Path("settings.yaml").write_text("service:\n  store: nosuch:// \n")
    done = call("play sessions list", "--config", "settings.yaml", environment={VARIABLE: "mine"})
    assert "demo" in done.stdout


def test_the_default_is_named_too_and_output_for_programs_stays_as_it_is(call):
    done = call("play sessions list", "--json")
    assert "store: .jacquard (default)" in done.stderr
    assert json.loads(done.stdout) == []


def test_a_backup_of_an_empty_store_fails_and_a_good_one_names_the_store(call):
    call("play sessions list", "--store", "empty")
    empty = call("operate backup", "--store", "empty")
    assert empty.exit_code == 1
    assert "it is empty" in empty.stderr
    assert not Path("new.backup").exists()
    assert "new.backup: written from mine." in call("operate backup", "--store", "mine").stdout
