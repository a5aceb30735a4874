"""Names in the texts of cards and books: `{{char}}` and `{{user}}`. Nothing else in braces is ever evaluated.

Texts of other programs are data. Two macros are names that a reader needs, and comments are left out; all others stay as they are
written, and an import reports how many.
"""

from __future__ import annotations

import re

_NAMES = re.compile(r"\{\{(char|user|bot)\}\}|<(USER|BOT|CHAR)>", re.IGNORECASE)
_COMMENTS = re.compile(r"\{\{//[^{}]{0,4000}\}\}|\{\{comment:[^{}]{0,4000}\}\}", re.IGNORECASE)
_LINES = re.compile(r"\{\{(newline|noop|trim)\}\}", re.IGNORECASE)


def fill_names(text: str, *, char: str, user: str) -> str:
    """Return a text with the names of the character and of the user in the place of their macros, without comments, and with line
    feeds as the only line ends.

    A macro whose name is empty is not replaced.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "{{" not in text and "<" not in text:
        return text

    def name_of(found: re.Match[str]) -> str:
        name = user if (found[1] or found[2]).lower() == "user" else char
        return name or found[0]

    named = _COMMENTS.sub("", _NAMES.sub(name_of, text))
    return _LINES.sub(lambda found: "\n" if found[1].lower() == "newline" else "", named)
