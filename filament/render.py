r"""Nodes to prompt text, byte-stable: the same node gives the same bytes, in any process.

Layout, chosen so that pre-rendered blocks can be put into one another without touching them:

- every tag starts at column 0; nothing is indented for depth (leading spaces would cost tokens and shift YAML);
- an element with element children has one child a line;
- a text body stands right between its tags, unchanged but for escaping;
- a YAML body stands on lines of its own, at column 0, between the lines of its tags;
- an element without children is `<name/>`; one with an empty text body `<name></name>`.

So `load_yaml(unescape(what stands between the tags))` is the value, and any YAML reader may take the place of
`load_yaml`. Imports nodes, markup and payload only.
"""

from __future__ import annotations

from typing import Any

from filament.markup import close_tag, escape_text, open_tag
from filament.nodes import Data, Node, Text
from filament.payload import dump_yaml


def render(node: Node) -> str:
    """Return the node as prompt text, without a line end at its end; PayloadError if a Data value is not YAML data."""
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
    """Return a value as escaped YAML, ready to stand between two tags; see `dump_yaml` for its form and errors."""
    return escape_text(dump_yaml(value, indent))
