"""New things of the state in play: each has an address in the next prompt, however it came in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from jacquard import open_runtime

WORLD = """
id: inn
title: The inn
locale: en
instruction: You are the narrator.
state:
  people:
    $meta:
      extensible: true
      template:
        trust: 50
        $meta: {limits: {trust: [0, 100]}, types: {name: text, at: text}, necessary: [name]}
    bram: {id: bram, name: Bram, at: the bar, trust: 60}
"""
BRAM = {"name": "Bram", "at": "the bar", "trust": 60}
ZED = {"name": "Zed"}


def play(tmp_path: Path, ops: list[Any], then: list[Any], *, repaired: bool = False) -> tuple[str, Any, str]:
    """Play two turns of which the first brings ops, by the model or by its host; return the prompts and the last commit."""
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "world.yaml").write_text(WORLD, encoding="utf-8")

    async def run() -> tuple[str, Any, str]:
        async with open_runtime(tmp_path / "store", world=pack, embedder="none") as runtime:
            await runtime.ensure_session("s")
            engine = runtime.engine
            await engine.prepare_turn("s", "Who comes in?")
            update = "" if repaired else f"<state_update>{json.dumps(ops, ensure_ascii=False)}</state_update>"
            done = await engine.commit_assistant_message("s", f"<content>Someone.</content>{update}")
            assert done.refused is None
            if repaired:
                await engine.repair_state("s", ops)
            second = await engine.prepare_turn("s", "And now?")
            update = f"<state_update>{json.dumps(then, ensure_ascii=False)}</state_update>"
            done = await engine.commit_assistant_message("s", f"<content>Well.</content>{update}")
            return second.text, done, (await engine.prepare_turn("s", "And then?")).text

    return anyio.run(run)


@pytest.mark.parametrize(
    "ops",
    [
        [["SET", "people.zed", ZED]],
        [["SET", "people", {"bram": BRAM, "zed": ZED}]],
        [{"op": "add", "path": "/people/zed", "value": ZED}],
        [["SET", "people.zed", {"name": "Zoe"}], ["DELETE", "people.zed"], ["SET", "people.zed", ZED]],
    ],
    ids=["set", "whole mapping", "json patch", "deleted and set again"],
)
@pytest.mark.parametrize("repaired", [False, True], ids=["model", "host"])
def test_a_new_person_is_addressed_by_the_id_that_the_prompt_shows(
    tmp_path: Path, ops: list[Any], repaired: bool
) -> None:
    shown, done, after = play(
        tmp_path, ops, [["SET", "zed.at", "the stairs"], ["ADD", "zed.trust", 5]], repaired=repaired
    )
    assert "  zed:\n    id: zed\n" in shown
    assert "people.*.trust: 0..100" in shown
    assert done.refused is None
    assert "at: the stairs" in after


def test_a_new_person_with_a_chinese_key(tmp_path: Path) -> None:
    shown, done, after = play(tmp_path, [["SET", "people.老周", {"name": "老周"}]], [["SET", "老周.at", "楼梯"]])
    assert "    id: 老周\n" in shown
    assert done.refused is None
    assert "at: 楼梯" in after
