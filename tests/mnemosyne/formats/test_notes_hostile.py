"""Whatever a note holds, it comes in or is named, and the work grows with its size alone."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import (
    CorpusError,
)
from mnemosyne.core.plain_values import plain_faults
from mnemosyne.formats.notes.front_matter import parse_note
from mnemosyne.formats.notes.markdown import read_markdown, split_text
from mnemosyne.formats.notes.obsidian import read_vault
from mnemosyne.formats.notes.text import clean_text, iter_headings

MARKS = (
    *(
        "%%",
        "`",
        "``",
        "```",
        "\n```\n",
        "~~~\n",
        "[[",
        "]]",
        "![[",
        "![",
        "](",
        ")",
        "|",
        "#",
        "# ",
        "\n",
        "\n\n",
        "---\n",
    ),
    *(
        "%%deeplore-exclude%%",
        "%%/deeplore-exclude%%",
        "<div>",
        "</div",
        "灯塔",
        "a",
        ": ",
        "- ",
        "===\n",
        "keys",
        "\\|",
        "\r",
    ),
)
PIECES = st.lists(st.sampled_from(MARKS), max_size=40).map("".join)
NAMES = (
    "keys",
    "aliases",
    "tags",
    "title",
    "priority",
    "probability",
    "cooldown",
    "outlet",
    "enabled",
    "position",
    "order",
)
VALUES = ("[x, 1]", "{a: b}", "true", "-1", "1e400", "~", "'", "*a", "[[n]]", "文", "!!int x", "[x", "a: b")
YAML = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=8).map(
    lambda fields: "".join(f"{name}: {value}\n" for name, value in fields)
)


@given(PIECES)
def test_texts(text):
    for has_comments in (True, False):
        clean = clean_text(text, has_comments=has_comments).text
        assert len(clean) <= len(text)
    for heading in iter_headings(text):
        assert heading.title in text[heading.start : heading.end]
    assert sum(len(part.text) for part in split_text(text)) <= len(text)


@given(YAML, PIECES)
def test_notes(front, text):
    whole = f"---\n{front}---\n{text}"
    note = parse_note(whole, "a.md")
    assert not list(plain_faults(dict(note.front)))
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "a.md").write_bytes(whole.encode())
        (entry,) = read_vault(folder).books[0].entries
        assert not list(plain_faults(dict(entry.fields)))
        assert entry.fields["comment"]
        with suppress(CorpusError):
            read_markdown(folder / "a.md")


@given(st.binary(max_size=300))
def test_any_bytes(data):
    with TemporaryDirectory() as name:
        path = Path(name) / "a.md"
        path.write_bytes(data)
        for read, source in ((read_vault, path.parent), (read_markdown, path)):
            try:
                file = read(source)
            except CorpusError:
                continue
            for entry in file.books[0].entries:
                assert not list(plain_faults({**entry.fields, "uid": entry.uid}))


LARGE = 300_000


REPEATED = (
    *(
        "%%",
        "%%deeplore-exclude%%",
        "`",
        "` `` ",
        "```\n",
        "~~~",
        "[[",
        "![[",
        "![",
        "![a](",
        "[[a",
        "<div ",
        "# a\n",
        "a\n=\n",
    ),
    *("a|", "---\n", "keys: [", "- ", "a:\n", '"', "\n", "#", " ", "> "),
)


@pytest.mark.parametrize("piece", REPEATED)
def test_many_marks(piece):
    text = piece * (LARGE // len(piece))
    clean_text(text, has_comments=True)
    list(split_text(text))
    parse_note(f"---\n{text[:50_000]}\n---\n", "a.md")
    parse_note(f"---\n{text}", "a.md")
