"""Word tables of one language. Data only; `reading` applies them.

All texts are regular expressions over normalised text (NFKC, case folded, one blank between words). Repetitions of more than
one character are bounded, so that the time is linear in the length of the input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Lexicon:
    """Words of one language."""

    idioms: re.Pattern[str]
    """Expressions with a word of another table in a different sense; they are removed first."""
    fight: re.Pattern[str]
    """Fighting, dodging, or threatening with a weapon."""
    not_verbs: re.Pattern[str]
    """Words before a word of fighting that show it is not a verb ("an attack")."""
    negators: re.Pattern[str]
    """Negate the words after them in their clause."""
    no_negators: re.Pattern[str]
    """Expressions with a negator that negate nothing."""
    later: re.Pattern[str]
    """Put a whole sentence into the future or make it a condition."""
    reported: re.Pattern[str]
    """Make a sentence a report of somebody's words, of a text or of a story."""
    past: re.Pattern[str]
    """Show that the input is about the past."""
    memory: re.Pattern[str]
    """Recall the past; they show the past as well."""
    past_question: re.Pattern[str]
    """Questions about the past."""
    others: re.Pattern[str]
    """Questions about somebody else's life: about the past, but not about the play."""
    player: re.Pattern[str]
    """The player and their companions; a past without them may be the world's history."""
    future: re.Pattern[str]
    """Show that the input is about the future."""
    question: re.Pattern[str]
    """Mark a question without a question mark."""
    overview: re.Pattern[str]
    """Ask for many facts at once."""
    own_speech: re.Pattern[str]
    """Introduce the player's own words."""
    again: re.Pattern[str]
    """Whole inputs that ask for the same again."""
    filler: re.Pattern[str]
    """Whole inputs without anything to search for."""


def any_of(*texts: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the expressions."""
    return re.compile("|".join(f"(?:{text})" for text in texts))


def words_of(*texts: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the expressions at word boundaries."""
    return re.compile(rf"(?<![\w'])(?:{'|'.join(texts)})(?![\w])")
