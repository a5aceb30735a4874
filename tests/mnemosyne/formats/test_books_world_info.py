"""World info of SillyTavern, and files of other programs that look like it."""

from __future__ import annotations

import json

import pytest

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.books.fields import BY_ACTIVATION, DEFAULTS
from mnemosyne.formats.books.world_info import is_world_info, parse_world_info, read_world_info
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import Fate


def read(tmp_path, value, name="森林.json"):
    (tmp_path / name).write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return read_world_info(tmp_path / name)


def entry_of(fields, **book):
    """Return the fields of the one entry of a book, with text, and what was counted of them."""
    counter = FieldCounter()
    [entry] = parse_world_info({"entries": {"0": {"content": "A well.", **fields}}, **book}, "w", counter).entries
    return dict(entry.fields), {(each.field, each.fate, each.note): each.count for each in counter.fates()}


def test_a_native_file(tmp_path):
    value = {
        "entries": {
            "0": {"uid": 0, "key": ["龙", "dragon"], "content": "龙住在山里。", "comment": "龙", "order": 90},
            "7": {"uid": 7, "key": ["/well\\b/i"], "content": "A well.", "constant": True, "probability": 40},
        },
        "originalData": {"name": "old"},
    }
    file = read(tmp_path, value)
    [book] = file.books
    assert (file.format, book.name, book.dialect) == ("world_info", "森林", "world_info")
    assert [entry.uid for entry in book.entries] == ["0", "7"]
    assert book.entries[0].fields == {"key": ["龙", "dragon"], "content": "龙住在山里。", "comment": "龙", "order": 90}
    assert book.entries[1].fields["constant"] is True
    assert book.extra == {"originalData": {"name": "old"}}
    assert file.notes == ()
    fates = {(fate.field, fate.fate, fate.note): fate.count for fate in file.fates}
    assert fates["entries.*.content", Fate.KEPT, ""] == 2
    assert fates["entries.*.probability", Fate.KEPT, BY_ACTIVATION] == 1
    assert fates["entries.*.key", Fate.KEPT, BY_ACTIVATION] == 1
    assert fates["entries.*.key", Fate.KEPT, ""] == 1


def test_every_default_is_kept_without_a_note():
    fields, fates = entry_of({**DEFAULTS, "key": ["井"], "content": "A well."})
    assert fields == {**DEFAULTS, "key": ["井"], "content": "A well."}
    assert {(fate, note) for _, fate, note in fates} == {(Fate.KEPT, "")}
    assert sum(fates.values()) == sum(value not in (None, "", []) for value in fields.values())


