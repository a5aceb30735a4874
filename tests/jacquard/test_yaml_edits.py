"""A YAML file of an author is changed where its value changes, and nowhere else."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from filament import load_yaml
from filament.state.rules import META_KEYS
from jacquard.authoring.yaml_edits import edit_yaml, is_same
from mnemosyne.world.format.fields import STATE_RULES

QUESTS = Path(__file__).parents[2] / "examples" / "whispering_forest" / "en" / "quests.yaml"
TEXT = """\
# The quests.
- id: a   # the first one
  title: Go
  # what to do
  objectives:
  - {id: o1, text: Walk}   # on one line
  - id: o2
    text: >-
      Look
      around
  links: {requires: [b], leads_to: []}

# The second one.
- id: b
  title: "Stay: here"
  status: active
"""


def change(run):
    value = load_yaml(TEXT)
    run(value)
    text, is_kept = edit_yaml(TEXT, value)
    assert is_same(load_yaml(text), value)
    return text, is_kept


@pytest.mark.parametrize(
    ("run", "gone", "new"),
    [
        (lambda q: q[1].update(title="Go on"), ['  title: "Stay: here"'], ["  title: Go on"]),
        (lambda q: q[1].update(title="two\nlines"), ['  title: "Stay: here"'], ["  title: |-", "    two", "    lines"]),
        (lambda q: q[0]["objectives"][1].update(text="Look"), ["    text: >-", "      Look", "      around"], ["    text: Look"]),
        (lambda q: q[0].update(id="a1"), ["- id: a   # the first one"], ["- id: a1"]),
        (lambda q: q[1].pop("status"), ["  status: active"], []),
        (lambda q: q[1].update(outcome="Done"), [], ["  outcome: Done"]),
        (lambda q: q.append({"id": "c", "title": "More"}), [], ["- id: c", "  title: More"]),
        (lambda q: q.pop(1), ["- id: b", '  title: "Stay: here"', "  status: active"], []),
        (lambda q: q[0]["links"].update(requires=[]), ["  links: {requires: [b], leads_to: []}"],
         ["  links:", "    requires: []", "    leads_to: []"]),
        (lambda q: q[0]["objectives"][0].update(text="Run"), ["  - {id: o1, text: Walk}   # on one line"],
         ["  - id: o1", "    text: Run"]),
        (lambda q: q[0]["objectives"].pop(0), ["  - {id: o1, text: Walk}   # on one line"], []),
    ],
)  # fmt: skip
def test_only_the_lines_of_what_changed_are_written_again(run, gone, new):
    text, is_kept = change(run)
    assert is_kept
    before, after = TEXT.split("\n"), text.split("\n")
    assert [line for line in before if line not in after] == gone
    assert [line for line in after if line not in before] == new


def test_each_value_of_a_real_file_is_changed_alone():
    text = QUESTS.read_text(encoding="utf-8")
    value = load_yaml(text)
    for place, quest in enumerate(value):
        for key in quest:
            changed = copy.deepcopy(value)
            changed[place][key] = "X: y" if isinstance(quest[key], str) else ["x"]
            edited, is_kept = edit_yaml(text, changed)
            assert is_kept
            assert is_same(load_yaml(edited), changed)
            assert edited.startswith("# Quests and how they hang together.\n")


def test_a_file_that_cannot_be_edited_by_lines_is_written_whole_and_says_so():
    text, is_kept = edit_yaml("# no\n{a: 1, b: [2,\n 3]}\n", {"a": 2, "b": [2, 3]})
    assert not is_kept
    assert load_yaml(text) == {"a": 2, "b": [2, 3]}
    assert edit_yaml("a: 1 # x\n", {"a": 1}) == ("a: 1 # x\n", True)
    assert edit_yaml("a: 1\n", {"a": 1.0})[0] == "a: 1.0\n"


def test_the_form_of_the_state_has_every_rule_that_an_author_may_write():
    assert sorted(each.name for each in STATE_RULES.fields) == sorted(META_KEYS)
