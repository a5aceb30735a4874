"""The worked example of docs/en/templates.md is done as it stands: files are written, commands run, in order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.testing import CliRunner

from jacquard.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "en" / "templates.md"
_BLOCK = re.compile(r"^```(jinja|yaml|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"\A(?:\{# (\S+) #\}|# (\S+))\n")


def test_the_worked_example_of_the_guide_works(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told: dict[str, str] = {}
    for kind, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind != "console":
            match = _PATH.match(text)
            assert match, f"a file without its path: {text[:60]}"
            path = Path(match.group(1) or match.group(2))
            assert path.parent.is_dir()
            path.write_text(text, encoding="utf-8")
            continue
        for line in re.findall(r"^\$ jacquard (.+)$", text, re.MULTILINE):
            done = CliRunner().invoke(app, shlex.split(line))
            assert done.exit_code == 0, f"$ jacquard {line}\n{done.output}"
            told[line] = done.output
    assert "0 errors, 0 warnings" in told["author template lint harbour"]
    preview = told['author template preview night --world harbour --input "What do I hear?"']
    assert "hour: It is night." in preview
    assert "Oil lamp" not in preview
    assert "turns change" in told["author template diff chat night --session demo --turns 3"]
    assert "passed" in told["author template test harbour"]
