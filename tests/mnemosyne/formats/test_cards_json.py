"""Cards of JSON: every version and spelling, every field counted, and what has a wrong type costs that value alone."""

from __future__ import annotations

import json

import pytest
from card_files import documents, fate_of, v2_card, v3_card
from hypothesis import given

from mnemosyne import (
    CorpusError,
)
from mnemosyne.formats.cards.card_json import is_card, parse_card, read_card_json
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.imported_files import DepthPrompt, Fate


def read(tmp_path, value, name="mara.json"):
    path = tmp_path / name
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return read_card_json(path)


def test_a_v2_card_comes_in_whole(tmp_path):
    file = read(tmp_path, v2_card(system_prompt="Write as {{char}}.", post_history_instructions="短句。"))
    (card,) = file.cards
    assert (file.format, card.spec, card.name, card.file_name) == ("card", "chara_card_v2", "Mara", "mara")
    assert card.description == "Keeper of the north lighthouse."
    assert card.first_message == "You are late, {{user}}."
    assert card.alternate_greetings == ("Again?",)
    assert card.tags == ("sea", "灯塔")
    assert (card.system_prompt, card.post_history_instructions) == ("Write as {{char}}.", "短句。")
    assert card.document == v2_card(system_prompt="Write as {{char}}.", post_history_instructions="短句。")
    assert {fate.fate for fate in file.fates} == {Fate.KEPT}
    assert fate_of(file, "data.tags.*") == [("kept", 2, "")]
    assert fate_of(file, "data.creator") == [("kept", 1, "kept for export")]


def test_a_v3_card_has_its_own_fields(tmp_path):
    document = v3_card(
        nickname="阿玛",
        group_only_greetings=["All of you?"],
        assets=[{"type": "icon", "uri": "ccdefault:"}, {"type": "emotion", "uri": "embeded://assets/a.png"}],
        creation_date=1700000000,
        creator_notes_multilingual={"zh": "注"},
    )
    file = read(tmp_path, document)
    (card,) = file.cards
    assert (card.spec, card.nickname, card.group_only_greetings) == ("chara_card_v3", "阿玛", ("All of you?",))
    assert fate_of(file, "data.assets.*") == [
        ("not supported", 2, "pictures and sounds are not imported; kept for export")
    ]
    assert fate_of(file, "data.creation_date") == [("kept", 1, "kept for export")]


@pytest.mark.parametrize(
    ("spec", "version", "read_as"),
    [
        ("chara_card_v2", "2.0", "chara_card_v2"),
        ("chara_card_v2", "2", "chara_card_v2"),
        ("chara_card_v3", "3.0", "chara_card_v3"),
        ("chara_card_v3", "3.1", "chara_card_v3"),
        ("chara_card_v3", "10.0", "chara_card_v3"),
        ("chara_card_v3", 3, "chara_card_v3"),
        ("chara_card_v4", "4.0", "chara_card_v3"),
        ("chara_card", "3.0", "chara_card_v3"),
        ("chara_card", "newest", "chara_card_v2"),
        (None, None, "chara_card_v2"),
    ],
)
def test_versions_are_compared_as_numbers_and_none_is_refused(tmp_path, spec, version, read_as):
    document = v2_card() | {"spec": spec, "spec_version": version}
    file = read(tmp_path, document)
    assert file.cards[0].spec == read_as
    assert file.cards[0].document == document


def test_a_newer_version_is_said(tmp_path):
    file = read(tmp_path, v3_card() | {"spec_version": "3.1"})
    assert fate_of(file, "spec_version") == [("changed", 1, "not 3.0; read as 3.0")]


@pytest.mark.parametrize(
    "document",
    [
        {
            "name": "Mara",
            "description": "Keeper.",
            "personality": "dry",
            "scenario": "Storm.",
            "first_mes": "Late.",
            "mes_example": "M: Hm.",
        },
        {
            "char_name": "Mara",
            "char_persona": "Keeper.",
            "personality": "dry",
            "world_scenario": "Storm.",
            "char_greeting": "Late.",
            "example_dialogue": "M: Hm.",
        },
        {
            "name": "Mara",
            "context": "Keeper.",
            "personality": "dry",
            "scenario": "Storm.",
            "greeting": "Late.",
            "example_dialogue": "M: Hm.",
        },
    ],
    ids=["tavern", "pygmalion", "text-generation"],
)
def test_flat_cards_in_their_spellings(tmp_path, document):
    (card,) = read(tmp_path, document).cards
    assert (card.spec, card.name, card.description, card.personality) == ("v1", "Mara", "Keeper.", "dry")
    assert (card.scenario, card.first_message, card.example_messages) == ("Storm.", "Late.", "M: Hm.")


