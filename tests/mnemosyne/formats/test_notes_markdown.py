"""Plain Markdown: an entry a heading of the top two levels."""

from __future__ import annotations

import pytest

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.notes.markdown import is_markdown, read_markdown, split_text

HARBOUR = """\
---
tags: [coast]
constant: true
---
A town by the sea.

# 港口
Ships come in at night.

## The Lamp
### Oil
It burns [[Whale Oil|oil]].

```sh
# no heading
```

## Keepers

Tower
=====
40 metres. 50%% of it is stone, 50%% is wood.
"""


def entries_of(file):
    (book,) = file.books
    return [
        (entry.uid, entry.fields["comment"], entry.fields["key"], entry.fields["content"]) for entry in book.entries
    ]


def test_headings_of_the_top_two_levels_are_entries(tmp_path):
    path = tmp_path / "harbour.md"
    path.write_text(HARBOUR)
    file = read_markdown(path)
    assert (file.books[0].name, file.books[0].dialect, file.format) == ("harbour", "markdown", "markdown")
    assert entries_of(file) == [
        ("harbour.md", "harbour", ["coast", "harbour"], "A town by the sea."),
        ("harbour.md#港口", "港口", ["coast", "港口"], "Ships come in at night."),
        (
            "harbour.md#港口 > The Lamp",
            "港口 > The Lamp",
            ["coast", "The Lamp"],
            "### Oil\nIt burns oil.\n\n```sh\n# no heading\n```",
        ),
        ("harbour.md#Tower", "Tower", ["coast", "Tower"], "40 metres. 50%% of it is stone, 50%% is wood."),
    ]
    assert all(entry.fields["constant"] for entry in file.books[0].entries)
    assert all(entry.fields["markdown"]["file"] == "harbour.md" for entry in file.books[0].entries)


def test_a_folder_of_files(tmp_path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "notes.TXT").write_text("潮水每天来两次。", encoding="utf-8")
    (tmp_path / "a.markdown").write_text("# One\n1\n# One\n2\n")
    (tmp_path / "bad.md").write_bytes(b"\xff")
    (tmp_path / "map.png").write_bytes(b"\x89PNG")
    file = read_markdown(tmp_path)
    assert [entry[0] for entry in entries_of(file)] == ["a.markdown#One", "a.markdown#One (2)", "b/notes.TXT"]
    assert any("bad.md:1" in note for note in file.notes)


def test_keys_of_the_front_matter_hold_for_all_headings(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("---\nkeys: [sea, 海]\n---\n# One\n1\n## Two\n2\n")
    assert [entry[2] for entry in entries_of(read_markdown(path))] == [["sea", "海", "One"], ["sea", "海", "Two"]]


@pytest.mark.parametrize(
    ("text", "titles"),
    [
        ("", []),
        ("only text", [()]),
        ("### a\n1\n##### b\n2\n###### c\n3", [("a",), ("a", "b")]),
        ("## b\n1\n# a\n2\n## b\n3", [("", "b"), ("a",), ("a", "b")]),
        ("#no heading", [()]),
        ("# a #\n1\n# c#\n2", [("a",), ("c#",)]),
        ("~~~\n# a\n", [()]),
    ],
)
def test_where_a_text_is_cut(text, titles):
    assert [part.titles for part in split_text(text)] == titles


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "a.md").write_text("# only a heading\n")
    with pytest.raises(CorpusError, match="holds no text"):
        read_markdown(tmp_path / "a.md")
    with pytest.raises(CorpusError, match="no such file"):
        read_markdown(tmp_path / "b.md")
    (tmp_path / "old.md").write_bytes("旧".encode("gb18030"))
    with pytest.raises(CorpusError, match="save it as UTF-8"):
        read_markdown(tmp_path / "old.md")


def test_is_markdown(tmp_path):
    (tmp_path / "a.TXT").write_text("x")
    assert is_markdown(tmp_path / "a.TXT")
    assert is_markdown(tmp_path)
    assert not is_markdown(tmp_path / "b.md")
    (tmp_path / "c").mkdir()
    assert not is_markdown(tmp_path / "c")
