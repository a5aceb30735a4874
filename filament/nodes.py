"""Defines the nodes from which a prompt text is rendered: elements, text bodies and YAML bodies.

Nodes are frozen and are checked when they are created, so each node has legal names and a legal shape. `render`
decides how nodes are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from filament.errors import MarkupError
from filament.markup import check_name


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A body of free text, which is escaped when it is rendered."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Data:
    """A body of data, rendered as one YAML document.

    Legal values are mappings with text keys, lists, text, numbers, booleans and None.
    """

    value: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Element:
    """A named element.

    Raises MarkupError if a name is illegal, an attribute is given twice, or elements are mixed with a body.
    """

    name: str
    attributes: tuple[tuple[str, str], ...] = ()
    """(name, text) pairs, in the order in which they are written."""
    children: tuple[Node, ...] = ()
    """Any number of elements, or exactly one body (Text or Data). A mixture could not be read back."""

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
    """Return an Element.

    A child that is a str becomes a Text body. Attributes keep their order. An attribute that is None is left out.

    Raises:
        MarkupError: as for `Element`.
    """
    return Element(
        name=name,
        attributes=tuple((key, str(value)) for key, value in attributes.items() if value is not None),
        children=tuple(Text(text=child) if isinstance(child, str) else child for child in children),
    )
