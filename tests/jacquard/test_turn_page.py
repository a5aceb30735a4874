"""The page of a turn: one file that loads and runs nothing, with every block, and hostile texts as text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jacquard.authoring.replay.turn_page import Check, FactRow, PageSection, PageTurn, Verdict, render_turn_page
from jacquard.cli.app import app

FOREST = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en"
HOSTILE = "</pre></details></style><script>alert(1)</script><img src=x onerror=alert(2)> {{ 7*7 }} \u202e"


class Tags(HTMLParser):
    """Collects the tags of a page with their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs the command in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*args, code=0):
        done = CliRunner().invoke(app, [str(arg) for arg in args])
        assert done.exit_code == code, done.output
        return done

    return call


@pytest.fixture
def page(run):
    """Return the page of a turn with a hostile input."""
    run(
        "play",
        "weave",
        "--world",
        FOREST,
        "--session",
        "s",
        "--embedder",
        "none",
        "--input",
        f"The temple key? {HOSTILE}",
    )
    run("play", "explain", "--session", "s", "--html", "turn.html")
    return Path("turn.html").read_text(encoding="utf-8")


def test_the_page_shows_every_block_and_what_was_left_out(page):
    text = " ".join(Tags(page).text)
    assert "It must be in every prompt." in text
    assert "lore_temple_key" in text
    assert "Left out:" in text
    assert "id: item_sword_01" in text


def test_hostile_texts_are_text(page):
    seen = Tags(page)
    assert HOSTILE.replace("\u202e", "\\u202e") in "".join(seen.text)
    assert {tag for tag, _ in seen.tags}.isdisjoint({"script", "img", "iframe", "link", "object"})
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]


def test_the_page_loads_nothing(page):
    seen = Tags(page)
    assert not [attributes for _, attributes in seen.tags if {"src", "href"} & attributes.keys()]
    policies = [attributes["content"] for tag, attributes in seen.tags if attributes.get("http-equiv")]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert "url(" not in page


def test_the_same_turn_gives_the_same_page(run, page):
    run("play", "explain", "--session", "s", "--html", "again.html")
    assert Path("again.html").read_text(encoding="utf-8") == page


def test_html_goes_with_no_other_form(run, page):
    done = run("play", "explain", "--session", "s", "--html", "turn.html", "--find", "key", code=2)
    assert "Give --html without them" in done.stderr


def test_a_page_that_cannot_be_written_is_named(run, page):
    done = run("play", "explain", "--session", "s", "--html", "missing/turn.html", code=1)
    assert "missing/turn.html cannot be written" in done.stderr


def test_checks_and_facts_are_on_the_page_and_faults_are_counted():
    turns = [
        PageTurn(
            heading=HOSTILE,
            said=[("input", HOSTILE)],
            checks=[
                Check(verdict=Verdict.BAD, label="lost", text=HOSTILE),
                Check(verdict=Verdict.GOOD, label="facts", text=""),
            ],
            facts=[
                FactRow(name="coins", wanted="coins: 2", found="is missing"),
                FactRow(name="lamp", wanted="lit: true"),
            ],
        ),
        PageTurn(heading="2"),
    ]
    section = PageSection(title=HOSTILE, turns=turns, figures=[("lost", HOSTILE)])
    text = " ".join(Tags(render_turn_page(HOSTILE, [section])).text)
    assert section.labels == ("lost",)
    assert "1 lost" in text
    assert "1 of 2 hold" in text
    assert text.count("<script>") == 7
