"""Obsidian vaults: what notes say becomes entries, and what is passed by is named."""

from __future__ import annotations

import pytest

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.notes.obsidian import is_vault, read_vault
from mnemosyne.schema.imported_files import Fate

LIGHTHOUSE = """\
---
title: The Lighthouse
tags: [place/tower, lorebook]
aliases:
  - Old Lamp
keys:
  - lighthouse
  - "[[Harbour|the lamp]]"
refine_keys: [night]
priority: 30
summary: Choose it when ships come in.
requires: [Harbour]
excludeRecursion: true
probability: 0.25
cooldown: 2
scanDepth: 6
position: in_chat
depth: 2
role: user
builder: Ana
---

# The Lighthouse

It stands above [[Harbour|the harbour]], built by [[people/Ana#Youth]].
%%The lamp is a dragon.%%
![[lamp.png]]
<div class="facts">
[Height: 40 m]
</div>
"""


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def entries_of(file):
    (book,) = file.books
    return {entry.uid: entry.fields for entry in book.entries}


def fate_of(file, field):
    return [(each.fate, each.count, each.note) for each in file.fates if each.field == f"notes.*.{field}"]


def test_the_fields_of_a_note_become_those_of_world_info(tmp_path):
    file = read_vault(write(tmp_path / "Coast", {"places/lighthouse.md": LIGHTHOUSE}))
    (book,) = file.books
    assert (book.name, book.dialect, file.format) == ("Coast", "obsidian", "obsidian")
    fields = dict(entries_of(file)["places/lighthouse"])
    kept = fields.pop("obsidian")
    assert fields == {
        "key": ["lighthouse", "the lamp", "Old Lamp"],
        "keysecondary": ["night"],
        "comment": "The Lighthouse",
        "content": "It stands above the harbour, built by Ana > Youth.\n\n[Height: 40 m]",
        "order": 170,
        "excludeRecursion": True,
        "probability": 25,
        "useProbability": True,
        "cooldown": 4,
        "scanDepth": 6,
        "position": 4,
        "depth": 2,
        "role": 1,
    }
    assert kept == {
        "file": "places/lighthouse.md",
        "tags": ["place/tower", "lorebook"],
        "priority": 30,
        "probability": 0.25,
        "cooldown": 2,
        "requires": ["Harbour"],
        "summary": "Choose it when ships come in.",
        "builder": "Ana",
    }


def test_the_report_says_what_became_of_each_field(tmp_path):
    file = read_vault(write(tmp_path, {"a.md": LIGHTHOUSE}))
    assert fate_of(file, "title") == [(Fate.KEPT, 1, "")]
    assert fate_of(file, "keys") == [(Fate.CHANGED, 1, "links became their shown text")]
    assert fate_of(file, "priority")[0][0] is Fate.CHANGED
    assert fate_of(file, "requires")[0][:2] == (Fate.NOT_SUPPORTED, 1)
    assert fate_of(file, "builder") == [(Fate.KEPT, 1, "unknown; kept for export")]
    assert fate_of(file, "text: [[links]]")[0][:2] == (Fate.CHANGED, 2)
    assert fate_of(file, "text: %%comments%%")[0][:2] == (Fate.NOT_SUPPORTED, 1)
    assert fate_of(file, "text: pictures")[0][:2] == (Fate.NOT_SUPPORTED, 1)


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        ("constant: true", {"constant": True}),
        ("enabled: false", {"disable": True}),
        ("tags: [lorebook, lorebook-always]", {"constant": True}),
        ("tags: '#lorebook #lorebook-never'", {"disable": True}),
        ("probability: 1", {"probability": 100, "useProbability": True}),
        ("probability: 40", {"probability": 40, "useProbability": True}),
        ("outlet: skies", {"position": 7, "outletName": "skies"}),
        ("position: after", {"position": 1}),
        ("position: captain", {}),
        ("order: 7\npriority: 3", {"order": 7}),
        ("Enabled: no", {"disable": True}),
        ("priority: often", {}),
    ],
)
def test_a_field(tmp_path, front, expected):
    file = read_vault(write(tmp_path, {"a.md": f"---\nkeys: [x]\n{front}\n---\ntext"}))
    fields = {name: value for name, value in entries_of(file)["a"].items() if name != "obsidian"}
    assert fields == {"key": ["x"], "comment": "a", "content": "text"} | expected


