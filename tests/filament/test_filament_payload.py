"""The YAML that we write, and what its reader says of a bad file."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import pytest

from filament import PayloadError, dump_yaml, load_yaml, load_yaml_marked, scalar


def test_the_form_of_a_body() -> None:
    value = {
        "health": "85 (受伤状态)",
        "note": "one, two: three",
        "bag": {
            "_anchor": "bag_main",
            "items": [{"id": "item_1", "name": "Rope"}, {"id": "item_2", "tags": ["a", []]}],
        },
        "story": "first line\n  second line\n\nthird",
        "empty": {},
        "nested": [[1, 2], [{"a": 1, "b": 2}]],
        "yes": "no",
        "tiny": 1e-7,
    }
    assert (
        dump_yaml(value)
        == """\
health: 85 (受伤状态)
note: "one, two: three"
bag:
  _anchor: bag_main
  items:
    - id: item_1
      name: Rope
    - id: item_2
      tags:
        - a
        - []
story: |-
  first line
    second line

  third
empty: {}
nested:
  - - 1
    - 2
  - - a: 1
      b: 2
"yes": "no"
tiny: 1.0e-07"""
    )


def test_indent_shifts_every_line() -> None:
    assert dump_yaml({"a": ["x", "y\nz"]}, indent=2) == "  a:\n    - x\n    - |-\n      y\n      z"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "null"),
        (True, "true"),
        (-0.0, "-0.0"),
        (1e16, "1.0e+16"),
        (math.inf, ".inf"),
        (-math.inf, "-.inf"),
        (10**30, "1" + "0" * 30),
        ("Iron Sword", "Iron Sword"),
        ("a, b", '"a, b"'),
        ("http://x", '"http://x"'),
        ("12:30", '"12:30"'),
        ("", '""'),
        ("a\tb\x1b\u2028\U0001ffff", '"a\\tb\\x1B\\u2028\\U0001FFFF"'),
        ("3 swords", "3 swords"),
        ("1e3", '"1e3"'),
    ],
)
def test_scalars(value: Any, shown: str) -> None:
    assert scalar(value) == shown
    assert load_yaml(shown) == value


def test_nan_is_written_and_read() -> None:
    assert scalar(math.nan) == ".nan"
    assert math.isnan(load_yaml(".nan"))


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [{"b": {1, 2}}]}, "a[0].b is a set"),
        ({"a": {5: 1}}, "a has the key 5, which is not text"),
        ({"when": date(2020, 1, 1)}, "when is a date"),
        (b"x", "The value is a bytes"),
        ({"n": 10**5000}, "n is a number of too many digits"),
    ],
)
def test_what_yaml_cannot_carry_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(PayloadError) as caught:
        dump_yaml(value)
    assert str(caught.value).startswith(place)
    assert caught.value.line is None


def test_values_without_end_are_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadError, match="nested deeper"):
        dump_yaml(loop)


def test_lines_of_a_marked_text() -> None:
    text = "# a pack\ntitle: 森林\nlore:\n  - id: a\n    keys: [x, y]\n  -\n    id: b\n"
    value, lines = load_yaml_marked(text)
    assert value == {"title": "森林", "lore": [{"id": "a", "keys": ["x", "y"]}, {"id": "b"}]}
    assert lines == {
        (): 2,
        ("title",): 2,
        ("lore",): 3,
        ("lore", 0): 4,
        ("lore", 0, "id"): 4,
        ("lore", 0, "keys"): 5,
        ("lore", 0, "keys", 0): 5,
        ("lore", 0, "keys", 1): 5,
        ("lore", 1): 7,
        ("lore", 1, "id"): 7,
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on: off", {"on": "off"}),
        ("a: yes", {"a": "yes"}),
        ("a: 12:30", {"a": "12:30"}),
        ("a: 2020-01-01", {"a": "2020-01-01"}),
        ("a: 1_000", {"a": "1_000"}),
        ("a: ~", {"a": None}),
        ("a:", {"a": None}),
        ("a: True", {"a": True}),
        ("a: 1e3", {"a": 1000.0}),
        ("a: 0x1F", {"a": 31}),
        ("a: '1'", {"a": "1"}),
        ("a: !!str 1", {"a": "1"}),
        ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
        ("", None),
        ("# nothing", None),
        ("[]", []),
    ],
)
def test_an_author_gets_what_he_typed(text: str, value: Any) -> None:
    loaded = load_yaml(text)
    assert loaded == value
    assert type(loaded) is type(value)


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ("a: 1\nb: 2\na: 3", 3, "second time"),
        ("x:\n  - {b: 1, c: 2,\n     b: 3}", 3, "second time"),
        ("a: 1\n5: x", 2, "not text"),
        ("a: 1\n~: x", 2, "not text"),
        ("a: 1\n? [b]\n: x", 2, "not text"),
        ("a: &x 1\nb: *x", 2, "alias"),
        ("a: 1\nb: !!python/object:os.system ls", 2, "tag"),
        ("a: !!binary aGk=", 1, "tag"),
        ("a: 1\n---\nb: 2", 2, "second document"),
        ("a: 1\n\tb: 2", 2, ""),
        ("a: 'x\nb: 1", 3, ""),
        ("a: 1\nb: [1,", 3, ""),
        ("a: 1\nb: \x00", 2, "forbids"),
        ("a: 1\nb: \ud800", 2, "surrogate"),
        ("a: " + "[" * 50_000, 1, "nested deeper"),
        ("a: 1\nb: " + "9" * 5000, 2, "digits"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(text: str, line: int, word: str) -> None:
    with pytest.raises(PayloadError) as caught:
        load_yaml_marked(text)
    assert caught.value.line == line or (word == "" and caught.value.line is not None)
    assert word in str(caught.value)
    assert str(caught.value).startswith(f"line {caught.value.line}: ")
