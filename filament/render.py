r"""Renders nodes (elements, texts and data) as prompt text. The same node gives the same bytes in any process.

The layout allows a caller to put a rendered block into another block without changing it:

- Every tag starts at column 0. Nothing is indented for depth, because leading spaces would cost tokens and shift
  YAML.
- An element with element children has one child on each line.
- A text body follows its opening tag directly and is only escaped.
- A YAML body has its own lines, at column 0, between the lines of its tags.
- An element without children is `<name/>`; an element with an empty text body is `<name></name>`.

To read a YAML body, unescape the text between its tags and pass it to `load_yaml` or another YAML reader; the result is
the rendered value. This module imports only nodes, markup and payload.
"""

from __future__ import annotations

from typing import Any

from filament.markup import close_tag, escape_text, open_tag
from filament.nodes import Data, Node, Text
from filament.payload import dump_yaml


def render(node: Node) -> str:
    """Return `node` as prompt text without a trailing newline.

    Raises PayloadError if the value of a Data node is not YAML data.
    """
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
    """Return `value` as escaped YAML, to be put between two tags. Each line is indented by `indent` spaces.

    `dump_yaml` describes the form of the YAML and the errors.
    """
    return escape_text(dump_yaml(value, indent))
