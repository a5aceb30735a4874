"""The short text form of a condition, and regular expressions that could run for ever."""

from __future__ import annotations

import json
import re
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.schema.memory import Comparison, Condition
from mnemosyne.world.checking.patterns import pattern_fault, slow_fault
from mnemosyne.world.format.conditions import parse_condition


@pytest.mark.parametrize(
    ("text", "path", "op", "value"),
    [
        ("hero.health > 20", "hero.health", ">", 20),
        ("hero.health>=20", "hero.health", ">=", 20),
        ("hero.luck <= -1.5", "hero.luck", "<=", -1.5),
        ("  location == 低语森林 ", "location", "==", "低语森林"),
        ("location == the mill yard", "location", "==", "the mill yard"),
        ('location != "a > b"', "location", "!=", "a > b"),
        ("note == 'it is = so'", "note", "==", "it is = so"),
        ('note == "a \\"b\\" \\n"', "note", "==", 'a "b" \n'),
        ("found.key == true", "found.key", "==", True),
        ("found.key == null", "found.key", "==", None),
        ("found.key == True", "found.key", "==", "True"),
        ("q_1.status in [active, completed]", "q_1.status", "in", ["active", "completed"]),
        ("x in [1, 2.5, 'a, b', \"c\", null]", "x", "in", [1, 2.5, "a, b", "c", None]),
        ("x in []", "x", "in", []),
        ("hero.skills contains mending", "hero.skills", "contains", "mending"),
        ("inn.in in [in]", "inn.in", "in", ["in"]),
        ("hero.状态.体力 < 3", "hero.状态.体力", "<", 3),
    ],
)
def test_short_text(text: str, path: str, op: str, value: Any) -> None:
    found = parse_condition(text)
    assert found == Condition(path=path, op=Comparison(op), value=value)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "hero", "hero.health", "> 20", "hero.health >", "hero.health = 20", "hero > 1 > 2", "a b == 1"),
        *("x in [1, 2", "x in [1, [2]]", "x == 'open", 'x == "', "x ~ 3", "x == {a: 1}", "x == a == b", "x in [a b] c"),
        "x" * 2000 + " == 1",
    ],
)
def test_no_condition(text: str) -> None:
    with pytest.raises(ValueError, match=r"is|has|opens|compares"):
        parse_condition(text)


SIGNS = [operator.value for operator in Comparison]


NEARLY = st.text(alphabet=""" ab.[]'"=!<>1,\\""", max_size=20)


@given(st.text(max_size=60) | NEARLY.map(lambda text: f"a{text} == 1"))
def test_any_text_is_a_condition_or_a_value_error(text: str) -> None:
    try:
        found = parse_condition(text)
    except ValueError:
        return
    assert text.strip().startswith(found.path)
    assert found.path
    assert not set(found.path) & set("=!<> ")
    assert found.op.value in text


@given(st.from_regex(r"[a-z神][\w]{0,8}(\.[a-z神][\w]{0,8}){0,3}", fullmatch=True), st.sampled_from(SIGNS), st.data())
def test_what_is_written_as_a_condition_is_read_as_it(path: str, sign: str, data: st.DataObject) -> None:
    words = st.text(alphabet="""ab '>=<![],."\\神""", max_size=9)
    # A number of more than 18 digits is text.
    one = st.booleans() | st.none() | st.integers(-(10**18) + 1, 10**18 - 1) | words
    value = data.draw(st.lists(one, max_size=3) if sign == "in" else one)
    found = parse_condition(f"{path} {sign} {json.dumps(value, ensure_ascii=False)}")
    assert found == Condition(path=path, op=Comparison(sign), value=value)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    "pattern",
    [
        *(r"喝(一瓶)?(治疗)?药水", r"(?:drink|use) (?:a |the )?potion", r"rest(?: for (?P<hours>\d{1,2}) hours?)?"),
        *(r"(买|购买)(?P<n>\d+)个苹果", r"buy (\w+ )?sword", r"(ab)+", r"(?:ab|cd)+c", r"go (?:north|south|east|west)"),
        *(
            r"\d+\.\d+ gold",
            r"[\w ]+ sword",
            r"a{2}(bc){3}",
            r"(?i)drink",
            r"say .* to .*",
            r"[(+*]{1,5} stars",
            r"a\+\+",
        ),
    ],
)
def test_patterns_that_may_be_used(pattern: str) -> None:
    assert pattern_fault(pattern) is None
    assert slow_fault(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a|aa)+b", r"(a|a)*b", r"(a|b|ab)*c", r"(\w|\d){30}x", r"(?:a{0,15}){0,15}b", r"(.*?,){11}P", r"(?:a+?)+?b",
        r"((?:a|ab|b)+)+c", r"x(?:y|yy)+z", r"(?:l|li|i)+ght",
    ],
)  # fmt: skip
def test_patterns_that_some_inputs_keep_busy(pattern: str) -> None:
    assert pattern_fault(pattern) is None
    assert "is too slow" in (slow_fault(pattern) or "")


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        (r"(open", "unterminated"),
        (r"*a", "nothing to repeat at character 1"),
        (r"a{3,1}", "min repeat"),
        (r"(?x) a b", "verbose"),
        (r"[[a]", "doubtful"),
        (r".*", "any input"),
        (r"(?:.|\n)+", "any input"),
        (r"(?:a{1000}){1000}", "counted repeats"),
        (r"", "an empty one"),
        (r"(吃面包)?", "an empty one"),
    ],
)
def test_patterns_that_are_none(pattern: str, says: str) -> None:
    fault = pattern_fault(pattern)
    assert fault is not None
    assert says in fault


@given(st.text(alphabet="ab()[]{}|*+?\\.^$,12<>=!P:#- \n，", max_size=30))
def test_any_pattern_is_judged(pattern: str) -> None:
    """One that is let through is an expression to Python too, and needs words of its input."""
    fault = pattern_fault(pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            compiled = re.compile(pattern)
        except (re.error, Warning, OverflowError):
            assert fault is not None
            assert "regular expression" in fault
            return
    if compiled.fullmatch("") or compiled.flags & re.VERBOSE:
        assert fault is not None
    if fault is not None:
        assert re.match(r"(?:switches on|waits for|contains|cannot be used|matches any input) ?", fault)
