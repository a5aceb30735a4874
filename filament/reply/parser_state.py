"""Holds the state of one parse of a reply: the text so far, the results, and methods that look ahead in the text.

A method that looks ahead is a generator. The generator pauses until there is enough text. Its answer depends only on the text,
never on the division of the text into chunks. Each character is read a fixed number of times.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from filament.reply.echo import OpText
from filament.reply.outline import Outline
from filament.reply.tags import WRAPPER, Body, ExpectedReply, Tag, TagScanner, vocabulary_of
from filament.reply.text import Source
from filament.reply.values import Block, Correction, EventKind, ParseEvent, Piece, PieceKind
from filament.state.changes.ops import Op
from filament.state.verdicts import OpVerdict

T = TypeVar("T")
Looking = Generator[None, None, T]
"""Generator that yields while it needs more text, and finally returns its answer."""

_STEP, _FENCE, _FENCE_CHARS = 64, 3, 19


class ParserState:
    """Results of one parse so far.

    `at` is the index up to which the source was read. `index` is the number of the next tag.
    """

    def __init__(
        self, expected: ExpectedReply, user_text: str = "", prompt_text: str = "", *, carries_untagged: bool = True
    ) -> None:
        words = vocabulary_of(expected)
        self.rules, self.legal = words.rules, words.legal
        self.source = Source()
        self.tags = TagScanner(words.kinds)
        self.ended = False
        self.at = self.index = 0
        self.events: list[ParseEvent] = []
        self.log: list[Correction] = []
        self.ops: list[Op] = []
        self.lost: list[OpVerdict] = []
        self.blocks: list[Block] = []
        self.pieces: list[Piece] = []
        self.counts: dict[str, int] = {}
        self.present: set[str] = set()
        self.outline = Outline()
        self.user_text, self.prompt_text = OpText(user_text), OpText(prompt_text)
        self.carries_untagged = carries_untagged
        self.repaired_chars = 0

    def append(self, text: str, *, last: bool = False) -> None:
        """Take `text`, the next characters of the reply. If `last`, the reply ends with them."""
        self.source.append(text)
        self.tags.scan(text, last=last)
        self.ended = last

    # --- what was found ---

    def add_correction(self, code: str, sentence: str, start: int, end: int) -> None:
        """Record a correction: its code, its sentence, and the stretch of the source from `start` to `end`."""
        entry = Correction(code=code, sentence=sentence, start=start, end=end)
        self.log.append(entry)
        self.events.append(ParseEvent(kind=EventKind.CORRECTED, correction=entry))

    @property
    def next_op(self) -> int:
        """The number of the next op of the reply. Ops that could not be read count, too."""
        return len(self.ops) + len(self.lost)

    def add_piece(self, kind: PieceKind, tag: str, start: int, end: int) -> None:
        """Record that the source from `start` to `end` is of `kind` and belongs to `tag`. Call this without gaps, in order."""
        if start >= end:
            return
        last = self.pieces[-1] if self.pieces else None
        if last is not None and (last.kind, last.tag) == (kind, tag) and kind is PieceKind.TEXT:
            start = self.pieces.pop().start
        self.pieces.append(Piece(kind=kind, tag=tag, start=start, end=end))

    def pass_tag(self, tag: Tag) -> None:
        """Record `tag` as markup and continue after it."""
        self.add_piece(PieceKind.MARKUP, tag.kind, tag.start, tag.end)
        self.at, self.index = tag.end, tag.index + 1

    def is_block(self, tag: Tag) -> bool:
        """Return whether the body of `tag` is JSON."""
        return tag.kind != WRAPPER and self.rules[tag.kind].body is not Body.TEXT

    # --- looking ahead ---

    def find_closing(self, tag: Tag, *kinds: str) -> Looking[Tag | None]:
        """Return the first closing tag of one of `kinds` after `tag`, or None if the reply ends without one."""
        while True:
            found = self.tags.find_closing(tag.index, kinds)
            if found is not None or self.ended:
                return found
            yield

    def find_following(self, index: int, start: int = 0) -> Looking[Tag | None]:
        """Return the first tag that has at least the number `index` and begins at `start` or later.

        Return None if the reply has no such tag.
        """
        tags = self.tags.tags
        while True:
            while index < len(tags) and tags[index].start < start:
                index += 1
            if index < len(tags):
                return tags[index]
            if self.ended:
                return None
            yield

    def find_json_start(self, at: int) -> Looking[int | None]:
        """Return the index at which JSON starts: `at`, or an index after blanks and a code fence that begin at `at`.

        Return None if no JSON follows.
        """
        at = yield from self.skip_blanks(at)
        if self.source.slice(at, at + 1) == "`":
            end = at
            while True:
                char = self.source.slice(end, end + 1)
                place = end - at
                if char == "`" if place < _FENCE else char.isascii() and char.isalpha() and place < _FENCE_CHARS:
                    end += 1
                elif char or self.ended:
                    break
                else:
                    yield
            if end - at < _FENCE:
                return None
            at = yield from self.skip_blanks(end)
        return at if self.source.slice(at, at + 1) in ("{", "[") else None

    def skip_blanks(self, at: int) -> Looking[int]:
        """Return the index of the first character, from `at` on, that is not blank, or of the end of the reply."""
        while True:
            text = self.source.slice(at, min(at + _STEP, self.source.length))
            blank = len(text) - len(text.lstrip())
            at += blank
            if blank < len(text) or (self.ended and not text):
                return at
            if not text:
                yield

    def has_words_after(self, tag: Tag) -> Looking[bool]:
        """Return whether anything but blanks and tags follows `tag`."""
        at, index = tag.end, tag.index + 1
        while True:
            follower = self.tags.tags[index] if index < len(self.tags.tags) else None
            limit = self.tags.safe if follower is None else follower.start
            if self.source.slice(at, limit).strip():
                return True
            at = max(at, limit)
            if follower is not None:
                at, index = max(at, follower.end), index + 1
            elif self.ended:
                return False
            else:
                yield

    def add_event(self, kind: EventKind, **facts: Any) -> None:
        """Record an event of `kind`; `facts` are the fields of the ParseEvent."""
        self.events.append(ParseEvent(kind=kind, **facts))
