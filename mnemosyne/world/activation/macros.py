"""Fills names into the texts of imported cards and books, for the macros `{{char}}` and `{{user}}`.

Texts of other programs are data, never code, so no macro is evaluated. Comments (`{{// …}}`) are removed. All other macros
stay unchanged, and an import reports how many of them there are.
"""

from __future__ import annotations

import re

_NAMES = re.compile(r"\{\{(char|user|bot)\}\}|<(USER|BOT|CHAR)>", re.IGNORECASE)
_COMMENTS = re.compile(r"\{\{//[^{}]{0,4000}\}\}|\{\{comment:[^{}]{0,4000}\}\}", re.IGNORECASE)
_LINES = re.compile(r"\{\{(newline|noop|trim)\}\}", re.IGNORECASE)


def fill_names(text: str, *, char: str, user: str) -> str:
    """Return `text`, in which the macros of the character become `char` and the macros of the user become `user`.

    Comments are removed, and all line ends become line feeds. If `char` or `user` is empty, its macros are not replaced.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "{{" not in text and "<" not in text:
        return text

    def name_of(found: re.Match[str]) -> str:
        name = user if (found[1] or found[2]).lower() == "user" else char
        return name or found[0]

    named = _COMMENTS.sub("", _NAMES.sub(name_of, text))
    return _LINES.sub(lambda found: "\n" if found[1].lower() == "newline" else "", named)
