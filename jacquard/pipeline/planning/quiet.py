"""Finds inputs for which no memory is to be searched: words outside of the story, commands to the program, and inputs that
say nothing to search for.

Pure. It must not import a rule, a stream or a store.
"""

from __future__ import annotations

import re
from enum import StrEnum

from jacquard.core.names import normalise
from jacquard.pipeline.planning.lexicons.chinese import LEXICON as CHINESE
from jacquard.pipeline.planning.lexicons.english import LEXICON as ENGLISH
from mnemosyne.chains.asides import is_aside, remove_asides

FILLER_CHARS = 40
COMMAND_CHARS = 80
_ACTED = r"(?:me|say|do|emote|whisper|shout|yell|think|w|说|做|想|喊)"
_COMMAND = re.compile(
    rf"^(?:[/／](?!{_ACTED}\b)(?=[^\W\d_])[\w-]{{1,24}}|![a-z][a-z0-9_-]{{0,24}})(?=\s|$)[^\n/]*$", re.IGNORECASE
)
_SAYS_SOMETHING = re.compile(r"[^\W_]")


class Quiet(StrEnum):
    """Why nothing is searched for an input."""

    ASIDE = "words outside of the story"
    COMMAND = "a command to the program"
    FILLER = "nothing to search for"


def find_quiet(user_message: str) -> Quiet | None:
    """Return why nothing is to be searched for an input, or None for one that belongs to the story."""
    text = user_message.strip()
    if len(text) <= COMMAND_CHARS and _COMMAND.match(text):
        return Quiet.COMMAND
    if is_aside(text):
        return Quiet.ASIDE
    return Quiet.FILLER if is_filler(remove_asides(text)) else None


def is_filler(text: str) -> bool:
    """Return whether a text has only words, signs and pictures that name nothing, such as 嗯, "ok" and 😀."""
    if not _SAYS_SOMETHING.search(text):
        return True
    words = " ".join("".join(char if char.isalnum() or char == "'" else " " for char in normalise(text)).split())
    if len(words) > FILLER_CHARS:
        return False
    return bool(ENGLISH.filler.fullmatch(words) or CHINESE.filler.fullmatch(words.replace(" ", "")))
