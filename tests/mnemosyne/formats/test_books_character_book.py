"""The book of a card, and the stand-alone lorebook of V3."""

from __future__ import annotations

import json

import pytest

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.books.character_book import is_lorebook, parse_character_book, read_lorebook
from mnemosyne.formats.books.fields import BY_ACTIVATION
from mnemosyne.formats.books.write import character_book_json
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import Fate

SILLYTAVERN = {
    "id": 3,
    "keys": ["龙", "/drag(on)?/i"],
    "secondary_keys": ["山"],
    "comment": "龙",
    "content": "龙住在山里。",
    "constant": False,
    "selective": True,
    "insertion_order": 20,
    "enabled": False,
    "position": "after_char",
    "use_regex": True,
    "extensions": {
        "position": 4,
        "exclude_recursion": True,
        "display_index": 1,
        "probability": 80,
        "useProbability": True,
        "depth": 2,
        "selectiveLogic": 3,
        "group": "beasts",
        "group_override": True,
        "group_weight": 5,
        "prevent_recursion": True,
        "delay_until_recursion": True,
        "scan_depth": 9,
        "match_whole_words": False,
        "use_group_scoring": True,
        "case_sensitive": True,
        "automation_id": "a",
        "role": 1,
        "vectorized": True,
        "sticky": 2,
        "cooldown": 3,
        "delay": 4,
        "outlet_name": "o",
        "triggers": ["swipe"],
        "ignore_budget": True,
        "match_scenario": True,
        "chub": {"id": 1},
    },
}


def entry_of(entry):
    counter = FieldCounter()
    [read] = parse_character_book({"entries": [{"content": "A well.", **entry}]}, "b", counter).entries
    return dict(read.fields), {(each.field, each.fate, each.note): each.count for each in counter.fates()}


def test_an_entry_that_sillytavern_exported():
    fields, _ = entry_of(SILLYTAVERN)
    assert fields == {
        "key": ["龙", "/drag(on)?/i"],
        "keysecondary": ["山"],
        "comment": "龙",
        "content": "龙住在山里。",
        "constant": False,
        "selective": True,
        "order": 20,
        "disable": True,
        "position": 4,
        "excludeRecursion": True,
        "displayIndex": 1,
        "probability": 80,
        "useProbability": True,
        "depth": 2,
        "selectiveLogic": 3,
        "group": "beasts",
        "groupOverride": True,
        "groupWeight": 5,
        "preventRecursion": True,
        "delayUntilRecursion": 1,
        "scanDepth": 9,
        "matchWholeWords": False,
        "useGroupScoring": True,
        "caseSensitive": True,
        "automationId": "a",
        "role": 1,
        "vectorized": True,
        "sticky": 2,
        "cooldown": 3,
        "delay": 4,
        "outletName": "o",
        "triggers": ["swipe"],
        "ignoreBudget": True,
        "matchScenario": True,
        "extensions": {"chub": {"id": 1}},
    }


def test_an_entry_of_another_program():
    fields, fates = entry_of(
        {
            "keys": ["well", "井"],
            "name": "The well",
            "priority": 10,
            "case_sensitive": True,
            "use_regex": True,
            "enabled": True,
            "insertion_order": 100,
            "x_author": "李",
            "excludeRecursion": True,
        }
    )
    assert fields == {
        "key": ["well", "井"],
        "content": "A well.",
        "comment": "The well",
        "selective": False,
        "disable": False,
        "order": 100,
        "position": 1,
        "excludeRecursion": True,
        "original": {"name": "The well", "priority": 10, "case_sensitive": True, "use_regex": True, "x_author": "李"},
    }
    note = "keys that are no /pattern/ are looked for as plain text, as in SillyTavern"
    assert fates["entries.*.use_regex", Fate.CHANGED, note] == 1
    assert fates["entries.*.name", Fate.KEPT, "the title, as there is no comment"] == 1
    assert fates["entries.*.x_author", Fate.KEPT, "unknown; kept for export"] == 1
    assert fates["entries.*.excludeRecursion", Fate.KEPT, BY_ACTIVATION] == 1


@pytest.mark.parametrize(
    ("entry", "position"),
    [
        ({"position": "before_char"}, 0),
        ({"position": "after_char"}, 1),
        ({"position": "before_char_defs"}, 0),
        ({"position": 0}, 0),
        ({"position": 4}, 4),
        ({"position": ""}, 1),
        ({"position": None}, 1),
        ({"position": "beside"}, 1),
        ({"position": 99}, 1),
        ({}, 1),
        ({"position": "before_char", "extensions": {"position": 6}}, 6),
        ({"position": "before_char", "extensions": {"position": "?"}}, 0),
    ],
)
def test_positions(entry, position):
    assert entry_of(entry)[0]["position"] == position


@pytest.mark.parametrize(
    ("entry", "selective"), [({}, False), ({"selective": True}, True), ({"selective": None}, False)]
)
def test_a_missing_selective_means_false(entry, selective):
    assert entry_of(entry)[0]["selective"] is selective


def test_a_book_that_is_null_is_empty():
    assert parse_character_book(None, "艾拉", FieldCounter()).entries == ()
    assert parse_character_book({"entries": None}, "艾拉", FieldCounter()).name == "艾拉"


def test_entries_as_an_object():
    book = parse_character_book({"name": "林", "entries": {"5": {"keys": "a,b", "content": "x"}}}, "b", FieldCounter())
    assert (book.name, book.dialect) == ("林", "character_book")
    assert [(entry.uid, entry.fields["key"]) for entry in book.entries] == [("5", ["a", "b"])]


@pytest.mark.parametrize("value", [7, "book", [], {"entries": "all"}, {"entries": 3}])
def test_no_book(value):
    with pytest.raises(CorpusError, match="b: the"):
        parse_character_book(value, "b", FieldCounter())


def test_an_export_gives_everything_back():
    entry = {**SILLYTAVERN, "name": "Dragon", "priority": 3, "x": [1]}
    book = {"name": "林", "description": "d", "scan_depth": 3, "extensions": {"chub": 1}, "entries": [entry], "x": None}
    written = character_book_json(parse_character_book(book, "b", FieldCounter()))
    entry["extensions"] = {**entry["extensions"], "delay_until_recursion": 1}
    assert written == book


def test_a_lorebook_of_its_own(tmp_path):
    file = tmp_path / "deep.json"
    value = {
        "spec": "lorebook_v3",
        "data": {"entries": [{"keys": ["a"], "content": "@@depth 1\nx", "use_regex": False}]},
    }
    file.write_text(json.dumps(value), encoding="utf-8")
    assert is_lorebook(value)
    read = read_lorebook(file)
    [book] = read.books
    assert (read.format, book.name, book.dialect) == ("lorebook_v3", "deep", "lorebook_v3")
    assert book.entries[0].fields["content"] == "@@depth 1\nx"
    assert any(fate.field == "data.entries.*.content: @@depth" for fate in read.fates)
    file.write_text('{"spec": "lorebook_v3", "data": 7}', encoding="utf-8")
    with pytest.raises(CorpusError, match=r"deep.json: is not a lorebook"):
        read_lorebook(file)
