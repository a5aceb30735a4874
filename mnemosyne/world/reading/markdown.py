"""Splits lore files in Markdown into front matter (YAML between two `---` lines at the top) and the text below it."""

from __future__ import annotations

import re

from mnemosyne.values import dataclass

_FRONT = re.compile(r"\A---[ \t]*\r?\n(?P<front>.*?)^---[ \t]*(?:\r?\n|\Z)(?P<body>.*)\Z", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkdownLore:
    """The two parts of a lore file: `front`, a YAML text, and `body`, the text below it.

    `front_line` and `body_line` are the numbers of their first lines in the file, from 1.
    """

    front: str
    body: str
    front_line: int
    body_line: int


def split_markdown(text: str) -> MarkdownLore:
    """Return the two parts of the lore file `text`.

    Raises ValueError if the file does not begin with front matter, or if the front matter does not end.
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
