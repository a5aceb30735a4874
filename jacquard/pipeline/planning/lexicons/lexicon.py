"""What the planner knows of a language. Data only; `reading` applies it.

All texts are regular expressions over normalised text (NFKC, case folded, one blank between words). Repetitions of more
than one character are bounded, so that the time for an input grows with its length and not faster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Lexicon:
    """The words of one language.

    - `idioms`: expressions with a word of another table that do not mean it; they are taken out first.
    - `fight`: somebody fights, dodges or threatens with a weapon. `not_verbs`: what stands before such a word where it is no
      verb ("an attack").
    - `negators`: what negates the words after it in its clause. `no_negators`: expressions with a negator that negate nothing.
    - `later`: what puts a whole sentence into the future or makes it a condition. `reported`: what makes a sentence an account of
      somebody's words, of a text or a story.
    - `past`, `future`: what shows that the input is about another time. `memory`: what calls the past to mind; it shows the past
      as well.
    - `others`: questions about the life of somebody else, which are about the past and not about what was played.
    - `player`: the player and those who play with them; a past without them may be the history of the world.
    - `question`: what makes a sentence a question without a question mark. `past_question`: questions about the past.
    - `overview`: what asks for many facts at once.
    - `own_speech`: what introduces words of the player's own.
    - `again`: the whole input asks for the same once more. `filler`: the whole input says nothing to search for.
    """

    idioms: re.Pattern[str]
    fight: re.Pattern[str]
    not_verbs: re.Pattern[str]
    negators: re.Pattern[str]
    no_negators: re.Pattern[str]
    later: re.Pattern[str]
    reported: re.Pattern[str]
    past: re.Pattern[str]
    memory: re.Pattern[str]
    past_question: re.Pattern[str]
    others: re.Pattern[str]
    player: re.Pattern[str]
    future: re.Pattern[str]
    question: re.Pattern[str]
    overview: re.Pattern[str]
    own_speech: re.Pattern[str]
    again: re.Pattern[str]
    filler: re.Pattern[str]


def any_of(*texts: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the expressions."""
    return re.compile("|".join(f"(?:{text})" for text in texts))


def words_of(*texts: str) -> re.Pattern[str]:
    """Return a pattern that finds any of the expressions where it begins and ends at word boundaries."""
    return re.compile(rf"(?<![\w'])(?:{'|'.join(texts)})(?![\w])")
