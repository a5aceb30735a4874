"""Values that a prompt text is rendered from: elements, text bodies and YAML bodies.

Nodes are frozen and checked when they are created, so every node has legal names and a legal shape. `render` decides
how they are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from filament.errors import MarkupError
from filament.markup import check_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A body of free text; it is escaped when it is rendered."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """A body of data, rendered as one YAML document: mappings with text keys, lists, text, numbers, booleans, None."""

    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Element:
    """A named element; MarkupError for an illegal name, an attribute given twice, or mixed content."""

    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    """(name, text) pairs in the order in which they are shown."""
    children: tuple[Node, ...] = ()
    """Any number of elements, or exactly one body (Text or Data); mixed content could not be read back."""

    def __post_init__(self) -> None:
        check_name(self.name)
        names = [check_name(name) for name, _ in self.attributes]
        if len(set(names)) != len(names):
            raise MarkupError(f"<{self.name}> has an attribute twice ({', '.join(names)}). Give each once.")
        if len(self.children) > 1 and not all(isinstance(child, Element) for child in self.children):
            raise MarkupError(
                f"<{self.name}> mixes a body with other children. Put the body into an element of its own."
            )


Node = Element | Text | Data


def element(name: str, *children: Node | str, **attributes: str | int | float | None) -> Element:
    """Return an Element: a str child becomes a Text body; attributes keep the order given, and those that are None are
    left out.

    MarkupError as for `Element`.
    """
    return Element(
        name=name,
        attributes=tuple((key, str(value)) for key, value in attributes.items() if value is not None),
        children=tuple(Text(text=child) if isinstance(child, str) else child for child in children),
    )
