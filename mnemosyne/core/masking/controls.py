"""Makes characters visible that control a terminal, a page or the direction of text, so that no stored text can act on
a reader.

They are the control characters C0 and C1 (escape sequences begin with one), and characters that turn the direction of a
text or break lines invisibly. Text for people shows them as escapes, JSON as numbers, which decode to the same value.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""All except tab and line feed, and except the joiners that scripts and emoji need."""


def show_controls(text: str) -> str:
    """Return a text in which each controlling character is an escape as Python writes it."""
    return _CONTROLS.sub(lambda found: _escape(found[0]), text)


def escape_json_controls(json_text: str) -> str:
    """Return a JSON text in which each controlling character is written by its number; its values stay the same."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)


def _escape(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
