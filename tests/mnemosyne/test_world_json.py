"""A pack as a JSON value is checked by the rules of a pack in files: every fault at once, by the names of its fields."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mnemosyne import WorldPackError, load_world
from mnemosyne.core.codec import encode
from mnemosyne.world import load_world_json, pack_to_json

ROOT = Path(__file__).parents[2]
PACKS = sorted(
    each.parent
    for folder in ("examples", "evals/plays", "evals/sets", "mnemosyne/world/starter", "tests/jacquard/data")
    for each in (ROOT / folder).rglob("world.yaml")
)
FOREST = ROOT / "examples" / "whispering_forest" / "en"


def value_of(folder):
    return json.loads(encode(pack_to_json(load_world(folder))))


def faults_of(value):
    with pytest.raises(WorldPackError) as refused:
        load_world_json(value)
    return refused.value.faults


@pytest.mark.parametrize("folder", PACKS, ids=lambda each: each.relative_to(ROOT).as_posix())
def test_a_sound_pack_is_what_it_was(folder):
    value = value_of(folder)
    assert json.loads(encode(pack_to_json(load_world_json(value)))) == value


def test_every_fault_is_named_with_its_place():
    value = value_of(FOREST)
    pack = value["pack"]
    entity, first, second = pack["entities"][0], *pack["lore"][:2]
    first |= {"when": [{"path": "hero.helth", "op": ">", "value": 3}], "priority": "high", "lvel": 1}
    second |= {"entry_id": first["entry_id"], "kind": "encyclopaedia", "entities": ["nobody"], "text": " "}
    pack["planner"]["templates"].append({"template_id": "night", "when": [{"path": "nope.x", "op": "==", "value": 1}]})
    pack["actions"][0]["ops"] = [["SET", "nope.y", 1]]
    pack["actions"][1]["patterns"] = ["("]
    pack["injections"] = [{"injection_id": "i", "text": "x", "on": ["quest_finished"]}]
    pack["state"]["quests"]["q_x"] = {"id": "q_x", "title": "X", "links": {"requires": ["q_y"]}, "objectives": []}
    pack["prologue"][0]["events"] = [{"event_id": "e", "type": "t", "summary": "s", "quest_id": "q_z"}]
    pack["narratives"][0]["to_turn"] = 900
    pack["story_time"] = ["time.never"]
    del entity["name"]
    pack["lroe"] = []
    del pack["persona"], second["scope"]
    number = len(pack["planner"]["templates"]) - 1
    places = (
        "pack: lore[0].when[0]: refers to 'hero.helth', which is not in the state; did you mean 'health'?",
        "pack: lore[0].priority: is text, but must be a whole number",
        "pack: lore[0]: has the field 'lvel'",
        f"pack: lore[1].entry_id: {first['entry_id']!r} is used already at pack (lore[0].entry_id)",
        "pack: lore[1].kind: is 'encyclopaedia', but must be one of ",
        "pack: lore[1].entities[0]: there is no entity 'nobody'",
        "pack: lore[1].text: is empty",
        f"pack: planner.templates[{number}].when[0]: refers to 'nope.x'",
        "pack: actions[0].ops[0]: changes 'nope.y'",
        "pack: actions[1].patterns[0]: ",
        "pack: injections[0].on[0]: names the event 'quest_finished'",
        "pack: state.quests.q_x.links.requires[0]: there is no quest 'q_y'",
        "pack: prologue[0].events[0].quest_id: there is no quest 'q_z'",
        "pack: narratives[0].to_turn: is 900",
        "pack: story_time[0]: tells the time of the story by 'time.never'",
        "pack: entities[0].name: is missing",
        "pack: lacks the field 'persona'",
        "pack: lore[1]: lacks the field 'scope'",
        "pack: has the field 'lroe', which is not known here; did you mean 'lore'?",
    )
    faults = faults_of(value)
    for place in places:
        assert any(each.startswith(place) for each in faults), (place, faults)


@pytest.mark.parametrize("value", [{}, {"pack": None}, {"pack": []}, {"format": 99, "pack": {}}, {"pack": {"lore": 3}}])
def test_what_is_no_pack_is_refused(value):
    assert all(each.startswith("pack: ") for each in faults_of(value))


def test_a_newer_form_is_said_before_anything_else():
    (fault,) = faults_of({"format": 99, "pack": {}})
    assert "newer release" in fault


def test_a_lore_entry_needs_no_title():
    value = value_of(FOREST)
    value["pack"]["lore"][0] |= {"title": ""}
    assert load_world_json(value).lore[0].title == ""


def test_a_search_for_faults_ends_at_the_number_that_is_given():
    value = value_of(FOREST)
    value["pack"]["lore"] = [
        {**each, "when": [{"path": f"no.{at}", "op": "==", "value": 1}]}
        for at, each in enumerate(value["pack"]["lore"])
    ]
    with pytest.raises(WorldPackError) as refused:
        load_world_json(value, most_faults=10)
    assert len(refused.value.faults) == 11
    assert refused.value.faults[-1] == "… and perhaps more; correct these first"


SOUND_TEXT = json.dumps(value_of(FOREST))
LEAVES = st.none() | st.booleans() | st.integers(-2, 200) | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def places_of(value, path=()):
    """Yield the path of every value in a tree; of a list only the first two entries."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, each in items:
        yield from places_of(each, (*path, key))


PLACES = list(places_of(json.loads(SOUND_TEXT)["pack"]))[1:]


@given(changes=st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_a_changed_pack_is_taken_or_refused_with_sentences(changes):
    value = json.loads(SOUND_TEXT)
    for path, changed in changes:
        at = value["pack"]
        try:
            for step in path[:-1]:
                at = at[step]
            at[path[-1]] = changed
        except (LookupError, TypeError):
            continue
    assert all(each.startswith("pack: ") for each in named_faults(value))


def named_faults(value):
    try:
        load_world_json(value)
    except WorldPackError as error:
        return error.faults
    return ()
