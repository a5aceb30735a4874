"""Defines the word tables of one language, by which the module `reading` finds the intent and the time of an input.

A table is a regular expression for normalised text (NFKC, case folded, one blank between words). Repetitions of more than one
character are bounded, so that the time of a search is linear in the length of the input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Lexicon:
    """Word tables of one language."""

    idioms: re.Pattern[str]
    """Expressions that contain a word of another table in a different sense; they are removed first."""
    fight: re.Pattern[str]
    """Words for fighting, dodging, or threatening with a weapon."""
    not_verbs: re.Pattern[str]
    """Words that show that the word of fighting after them is not a verb ("an attack")."""
    negators: re.Pattern[str]
    """Words that negate the words after them in their clause."""
    no_negators: re.Pattern[str]
    """Expressions that contain a word of `negators` but negate nothing."""
    later: re.Pattern[str]
    """Words that put a whole sentence into the future or make it a condition."""
    reported: re.Pattern[str]
    """Words that make a sentence a report of somebody's words, of a text or of a story."""
    past: re.Pattern[str]
    """Words that show that the input is about the past."""
    memory: re.Pattern[str]
    """Words that recall the past ("remember"). They also count as words of `past`."""
    past_question: re.Pattern[str]
    """Questions about the past."""
    others: re.Pattern[str]
    """Questions about the life of somebody else. They are about the past, but not about what happened in the play."""
    player: re.Pattern[str]
    """Words for the player and their companions. A past without them may be the history of the world."""
    future: re.Pattern[str]
    """Words that show that the input is about the future."""
    question: re.Pattern[str]
    """Words that make a sentence without a question mark a question."""
    overview: re.Pattern[str]
    """Words that ask for many facts at once."""
    own_speech: re.Pattern[str]
    """Words that introduce the player's own words in quotation marks."""
    again: re.Pattern[str]
    """Whole inputs that ask for the same again."""
    filler: re.Pattern[str]
    """Whole inputs without anything to search for."""


T = TypeVar("T")

_LATIN = re.compile("[a-z]")


def by_script(text: str, english: T, chinese: T) -> Sequence[T]:
    """Return the tables that can find something in a normalised text.

    Each English expression contains a Latin letter, and each Chinese one a character that is not ASCII.
    """
    if text.isascii():
        return (english,)
    return (english, chinese) if _LATIN.search(text) else (chinese,)


def any_of(*texts: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the regular expressions `texts`."""
    return lazy_pattern("|".join(f"(?:{text})" for text in texts))


def words_of(*texts: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the regular expressions `texts` between word boundaries."""
    return lazy_pattern(rf"(?<![\w'])(?:{'|'.join(texts)})(?![\w])")