@pytest.mark.parametrize(
    ("written", "name", "value", "fate"),
    [
        ({"key": "dragon, 龙 ,/a{1,2}/i,"}, "key", ["dragon", "龙", "/a{1,2}/i"], Fate.CHANGED),
        ({"keys": ["a", 7]}, "key", ["a", "7"], Fate.CHANGED),
        ({"secondary_keys": ["b"]}, "keysecondary", ["b"], Fate.KEPT),
        ({"order": "50"}, "order", 50, Fate.CHANGED),
        ({"order": 99.5}, "order", 99.5, Fate.KEPT),
        ({"insertion_order": 3}, "order", 3, Fate.KEPT),
        ({"probability": "12.5"}, "probability", 12.5, Fate.CHANGED),
        ({"depth": 2.0}, "depth", 2, Fate.KEPT),
        ({"depth": 2.7}, "depth", 2, Fate.CHANGED),
        ({"position": "after_char"}, "position", 1, Fate.CHANGED),
        ({"position": "At Depth"}, "position", 4, Fate.CHANGED),
        ({"position": "7"}, "position", 7, Fate.CHANGED),
        ({"selectiveLogic": "NOT ANY"}, "selectiveLogic", 2, Fate.CHANGED),
        ({"role": "assistant"}, "role", 2, Fate.CHANGED),
        ({"delayUntilRecursion": True}, "delayUntilRecursion", 1, Fate.CHANGED),
        ({"delay_until_recursion": 3}, "delayUntilRecursion", 3, Fate.KEPT),
        ({"constant": 1}, "constant", True, Fate.CHANGED),
        ({"constant": "false"}, "constant", False, Fate.CHANGED),
        ({"enabled": False}, "disable", True, Fate.KEPT),
        ({"enabled": True}, "disable", False, Fate.KEPT),
        ({"exclude_recursion": True}, "excludeRecursion", True, Fate.KEPT),
        ({"match_persona_description": True}, "matchPersonaDescription", True, Fate.KEPT),
        ({"group": ["a", "b"]}, "group", "a,b", Fate.CHANGED),
        ({"sticky": "3"}, "sticky", 3, Fate.CHANGED),
        ({"scanDepth": 5}, "scanDepth", 5, Fate.KEPT),
        ({"automationId": 12}, "automationId", "12", Fate.CHANGED),
        ({"triggers": "swipe, quiet"}, "triggers", ["swipe", "quiet"], Fate.CHANGED),
        ({"characterFilter": {"names": "艾拉"}}, "characterFilter", {"names": ["艾拉"]}, Fate.CHANGED),
        ({"character_filter": {"is_exclude": 1}}, "characterFilter", {"isExclude": True}, Fate.CHANGED),
        ({"extensions": {"selectiveLogic": 3}}, "selectiveLogic", 3, Fate.KEPT),
        ({"extensions": {"group_weight": 10}}, "groupWeight", 10, Fate.KEPT),
    ],
)  # fmt: skip
def test_fields_get_their_native_types(written, name, value, fate):
    fields, fates = entry_of(written)
    assert fields == {"content": "A well.", name: value}
    assert type(fields[name]) is type(value)
    assert [key[1] for key in fates if key[0] == f"entries.*.{name}"] == [fate]


@pytest.mark.parametrize(
    "written", [{"position": ""}, {"probability": None}, {"depth": ""}, {"key": None}, {"displayIndex": None}]
)
def test_a_value_that_says_nothing_is_absent(written):
    assert entry_of(written)[0] == {"content": "A well."}


@pytest.mark.parametrize(
    ("written", "name", "note"),
    [
        ({"position": 9}, "position", "a number is not a position; left out"),
        ({"order": {"a": 1}}, "order", "an object is not a number; left out"),
        ({"depth": -1}, "depth", "a number is not a whole number; left out"),
        ({"constant": "maybe"}, "constant", "text is not true or false; left out"),
        ({"comment": ["a"]}, "comment", "a list is not text; left out"),
        ({"order": "1e999"}, "order", "text is not a number; left out"),
        ({"order": True}, "order", "true or false is not a number; left out"),
    ],
)
def test_a_value_of_no_use_is_reported_and_left_out(written, name, note):
    fields, fates = entry_of(written)
    assert fields == {"content": "A well."}
    assert fates[f"entries.*.{name}", Fate.NOT_SUPPORTED, note] == 1


def test_null_is_kept_where_it_means_the_setting():
    assert entry_of({"scanDepth": None})[0] == {"content": "A well.", "scanDepth": None}


def test_unknown_fields_survive_under_their_own_names():
    fields, fates = entry_of(
        {"autor": {"name": "李"}, "extensions": {"chub": {"id": 5}, "depth": {"prompt": "x"}, "weight": 3}}
    )
    assert fields == {
        "content": "A well.",
        "autor": {"name": "李"},
        "extensions": {"chub": {"id": 5}, "depth": {"prompt": "x"}, "weight": 3},
    }
    assert fates["entries.*.autor", Fate.KEPT, "unknown; kept for export"] == 1
    assert fates["entries.*.extensions.depth", Fate.KEPT, "unknown; kept for export"] == 1


