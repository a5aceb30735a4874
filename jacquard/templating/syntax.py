"""Syntax of a template as plain values, for tools that read templates without rendering them.

So no tool needs the template engine; nodes keep the engine's names for their kinds and fields. It imports nothing of this
product.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Token:
    """Piece of source text; `line` and `column` count from 1, `offset` is the 0-based place in the file's text."""

    kind: str
    value: str
    line: int
    column: int
    offset: int


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Node:
    """Node of the syntax tree; `fields` contain nodes, tuples of nodes, texts and other constants, in source order."""

    kind: str
    line: int
    fields: Mapping[str, Any]

    def get(self, name: str) -> Any:
        """Return a field, or None if the node has no field of this name."""
        return self.fields.get(name)

    def text(self, name: str) -> str:
        """Return a field that contains a text."""
        return str(self.fields[name])

    def node(self, name: str) -> Node:
        """Return a field that contains one node; raises TypeError if it contains anything else."""
        found = self.fields[name]
        if not isinstance(found, Node):
            raise TypeError(f"{self.kind}.{name} is not a node")
        return found

    def nodes(self, name: str) -> tuple[Node, ...]:
        """Return a field that contains nodes; an empty tuple if the field is empty or missing."""
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
        """Yield this node and all nodes below it that are of these kinds, each before the nodes below it."""
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
    """Yield the tokens `(line, kind, value)` with their places; white space that the engine strips belongs to none of them."""
    at = 0
    for line, kind, value in tokens:
        at = max(at, source.find(value, at))
        yield Token(kind=kind, value=value, line=line, column=at - source.rfind("\n", 0, at), offset=at)
        at += len(value)
