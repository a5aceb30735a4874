"""Activation of world info by SillyTavern's rules, by hand: what is set off, in which pass, and why not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne.world.activation.entries import read_entry
from mnemosyne.world.activation.scan import scan
from mnemosyne.world.activation.values import BookSource, ScanContext, ScannedMessage, TimedEffects, WorldInfoSettings


def entry(uid, *keys, world="book", source=BookSource.CHARACTER, **fields):
    return read_entry({"key": list(keys), "content": f"text {uid}", **fields}, world=world, uid=str(uid), source=source)


def run(entries, *told, rolls=0.0, effects=None, length=None, budget=10_000, **options):
    context_options = {name: options.pop(name) for name in ("trigger", "character_file", "fields") if name in options}
    messages = tuple(ScannedMessage(name="Ann", text=text) for text in reversed(told))
    return scan(
        entries,
        ScanContext(messages=messages, effects=effects or TimedEffects(), chat_length=length, **context_options),
        WorldInfoSettings(context_tokens=budget, budget_percent=100, **options),
        count_tokens=len,
        roll=lambda purpose, name: rolls[name] if isinstance(rolls, dict) else rolls,
    )


def uids(activation):
    return [each.entry.uid for each in activation.active]


@pytest.mark.parametrize(
    ("key", "text", "options", "is_found"),
    [
        ("lamp", "The Lamp burns.", {}, True),
        ("lamp", "The lamps burn.", {}, False),
        ("lamp", "The lamps burn.", {"matchWholeWords": False}, True),
        ("Lamp", "the lamp", {"caseSensitive": True}, False),
        ("red lamp", "the infrared lamps", {}, True),
        ("caf", "the café", {}, True),
        ("灯塔", "我在灯塔下等你。", {}, True),
        ("灯塔", "我在lighthouse下等你。", {}, False),
        ("塔", "A塔B", {}, False),
        ("/la(m|n)p/", "a LANP", {}, False),
        ("/la(m|n)p/i", "a LANP", {}, True),
        ("/^Ann/", "hello", {}, False),
        ("/lamp$/", "the lamp", {}, True),
        (r"/\blamp\b/", "灯lamp灯", {}, True),
        (r"/a\/b/", "a/b", {}, True),
        ("/a/b/", "a/b", {}, False),
        ("/[/", "say /[/ now", {"matchWholeWords": False}, True),
        (r"/灯.{0,2}塔/", "灯之塔", {}, True),
        ("Ann", "who?", {}, True),
        ("", "anything", {}, False),
    ],
)
def test_keys_are_found_as_javascript_finds_them(key, text, options, is_found):
    assert bool(run([entry(1, key, **options)], text).active) is is_found


@pytest.mark.parametrize(
    ("logic", "text", "is_found"),
    [
        (0, "lamp red", True),
        (0, "lamp", False),
        (1, "lamp red", True),
        (1, "lamp red blue", False),
        (2, "lamp", True),
        (2, "lamp red", False),
        (3, "lamp red blue", True),
        (3, "lamp red", False),
    ],
)
def test_secondary_keys_decide_by_their_logic(logic, text, is_found):
    found = run([entry(1, "lamp", keysecondary=["red", "blue"], selectiveLogic=logic)], text)
    assert bool(found.active) is is_found


def test_only_the_newest_messages_are_scanned():
    assert uids(run([entry(1, "fog")], "fog", "one", "two")) == []
    assert uids(run([entry(1, "fog", scanDepth=3)], "fog", "one", "two")) == ["1"]
    assert uids(run([entry(1, "fog", scanDepth=0)], "fog")) == []


def test_the_text_of_an_entry_wakes_others_and_the_chain_is_told():
    book = [entry(1, "lamp", content="made of brass"), entry(2, "brass"), entry(3, "text")]
    found = run(book, "the lamp")
    assert [(each.entry.uid, each.pass_number, each.woken_by) for each in found.active] == [
        ("1", 1, ""),
        ("2", 2, "book.1"),
        ("3", 3, "book.2"),
    ]
    assert uids(run(book, "the lamp", recursive=False)) == ["1"]
    assert uids(run(book, "the lamp", max_recursion_steps=2)) == ["1", "2"]
    stopped = [entry(1, "lamp", content="brass", preventRecursion=True), entry(2, "brass")]
    assert uids(run(stopped, "the lamp")) == ["1"]
    assert uids(run([entry(1, "lamp", content="brass"), entry(2, "brass", excludeRecursion=True)], "lamp")) == ["1"]


def test_levels_of_delayed_entries_open_one_after_the_other():
    book = [
        entry(1, "lamp", content="x"),
        entry(2, "lamp", delayUntilRecursion=1),
        entry(3, "lamp", delayUntilRecursion=2),
    ]
    found = run(book, "lamp")
    assert [(each.entry.uid, each.pass_number) for each in found.active] == [("1", 1), ("2", 2), ("3", 4)]


def test_too_few_entries_widen_the_scan():
    book = [entry(1, "old"), entry(2, "new")]
    told = ("old", "a", "b", "c", "new")
    assert uids(run(book, *told, recursive=False)) == ["2"]
    assert uids(run(book, *told, recursive=False, min_activations=2)) == ["2", "1"]
    assert uids(run(book, *told, recursive=False, min_activations=2, min_activations_depth_max=3)) == ["2"]


def test_one_of_a_group_is_shown():
    book = [entry(1, "lamp", group="g", groupWeight=30), entry(2, "lamp", group="g", groupWeight=70)]
    assert uids(run(book, "lamp", rolls=0.2)) == ["1"]
    assert uids(run(book, "lamp", rolls=0.5)) == ["2"]
    won = run([*book, entry(3, "lamp", group="g", groupOverride=True)], "lamp")
    assert uids(won) == ["3"]
    assert {each.entry.uid: each.reason for each in won.rejected} == {"1": "group", "2": "group"}
    scored = [entry(1, "lamp", group="g"), entry(2, "lamp", "oil", group="g")]
    assert uids(run(scored, "lamp oil", use_group_scoring=True)) == ["2"]


def test_chance_and_budget_reject_with_their_reason():
    odd = run([entry(1, "lamp", probability=30)], "lamp", rolls=0.5)
    assert [each.reason for each in odd.rejected] == ["probability"]
    assert uids(run([entry(1, "lamp", probability=30)], "lamp", rolls=0.2)) == ["1"]
    assert uids(run([entry(1, "lamp", probability=0, useProbability=False)], "lamp", rolls=0.9)) == ["1"]
    book = [
        entry(1, "lamp", content="x" * 50, order=200),
        entry(2, "lamp", content="y"),
        entry(3, "lamp", ignoreBudget=True),
    ]
    full = run(book, "lamp", budget=40)
    assert uids(full) == ["3"]
    assert {each.entry.uid: each.reason for each in full.rejected} == {"1": "budget", "2": "budget"}


def test_sticky_entries_stay_and_cool_down():
    book = [entry(1, "lamp", sticky=2, cooldown=2)]
    first = run(book, "lamp", length=5)
    assert (first.effects.sticky["book.1"].start, first.effects.sticky["book.1"].end) == (5, 7)
    second = run(book, "dark", length=6, effects=first.effects)
    assert [(each.entry.uid, each.reason) for each in second.active] == [("1", "sticky")]
    third = run(book, "lamp", length=7, effects=second.effects)
    assert uids(third) == []
    assert [each.reason for each in third.rejected] == ["cooldown"]
    assert uids(run(book, "lamp", length=9, effects=third.effects)) == ["1"]


def test_effects_of_a_message_that_was_taken_back_are_dropped():
    book = [entry(1, "lamp", cooldown=5)]
    first = run(book, "lamp", length=5)
    assert uids(run(book, "lamp", length=5, effects=first.effects)) == ["1"]
    assert uids(run(book, "lamp", length=6, effects=first.effects)) == []
    changed = [entry(1, "lamp", "oil", cooldown=5)]
    assert uids(run(changed, "lamp", length=6, effects=first.effects)) == ["1"]


def test_entries_wait_for_a_longer_chat_for_their_trigger_and_for_their_character():
    assert uids(run([entry(1, "lamp", delay=3)], "lamp", length=2)) == []
    assert uids(run([entry(1, "lamp", delay=3)], "lamp", length=3)) == ["1"]
    assert uids(run([entry(1, "lamp", triggers=["swipe"])], "lamp")) == []
    assert uids(run([entry(1, "lamp", triggers=["swipe"])], "lamp", trigger="swipe")) == ["1"]
    only = entry(1, "lamp", characterFilter={"names": ["Mira"], "tags": [], "isExclude": False})
    assert uids(run([only], "lamp", character_file="Joss")) == []
    assert uids(run([only], "lamp", character_file="Mira")) == ["1"]
    other = entry(1, "lamp", characterFilter={"names": ["Mira"], "tags": [], "isExclude": True})
    assert uids(run([other], "lamp", character_file="Mira")) == []


def test_decorators_and_further_texts():
    found = run([entry(1, content="@@activate\nAlways."), entry(2, "lamp", content="@@dont_activate\nNever.")], "lamp")
    assert [(each.entry.content, each.reason) for each in found.active] == [("Always.", "decorator")]
    book = [entry(1, "harbour", matchScenario=True)]
    assert uids(run(book, "hello", fields={"scenario": "the harbour at night"})) == ["1"]
    assert uids(run(book, "hello")) == []


def test_entries_are_looked_at_by_source_and_order():
    book = [
        entry(1, constant=True, source=BookSource.GLOBAL, order=500),
        entry(2, constant=True, order=10),
        entry(3, constant=True, order=90),
        entry(4, constant=True, source=BookSource.CHAT, order=1),
    ]
    assert uids(run(book, "x")) == ["4", "3", "2", "1"]
    assert uids(run(book, "x", insertion_strategy=0)) == ["4", "1", "3", "2"]


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=3)
)
FIELDS = (
    "key",
    "keysecondary",
    "content",
    "constant",
    "order",
    "position",
    "depth",
    "role",
    "probability",
    "group",
    "sticky",
)
MORE = (
    "cooldown",
    "delay",
    "selectiveLogic",
    "scanDepth",
    "delayUntilRecursion",
    "characterFilter",
    "triggers",
    "disable",
)


@given(
    st.lists(st.dictionaries(st.sampled_from(FIELDS + MORE), PLAIN, max_size=8), max_size=6),
    st.lists(st.text(max_size=8)),
)
def test_any_fields_give_the_same_result_twice(books, told):
    entries = [
        read_entry(fields, world="w", uid=str(number), source=BookSource.GLOBAL) for number, fields in enumerate(books)
    ]
    first = run(entries, *told, rolls=0.4)
    assert first == run(entries, *told, rolls=0.4)
    assert not {each.entry.uid for each in first.active if each.entry.disable}
    assert not {each.entry.uid for each in first.active} & {each.entry.uid for each in first.rejected}
