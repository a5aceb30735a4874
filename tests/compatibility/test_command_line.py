"""The command line only grows: the commands, options and JSON documents of November 2026 are all still there.

`cli_2026_11.json` holds every command with its options, `json_2026_11.json` the key paths of every document that `--json` printed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from jacquard.cli.app import app

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


def tree_of(command):
    """Return a command with its options and its own commands, as JSON values."""
    params = [
        {
            "name": each.name,
            "opts": sorted([*getattr(each, "opts", []), *getattr(each, "secondary_opts", [])]),
            "required": each.required,
        }
        for each in command.params
    ]
    inner = {name: tree_of(each) for name, each in sorted(getattr(command, "commands", {}).items())}
    return {"params": params, "commands": inner}


def test_no_command_and_no_option_is_gone():
    assert list(missing(COMMANDS, tree_of(get_command(app)))) == []


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
