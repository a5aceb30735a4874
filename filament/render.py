r"""Renders nodes as prompt text: the same node gives the same bytes in any process.

Layout, chosen so that pre-rendered blocks can be nested unchanged:

- every tag starts at column 0; nothing is indented for depth (leading spaces would cost tokens and shift YAML);
- an element with element children has one child per line;
- a text body follows its opening tag directly, unchanged except for escaping;
- a YAML body has lines of its own, at column 0, between the lines of its tags;
- an element without children is `<name/>`; one with an empty text body `<name></name>`.

So `load_yaml(unescape(text between the tags))` is the value, and any other YAML reader gives the same. Imports nodes,
markup and payload only.
"""

from __future__ import annotations

from typing import Any

from filament.markup import close_tag, escape_text, open_tag
from filament.nodes import Data, Node, Text
from filament.payload import dump_yaml


def render(node: Node) -> str:
    """Return the node as prompt text without a trailing newline; PayloadError if a Data value is not YAML data."""
    if isinstance(node, Text):
        return escape_text(node.text)
    if isinstance(node, Data):
        return render_body(node.value)
    if not node.children:
        return open_tag(node.name, node.attributes, empty=True)
    inner = "\n".join(render(child) for child in node.children)
    border = "" if isinstance(node.children[0], Text) else "\n"
    return f"{open_tag(node.name, node.attributes)}{border}{inner}{border}{close_tag(node.name)}"


def render_body(value: Any, indent: int = 0) -> str:
    """Return a value as escaped YAML, to be put between two tags; see `dump_yaml` for its form and errors."""
    return escape_text(dump_yaml(value, indent))
