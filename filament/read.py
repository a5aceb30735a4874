"""Reads rendered prompt text back into nodes, for tools and tests: the strict inverse of `render`.

Only the forms that filament writes are read: no comments, declarations, CDATA or document types. Replies of a model
are read by `filament.reply`, which is tolerant.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from filament.errors import MarkupError
from filament.markup import unescape
from filament.nodes import Data, Element, Node, Text
from filament.payload import load_yaml

_TAG = re.compile(r'<(/?)([A-Za-z_][A-Za-z0-9_.-]*)((?: [A-Za-z_][A-Za-z0-9_.-]*="[^"<>]*")*)(/?)>', re.ASCII)
_ATTRIBUTE = re.compile(r' ([A-Za-z_][A-Za-z0-9_.-]*)="([^"<>]*)"', re.ASCII)


class _Open:
    """An element whose closing tag has not been read yet; `body_from` is where its body starts."""

    __slots__ = ("attributes", "body_from", "children", "name")

    def __init__(self, name: str, attributes: tuple[tuple[str, str], ...], body_from: int) -> None:
        self.name, self.attributes, self.body_from = name, attributes, body_from
        self.children: list[Node] = []


def parse_element(text: str, *, data: Collection[str] = ()) -> Element:
    """Return the element from which `text` was rendered. `data` names the elements whose body is YAML.

    `parse_element(render(x), data=…) == x` for every Element whose texts are clean (see `clean_text`).

    Raises:
        MarkupError: if the text has a form that `render` does not write. The message names the line of the first fault.
        PayloadError: if a YAML body cannot be read.
    """
    stack: list[_Open] = []
    root: Element | None = None
    at = 0
    for match in _TAG.finditer(text):
        _check_between(text, at, match.start(), stack)
        closes, name, raw, empty = match.groups()
        at = match.end()
        if root is not None or (closes and (raw or empty)):
            raise _fault(text, match.start(), f"{match.group()} has no place here")
        if closes:
            if not stack or stack[-1].name != name:
                raise _fault(text, match.start(), f"</{name}> closes nothing that is open")
            done = _close(stack.pop(), text, match.start(), data)
        else:
            attributes = tuple((key, unescape(value)) for key, value in _ATTRIBUTE.findall(raw))
            if not empty:
                stack.append(_Open(name, attributes, at))
                continue
            done = Element(name=name, attributes=attributes)
        if stack:
            stack[-1].children.append(done)
        else:
            root = done
    if root is None or text[at:].strip():
        raise _fault(text, at, f"<{stack[-1].name}> is not closed" if stack else "there must be exactly one element")
    return root


def _check_between(text: str, start: int, end: int, stack: list[_Open]) -> None:
    """Raise MarkupError for text between elements, and for a `<` or `>` that is not part of a tag."""
    between = text[start:end]
    if "<" in between or ">" in between:
        raise _fault(text, start, "there is a < or > that belongs to no tag")
    has_siblings = not stack or stack[-1].children or not text.startswith("</", end)
    if has_siblings and between.strip():
        raise _fault(text, start, "there is text next to an element")


def _close(opened: _Open, text: str, end: int, data: Collection[str]) -> Element:
    children: tuple[Node, ...] = tuple(opened.children)
    if not children:
        body = unescape(text[opened.body_from : end])
        children = (Data(value=load_yaml(body)),) if opened.name in data else (Text(text=body),)
    return Element(name=opened.name, attributes=opened.attributes, children=children)


def _fault(text: str, at: int, reason: str) -> MarkupError:
    line = text.count("\n", 0, at) + 1
    return MarkupError(f"line {line}: {reason}.")