def test_another_spelling_is_counted_with_what_it_becomes(tmp_path):
    file = read(tmp_path, {"char_name": "Mara", "char_persona": "Keeper.", "description": "", "metadata": {"tool": 1}})
    assert fate_of(file, "char_persona") == [("changed", 1, "becomes description")]
    assert fate_of(file, "metadata") == [("kept", 1, "kept for export")]


def test_of_two_spellings_the_first_is_taken_and_the_other_is_named(tmp_path):
    document = {"name": "Mara", "char_name": "Mara", "first_mes": "Late.", "char_greeting": "Welcome."}
    file = read(tmp_path, document)
    assert file.cards[0].first_message == "Late."
    assert fate_of(file, "char_name") == [("kept", 1, "the same as name; kept for export")]
    assert fate_of(file, "char_greeting") == [
        ("not supported", 1, "first_mes was taken, which says something else; kept for export")
    ]


def test_what_programs_repeat_beside_data_is_counted(tmp_path):
    document = {"name": "Mara", "first_mes": "Old.", "chat": "Mara - today", **v2_card()}
    file = read(tmp_path, document)
    assert file.cards[0].first_message == "You are late, {{user}}."
    assert fate_of(file, "name") == [("kept", 1, "the same as data.name; kept for export")]
    assert fate_of(file, "first_mes")[0][0] == "not supported"
    assert fate_of(file, "chat") == [("kept", 1, "beside data; kept for export")]


def test_extensions_are_named_and_unknown_ones_kept(tmp_path):
    extensions = {
        "talkativeness": 0.5,
        "fav": True,
        "world": "North Coast",
        "depth_prompt": {"prompt": "Remember the fog, {{user}}.", "depth": 2, "role": "user"},
        "regex_scripts": [{"findRegex": "/(a+)+$/"}],
        "my_tool/data": {"deep": [1, {"深": None}]},
    }
    file = read(tmp_path, v2_card(extensions=extensions))
    (card,) = file.cards
    assert card.depth_prompt == DepthPrompt(text="Remember the fog, {{user}}.", depth=2, role="user")
    assert card.document["data"]["extensions"] == extensions
    assert fate_of(file, "data.extensions.my_tool/data") == [("kept", 1, "unknown; kept for export")]
    assert fate_of(file, "data.extensions.talkativeness")[0][0] == "not supported"
    assert fate_of(file, "data.extensions.regex_scripts")[0][2].startswith("scripts over texts are never run")
    assert fate_of(file, "data.extensions.depth_prompt.depth") == [
        ("changed", 1, "the text stands right before the input")
    ]
    assert file.notes == (
        "The card names the book 'North Coast', which is in a file of its own: import that file too.",
    )


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        ({"prompt": "Fog."}, DepthPrompt(text="Fog.", depth=4, role="system")),
        ({"prompt": "Fog.", "depth": "7", "role": "Assistant"}, DepthPrompt(text="Fog.", depth=7, role="assistant")),
        ({"prompt": "Fog.", "depth": 2.0, "role": 1}, DepthPrompt(text="Fog.", depth=2, role="user")),
        ({"prompt": "Fog.", "depth": -1, "role": "tool"}, DepthPrompt(text="Fog.")),
        ({"prompt": "Fog.", "depth": None, "role": True}, DepthPrompt(text="Fog.")),
        ({"prompt": 5}, DepthPrompt(text="5")),
        ({"prompt": "", "depth": 4, "role": "system"}, None),
        ({}, None),
        ("Fog.", None),
        (None, None),
    ],
)
def test_the_note_of_a_character(tmp_path, note, expected):
    file = read(tmp_path, v2_card(extensions={"depth_prompt": note}))
    assert file.cards[0].depth_prompt == expected


