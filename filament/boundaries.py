"""Unescaped text inside markup: an element that ends only at a boundary, which the text does not contain.

Escaping would alter code and markup in a text. If a boundary is given, a text with a character that would be escaped is
put into `<text boundary="…">` instead, and nothing in it can end that element. Without a boundary every text is
escaped.
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
    """Return a boundary that a text does not contain: the given one, or one made of it and the text's digest.

    It depends only on the text, so that no other text's boundary changes with it.
    """
    if boundary not in text:
        return boundary
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{boundary}.{digest[:16]}"


def show_text(text: str, boundary: str = "") -> str:
    """Return a text for a place between tags: escaped, or unescaped between boundaries if escaping would alter it."""
    if not boundary or _SPECIAL.search(text) is None:
        return escape_text(text)
    shown = show_as_written(text)
    mark = choose_boundary(boundary, shown)
    return f'<text boundary="{mark}">\n{shown}\n</text boundary="{mark}">'


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentPiece:
    """Tag or text of a content."""

    source: str
    """Characters in the content."""
    text: str
    """Characters before they were escaped."""
    is_tag: bool = False
    boundary: str = ""
    """Boundary of an unescaped text; whatever looks like a tag in it is text."""

    def with_text(self, text: str) -> ContentPiece:
        """Return the piece with another text, shown in the same way."""
        return ContentPiece(source=show_text(text, self.boundary), text=text, boundary=self.boundary)


def split_content(content: str) -> tuple[ContentPiece, ...]:
    """Return the texts and tags of a content, in order; their sources joined are the content again.

    An element `text` that lacks its end is read as tags and escaped text.
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
    """Return a content with its texts unescaped; tags stay, except those around a text between boundaries."""
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
