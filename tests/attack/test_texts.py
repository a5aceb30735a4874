"""A hostile text breaks nothing, whatever it is given to: the properties of `text_entries`, over numbered mixtures.

Among them: a reply streamed in pieces is the reply read whole; what was redacted once is not changed by redacting it again; escaped
text holds no markup and reads back; a plan is always made, with short search words; a selector of evidence gives spans of its
content; a shown text is printed without control characters; and nothing raises but the errors that are for people.

Long form: `python -m tests.attack texts`, a million texts, each for a part of the entry points, which take turns.
"""

from __future__ import annotations

import pytest
from generators import GENERATORS, mixture
from long_form import LongForm
from text_entries import ENTRIES

SHORT = 100
TURNS = (
    ("reply in pieces of 1", "reply in pieces of 7", "reply in pieces of 4096"),
    ("planner", "planner in Chinese", "planner of a world without names", "input words", "names"),
    ("template of a reply", "value of a template", "value of a reply's template"),
    ("pattern", "pattern of an author", "selector's text", "path"),
    ("op value", "op path", "ops of a reply", "quoted update", "reply that repeats the user"),
    ("scrubbing", "scrubbing of itself", "text that repeats itself", "text that was shown"),
    tuple(name for name in ENTRIES if name.startswith("selector ")),
    ("command line", "session document", "small model's planning prompt", "model's summary", "query"),
)
"""Of each of these one is taken in turn: they cost most, or have much in common."""
ONE_OF_THREE = tuple(
    name for name, each in ENTRIES.items() if not each.costs and not any(name in turn for turn in TURNS)
)
"""A third of these takes each text: three times as many texts in the same time find more than one text at every one of them."""
COSTLY = tuple(name for name, each in ENTRIES.items() if each.costs)


def check(number: int) -> None:
    """Raise an error that names every entry point that the text of a case broke."""
    text = mixture(number)
    findings = []
    for name in (*ONE_OF_THREE[number % 3 :: 3], *(turn[number % len(turn)] for turn in TURNS)):
        try:
            ENTRIES[name](text)
        except Exception as error:
            findings.append(f"{name}: {type(error).__name__}: {error}")
    assert not findings, f"{text!r}: " + "; ".join(findings)


FORM = LongForm(count=1_000_000, check=check, chunk=2_000)


def test_numbered_texts_break_nothing():
    for number in range(SHORT):
        check(number)


@pytest.mark.parametrize("name", COSTLY)
def test_texts_in_files_break_nothing(name):
    for number in range(5):
        ENTRIES[name](mixture(number))


@pytest.mark.parametrize("generator", GENERATORS)
def test_every_generator_gives_the_size_asked_for_and_the_same_text_again(generator):
    make = GENERATORS[generator]
    for size in (1, 17, 400):
        assert len(make(size)) == size
        assert make(size) == make(size)


def test_a_case_is_the_same_text_every_time():
    assert [mixture(number) for number in range(40)] == [mixture(number) for number in range(40)]
