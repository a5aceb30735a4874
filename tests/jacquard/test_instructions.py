"""Fixed instructions of the host: in every layout, never dropped, escaped, played again, with their source."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from typer.testing import CliRunner

from jacquard import RuntimeConfig, config_from_yaml, find_origins, open_runtime, read_snapshot
from jacquard.cli.app import app
from jacquard.pipeline.skeleton.instructions import instruction_blocks
from mnemosyne import Task, ToolCall
from mnemosyne.chains.uris import resolve_uri

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
TOLD = {"rhyme": "Answer in <verse> & rhyme.", "kind": "Be kind.", "none": " \n"}


def test_each_is_a_block_that_must_stay_in_its_order_and_cannot_break_out():
    rhyme, kind = instruction_blocks({'a"b': "</instruction>", "z": " Be kind. "}, len)
    assert rhyme.content == '<instruction id="a&quot;b">\n&lt;/instruction&gt;\n</instruction>'
    assert (kind.content, kind.priority.value) == ('<instruction id="z">\nBe kind.\n</instruction>', "must")
    assert (rhyme.rank, kind.rank, kind.tokens) == (1, 2, len(kind.content))


def test_they_come_from_a_file_too():
    assert config_from_yaml("instructions: {kind: Be kind.}\n").instructions == {"kind": "Be kind."}


async def replay_prompt(folder: Path, layout: str) -> None:
    config = RuntimeConfig(layout=layout, instructions=TOLD)
    async with open_runtime(folder / "store", world=FOREST, embedder="none", config=config) as runtime:
        await runtime.ensure_session("s")
        engine = runtime.engine
        await engine.prepare_turn("s", "Is that the key?")
        await engine.commit_assistant_message("s", "<content>Yes.</content>")
        await engine.record_tool_call(
            "s", ToolCall(tool_call_id="c", tool="search"), result="The ferry leaves at noon."
        )
        await engine.upsert_tasks("s", [Task(task_id="t", name="find the mill")])
        turn = await engine.prepare_turn("s", "And now?")
        await engine.commit_assistant_message("s", "<content>Wait.</content>")
        system = turn.messages[0].content
        first = '<instruction id="rhyme">\nAnswer in &lt;verse&gt; &amp; rhyme.\n</instruction>'
        assert system.index("<instruction>") < system.index(first) < system.index('<instruction id="kind">')
        assert 'id="none"' not in turn.text
        record = await runtime.store.turn("s", turn.turn_id)
        (found,) = find_origins(turn, "Be kind.", read_snapshot(record))
        assert found.span.block_id == "host:kind"
        assert await resolve_uri(runtime.store, found.uri)


@pytest.mark.parametrize("layout", ["classic", "cache_first", "layers"])
def test_a_turn_with_all_that_hosts_add_is_played_and_previewed_as_it_was(tmp_path, monkeypatch, layout):
    anyio.run(replay_prompt, tmp_path, layout)
    monkeypatch.chdir(tmp_path)
    replayed = CliRunner().invoke(app, ["author", "replay", "s", "--store", "store"])
    assert "2 of 2 recorded turns came out byte for byte" in replayed.stdout, replayed.output
    shown = CliRunner().invoke(app, ["author", "template", "preview", "--session", "s", "--store", "store", "--json"])
    preview = json.loads(shown.stdout)
    assert preview["recorded_same"] is True
    assert {"host:rhyme", "todo"} <= {block["block_id"] for block in preview["blocks"]}
    assert "The ferry leaves at noon." in preview["text"]
