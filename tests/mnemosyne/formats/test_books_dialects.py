"""Lorebooks of Risuai, Agnai, NovelAI, KoboldAI and AI Dungeon."""

from __future__ import annotations

import json
import re

import pytest

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.books.agnai import is_agnai, read_agnai, wildcard_pattern
from mnemosyne.formats.books.fields import BY_ACTIVATION
from mnemosyne.formats.books.keys import is_regex_key
from mnemosyne.formats.books.kobold import is_ai_dungeon, is_kobold, read_ai_dungeon, read_kobold
from mnemosyne.formats.books.novelai import is_novelai, read_novelai
from mnemosyne.formats.books.risu import is_risu, read_risu
from mnemosyne.formats.books.world_info import is_world_info
from mnemosyne.schema.imported_files import Fate

RISU = {
    "type": "risu",
    "ver": 1,
    "data": [
        {
            "key": "龙, dragon",
            "secondkey": "山",
            "insertorder": 50,
            "comment": "龙",
            "content": "@@probability 30\n龙住在山里。",
            "mode": "normal",
            "alwaysActive": False,
            "selective": True,
            "activationPercent": 60,
            "useRegex": False,
            "folder": "folder:1",
            "extentions": {"risu_case_sensitive": True},
        },
        {"key": "folder:1", "content": "", "comment": "Beasts", "mode": "folder"},
        {"key": "a,/b,c/i", "content": "x", "mode": "constant", "useRegex": True, "loreCache": {"key": "k"}},
    ],
}
AGNAI = {
    "kind": "memory",
    "name": "井边",
    "description": "d",
    "entries": [
        {
            "name": "Dragon",
            "keywords": ["drag*", "龙"],
            "entry": "A dragon.",
            "priority": 5,
            "weight": 7,
            "enabled": False,
        },
        {"name": "n", "comment": "c", "keywords": ["well"], "entry": "x", "enabled": True, "id": 9, "constant": True},
    ],
}
NOVELAI = {
    "lorebookVersion": 5,
    "categories": [{"id": "c1", "enabled": False}, {"id": "c2", "enabled": True}, 7],
    "settings": {"orderByKeyLocations": False},
    "entries": [
        {
            "id": "e-1",
            "displayName": "Dragon",
            "text": "A dragon.",
            "keys": ["dragon", "/wyrm(s)?/i"],
            "enabled": True,
            "forceActivation": True,
            "nonStoryActivatable": True,
            "searchRange": 1000,
            "keyRelative": False,
            "category": "c1",
            "loreBiasGroups": [{"phrases": []}],
            "contextConfig": {"prefix": "", "suffix": "\n", "tokenBudget": 2048, "budgetPriority": 400, "x": 1},
        },
        {"displayName": "龙", "text": "x", "keys": ["dragon & cave & 金"], "category": "c2", "contextConfig": 7},
        {"text": "y", "keys": ["a & b", "c"]},
    ],
}
KOBOLD = [
    {
        "key": "dragon, 龙",
        "keysecondary": "",
        "keyanti": "toy, 玩具",
        "content": "A dragon.",
        "comment": "Dragon",
        "folder": None,
        "selective": False,
        "constant": False,
        "probability": "40",
        "wigroup": "beasts",
        "widisabled": True,
    },
    {"key": "", "keysecondary": "", "content": "", "comment": "empty"},
    {"key": "a", "keysecondary": "b", "keyanti": "c", "content": "x", "selective": True, "probability": 100},
]
AI_DUNGEON = [
    {"id": "k1", "keys": "dragon,龙", "value": "A dragon.", "title": "Dragon", "type": "character"},
    {"keys": "well", "entry": "A well."},
]


def read(tmp_path, read_file, value):
    file = tmp_path / "书.json"
    file.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    found = read_file(file)
    [book] = found.books
    return (
        found,
        book,
        [dict(entry.fields) for entry in book.entries],
        {(fate.field, fate.fate, fate.note): fate.count for fate in found.fates},
    )


def test_risu(tmp_path):
    file, book, [first, second], fates = read(tmp_path, read_risu, RISU)
    assert (file.format, book.name, book.dialect, [entry.uid for entry in book.entries]) == (
        "risu",
        "书",
        "risu",
        ["0", "1"],
    )
    assert first == {
        "key": ["龙", "dragon"],
        "keysecondary": ["山"],
        "order": 50,
        "comment": "龙",
        "content": "@@probability 30\n龙住在山里。",
        "constant": False,
        "selective": True,
        "probability": 60,
        "matchWholeWords": False,
        "caseSensitive": True,
        "original": {
            "mode": "normal",
            "useRegex": False,
            "folder": "folder:1",
            "extentions": {"risu_case_sensitive": True},
        },
    }
    assert (second["constant"], second["key"], second["selective"]) == (True, ["a", "/b,c/i"], False)
    assert book.extra["folders"] == [RISU["data"][1]]
    assert fates["entries.*.probability", Fate.KEPT, BY_ACTIVATION] == 1
    assert fates["entries.*.key", Fate.KEPT, ""] == 1
    assert fates["entries.*.loreCache", Fate.NOT_SUPPORTED, "a cache of Risuai"] == 1
    assert any(field == "entries.*.useRegex" and fate is Fate.CHANGED for field, fate, _ in fates)


