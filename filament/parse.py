"""A model's whole reply to what it says, thinks and changes (origin 10; spec 2): the stream parser, fed once."""

from __future__ import annotations

from filament.parse_tags import REPLY, Expected
from filament.parse_values import ParsedReply
from filament.stream import StreamParser

Reply = ParsedReply
"""The shorter name of a parsed reply."""


def parse_reply(text: str, *, expected: Expected = REPLY, strict: bool = False) -> ParsedReply:
    """Return what a model's reply says, thinks and changes; it never raises but in strict mode (ReplyError).

    `<content>` (alias reply), `<thought>` (think, thinking), `<state_update>` (variable_update) with the JSON
    `{"ops": […]}` or the bare list, in both spellings of an op; a `<filament_output>` around all is optional. Tags in any
    case. Text outside of tags is content, so a reply without tags is all content. What is open at the end is closed.
    Broken JSON is repaired; if that fails, or if an op in it is malformed, that block is dropped whole and the content
    stays. A tag that is merely talked about (nothing closes it, no JSON follows it) stays text.
    """
    parser = StreamParser(expected=expected, strict=strict)
    parser.feed(text)
    return parser.close()
