"""One table of fields gives the check, the JSON Schema, the table of a page and the controls of a form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from jsonschema import Draft202012Validator

from filament import load_yaml_marked
from mnemosyne.core.faults import FaultList, SourceLocation
from mnemosyne.shapes import (
    BROKEN,
    Choice,
    Field,
    Flag,
    KeyedValues,
    Many,
    Number,
    Reading,
    Record,
    Text,
    TypeTables,
    format_table,
)

LAMP = Record(
    name="lamp",
    label="a lamp",
    fields=(
        Field(name="id", shape=Text(), required=True, doc="Id of the lamp."),
        Field(name="burns_seconds", shape=Number(low=0, high=90, whole=True), fallback=5, doc="How long it burns."),
        Field(name="colour", shape=Choice(words=("white", "amber")), fallback="white", doc="Its light."),
        Field(name="lit", shape=Flag(), fallback=False, doc="Whether it is lit."),
        Field(name="names", shape=Many(item=Text()), fallback=(), doc="Its names."),
        Field(
            name="oils", shape=KeyedValues(item=Number(low=0), keys=("whale", "olive")), fallback={}, doc="Its oils."
        ),
    ),
)


def read(text, shape=LAMP, **options):
    value, lines = load_yaml_marked(text)
    reading = Reading(root=SourceLocation(file="lamp.yaml", lines=lines), **options)
    return shape.read(value, (), reading), reading.faults.sentences()


def test_a_sound_tree_has_its_defaults_filled_in():
    assert read("id: a\nlit: true\n") == (
        {"id": "a", "burns_seconds": 5, "colour": "white", "lit": True, "names": (), "oils": {}},
        (),
    )


def test_every_fault_is_named_with_file_line_key_and_the_nearest_name():
    text = (
        "burns_seconds: 91\ncolor: white\ncolour: ambre\nlit: 1\nnames:\n  - x\n  - 5\noils:\n  whale: -1\n  oliv: 2\n"
    )
    value, faults = read(text)
    assert value == {"names": ["x", BROKEN]}
    assert faults == (
        "lamp.yaml:1: id: is missing; write it. Id of the lamp.",
        "lamp.yaml:1: burns_seconds: is 91; it must be between 0 and 90",
        "lamp.yaml:2: color: is not a key of a lamp; known keys: id, burns_seconds, colour, lit, names, oils",
        "lamp.yaml:3: colour: is 'ambre', but must be one of white, amber; did you mean 'amber'?",
        "lamp.yaml:4: lit: is a number, but must be true or false; change it",
        "lamp.yaml:7: names[1]: is a number, but must be text; write it in quotes",
        "lamp.yaml:9: oils.whale: is -1; it must be 0 or more",
        "lamp.yaml:10: oils.oliv: is not a key of this mapping; did you mean 'olive'?",
    )


def test_faults_above_a_number_are_only_counted():
    faults = read("".join(f"k{number}: 1\n" for number in range(9)), faults=FaultList(most=3))[1]
    assert faults[-1] == "and 7 more faults"
    assert len(faults) == 4


@pytest.mark.parametrize(
    "text",
    [
        "id: a",
        "{}",
        "id: ''",
        "id: a\nlit: no",
        "id: a\nburns_seconds: 1.5",
        "id: a\noils: {tar: 1}",
        "id: a\nnames: x",
    ],
)
def test_check_and_json_schema_agree(text):
    value = load_yaml_marked(text)[0]
    assert Draft202012Validator(LAMP.schema()).is_valid(value) == (not read(text)[1])


def test_a_page_and_a_form_come_from_the_table():
    rows = ((each.name, each.describe(), each.describe_default()) for each in LAMP.fields[:2])
    assert format_table(("key", "what", "default"), rows) == (
        "| key | what | default |\n| --- | --- | --- |\n"
        "| id | text | **needed** |\n| burns_seconds | whole number 0..90 | `5` |\n"
    )
    _, burns, colour, *_ = LAMP.control()["fields"]
    assert burns == {
        "key": "burns_seconds",
        "label": "Burns seconds",
        "control": "number",
        "step": 1,
        "minimum": 0,
        "maximum": 90,
        "unit": "seconds",
        "required": False,
        "default": 5,
        "help": "How long it burns.",
    }
    assert (colour["control"], colour["choices"]) == ("select", ["white", "amber"])


@dataclass
class Wick:
    """The wick of a lamp."""

    length: float = 1.0
    inks: Mapping[str, tuple[str, ...]] | None = None


def test_a_table_is_derived_from_a_class():
    tables = TypeTables(rules=lambda cls, each: {"low": 0 if each.name == "length" else None}, shapes={}, made={})
    table = tables.record_of(Wick)
    assert table.doc == "The wick of a lamp."
    assert [(each.name, each.describe()) for each in table.fields] == [
        ("length", "number from 0"),
        ("inks", "mapping to list of text, or none"),
    ]
    assert read("length: 2\ninks: {a: [b]}", table)[0] == {"length": 2.0, "inks": {"a": ("b",)}}
    assert read("length: -2", table)[1] == ("lamp.yaml:1: length: is -2.0; it must be 0 or more",)
