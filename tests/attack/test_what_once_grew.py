"""Inputs whose time once grew faster than their length, or that raised what is for nobody: each with what must come of it now."""

from __future__ import annotations

import re
import warnings
from difflib import unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jacquard.authoring.replay.line_diff import MOST_LINES, diff_lines
from jacquard.core.names import NAME_CHARS, NameDictionary, find_mentions
from jacquard.core.plan import KEYWORD_CHARS
from jacquard.pipeline.planning.rules import guess_names
from mnemosyne.chains.quantities import calculate, read_number
from mnemosyne.core.errors import PatternError
from mnemosyne.core.masking.credentials import mask_credentials
from mnemosyne.core.regexes import MAX_PATTERN_CHARS, compile_re
from mnemosyne.schema.world import Entity

SETS = st.text("ab-[]^|&~\\w9]", max_size=12).map(lambda inner: f"[{inner}]")


@given(st.lists(SETS | st.sampled_from(["a", "(?:b)", "[", r"\N{", "(?#"]), max_size=4).map("".join))
def test_a_pattern_with_strange_sets_is_refused_or_matches_as_in_python(pattern):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        try:
            wanted = re.compile(pattern, re.IGNORECASE)
        except re.error:
            wanted = None
    # No warning of the engines gets out, though `re` has some for sets within sets.
    try:
        compiled = compile_re(pattern)
    except PatternError:
        return
    if wanted is not None:
        for text in ("a", "b", "-", "[", "]", "^", "|", "&", "~", "\\", "9", "ab", "[a]", ""):
            assert bool(compiled.fullmatch(text)) == bool(wanted.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize("pattern", ["[a", "[]", "[^]", "[a\\", "[" * 400, "[）-+]", "(?#a", "[b-a]"])
def test_a_pattern_that_is_none_is_refused_with_a_sentence(pattern):
    with pytest.raises(PatternError):
        compile_re(pattern)


def test_a_pattern_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(PatternError, match="more than 2,000 characters"):
        compile_re("[" * (50 * MAX_PATTERN_CHARS))


@pytest.mark.parametrize("before", ["", "1", "+.-7", "see ", "at=(", "x+9"])
def test_an_address_in_an_error_is_masked_whatever_stands_before_it(before):
    told = mask_credentials(f"cannot reach {before}https://u:geheim@host/?key=geheim now")
    assert "geheim" not in told
    assert told.endswith(" now")


def test_a_long_error_without_an_address_is_left_as_it_is():
    assert mask_credentials("a.b-" * 50_000) == "a.b-" * 50_000


def test_a_number_is_read_with_its_marks_and_not_beyond_the_length_of_an_action():
    assert read_number(" twenty-one ") == 21
    assert read_number("\uff11\uff12") == 12
    assert read_number("1" + "\u0316\u0301" * 50_000) is None


@pytest.mark.parametrize(("expression", "value"), [("{ 1 + 2 }", 3), ("{n*3 }", 6), ("{\t(1+1)//2\n}", 1)])
def test_blanks_of_an_expression_do_not_count(expression, value):
    assert calculate(expression, lambda name: 2) == value


def test_what_cannot_be_read_of_an_expression_is_named():
    with pytest.raises(ValueError, match="cannot be read from '·2"):
        calculate("{1 + ä·2}", lambda name: 2)


def test_names_that_nobody_writes_out_are_not_looked_for():
    longest = "a" * NAME_CHARS
    assert list(find_mentions(f"x {longest} y", longest)) == [2]
    assert list(find_mentions("a" * 5_000, "a" * (NAME_CHARS + 1))) == []
    entities = [Entity(entity_id="e", name=longest, aliases=("b" * (NAME_CHARS + 1),))]
    assert [each.entity_ids for each in NameDictionary(entities).find(f"{longest} {'b' * 300}")] == [("e",)]


def test_a_guessed_name_is_no_longer_than_a_search_word():
    words, is_sure = guess_names("we saw " + "Lena Marlow " * 1_000)
    assert is_sure
    assert words == (("Lena Marlow " * 5).strip(),)
    assert len(words[0]) <= KEYWORD_CHARS
    assert guess_names("we saw " + "L" * 500)[0] == ()


def test_of_long_texts_the_lines_from_the_first_difference_on_are_compared():
    old = [f"line {number}" for number in range(3 * MOST_LINES)]
    new = [*old[:5_000], "other", *old[5_001:]]
    assert diff_lines(old, new, around=1) == (
        "@@ -5000,3 +5000,3 @@",
        " line 4999",
        "-line 5000",
        "+other",
        " line 5001",
    )
    assert diff_lines(old, old) == ()
    told = diff_lines(old, ["new", *old[1:-1], "end"], around=0)
    assert told == ("@@ -1 +1 @@", "-line 0", "+new", f"@@ {2 * MOST_LINES} more lines are not compared @@")


def test_a_short_diff_is_that_of_the_library():
    old, new = ["a", "-- b", "c", "d", "e"], ["a", "c", "d", "++ x", "e"]
    assert diff_lines(old, new) == tuple(unified_diff(old, new, lineterm="", n=2))[2:]