def test_the_native_name_takes_precedence_over_other_spellings():
    fields, fates = entry_of(
        {"exclude_recursion": False, "excludeRecursion": True, "extensions": {"depth": 4}, "depth": 9}
    )
    assert fields == {"content": "A well.", "excludeRecursion": True, "depth": 9}
    note = "the entry has another excludeRecursion, which takes precedence"
    assert fates["entries.*.exclude_recursion", Fate.CHANGED, note] == 1
    note = "the entry has another depth, which takes precedence"
    assert fates["entries.*.extensions.depth", Fate.CHANGED, note] == 1


def test_entries_as_a_list_with_the_names_of_a_card():
    value = {"entries": [{"keys": ["a"], "content": "x", "id": "b-7"}, {"keys": "c,d", "content": "y"}]}
    book = parse_world_info(value, "w", FieldCounter())
    assert [(entry.uid, entry.fields["key"]) for entry in book.entries] == [("b-7", ["a"]), ("1", ["c", "d"])]
    assert all("selective" not in entry.fields for entry in book.entries)


def test_bad_entries_are_passed_by_and_named(tmp_path):
    value = {
        "entries": {
            "0": {"content": "kept"},
            "1": ["no", "mapping"],
            "2": None,
            "3": {"uid": 33, "content": "  ", "key": [" "], "comment": "title only"},
            "4": {"key": ["only a key"]},
        }
    }
    file = read(tmp_path, value)
    assert [entry.uid for entry in file.books[0].entries] == ["0", "4"]
    assert file.notes == (
        "1 × a list, not an object; passed by: uid '1'",
        "1 × null, not an object; passed by: uid '2'",
        "1 × an entry without text and keys; passed by: uid '33'",
    )
    fates = [fate for fate in file.fates if fate.field == "entries.*"]
    assert [(fate.fate, fate.count) for fate in fates] == [(Fate.NOT_SUPPORTED, 1)] * 3


def test_uids_are_unique():
    rows = [{"uid": uid, "content": "x"} for uid in (0, "0", 0.0, True, None, "", 5, "五")]
    counter = FieldCounter()
    book = parse_world_info({"entries": rows}, "w", counter)
    assert [entry.uid for entry in book.entries] == ["0", "8", "9", "3", "4", "10", "5", "五"]
    assert any(fate.note.startswith("another entry has it; renumbered: uid '0', '0'") for fate in counter.fates())


def test_decorators_and_macros_are_counted_and_stay_in_the_text():
    text = "@@activate\n@@depth 3\n@@nonsense\n龙 {{char}} {{roll:d6}}\n@@dont_activate"
    fields, fates = entry_of({"content": text, "key": ["{{user}}", "{{random:a,b}}"]})
    assert fields["content"] == text
    assert fates["entries.*.content: @@activate", Fate.KEPT, BY_ACTIVATION] == 1
    not_heeded = "SillyTavern does not heed it; kept in the text"
    assert fates["entries.*.content: @@depth", Fate.NOT_SUPPORTED, not_heeded] == 1
    assert fates["entries.*.content: @@…", Fate.NOT_SUPPORTED, not_heeded] == 1
    macro = "a macro; shown as it is written, never run"
    assert fates["entries.*.content: {{roll}}", Fate.CHANGED, macro] == 1
    assert fates["entries.*.key: {{random}}", Fate.CHANGED, macro] == 1
    assert not any("dont_activate" in key[0] for key in fates)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "is not world info"),
        ({"entries": 7}, "is not world info"),
        ({"lorebookVersion": 4, "entries": []}, "is not world info"),
    ],
)
def test_another_file_is_refused_with_a_sentence(tmp_path, value, said):
    with pytest.raises(CorpusError, match=said):
        read(tmp_path, value)


def test_parsing_says_what_the_value_is():
    with pytest.raises(CorpusError, match="w: is not world info: its `entries` are text"):
        parse_world_info({"entries": "all"}, "w", FieldCounter())


def test_other_formats_are_no_world_info():
    assert is_world_info({"entries": {}})
    assert is_world_info({"entries": []})
    assert not is_world_info({"kind": "memory", "entries": []})
    assert not is_world_info({"type": "risu", "data": []})
    assert not is_world_info([{"key": "a", "content": "b"}])
