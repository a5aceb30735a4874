"""Every memory verb is in every face, and does the same in each."""

from __future__ import annotations

import inspect

import pytest
from cli_calls import find_command, walk_commands
from verb_faces import FACES, Tools

from jacquard import MemoryVerbs
from jacquard.client import RemoteVerbs
from jacquard.remote.operations import OPERATIONS
from jacquard.service.mcp.tools import TOOLS

FACT, FIXED = "The boat key hangs behind the blue clock.", "The boat key lies under the red mat."
QUESTION = "Where is the boat key?"
COMMANDS = {
    "sessions": ("play", "sessions", "list"),
    "continue_session": ("play", "sessions", "continue"),
    "memory": ("memory", "show"),
    "get_state": ("play", "state"),
    "set_state": ("play", "state"),
    "lore": ("memory", "lore", "list"),
    "add_lore": ("memory", "lore", "add"),
    "edit_lore": ("memory", "lore", "edit"),
}
VERBS = sorted(name for name in vars(MemoryVerbs) if not name.startswith("_"))


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_is_in_each_face(verb):
    assert inspect.signature(getattr(RemoteVerbs, verb)) == inspect.signature(getattr(MemoryVerbs, verb))
    assert Tools.names[verb] in TOOLS
    assert Tools.names[verb] in {each.name for each in OPERATIONS}
    found = find_command(*COMMANDS.get(verb, ("memory", verb)))
    assert "--json" in {option for each in found.params for option in each.opts}


def test_explain_and_the_turn_are_in_each_face():
    for name in ("explain", "prepare_turn", "commit_assistant_message", "start_session"):
        assert name in TOOLS
    assert {("play", name) for name in ("explain", "weave", "commit")} <= {path for path, _ in walk_commands("play")}


@pytest.mark.anyio
@pytest.mark.parametrize("face", FACES)
async def test_a_memory_goes_the_same_way_in_each_face(face, tmp_path):
    async with FACES[face](tmp_path) as verbs:
        first = await verbs.call("remember", "s", FACT, title="boat")
        assert (first["action"], first["author"], first["after"]) == ("remember", "ana", FACT)
        assert first["at"]
        found = await verbs.call("search", "s", QUESTION)
        assert (found[0]["memory_id"], found[0]["text"]) == (first["edit_id"], FACT)
        assert found[0]["signals"]["fts"] > 0
        pinned = await verbs.call("pin", "s", first["edit_id"])
        assert pinned["action"] == "pin"
        assert FACT in await verbs.prompt("Something else entirely.")
        edited = await verbs.call("edit", "s", first["edit_id"], FIXED)
        prompt = await verbs.prompt("And now?")
        assert FIXED in prompt
        assert FACT not in prompt
        assert (await verbs.call("memory", "s", edited["edit_id"]))["text"] == FIXED
        assert (await verbs.call("undo", "s", edited["edit_id"]))["undone_by"] == "ana"
        log = await verbs.call("log", "s")
        assert {each["author"] for each in log} == {"ana"}
        assert [each["action"] for each in log][:3] == ["remember", "pin", "edit"]
        over = await verbs.call("supersede", "s", first["edit_id"])
        assert FACT not in await verbs.prompt(QUESTION)
        await verbs.call("undo", "s", over["edit_id"])
        assert first["edit_id"] in await verbs.call("forget", "s", first["edit_id"])
        prompt = await verbs.prompt("What is behind the clock?")
        assert FACT not in prompt
        assert FIXED not in prompt
