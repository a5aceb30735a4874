"""The proof itself, on its smallest part: a recording is equal to another one, and a change of a letter is named by its key.

The whole proof is a command: `python -m tests.proof` (CONTRIBUTING.md).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.proof.differences import compare_folders  # noqa: E402


def prove(*arguments: object) -> str:
    """Run the command on the smallest part; return what it printed."""
    command = [sys.executable, "-m", "tests.proof", *map(str, arguments), "--only", "small"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_same_code_gives_the_same_bytes_and_goes_on_in_recorded_stores(tmp_path):
    prove("record", tmp_path)
    said = prove("check", tmp_path, "--stores")
    assert "All turns of the recorded stores are replayed byte for byte." in said


def test_a_value_that_differs_is_named_by_its_line_and_key(tmp_path):
    rows = ('{"a": [{"text": "one"}], "b": 1}', '{"a": [], "b": 2}')
    for folder, line in zip(("before", "after"), rows, strict=True):
        (tmp_path / folder / "part").mkdir(parents=True)
        (tmp_path / folder / "part" / "turns.jsonl").write_text(f"{{}}\n{line}\n", encoding="utf-8")
    found = compare_folders(tmp_path / "before", tmp_path / "after", ["part"])
    told = [(each.line, each.key, each.before, each.after) for each in found.shown]
    assert told == [(2, "a[0]", '{"text": "one"}', "(missing)"), (2, "b", "1", "2")]
    assert dict(found.forms) == {"turns.jsonl a[]": 1, "turns.jsonl b": 1}
