"""The reader: what the tags of a reply mean, decided as soon as the text so far allows.

A tag that is only mentioned stays text. Whether it is can depend on what follows, so the reader pauses until it has enough
text.
"""

from __future__ import annotations

from dataclasses import replace

from filament.reply.blocks import settle_updates, take_block
from filament.reply.outline import MarkKind
from filament.reply.parser_state import Looking, ParserState
from filament.reply.tags import CONTENT, THOUGHT, WRAPPER, Body, Expected, Tag
from filament.reply.text import Voice
from filament.reply.values import EventKind, ParsedReply, PieceKind


class Reader:
    """What is open, and what was said so far. `run` is resumed whenever there is more text."""

    def __init__(self, desk: ParserState, expected: Expected) -> None:
        self._desk = desk
        self._expected = expected
        self._voices: dict[str, Voice] = {}
        self._stack: list[Tag] = []
        self._doubted: Tag | None = None
        self._begun = False
        self._bare = False
        self._furthest = 0
        self._unknown: set[str] = set()

    @property
    def looked(self) -> int:
        """How many characters were looked at in telling the texts."""
        return sum(voice.looked for voice in self._voices.values())

    def run(self) -> Looking[None]:
        """Read the reply from end to end."""
        desk = self._desk
        while True:
            tag = desk.tags.tags[desk.index] if desk.index < len(desk.tags.tags) else None
            if tag is not None and tag.start < desk.at:
                desk.index += 1
                continue
            self._gather(desk.tags.safe if tag is None else tag.start)
            if tag is None:
                if desk.ended:
                    break
                yield
            elif (yield from self._counts(tag)):
                yield from self._take(tag)
            else:
                desk.index += 1
        self._end()

    def reply(self) -> ParsedReply:
        """Return what the reply holds, once it was read to its end."""
        desk = self._desk
        texts = {name: voice.text() for name, voice in self._voices.items()}
        return ParsedReply(
            content=texts.pop(CONTENT, ""),
            thought=texts.pop(THOUGHT, ""),
            ops=tuple(desk.ops),
            lost=tuple(desk.lost),
            blocks=tuple(desk.blocks),
            texts=tuple(texts.items()),
            log=tuple(sorted(desk.log, key=lambda entry: entry.start)),
            source=desk.source.whole(),
            pieces=tuple(desk.pieces),
        )

    # --- what a tag is ---

    def _counts(self, tag: Tag) -> Looking[bool]:
        """Say whether a tag is one, or a word of the text it stands in."""
        desk = self._desk
        if tag.kind == WRAPPER or tag.empty or tag.closes:
            return True
        inside = self._stack[-1].kind if self._stack else None
        if desk.is_block(tag):
            start = yield from desk.json_start(tag.end)
            if start is None:
                follower = yield from desk.following(tag.index + 1)
                if follower is None or follower.kind != tag.kind or not follower.closes:
                    return False
            return not (yield from self._is_mentioned(tag, inside))
        if tag.kind == CONTENT:
            return not (yield from self._is_mentioned(tag, inside))
        if inside is None and tag.fresh:
            return True
        if inside == CONTENT:
            first = yield from desk.closing(tag, tag.kind, CONTENT)
            return first is not None and first.kind == tag.kind
        return (yield from desk.closing(tag, tag.kind)) is not None

    def _is_mentioned(self, tag: Tag, inside: str | None) -> Looking[bool]:
        """A tag within a thought is talk if the thought ends before the tag does."""
        if inside is None or inside == CONTENT:
            return False
        first = yield from self._desk.closing(tag, inside, tag.kind)
        return first is not None and first.kind == inside

    # --- acting on a tag ---

    def _take(self, tag: Tag) -> Looking[None]:
        desk = self._desk
        self._cut(tag.start)
        if tag.spelling != tag.kind:
            desk.note("alias", f"<{tag.spelling}> stands for <{tag.kind}>.", tag.start, tag.end)
        if tag.kind == WRAPPER or tag.empty:
            desk.pass_tag(tag)
            self._pass_empty(tag)
        elif tag.closes:
            desk.pass_tag(tag)
            yield from self._close(tag)
        elif desk.is_block(tag):
            self._begin(tag)
            yield from take_block(desk, tag, self._stack[-1].kind if self._stack else None)
        else:
            self._begin(tag)
            yield from self._open(tag)

    def _pass_empty(self, tag: Tag) -> None:
        outline = self._desk.outline
        if tag.kind == CONTENT:
            outline.add(MarkKind.OPENED)
            outline.add(MarkKind.CLOSED)
        elif not self._stack:
            outline.add(MarkKind.ELEMENT, tag.kind)

    def _begin(self, tag: Tag) -> None:
        self._begun = True
        sequence = self._expected.sequence
        if tag.kind in sequence:
            rank = sequence.index(tag.kind)
            if rank < self._furthest:
                later = sequence[self._furthest]
                self._desk.note(
                    "out_of_order", f"<{tag.kind}> came after <{later}>; it was read all the same.", tag.start, tag.end
                )
            self._furthest = max(self._furthest, rank)

    def _open(self, tag: Tag) -> Looking[None]:
        desk = self._desk
        desk.pass_tag(tag)
        desk.outline.add(MarkKind.OPENED if tag.kind == CONTENT else MarkKind.ELEMENT, tag.kind)
        if any(tag.kind == each.kind for each in self._stack):
            sentence = f"<{tag.kind}> was opened inside itself; the second opening was left out."
            desk.note("nested", sentence, tag.start, tag.end)
            return
        desk.counts[tag.kind] = desk.counts.get(tag.kind, 0) + 1
        if desk.counts[tag.kind] > 1 and not desk.rules[tag.kind].repeatable:
            desk.note("too_many", f"<{tag.kind}> came again; its text was joined to the first.", tag.start, tag.end)
        if tag.kind not in desk.legal and tag.kind != CONTENT:
            desk.note("not_expected", f"<{tag.kind}> is not expected in this reply.", tag.start, tag.end)
        if tag.kind == CONTENT and len(self._stack) == 1:
            outer = self._stack[0]
            if (yield from desk.closing(tag, outer.kind, CONTENT)) is None:
                self._end_doubted(outer)
            else:
                self._doubted = outer
        if tag.kind == CONTENT and self._stack:
            desk.outline.add(MarkKind.FAULT, f"<{CONTENT}> was opened inside <{self._stack[-1].kind}>")
        self._stack.append(tag)

    def _end_doubted(self, outer: Tag) -> None:
        sentence = f"<{outer.kind}> was not closed; it ends where <content> starts."
        self._desk.note("unclosed", sentence, outer.start, outer.end)
        self._desk.outline.add(MarkKind.FAULT, f"<{outer.kind}> was not closed")
        self._stack.remove(outer)

    def _close(self, tag: Tag) -> Looking[None]:
        desk = self._desk
        if any(tag.kind == each.kind for each in self._stack):
            while (inner := self._stack.pop()).kind != tag.kind:
                desk.outline.add(MarkKind.FAULT, f"<{inner.kind}> was not closed")
                sentence = f"What was open inside <{tag.kind}> was closed with it."
                desk.note("crossed", sentence, inner.start, tag.end)
            desk.outline.add(MarkKind.CLOSED if tag.kind == CONTENT else MarkKind.ELEMENT, tag.kind)
            doubted, self._doubted = self._doubted, None
            if doubted is None or self._stack != [doubted]:
                return
            if (yield from desk.closing(tag, doubted.kind)) is None:
                self._end_doubted(doubted)
            return
        is_first, self._begun = tag.kind == THOUGHT and not self._begun, True
        if is_first and (yield from desk.words_follow(tag)):
            self._move(tag)
            return
        is_end = tag.kind == CONTENT and not self._stack
        desk.outline.add(MarkKind.CLOSED if is_end else MarkKind.STRAY, tag.kind)
        desk.note("stray_close", f"</{tag.kind}> closed nothing; it was left out.", tag.start, tag.end)

    def _move(self, tag: Tag) -> None:
        """Take what was said so far for the thought."""
        desk = self._desk
        self._voices[THOUGHT] = self._voices.pop(CONTENT, Voice())
        desk.pieces[:] = [replace(p, tag=THOUGHT) if p.kind is PieceKind.TEXT else p for p in desk.pieces]
        desk.outline.add(MarkKind.MOVED)
        desk.tell(EventKind.MOVED, tag=THOUGHT)
        sentence = "</thought> came without its opening; what stood before it is the thought."
        desk.note("moved", sentence, 0, tag.end)

    # --- texts ---

    def _gather(self, end: int) -> None:
        """Give the text before `end` to what is open; outside of all tags it is content."""
        desk = self._desk
        for tag in desk.tags.unknown_before(end):
            if tag.start >= desk.at:
                self._speak(tag.start)
                self._note_unknown(tag)
        self._speak(end)

    def _speak(self, end: int) -> None:
        desk, start = self._desk, self._desk.at
        if start >= end:
            return
        kind = self._stack[-1].kind if self._stack else CONTENT
        text = desk.source.slice(start, end)
        desk.piece(PieceKind.TEXT, kind, start, end)
        if not self._stack:
            desk.outline.add_text(start, end)
        desk.at = end
        blank = len(text) - len(text.lstrip())
        if self._stack or self._bare or blank == len(text):
            self._write(kind, text)
            return
        self._write(kind, text[:blank])
        self._bare = True
        desk.note("bare_text", "Text outside of all tags is content.", start + blank, start + blank)
        self._write(kind, text[blank:])

    def _write(self, kind: str, text: str) -> None:
        if text:
            voice = self._voices.setdefault(kind, Voice())
            self._told(kind, voice, voice.write(text))

    def _cut(self, at: int) -> None:
        self._bare = False
        for kind, voice in self._voices.items():
            self._told(kind, voice, voice.cut(at))

    def _told(self, kind: str, voice: Voice, text: str) -> None:
        for place in voice.fences_left_out:
            self._desk.note("fence", "A code fence around a block was left out.", place, place)
        voice.fences_left_out.clear()
        if text:
            self._desk.tell(EventKind.TEXT, tag=kind, text=text)

    def _note_unknown(self, tag: Tag) -> None:
        if tag.spelling not in self._unknown:
            self._unknown.add(tag.spelling)
            sentence = f"<{tag.spelling}> is not expected in this reply; it stays text."
            self._desk.note("unknown_tag", sentence, tag.start, tag.end)

    def _end(self) -> None:
        desk = self._desk
        for tag in reversed(self._stack):
            desk.note("unclosed", f"<{tag.kind}> was not closed; it ends with the reply.", tag.start, tag.end)
            desk.outline.add(MarkKind.FAULT, f"<{tag.kind}> was not closed")
        for kind, voice in self._voices.items():
            self._told(kind, voice, voice.finish())
        settle_updates(desk)
        length = desk.source.length
        said = {kind for kind, voice in self._voices.items() if voice.told}
        for rule in self._expected.tags:
            there = rule.name in (said if rule.body is Body.TEXT else desk.present)
            if rule.required and not there:
                desk.note("missing", f"The reply has no {rule.name}.", length, length)
