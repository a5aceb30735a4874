"""Makes control characters visible, so that a stored text cannot act on the terminal or page of its reader.

These are the control characters C0 and C1 (escape sequences begin with one of them), and characters that invisibly turn the
direction of a text or break lines. In a text for people, each of them is replaced by an escape. In a JSON text, it is
written as a JSON escape, so the decoded value stays the same.
"""

from __future__ import annotations

import re

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""All except tab and line feed, and except the joiners that scripts and emoji need."""


def show_controls(text: str) -> str:
    r"""Return `text` with every control character as an escape in the form of Python (`\x1b`)."""
    return _CONTROLS.sub(lambda found: _escape(found[0]), text)


def escape_json_controls(json_text: str) -> str:
    r"""Return a JSON text with every control character as an escape (`\u001b`). The values that it encodes stay the same."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", json_text)


def _escape(char: str) -> str:
    number = ord(char)
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