def test_a_value_that_means_something_else_is_kept(tmp_path):
    file = read_vault(write(tmp_path, {"a.md": "---\nkeys: x\nposition: captain\nrole: smith\ngroup: A\n---\ntext"}))
    assert entries_of(file)["a"]["obsidian"] == {"file": "a.md", "position": "captain", "role": "smith", "group": "A"}


def test_titles_come_from_the_front_matter_the_first_heading_or_the_file(tmp_path):
    files = {
        "a.md": "---\ntitle: 灯塔\n---\n# Tower\ntext",
        "b.md": "text\n\n## 港口 ##\ntext",
        "c.md": "```\n# no heading\n```\ntext",
        "d.md": "---\ntitle: 7\n---\ntext",
    }
    titles = {uid: fields["comment"] for uid, fields in entries_of(read_vault(write(tmp_path, files))).items()}
    assert titles == {"a": "灯塔", "b": "港口", "c": "c", "d": "7"}


def test_without_keys_in_a_vault_titles_and_tags_of_one_note_are_keys(tmp_path):
    files = {
        "灯塔.md": "---\ntags: [place, place/tower]\naliases: 旧灯\n---\n海边的塔。",
        "港口.md": "---\ntags: [place]\n---\n船在这里。",
    }
    keys = {uid: fields["key"] for uid, fields in entries_of(read_vault(write(tmp_path, files))).items()}
    assert keys == {"港口": ["港口"], "灯塔": ["灯塔", "tower", "旧灯"]}


def test_keys_and_aliases_are_texts_as_they_are_written(tmp_path):
    files = {
        "a.md": "---\nKeys: [1.10, 0x1F, true, 2024-05-01, ~]\naliases:\n- 007\n- no\norder: 5\n---\ntext",
        "b.md": "---\nkeys:\nconstant: true\n---\nb",
    }
    entries = entries_of(read_vault(write(tmp_path, files)))
    assert entries["a"]["key"] == ["1.10", "0x1F", "true", "2024-05-01", "~", "007", "no"]
    assert entries["a"]["order"] == 5
    assert entries["b"]["constant"] is True


def test_where_notes_name_keys_one_without_has_none_and_is_named(tmp_path):
    file = read_vault(
        write(tmp_path, {"a.md": "---\nkeys: [x]\n---\ntext", "b.md": "text", "c.md": "---\nkeys: [c]\n---\n"})
    )
    assert entries_of(file)["b"]["key"] == []
    assert "1 notes have no keys: they are found by relevance alone: b" in file.notes
    assert "1 notes have no text: c" in file.notes


def test_the_tag_lorebook_says_which_notes_are_entries(tmp_path):
    files = {"a.md": "---\ntags: [lorebook]\n---\nlore", "diary.md": "private", "x/README.md": "how to"}
    file = read_vault(write(tmp_path, files))
    assert list(entries_of(file)) == ["a"]
    assert (
        "passed by, because they do not have the tag `lorebook`, and others do (2): diary.md, x/README.md" in file.notes
    )


def test_notes_with_one_title_are_named(tmp_path):
    file = read_vault(write(tmp_path, {"a.md": "---\ntitle: T\n---\n1", "b.md": "---\ntitle: t\n---\n2"}))
    assert "2 notes share their title with another note: a, b" in file.notes


@pytest.mark.parametrize(
    ("front", "said", "front_kept"),
    [
        ("title: A: B\nenabled: false", "a.md:2: its front matter is no YAML", {"comment": "A: B", "disable": True}),
        ("keys: [x\nenabled: false", "a.md:", {"disable": True, "key": []}),
        ("keys: *all\nconstant: true", "a.md:2: its front matter is no YAML", {"constant": True, "key": ["*all"]}),
        ("when: !!python/object:os.system x\nkeys: [k]", "the tag", {"key": ["k"]}),
        ("keys: [k]\nkeys: [l]", "a.md:3: its front matter is no YAML", {"key": ["k"]}),
        ("age: .nan\nkeys: [k]", "the field 'age' is not a finite number", {"key": ["k"]}),
    ],
)
def test_damaged_front_matter_costs_the_damaged_fields_alone(tmp_path, front, said, front_kept):
    file = read_vault(write(tmp_path, {"a.md": f"---\n{front}\n---\nThe text.", "b.md": "---\nkeys: [b]\n---\nb"}))
    fields = entries_of(file)["a"]
    assert fields["content"] == "The text."
    assert {name: fields[name] for name in front_kept} == front_kept
    assert any(said in note for note in file.notes)


