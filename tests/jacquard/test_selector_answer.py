"""What a small model may answer, and what is read out of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jacquard import (
    SelectorError,
)
from jacquard.pipeline.curation.selection_parser import parse_selection

POOL = ("lore_01", "narrative_105", "event_03", "D1:3", "钥匙")


@pytest.mark.parametrize(
    ("text", "ids", "counts"),
    [
        ('["lore_01", "narrative_105"]', ("lore_01", "narrative_105"), {}),
        ('  ["钥匙"]\n', ("钥匙",), {}),
        ("[]", (), {"empty": 1}),
        ('{"selected": []}', (), {"empty": 1}),
        ('{"ids": ["event_03"]}', ("event_03",), {}),
        ('{"selected": "event_03"}', ("event_03",), {}),
        ('{"choices": ["event_03"], "n": 1}', ("event_03",), {}),
        ('{"id": "event_03"}', ("event_03",), {}),
        ('"[\\"event_03\\"]"', ("event_03",), {}),
        ('["lore_01", "ghost", "lore_01", null, 7]', ("lore_01",), {"unknown_ids": 3, "duplicates": 1}),
        ('Sure! Here: ["lore_01"] — enjoy.', ("lore_01",), {"prose": 1}),
        ('I read all [50] items.\n```json\n["lore_01"]\n```\nDone.', ("lore_01",), {"prose": 1}),
        ('```json\n["lore_01"]\n```', ("lore_01",), {"prose": 1}),
        ("```\n[]\n```", (), {"prose": 1, "empty": 1}),
        ("I looked at [50] items and nothing fits: []", (), {"prose": 1, "empty": 1}),
        ('["lore_01", "event_03",]', ("lore_01", "event_03"), {"repaired": 1}),
        ("['lore_01', 'event_03']", ("lore_01", "event_03"), {"repaired": 1}),
        ('["lore_01", "event_0', ("lore_01",), {"repaired": 1, "unknown_ids": 1}),
        (
            '["lore_01", "event_03",] ' + "I chose these because of the key. " * 99,
            ("lore_01", "event_03"),
            {"prose": 1, "repaired": 1},
        ),
        ('{"selected": ["lore_01"], "rationale": "cut off he', ("lore_01",), {"prose": 1}),
        ('<think>["event_03"] or not?</think>["lore_01"]', ("lore_01",), {}),
        ('[" lore_01 "]', ("lore_01",), {}),
    ],
)
def test_answers_that_can_be_read(text: str, ids: tuple[str, ...], counts: dict[str, int]) -> None:
    selection = parse_selection(text, POOL, 5)
    assert selection.entry_ids == ids
    assert dict(selection.counts) == counts


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I could not decide.",
        "{}",
        "null",
        "42",
        "true",
        '"lore_01"',
        '["ghost"]',
        "[50]",
        '{"a": [1], "b": []}',
    ],
)
def test_answers_that_cannot(text: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selection(text, POOL, 5)
    assert caught.value.code == "unreadable"


def test_an_object_brings_reasons_and_a_rationale() -> None:
    answer = {
        "selected": [{"id": "lore_01", "why": "It is the key."}, {"id": "event_03"}, "D1:3"],
        "rationale": "  The input asks\n about the key. ",
    }
    selection = parse_selection(json.dumps(answer), POOL, 5)
    assert selection.entry_ids == ("lore_01", "event_03", "D1:3")
    assert dict(selection.why) == {"lore_01": "It is the key."}
    assert selection.rationale == "The input asks about the key."


def test_entities_that_a_model_copied_are_no_part_of_its_reasons() -> None:
    answer = {"selected": [{"id": "lore_01", "why": "Oda &amp; Lutz"}], "rationale": "a &lt; b"}
    selection = parse_selection(json.dumps(answer), POOL, 5)
    assert (dict(selection.why), selection.rationale) == ({"lore_01": "Oda & Lutz"}, "a < b")


def test_an_object_with_a_trailing_comma_keeps_its_reasons() -> None:
    selection = parse_selection('{"selected": [{"id": "lore_01", "why": "key"},], "rationale": "r",}', POOL, 5)
    assert selection.entry_ids == ("lore_01",)
    assert selection.rationale == "r"
    assert selection.counts["repaired"] == 1


def test_more_than_the_limit_are_counted_and_left_out() -> None:
    selection = parse_selection(json.dumps(list(POOL)), POOL, 2)
    assert selection.entry_ids == POOL[:2]
    assert selection.counts["over_limit"] == 3


def test_an_id_is_known_in_the_spelling_that_the_prompt_showed() -> None:
    assert parse_selection('["a&amp;b"]', ["a&b"], 5).entry_ids == ("a&b",)
    assert parse_selection('["a&b", "a&amp;b"]', ["a&b", "a&amp;b"], 5).entry_ids == ("a&b", "a&amp;b")


def test_a_numeric_id_may_come_as_a_number() -> None:
    assert parse_selection("[12, 7]", ["7", "12"], 5).entry_ids == ("12", "7")


def test_lone_surrogates_do_not_get_through() -> None:
    selection = parse_selection('{"selected": ["lore_01"], "rationale": "\\ud800 x"}', POOL, 5)
    selection.rationale.encode("utf-8")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(POOL),
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(st.sampled_from(["selected", "ids", "id", "why", "rationale"]) | st.text(), inner, max_size=4)
    ),
    max_leaves=20,
)


@st.composite
def answers(draw: st.DrawFn) -> str:
    """Anything from noise to a good answer, cut, quoted and talked around."""
    value: Any = draw(JSON | st.lists(st.sampled_from([*POOL, "ghost", "x"]), max_size=12))
    text = json.dumps(value, ensure_ascii=draw(st.booleans()))
    if draw(st.booleans()):
        text = text[: draw(st.integers(0, len(text)))]
    if draw(st.booleans()):
        text = text.replace('"', "'")
    noise = st.text(alphabet=st.characters() | st.sampled_from('[]{}",:`<>'), max_size=30)
    return f"{draw(noise)}{text}{draw(noise)}"


@settings(deadline=None)
@given(text=answers() | st.text(), limit=st.integers(0, 6))
def test_whatever_it_says_the_choice_keeps_the_contract(text: str, limit: int) -> None:
    try:
        selection = parse_selection(text, POOL, limit)
    except SelectorError:
        return
    assert len(selection.entry_ids) <= limit
    assert len(set(selection.entry_ids)) == len(selection.entry_ids)
    assert set(selection.entry_ids) <= set(POOL)
    assert set(selection.why) <= set(selection.entry_ids)
    assert all(count > 0 for count in selection.counts.values())
    selection.rationale.encode("utf-8")


@settings(deadline=None)
@given(ids=st.lists(st.sampled_from(POOL), unique=True), before=st.text(alphabet="abc \n.", max_size=20))
def test_a_clean_list_is_read_back_whole(ids: list[str], before: str) -> None:
    assert parse_selection(before + json.dumps(ids), POOL, 5).entry_ids == tuple(ids)


@pytest.mark.parametrize(
    "hostile", ["[" * 100_000, "{" * 100_000, '{"a":' * 50_000, "[1" * 50_000, "9" * 100_000, "[" + 'a"b' * 2600]
)
def test_hostile_nesting_is_unreadable_and_nothing_worse(hostile: str) -> None:
    with pytest.raises(SelectorError):
        parse_selection(hostile, POOL, 5)
