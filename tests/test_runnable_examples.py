"""The examples run as they are, against the scripted server that they start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
TOLD = {
    "game": ["'The key was never lost,' he says.", "healing potions left: 1", "> What did he say about the key?"],
    "support": ["One of two boxes is on its way", "Only if it is broken"],
    "coding": ["2 passed.", "the wrong way round"],
    "party": [
        "(shown: The ring, What Ann saw)",
        "(shown: The ring, What Bo hides)",
        "(shown: The ring, What Cleo did)",
    ],
}


@pytest.mark.parametrize("name", TOLD)
def test_an_example_runs_without_a_provider(name: str) -> None:
    alone = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, f"{name}.py"], cwd=EXAMPLES, env=alone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in TOLD[name]:
        assert words in done.stdout