@pytest.mark.parametrize("text", ["---\nkeys: [x]\nno end", "---\na line\n---\nrest", "---\n- 1\n---\nrest"])
def test_what_is_no_front_matter_is_text(tmp_path, text):
    file = read_vault(write(tmp_path, {"a.md": text}))
    assert entries_of(file)["a"]["content"] == text
    assert any(note.startswith("a.md:1: ") for note in file.notes)


def test_byte_order_marks_and_windows_line_ends(tmp_path):
    files = {
        "a.md": b"\xef\xbb\xbf---\r\nkeys: [x]\r\n---\r\none\r\ntwo",
        "b.md": "---\nkeys: [y]\n---\n文".encode("utf-16"),
    }
    entries = entries_of(read_vault(write(tmp_path, files)))
    assert (entries["a"]["key"], entries["a"]["content"]) == (["x"], "one\ntwo")
    assert (entries["b"]["key"], entries["b"]["content"]) == (["y"], "文")


def test_what_is_passed_by_is_named_with_its_reason(tmp_path):
    outside = tmp_path / "outside"
    write(outside, {"secret.md": "secret"})
    vault = write(
        tmp_path / "vault",
        {
            "a.md": "text",
            "old.md": "旧灯塔".encode("gb18030"),
            "big.md": b"x" * 8_000_001,
            ".obsidian/app.json": "{}",
            ".trash/gone.md": "gone",
            "map.canvas": "{}",
        },
    )
    (vault / "link.md").symlink_to(outside / "secret.md")
    (vault / "linked").symlink_to(outside)
    file = read_vault(vault)
    assert list(entries_of(file)) == ["a"]
    told = "\n".join(file.notes)
    assert "they are links (2): " in told
    assert "link.md" in told
    assert "linked" in told
    assert "they are hidden (2): " in told
    assert ".trash" in told
    assert "old.md:1: is not UTF-8 text" in told
    assert "big.md" in told
    assert "they are no notes (1): 1 with .canvas" in told
    assert "secret" not in repr(file.books)


def test_a_comment_that_never_ends_is_kept_and_named(tmp_path):
    file = read_vault(write(tmp_path, {"a.md": "---\nkeys: [x]\n---\none\n50%% off"}))
    assert entries_of(file)["a"]["content"] == "one\n50%% off"
    assert "a.md:5: a comment %% never ends; its text was kept." in file.notes


def test_is_vault(tmp_path):
    front = "---\nkeys: [x]\n---\n"
    assert is_vault(write(tmp_path / "one", {".obsidian/app.json": "{}"}))
    assert is_vault(write(tmp_path / "two", {"a.md": front, "sub/b.md": front}))
    assert not is_vault(write(tmp_path / "three", {"a.md": front, "b.md": "text"}))
    assert not is_vault(tmp_path / "nowhere")
    assert not is_vault(write(tmp_path / "four", {"a.md": front}) / "a.md")


def test_folders_without_notes_are_refused(tmp_path):
    with pytest.raises(CorpusError, match="there is no such folder"):
        read_vault(tmp_path / "nowhere")
    with pytest.raises(CorpusError, match=r"holds no note .*old\.md:1"):
        read_vault(write(tmp_path / "vault", {"old.md": b"\xff\xfe\x00"}))


def test_the_report_of_a_large_vault_is_short(tmp_path):
    for number in range(1000):
        (tmp_path / f"{number}.md").write_text(
            f"---\nkeys: [k{number}]\npriority: {number}\n---\n# N{number}\n[[{number}]] text\n"
        )
    file = read_vault(tmp_path)
    assert len(file.books[0].entries) == 1000
    assert len(file.fates) < 10