def test_agnai(tmp_path):
    file, book, [first, second], fates = read(tmp_path, read_agnai, AGNAI)
    assert (file.format, book.name, [entry.uid for entry in book.entries]) == ("agnai", "井边", ["0", "9"])
    assert first == {
        "key": [r"/\bdrag\w*/i", "龙"],
        "comment": "Dragon",
        "content": "A dragon.",
        "order": 7,
        "disable": True,
        "selective": False,
        "matchWholeWords": True,
        "original": {"priority": 5, "keywords": ["drag*", "龙"]},
    }
    assert second["comment"] == "c"
    assert second["original"] == {"name": "n"}
    assert second["constant"] is True
    assert fates["entries.*.keywords", Fate.CHANGED, f"keys with * and ? became patterns; {BY_ACTIVATION}"] == 1
    assert any(field == "entries.*.priority" and fate is Fate.NOT_SUPPORTED for field, fate, _ in fates)


@pytest.mark.parametrize(
    ("keyword", "text", "is_found"),
    [
        ("drag*", "two dragons", True),
        ("drag*", "a bedragglement", False),
        ("d?g", "a dog", True),
        ("d?g", "a doog", False),
        ("a/b*", "a/bc", True),
        ("龙*", "那条龙来了", True),
        ("*龙", "那条龙来了", True),
        ("*gon", "the dragons", False),
        ("c++?", "c++x", True),
    ],
)
def test_a_keyword_with_wildcards_is_a_pattern(keyword, text, is_found):
    pattern = wildcard_pattern(keyword)
    assert is_regex_key(pattern)
    body = pattern.removeprefix("/").removesuffix("/i")
    assert bool(re.search(body.replace(r"\/", "/"), text, re.IGNORECASE | re.ASCII)) is is_found


def test_novelai(tmp_path):
    file, book, [first, second, third], fates = read(tmp_path, read_novelai, NOVELAI)
    assert (file.format, [entry.uid for entry in book.entries]) == ("novelai", ["e-1", "1", "2"])
    assert first.pop("original")["contextConfig"] == NOVELAI["entries"][0]["contextConfig"]
    assert first == {
        "comment": "Dragon",
        "content": "A dragon.",
        "key": ["dragon", "/wyrm(s)?/i"],
        "disable": True,
        "constant": True,
        "excludeRecursion": False,
        "order": 400,
        "selective": False,
        "matchWholeWords": True,
    }
    assert (second["key"], second["keysecondary"], second["selectiveLogic"]) == (["dragon"], ["cave", "金"], 3)
    assert second["original"]["keys"] == ["dragon & cave & 金"]
    assert second["selective"] is True
    assert second["excludeRecursion"] is True
    assert "disable" not in second
    assert third["key"] == ["a & b", "c"]
    assert book.extra["categories"] == NOVELAI["categories"]
    assert fates["entries.*.disable", Fate.CHANGED, "its category is switched off"] == 1
    assert fates["entries.*.contextConfig.x", Fate.KEPT, "unknown; kept for export"] == 1
    assert fates["entries.*.keys", Fate.CHANGED, "keys joined with & are looked for as one text"] == 1


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"gamestarted": True, "worldinfo": rows}])
def test_kobold(tmp_path, wrap):
    file, book, [first, second], fates = read(tmp_path, read_kobold, wrap(KOBOLD))
    assert (file.format, book.dialect) == ("kobold", "kobold")
    assert first == {
        "key": ["dragon", "龙"],
        "keysecondary": ["toy", "玩具"],
        "content": "A dragon.",
        "comment": "Dragon",
        "selective": True,
        "selectiveLogic": 2,
        "constant": False,
        "probability": 40,
        "disable": True,
        "matchWholeWords": False,
        "original": {"keyanti": "toy, 玩具", "folder": None, "wigroup": "beasts"},
    }
    assert second["keysecondary"] == ["b"]
    assert second["original"] == {"keyanti": "c"}
    assert file.notes[-1] == "1 × an entry without text and keys; passed by: uid '1'"
    assert any(field == "entries.*.wigroup" and fate is Fate.NOT_SUPPORTED for field, fate, _ in fates)


@pytest.mark.parametrize("wrap", [lambda rows: rows, lambda rows: {"title": "t", "storyCards": rows}])
def test_ai_dungeon(tmp_path, wrap):
    file, book, [first, second], _ = read(tmp_path, read_ai_dungeon, wrap(AI_DUNGEON))
    assert (file.format, [entry.uid for entry in book.entries]) == ("ai_dungeon", ["k1", "1"])
    assert first == {
        "key": ["dragon", "龙"],
        "content": "A dragon.",
        "comment": "Dragon",
        "selective": False,
        "matchWholeWords": False,
        "original": {"type": "character"},
    }
    assert (second["key"], second["content"]) == (["well"], "A well.")


FORMATS = {is_risu: RISU, is_agnai: AGNAI, is_novelai: NOVELAI, is_kobold: KOBOLD, is_ai_dungeon: AI_DUNGEON}


@pytest.mark.parametrize("value", FORMATS.values(), ids=[each.__name__ for each in FORMATS])
def test_each_file_is_of_one_format(value):
    native = {"entries": {"0": {"content": "x"}}}
    recognised = [is_format for is_format in (*FORMATS, is_world_info) if is_format(value)]
    assert [FORMATS[is_format] for is_format in recognised] == [value]
    assert not any(is_format(native) for is_format in FORMATS)


@pytest.mark.parametrize("read_file", [read_risu, read_agnai, read_novelai, read_kobold, read_ai_dungeon])
@pytest.mark.parametrize("value", [{}, [], 7, {"entries": {}}, [[]], {"type": "risu", "kind": "memory"}])
def test_another_file_is_refused_with_a_sentence(tmp_path, read_file, value):
    file = tmp_path / "other.json"
    file.write_text(json.dumps(value), encoding="utf-8")
    with pytest.raises(CorpusError, match=r"other.json: cannot be read as \w+: it must be"):
        read_file(file)
