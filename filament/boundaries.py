"""Writes texts between tags without escaping them, and reads such texts back.

Escaping would alter code and markup in a text. If a boundary (a string that the text does not contain) is given, a
text with `&`, `<` or `>` is written as `<text boundary="…">` instead. Only the closing tag with the same boundary
ends that element. Without a boundary every text is escaped.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from filament.markup import escape_text, show_as_written, unescape

_SPECIAL = re.compile("[&<>]")
_OPENING = re.compile('<text boundary="([^"<>]+)">\n')
_TAG = re.compile("<[^>]*>")


def choose_boundary(boundary: str, text: str) -> str:
    """Return a boundary that `text` does not contain.

    The result is `boundary` itself or, if `text` contains `boundary`, `boundary` with a digest of `text`. The result depends
    only on the two arguments, so the boundaries of other texts in a prompt do not change.
    """
    if boundary not in text:
        return boundary
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{boundary}.{digest[:16]}"


def show_text(text: str, boundary: str = "") -> str:
    """Return `text` for a place between tags.

    Without a `boundary`, the text is escaped. With a `boundary`, a text that escaping would alter is written unescaped, in an
    element `text` that has the boundary as its attribute.
    """
    if not boundary or _SPECIAL.search(text) is None:
        return escape_text(text)
    shown = show_as_written(text)
    mark = choose_boundary(boundary, shown)
    return f'<text boundary="{mark}">\n{shown}\n</text boundary="{mark}">'


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentPiece:
    """One tag or one text of the content of an element."""

    source: str
    """Characters of the piece as they are written in the content."""
    text: str
    """The same characters unescaped."""
    is_tag: bool = False
    boundary: str = ""
    """Boundary of an unescaped text, in which nothing counts as a tag. It is '' for a tag or an escaped text."""

    def with_text(self, text: str) -> ContentPiece:
        """Return a piece with the new `text`. If this piece has a boundary, the new piece is written with it, else escaped."""
        return ContentPiece(source=show_text(text, self.boundary), text=text, boundary=self.boundary)


def split_content(content: str) -> tuple[ContentPiece, ...]:
    """Return the texts and tags of `content`, in order.

    The `source` texts of all pieces, joined, are `content` again. If an element `text` has no closing tag, its characters are
    read as tags and escaped text.
    """
    pieces: list[ContentPiece] = []
    at = 0
    while (found := _OPENING.search(content, at)) is not None:
        mark = found.group(1)
        closing = f'\n</text boundary="{mark}">'
        end = content.find(closing, found.end())
        if end < 0:
            break
        _add_escaped(pieces, content[at : found.start()])
        text, at_next = content[found.end() : end], end + len(closing)
        pieces.append(ContentPiece(source=content[found.start() : at_next], text=text, boundary=mark))
        at = at_next
    _add_escaped(pieces, content[at:])
    return tuple(pieces)


def unescape_content(content: str) -> str:
    """Return `content` with its texts unescaped. Tags stay, except the two tags around a text that has a boundary."""
    return "".join(piece.text for piece in split_content(content))


def _add_escaped(pieces: list[ContentPiece], content: str) -> None:
    # No tag ends after the last `>`; without this bound each `<` would be followed to the end of the text.
    last = content.rfind(">") + 1
    at = 0
    for tag in _TAG.finditer(content, 0, last):
        pieces.append(_escaped(content[at : tag.start()]))
        pieces.append(ContentPiece(source=tag.group(), text=tag.group(), is_tag=True))
        at = tag.end()
    pieces.append(_escaped(content[at:]))


def _escaped(source: str) -> ContentPiece:
    return ContentPiece(source=source, text=unescape(source))
