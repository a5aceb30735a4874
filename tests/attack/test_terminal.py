"""No text of a player, a model, a pack or a file controls the terminal, the page or the direction of text of who reads it.

Every face prints the same hostile text: commands for people and for programs, errors, tables, progress, the page of a turn.
"""

from __future__ import annotations

import json
import re
import unicodedata
from pathlib import Path

import pytest
import yaml
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner

from jacquard.cli.app import app
from jacquard.cli.terminal import TerminalConsole

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
CONTROLS = "".join(map(chr, [*range(1, 9), *range(11, 32), *range(0x7F, 0xA0)])) + BIDI + "\u2028\u2029\ufeff\ufff9"
HOSTILE = f"a key \x1b[31mred\x1b]0;title\x07 \x9b31m {CONTROLS} end"
RAW = re.compile(f"[{re.escape(CONTROLS)}]")
OURS = re.compile(r"\x1b\[[0-9;]*m")


def raw(text):
    return sorted({f"U+{ord(sign):04X}" for sign in RAW.findall(text)})


def call(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def session(tmp_path, monkeypatch):
    """A session in which user, model and world say what is hostile."""
    monkeypatch.chdir(tmp_path)
    world = tmp_path / "world"
    world.mkdir()
    title = "".join(sign for sign in HOSTILE if unicodedata.category(sign) != "Cc")
    pack = {"id": "w", "title": title, "locale": "en", "state": {"hero": {"id": "hero", "gold": 1}}}
    (world / "world.yaml").write_text(yaml.safe_dump(pack))
    done = call("play", "weave", "-s", "s1", "-i", HOSTILE, "--world", world, "--embedder", "none")
    assert done.exit_code == 0, done.output
    assert raw(done.output) == []
    done = call("play", "commit", "-s", "s1", "--text", f"<content>{HOSTILE}</content>")
    assert done.exit_code == 0, done.output
    assert raw(done.output) == []
    assert call("play", "weave", "-s", "s1", "-i", HOSTILE + " again", "--embedder", "none").exit_code == 0


FACES = [
    ["play", "history", "-s", "s1"],
    ["play", "state", "-s", "s1"],
    ["play", "explain", "-s", "s1"],
    ["play", "explain", "-s", "s1", "--find", "end"],
    ["play", "explain", "-s", "s1", "--find", HOSTILE],
    ["author", "replay", "s1"],
    ["author", "template", "preview", "-s", "s1"],
    ["memory", "source", "mnemosyne://session:s1/turn/p001"],
    ["operate", "doc", "export", "s1"],
    ["memory", "erase", "-s", "s1", "--dry-run"],
    ["play", "history", "-s", HOSTILE],
    ["play", "weave", "-s", "s1", "-i", "x", "--template", HOSTILE, "--embedder", "none"],
    ["play", "weave", "-s", "s1", "-i", "x", "--layout", HOSTILE, "--embedder", "none"],
    ["play", "weave", "-s", "s1", "-i", "x", "--config", HOSTILE],
    ["play", "action", "-s", "s1", "-i", HOSTILE],
    ["play", "fork", "-s", "s1", "--at", HOSTILE, "--name", "b"],
    ["author", "validate", HOSTILE],
]


def test_no_command_prints_what_controls_a_terminal(session):
    for face in FACES:
        done = call(*face)
        assert done.exception is None or isinstance(done.exception, SystemExit), face
        assert raw(done.output) == [], face


@pytest.mark.parametrize(
    "face",
    [
        ["play", "history", "-s", "s1", "--json"],
        ["play", "explain", "-s", "s1", "--json"],
        ["author", "replay", "s1", "--json"],
        ["play", "state", "-s", "s1", "--json"],
        ["operate", "doc", "export", "s1"],
    ],
)
def test_json_writes_it_by_numbers_and_reads_back_the_same(session, face):
    done = call(*face)
    assert done.exit_code == 0, done.output
    assert raw(done.stdout) == []
    told = json.loads(done.stdout)
    if face[1] == "history":
        assert BIDI in json.dumps(told, ensure_ascii=False)


def test_the_page_of_a_turn_shows_it(session):
    done = call("play", "explain", "-s", "s1", "--html", "page.html")
    assert done.exit_code == 0, done.output
    page = Path("page.html").read_text(encoding="utf-8")
    assert raw(page) == []
    assert "\\u202e" in page


def test_a_table_that_nobody_cleaned_prints_escapes(capsys):
    console = TerminalConsole(force_terminal=True, width=400)
    table = Table(title=HOSTILE)
    table.add_column(HOSTILE)
    table.add_row(Text(HOSTILE, style="bold red"))
    console.print(table)
    console.rule(HOSTILE)
    console.print(HOSTILE, markup=False)
    assert raw(OURS.sub("", capsys.readouterr().out)) == []
