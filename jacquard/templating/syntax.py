"""Defines the syntax of a template as plain values, so that tools read templates without the template engine.

Kinds and fields of nodes have the names that the engine (jinja2) gives them. This module imports nothing of this product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """Piece of source text. `line` and `column` are counted from 1; `offset` is counted from 0, from the start of the file."""

    kind: str
    value: str
    line: int
    column: int
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Node:
    """Node of the syntax tree. A value in `fields` is a node, a tuple of nodes, a text or another constant, in source order."""

    kind: str
    line: int
    fields: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return the field `name`. Return None if the node has no such field."""
        return self.fields.get(name)

    def text(self, name: str) -> str:
        """Return the field `name` as text."""
        return str(self.fields[name])

    def node(self, name: str) -> Node:
        """Return the field `name`, which must contain one node.

        Raises TypeError if the field contains anything else.
        """
        found = self.fields[name]
        if not isinstance(found, Node):
            raise TypeError(f"{self.kind}.{name} is not a node")
        return found

    def nodes(self, name: str) -> tuple[Node, ...]:
        """Return the nodes in the field `name`. Return an empty tuple if the field is missing or contains no nodes."""
        found = self.fields.get(name)
        return tuple(each for each in found if isinstance(each, Node)) if isinstance(found, tuple) else ()

    def children(self) -> Iterator[Node]:
        """Yield the nodes directly below this one, in source order."""
        for value in self.fields.values():
            if isinstance(value, Node):
                yield value
            elif isinstance(value, tuple):
                yield from (each for each in value if isinstance(each, Node))

    def find(self, *kinds: str) -> Iterator[Node]:
        """Yield this node and the nodes below it, at any depth, if their kind is one of `kinds`. A node comes before
        the nodes below it.
        """
        if self.kind in kinds:
            yield self
        for child in self.children():
            yield from child.find(*kinds)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Syntax:
    """One template: its tree, and every token of its source in order (white space too)."""

    root: Node
    tokens: tuple[Token, ...]


def locate_tokens(tokens: Iterable[tuple[int, str, str]], source: str) -> Iterator[Token]:
    """Yield each of `tokens`, given as `(line, kind, value)`, with its column and offset in `source`.

    White space that the engine strips belongs to no token.
    """
    at = 0
    for line, kind, value in tokens:
        at = max(at, source.find(value, at))
        yield Token(kind=kind, value=value, line=line, column=at - source.rfind("\n", 0, at), offset=at)
        at += len(value)
