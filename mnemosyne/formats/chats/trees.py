"""Finds the chat in a conversation that a program stores as a tree. The chat is the path that the program showed last.

Branches that answer the same input as the path are kept as other replies. Edited inputs, messages after another reply,
and messages that are not connected to the path are not imported, but counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from mnemosyne.formats.chats.turns import MOST_REPLIES, SaidMessage
from mnemosyne.formats.losses import FieldCounter
from mnemosyne.schema.session import Message, Role
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeNode:
    """Place in a tree of messages.

    Programs store the `parent` of a place, its `children`, or both; one of the two is enough. `created` is a time in any unit,
    by which the newest leaf is found. `role` is None if the place has no message. `read` counts the fields of the message
    and returns the message, or None if the message has no text that belongs to the conversation.
    """

    role: Role | None
    read: Callable[[], Message | None]
    parent: str | None = None
    children: tuple[str, ...] = ()
    created: float = 0


def said_on_path(
    nodes: Mapping[str, TreeNode], current: object, counter: FieldCounter, field: str
) -> Iterator[SaidMessage]:
    """Yield the messages from the root to `current`, each with its other replies.

    If `current` is not in the tree, the path leads to the newest leaf. `field` is the name under which skipped places are
    counted.
    """
    tree = _Tree(nodes, counter, field)
    yield from tree.walk(tree.path_to(current))


class _Tree:
    def __init__(self, nodes: Mapping[str, TreeNode], counter: FieldCounter, field: str) -> None:
        self._nodes, self._counter, self._field = nodes, counter, field
        self._parents, self._children = _links(nodes)

    def path_to(self, current: object) -> list[str]:
        if not isinstance(current, str) or current not in self._nodes:
            leaves = [key for key in self._nodes if key not in self._children]
            # Of leaves with one time, the last one of the file is the newest.
            current = max(reversed(leaves), key=lambda key: self._nodes[key].created, default=None)
        path: dict[str, None] = {}
        here = current if isinstance(current, str) else None
        while here is not None and here not in path:
            path[here] = None
            here = self._parents.get(here)
        return [*path][::-1]

    def walk(self, path: Sequence[str]) -> Iterator[SaidMessage]:
        others: list[tuple[Message, ...]] = []
        is_answered = False
        for number, key in enumerate(path):
            node = self._nodes[key]
            if node.role is Role.USER:
                is_answered, others = True, []
            for sibling in self._siblings(path, number):
                other = self._nodes[sibling]
                if node.role is Role.USER or other.role is Role.USER or not is_answered:
                    self._refuse(sibling, "an input that was edited, with what follows it")
                elif branch := tuple(self._branch(sibling)):
                    self._counter.keep(self._field, sibling, "another reply")
                    others.append(branch)
            message = node.read() if node.role is not None else None
            if message is not None:
                taken = tuple(other for other in others if message.content != other[0].content or len(other) > 1)
                others = []
                yield SaidMessage(message=message, others=() if node.role is Role.USER else taken)
        for root in self._nodes:
            if root not in self._parents and root not in path[:1] and self._nodes[root].role is not None:
                self._refuse(root, "hangs together with nothing on the path that was shown last")

    def _siblings(self, path: Sequence[str], number: int) -> list[str]:
        return [key for key in self._children.get(path[number - 1], ()) if key != path[number]] if number else []

    def _branch(self, key: str) -> Iterator[Message]:
        """Yield the messages from a place on, always along the newest child, up to the next message of the user."""
        passed: set[str] = set()
        here: str | None = key
        while here is not None and here not in passed and len(passed) < MOST_REPLIES:
            passed.add(here)
            if self._nodes[here].role is Role.USER:
                self._refuse(here, "what was said after another reply")
                return
            message = self._nodes[here].read() if self._nodes[here].role is not None else None
            if message is not None:
                yield message
            here = next(reversed(self._children.get(here, [])), None)

    def _refuse(self, key: str, note: str) -> None:
        self._counter.refuse(self._field, key, note)


def _links(nodes: Mapping[str, TreeNode]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return (parent of each place, children of each place). Children are in the order that the parent states, or else in
    file order.
    """
    parents: dict[str, str] = {}
    for key, node in nodes.items():
        for child in node.children:
            if child in nodes:
                parents.setdefault(child, key)
    for key, node in nodes.items():
        if node.parent is not None and node.parent in nodes:
            parents[key] = node.parent
    children: dict[str, list[str]] = {}
    for key, node in nodes.items():
        for child in dict.fromkeys(node.children):
            if parents.get(child) == key:
                children.setdefault(key, []).append(child)
    for key, parent in parents.items():
        if key not in nodes[parent].children:
            children.setdefault(parent, []).append(key)
    return parents, children
