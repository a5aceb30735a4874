"""The command line only grows: the commands, options and JSON documents of November 2026 are all still there.

`cli_2026_11.json` holds every command with its options, `json_2026_11.json` the key paths of every document that `--json` printed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_calls import find_command
from typer.core import TyperGroup
from typer.testing import CliRunner

from jacquard.cli.app import FORMER_NAMES, GROUPS, app

HERE = Path(__file__).parent
WORLD = HERE / "baseline" / "packs" / "en"
COMMANDS = json.loads((HERE / "cli_2026_11.json").read_text(encoding="utf-8"))
DOCUMENTS = json.loads((HERE / "json_2026_11.json").read_text(encoding="utf-8"))
REPLY = '<content>Aye.</content><state_update>[["SUB", "hero.coins", 1]]</state_update>'
STEPS = {
    "validate": ["validate", str(WORLD)],
    "weave": ["weave", "--world", str(WORLD), "--session", "s1", "--input", "Where is old Finn?"],
    "commit": ["commit", "--session", "s1", "--text", REPLY],
    "action": ["action", "--session", "s1", "--input", "eat bread"],
    "state": ["state", "--session", "s1"],
    "history": ["history", "--session", "s1"],
    "explain": ["explain", "--session", "s1"],
    "replay": ["replay", "--session", "s1"],
    "fork": ["fork", "--session", "s1", "--at", "start", "--name", "other"],
    "switch": ["switch", "--session", "s1", "--name", "main"],
    "reindex": ["reindex", "--session", "s1"],
    "sweep": ["sweep"],
    "doc export": ["doc", "export", "s1"],
}
PLAIN = {"doc export"}
"""Commands that print JSON without being asked."""


def key_paths(value, path=""):
    """Yield the path of every key in a JSON value; items of a list share one path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            yield from key_paths(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from key_paths(inner, f"{path}[]")


def documents(store: Path, *of_weave: str) -> dict[str, set[str]]:
    """Run every step in order on one store; return the key paths of what each printed. `of_weave`: further options of weave."""
    found = {}
    for name, arguments in STEPS.items():
        options = [] if name in PLAIN else ["--json"]
        places = [] if name == "validate" else ["--store", str(store)]
        more = of_weave if name == "weave" else ()
        done = CliRunner().invoke(app, [*arguments, *more, *places, *options])
        assert done.exit_code == 0, f"{name}: {done.output}"
        found[name] = set(key_paths(json.loads(done.stdout)))
    return found


def missing(old, new, path=""):
    """Yield what a command tree had and has no more, or asks for newly."""
    options = {opt: param for param in new["params"] for opt in (param["opts"] or [param["name"]])}
    for param in old["params"]:
        for opt in param["opts"]:
            if opt not in options:
                yield f"{path} {opt}"
    known = {opt for param in old["params"] for opt in param["opts"]}
    for param in new["params"]:
        if param["required"] and not known.intersection(param["opts"]):
            yield f"{path} now requires {param['name']}"
    for name, command in old.get("commands", {}).items():
        if name in new.get("commands", {}):
            yield from missing(command, new["commands"][name], f"{path} {name}")
        else:
            yield f"{path} {name}"


def tree_of(old, *path):
    """Return the command of a path with its options, and those of its commands that `old` names, as JSON values."""
    command = find_command(*path)
    params = [
        {
            "name": each.name,
            "opts": sorted([*getattr(each, "opts", []), *getattr(each, "secondary_opts", [])]),
            "required": each.required,
        }
        for each in command.params
    ]
    inner = old.get("commands", {}) if isinstance(command, TyperGroup) else {}
    known = {name: each for name, each in inner.items() if find_command(*path, name) is not None}
    return {"params": params, "commands": {name: tree_of(each, *path, name) for name, each in known.items()}}


def test_no_command_and_no_option_is_gone():
    assert list(missing(COMMANDS, tree_of(COMMANDS))) == []


def test_every_command_can_be_called_by_its_former_name_too():
    former = {*COMMANDS["commands"]} - {*GROUPS}
    assert former <= FORMER_NAMES
    for name in former:
        done = CliRunner().invoke(app, [name, "--help"])
        (group,) = (group for group, each in GROUPS.items() if name in each.commands)
        renamed = CliRunner().invoke(app, [group, name, "--help"])
        assert done.exit_code == renamed.exit_code == 0
        assert (
            done.stderr
            == f"`jacquard {name}` is now `jacquard {group} {name}`; the former name goes with the next release.\n"
        )
        assert done.stdout == renamed.stdout.replace(f"jacquard {group} {name}", f"jacquard {name}", 1)


def test_a_former_name_says_nothing_where_a_program_reads(tmp_path):
    done = CliRunner().invoke(app, ["sessions", "--store", str(tmp_path), "--json"])
    assert (done.exit_code, done.stdout, done.stderr) == (0, "[]\n", "")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    found = documents(folder / "store")
    # The keys of memories: the history shows the two turns of the prologue, and then nothing is left to recall of them.
    others = documents(folder / "other", "--config", str(HERE / "every_memory.yaml"))
    return {name: keys | others[name] for name, keys in found.items()}


@pytest.mark.parametrize("name", STEPS)
def test_json_documents_keep_their_keys(printed, name):
    assert set(DOCUMENTS[name]) - printed[name] == set()
