"""The text of an HTML page, by the parser of the standard library: headings as Markdown, no scripts, styles or markup.

A page made for it can keep the parser busy for long, so it is called in a process of its own (`parse`).
"""

from __future__ import annotations

import re
from html.parser import HTMLParser

_LEFT_OUT = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object", "head", "nav", "footer"})
_BLOCK_TAGS = (
    "address article aside blockquote br dd div dl dt fieldset figcaption figure form h1 h2 h3 h4 h5 h6 header hr li main ol p "
    "pre section table tbody tfoot thead tr ul"
)
_BLOCKS = frozenset(_BLOCK_TAGS.split())
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_BLANKS = re.compile(r"[ \t\r\f\v]*\n[ \t\r\f\v\n]*")


class _TextParser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.title = ""
        self._hidden = 0
        self._in_title = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in_title = tag == "title" and not self.title
        self._hidden += tag in _LEFT_OUT
        if tag in _BLOCKS:
            self.parts.append("\n\n" if tag in ("p", *_HEADINGS) else "\n")
            self.parts.append(f"{_HEADINGS[tag]} " if tag in _HEADINGS else "")
        elif tag in ("td", "th"):
            self.parts.append(" ")

    def handle_endtag(self, tag: str) -> None:
        self._in_title = self._in_title and tag != "title"
        self._hidden = max(self._hidden - (tag in _LEFT_OUT), 0)
        if tag in _BLOCKS:
            self.parts.append("\n\n" if tag in ("p", *_HEADINGS) else "\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title += data
        elif not self._hidden:
            self.parts.append(" ".join(re.split(r"\s+", data)))


def html_to_text(page: str) -> tuple[str, str]:
    """Return the text of a page, with `#` before headings, and its title ('' without one)."""
    parser = _TextParser()
    parser.feed(page)
    parser.close()
    text = _BLANKS.sub(lambda found: "\n\n" if found[0].count("\n") > 1 else "\n", "".join(parser.parts)).strip()
    return text, " ".join(parser.title.split())
