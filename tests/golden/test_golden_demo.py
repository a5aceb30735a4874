"""The prompt of `make demo` is the one that was reviewed: `demo_messages.json` and `demo_text.txt`, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from jacquard.cli.app import app

HERE = Path(__file__).parent
WORLD = Path(__file__).parents[2] / "examples" / "whispering_forest" / "zh"
INPUT = "那把钥匙是不是开启神庙的?我记得之前提到过。"


def test_the_prompt_of_the_demo(tmp_path):
    options = ["--world", str(WORLD), "--session", "demo", "--store", str(tmp_path / "demo"), "--input", INPUT]
    done = CliRunner().invoke(app, ["play", "weave", *options, "--json"])
    assert done.exit_code == 0, done.output
    turn = json.loads(done.stdout)
    assert turn["messages"] == json.loads((HERE / "demo_messages.json").read_text(encoding="utf-8"))
    assert turn["text"] == (HERE / "demo_text.txt").read_text(encoding="utf-8")
