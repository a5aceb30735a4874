"""Splits lore files in Markdown into front matter (YAML between two `---` lines at the top) and the text below it."""

from __future__ import annotations

import re

from mnemosyne.values import dataclass

_FRONT = re.compile(r"\A---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*(?:\r?\n|\Z)(?P<body>.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownLore:
    """The two parts of a lore file. `front` is YAML text, from line `front_line` of the file on. `body` begins on line
    `body_line`.
    """

    front: str
    body: str
    front_line: int
    body_line: int


def split_markdown(text: str) -> MarkdownLore:
    """Return the two parts of a lore file. Raises ValueError, which names the missing part, if there is no front matter
    or no end of it.
    """
    if not re.match(r"---[ \t]*\r?\n", text):
        raise ValueError("does not begin with a line '---'; put front matter with id, name and category there")
    match = _FRONT.match(text)
    if match is None:
        raise ValueError("has front matter that does not end; put a line '---' below it")
    return MarkdownLore(
        front=match["front"],
        body=match["body"].replace("\r\n", "\n").strip(),
        front_line=2,
        body_line=text.count("\n", 0, match.start("body")) + 1,
    )