@pytest.mark.parametrize(
    ("data", "field", "value", "fate"),
    [
        ({"description": 7}, "description", "7", ("changed", 1, "a number; taken as text")),
        ({"description": None}, "description", "", None),
        ({"description": ["a", "b"]}, "description", "a\nb", ("changed", 1, "a list of texts; each becomes a line")),
        (
            {"description": {"a": 1}},
            "description",
            "",
            ("not supported", 1, "a mapping in the place of a text; kept for export"),
        ),
        (
            {"description": True},
            "description",
            "",
            ("not supported", 1, "true or false in the place of a text; kept for export"),
        ),
        (
            {"tags": "sea, storm ,"},
            "tags",
            ("sea", "storm"),
            ("changed", 1, "a text; its parts between commas become a list"),
        ),
        (
            {"tags": 3},
            "tags",
            (),
            ("not supported", 1, "a number in the place of a list of texts; kept for export"),
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_salvaged_or_named(tmp_path, data, field, value, fate):
    file = read(tmp_path, v2_card(**data))
    assert getattr(file.cards[0], field) == value
    assert fate_of(file, f"data.{field}") == ([fate] if fate else [])
    assert file.cards[0].document["data"][field] == data[field]


@pytest.mark.parametrize(
    ("greetings", "expected"),
    [(None, ()), ("One.", ("One.",)), (["One.", None, "", 2, {"a": 1}], ("One.", "2")), ({}, ()), (False, ())],
)
def test_greetings_of_any_type(tmp_path, greetings, expected):
    assert read(tmp_path, v2_card(alternate_greetings=greetings)).cards[0].alternate_greetings == expected


@pytest.mark.parametrize("extensions", [None, [], "none", 4])
def test_extensions_that_are_no_mapping(tmp_path, extensions):
    assert read(tmp_path, v2_card(extensions=extensions)).cards[0].depth_prompt is None


def test_macros_are_counted_and_the_original_is_named(tmp_path):
    card = v2_card(system_prompt="{{Original}} Be {{random:kind,cruel}}.", description="{{char}} {{roll:d6}}")
    file = read(tmp_path, card)
    assert file.cards[0].system_prompt == "{{Original}} Be {{random:kind,cruel}}."
    assert fate_of(file, "data.system_prompt: {{original}}") == [
        ("changed", 1, "stands for the instructions of the program; becomes the usual ones of an imported world")
    ]
    assert fate_of(file, "data.system_prompt: {{random}}")[0][0] == "changed"
    assert fate_of(file, "data.description: {{roll}}")[0][1] == 1


def test_the_book_of_a_card(tmp_path):
    book = {"entries": [{"keys": ["lamp"], "content": "It is red."}]}
    (card,) = read(tmp_path, v2_card(character_book=book)).cards
    assert card.book is not None
    assert [entry.fields["content"] for entry in card.book.entries] == ["It is red."]


@pytest.mark.parametrize("book", [None, [], "none", 0])
def test_a_book_that_is_none(tmp_path, book):
    assert read(tmp_path, v2_card(character_book=book)).cards[0].book is None


@pytest.mark.parametrize("name", ["", "  ", None, {}])
def test_a_card_without_a_name_takes_that_of_its_file(tmp_path, name):
    file = read(tmp_path, v2_card(name=name), "守塔人.json")
    assert file.cards[0].name == "守塔人"
    assert ("changed", 1, "the card has none; it takes the name of its file") in fate_of(file, "data.name")


def test_a_card_that_nothing_names():
    with pytest.raises(CorpusError, match=r"has no name; write one at data\.name"):
        parse_card(v2_card(name=""), file_name="", counter=FieldCounter())


def test_flat_texts_are_taken_where_data_has_none(tmp_path):
    document = {"spec": "chara_card_v2", "data": {}, "name": "Mara", "first_mes": "Late."}
    (card,) = read(tmp_path, document).cards
    assert (card.spec, card.first_message) == ("v1", "Late.")


@pytest.mark.parametrize(
    "value",
    [
        v2_card(),
        v3_card(),
        {"data": {"name": "Mara", "description": "Keeper."}},
        {"name": "Mara", "first_mes": "Late."},
        {"char_name": "Mara", "char_persona": "Keeper."},
        {"name": "Mara", "context": "Keeper.", "greeting": "Late."},
    ],
)
def test_what_is_a_card(value):
    assert is_card(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "Mara",
        {},
        {"name": "package", "description": "of a program", "version": "1"},
        {"name": "Book", "description": "lore", "entries": {}},
        {"spec": "lorebook_v3", "data": {"entries": []}},
        {"kind": "memory", "name": "Book", "entries": []},
        {"type": "risu", "data": []},
        {"data": {"name": "Mara"}},
        {"name": "world", "scenario": {"start": 1}},
        {"user_name": "Lin", "character_name": "Mara"},
    ],
)
def test_what_is_no_card(tmp_path, value):
    assert not is_card(value)


@pytest.mark.parametrize("value", [[], "Mara", 4, {}, {"name": "Book", "entries": {}}, {"data": {}}])
def test_what_is_no_card_is_refused_with_its_file(tmp_path, value):
    with pytest.raises(CorpusError, match=r"mara\.json: is not a character card"):
        read(tmp_path, value)


@given(documents())
def test_every_value_has_one_fate(document):
    counter = FieldCounter()
    parse_card(document, file_name="file", counter=counter)
    fields = [fate.field for fate in counter.fates()]
    for name, value in document["data"].items():
        says_something = value is not None and value not in ("", [], {})
        mentions = [field for field in fields if field == f"data.{name}" or field.startswith(f"data.{name}.")]
        if says_something and name not in ("character_book", "extensions") and not isinstance(value, list):
            assert mentions == [f"data.{name}"]
