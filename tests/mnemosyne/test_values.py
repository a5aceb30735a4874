"""Values compare, hash and show themselves by their fields; patterns of our own are compiled at their first use."""

from __future__ import annotations

import dataclasses
import pickle
import re
from copy import deepcopy
from typing import Any

import pytest

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.values import dataclass


def make(decorator: Any) -> tuple[type, type]:
    @decorator(frozen=True, kw_only=True, slots=True)
    class Value:
        name: str
        parts: tuple[int, ...] = ()
        note: str = dataclasses.field(default="", compare=False)
        secret: str = dataclasses.field(default="", repr=False)

    @decorator(kw_only=True, slots=True)
    class Counter:
        number: int = 0

    return Value, Counter


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"name": "a"}, {"name": "a"}),
        ({"name": "a"}, {"name": "b"}),
        ({"name": "a", "parts": (1,)}, {"name": "a"}),
        ({"name": "a", "note": "x"}, {"name": "a", "note": "y"}),
        ({"name": "a", "secret": "x"}, {"name": "a", "secret": "y"}),
    ],
)
def test_values_compare_hash_and_show_themselves_as_dataclasses_of_the_standard_library_do(one, other):
    (ours, _), (theirs, _) = make(dataclass), make(dataclasses.dataclass)
    assert (ours(**one) == ours(**other)) == (theirs(**one) == theirs(**other))
    assert hash(ours(**one)) == hash(theirs(**one))
    assert repr(ours(**one)) == repr(theirs(**one))
    assert ours(**one) != theirs(**one)
    assert dataclasses.replace(ours(**one), **other) == ours(**{**one, **other})


def test_only_a_frozen_value_has_a_hash():
    _, counter = make(dataclass)
    assert counter(number=1) == counter(number=1)
    assert repr(counter(number=1)).endswith("Counter(number=1)")
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter())


@dataclass(frozen=True, slots=True)
class Inner:
    number: int

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inner) and abs(self.number - other.number) < 2

    def __repr__(self) -> str:
        return "inner"


@dataclass(frozen=True, slots=True)
class Outer(Inner):
    text: str = ""


def test_a_class_keeps_what_it_writes_itself_and_passes_it_on():
    assert Inner(1) == Inner(2) != Inner(4)
    assert repr(Inner(1)) == "inner"
    assert Outer(1, "a") != Outer(1, "b")
    assert pickle.loads(pickle.dumps(Outer(1, "a"))) == deepcopy(Outer(1, "a")) == Outer(1, "a")


def test_a_lazy_pattern_finds_what_the_compiled_one_finds():
    lazy, compiled = (
        lazy_pattern(r"(?P<word>[a-z]+)\d", re.IGNORECASE),
        re.compile(r"(?P<word>[a-z]+)\d", re.IGNORECASE),
    )
    for text in ("", "a1 B2", "x"):
        assert lazy.findall(text) == compiled.findall(text)
        assert lazy.sub(r"\g<word>", text) == compiled.sub(r"\g<word>", text)
    assert (lazy.pattern, lazy.flags, lazy.groupindex) == (compiled.pattern, compiled.flags, compiled.groupindex)
    with pytest.raises(re.error):
        lazy_pattern("(").search("")
