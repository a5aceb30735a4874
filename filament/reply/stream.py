"""Reads a model's reply while it arrives: chunks go in, events come out, and `close` returns the whole reply.

The result depends only on the text: if the same text is cut into other chunks, the events together contain the same, and the
reply is equal. The time is linear in the length of the reply. This module does no I/O and reads no clock.
"""

from __future__ import annotations

from dataclasses import replace

from filament.errors import FilamentError, ReplyError
from filament.reply.parser_state import ParserState
from filament.reply.reader import Reader
from filament.reply.tags import REPLY, ExpectedReply
from filament.reply.text import TextCleaner
from filament.reply.values import ParsedReply, ParseEvent


class StreamParser:
    """Reads one reply.

    Models make mistakes, so the parser repairs a fault if it can, and reports each repair. Only strict mode raises an error
    because of a text.

    Content is returned while it arrives. Some text is held back, because later text may change its meaning:

    - half a tag and half an entity,
    - blanks that may be trailing,
    - a tag in the middle of a sentence, until the tag is closed or the reply ends,
    - the text after JSON that was not closed.

    Ops are returned at the end, because only the whole reply shows whether their update counts.

    Args:
        expected: The legal tags.
        strict: If true, `close` raises ReplyError if anything was repaired or is odd in form.
        user_text: The user's message of this turn. An update (a block of ops) is not applied if one of its ops occurs in this
            text, because the update then only repeats the user.
        prompt_text: The whole prompt. An update without its tag is not applied if one of its ops occurs in this text.
        carries_untagged: Whether updates without their tag can be applied at all.
    """

    def __init__(
        self,
        *,
        expected: ExpectedReply = REPLY,
        strict: bool = False,
        user_text: str = "",
        prompt_text: str = "",
        carries_untagged: bool = True,
    ) -> None:
        self._strict = strict
        self._cleaner = TextCleaner()
        self._state = ParserState(expected, user_text, prompt_text, carries_untagged=carries_untagged)
        self._reader = Reader(self._state, expected)
        self._reading = self._reader.run()
        self._returned = 0
        self._reply: ParsedReply | None = None

    @property
    def scanned_chars(self) -> int:
        """Number of characters read so far, as a measure of the work. A character that is read twice counts twice."""
        state = self._state
        return state.source.scanned_chars + state.tags.scanned_chars + self._reader.scanned_chars

    def feed(self, chunk: str) -> tuple[ParseEvent, ...]:
        """Take the next `chunk`, of any length, and return the events that are certain now, in order.

        Raises FilamentError after `close`.
        """
        if self._reply is not None:
            raise FilamentError("This reply has ended. Make a new StreamParser for the next one.")
        text = self._cleaner.take(chunk)
        if not text:
            return ()
        self._state.append(text)
        next(self._reading, None)
        return self._take_events()

    def close(self) -> ParsedReply:
        """End the reply and return it. `tail` of the result has the last events. A second call returns the same reply.

        Raises:
            ReplyError: in strict mode, if anything was repaired or is odd in form.
        """
        if self._reply is None:
            self._state.append(self._cleaner.take("", last=True), last=True)
            next(self._reading, None)
            self._reply = replace(self._reader.reply(), tail=self._take_events())
        if self._strict and self._reply.log:
            raise ReplyError(tuple(entry.sentence for entry in self._reply.log))
        return self._reply

    def _take_events(self) -> tuple[ParseEvent, ...]:
        events, self._returned = tuple(self._state.events[self._returned :]), len(self._state.events)
        return events


Reply = ParsedReply
"""Short name of ParsedReply."""


def parse_reply(
    text: str,
    *,
    expected: ExpectedReply = REPLY,
    strict: bool = False,
    user_text: str = "",
    prompt_text: str = "",
    carries_untagged: bool = True,
) -> ParsedReply:
    """Return the content, thought and ops of a model's reply.

    The tags are `<content>` (alias `reply`), `<thought>` (aliases `think`, `thinking`) and `<state_update>` (alias
    `variable_update`). An update contains the JSON `{"ops": […]}` or only the list; `parse_op` reads both spellings
    of an op. A `<filament_output>` around all of it is optional. Tags may be in any case.

    - Text outside of tags is content, so a reply without tags is all content.
    - Elements that are open at the end are closed.
    - Broken JSON is repaired. If the repair fails or an op is malformed, the block is dropped and the content stays.
    - A tag that is only mentioned (nothing closes it, no JSON follows it) stays text.
    - An update counts only outside of all elements and after the content. Only complete elements may follow the update.
      None of its ops may occur in `user_text`. Every other update is in `set_aside` of the result.
    - An update without its tag is a list of ops (perhaps in a code fence) at the beginning of a line, or after a sentence at
      the end of the text. It counts in the same places and at the end of the content. It does not count if one of its ops
      occurs in `prompt_text`, or if `carries_untagged` is false.

    `The lock clicks. <state_update>[["SET", "door.open", true]]</state_update>` has the content `The lock clicks.`
    and one op.

    Raises:
        ReplyError: only if `strict`, and anything was repaired or is odd in form.
    """
    parser = StreamParser(
        expected=expected,
        strict=strict,
        user_text=user_text,
        prompt_text=prompt_text,
        carries_untagged=carries_untagged,
    )
    parser.feed(text)
    return parser.close()
