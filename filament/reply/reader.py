"""Decides, for each tag of an arriving reply, whether it opens an element, closes one, or is only mentioned in a text.

A tag that is only mentioned stays text. The decision can depend on later text, so the reader pauses until it has enough text.
"""

from __future__ import annotations

from dataclasses import replace

from filament.reply.blocks import ends_text, judge_updates, take_block
from filament.reply.outline import MarkKind
from filament.reply.parser_state import Looking, ParserState
from filament.reply.tags import CONTENT, THOUGHT, UPDATE, WRAPPER, Body, ExpectedReply, Tag
from filament.reply.text import TextWriter
from filament.reply.untagged_updates import find_untagged
from filament.reply.values import EventKind, ParsedReply, PieceKind


class Reader:
    """Reads one reply: tracks the open elements and writes the texts.

    `run` is a generator. The caller resumes it whenever there is more text in the ParserState.
    """

    def __init__(self, state: ParserState, expected: ExpectedReply) -> None:
        self._state = state
        self._expected = expected
        self._writers: dict[str, TextWriter] = {}
        self._stack: list[Tag] = []
        self._doubted: Tag | None = None
        self._begun = False
        self._bare = False
        self._before = "\n"
        self._furthest = 0
        self._unknown: set[str] = set()

    @property
    def scanned_chars(self) -> int:
        """Number of characters read while the texts were written."""
        return sum(writer.scanned_chars for writer in self._writers.values())

    def run(self) -> Looking[None]:
        """Read the reply from beginning to end, and yield whenever more text is needed."""
        state = self._state
        while True:
            tag = state.tags.tags[state.index] if state.index < len(state.tags.tags) else None
            if tag is not None and tag.start < state.at:
                state.index += 1
                continue
            if (yield from self._take_untagged(tag)):
                continue
            if tag is None:
                if state.ended:
                    break
                yield
            elif (yield from self._is_element(tag)):
                yield from self._take_tag(tag)
            else:
                state.index += 1
        self._end_reply()

    def reply(self) -> ParsedReply:
        """Return the content, ops, blocks and log of the reply. Call this after `run` has read the reply to its end."""
        state = self._state
        texts = {name: writer.text() for name, writer in self._writers.items()}
        return ParsedReply(
            content=texts.pop(CONTENT, ""),
            thought=texts.pop(THOUGHT, ""),
            ops=tuple(state.ops),
            lost=tuple(state.lost),
            blocks=tuple(state.blocks),
            texts=tuple(texts.items()),
            log=tuple(sorted(state.log, key=lambda entry: entry.start)),
            source=state.source.read_all(),
            pieces=tuple(state.pieces),
        )

    # --- what a tag is ---

    def _is_element(self, tag: Tag) -> Looking[bool]:
        """Return whether a tag opens or closes an element, or is only part of the text around it."""
        state = self._state
        if tag.kind == WRAPPER or tag.empty or tag.closes:
            return True
        inside = self._stack[-1].kind if self._stack else None
        if state.is_block(tag):
            start = yield from state.find_json_start(tag.end)
            if start is None:
                follower = yield from state.find_following(tag.index + 1)
                if follower is None or follower.kind != tag.kind or not follower.closes:
                    return False
            return not (yield from self._is_mentioned(tag, inside))
        if tag.kind == CONTENT:
            return not (yield from self._is_mentioned(tag, inside))
        if inside is None and tag.fresh:
            return True
        if inside == CONTENT:
            first = yield from state.find_closing(tag, tag.kind, CONTENT)
            return first is not None and first.kind == tag.kind
        return (yield from state.find_closing(tag, tag.kind)) is not None

    def _is_mentioned(self, tag: Tag, inside: str | None) -> Looking[bool]:
        """Return whether a tag inside another element is only mentioned: that element ends before the tag's own does."""
        if inside is None or inside == CONTENT:
            return False
        first = yield from self._state.find_closing(tag, inside, tag.kind)
        return first is not None and first.kind == inside

    def _take_untagged(self, tag: Tag | None) -> Looking[bool]:
        """Add the text before a tag (None: all text that is certain); return whether there may be more text before it."""
        state = self._state
        end = state.tags.safe if tag is None else tag.start
        is_whole = tag is not None or state.ended
        base, text = state.at - len(self._before), self._before + state.source.slice(state.at, end)
        found, is_again = None, False
        if UPDATE in state.legal and all(each.kind == CONTENT for each in self._stack):
            found = find_untagged(text)
        while found is not None and found.is_certain and found.follows_sentence:
            self._gather_text(base + found.start)
            if (yield from ends_text(state, base + found.json)):
                break
            found, is_again = find_untagged(text, found.json + 1), True
        if found is None or (is_whole and not found.is_certain):
            self._gather_text(end)
            return is_again
        start, json = base + found.start, base + found.json
        self._gather_text(start)
        if not found.is_certain:
            return is_again
        self._cut_text(start, leaves_hole=True)
        opening = Tag(
            index=state.index - 1,
            kind=UPDATE,
            spelling="",
            closes=False,
            empty=False,
            start=start,
            end=json,
            fresh=True,
        )
        self._begin_element(opening)
        yield from take_block(state, opening, self._stack[-1].kind if self._stack else None)
        return True

    # --- acting on a tag ---

    def _take_tag(self, tag: Tag) -> Looking[None]:
        state = self._state
        self._cut_text(tag.start, leaves_hole=not tag.closes and tag.kind not in (CONTENT, WRAPPER))
        if tag.spelling != tag.kind:
            state.add_correction("alias", f"<{tag.spelling}> stands for <{tag.kind}>.", tag.start, tag.end)
        if tag.kind == WRAPPER or tag.empty:
            state.pass_tag(tag)
            self._pass_empty(tag)
        elif tag.closes:
            state.pass_tag(tag)
            yield from self._close_element(tag)
        elif state.is_block(tag):
            self._begin_element(tag)
            yield from take_block(state, tag, self._stack[-1].kind if self._stack else None)
        else:
            self._begin_element(tag)
            yield from self._open_element(tag)

    def _pass_empty(self, tag: Tag) -> None:
        outline = self._state.outline
        if tag.kind == CONTENT:
            outline.add(MarkKind.OPENED)
            outline.add(MarkKind.CLOSED)
        elif not self._stack:
            outline.add(MarkKind.ELEMENT, tag.kind)

    def _begin_element(self, tag: Tag) -> None:
        self._begun = True
        sequence = self._expected.sequence
        if tag.kind in sequence:
            rank = sequence.index(tag.kind)
            if rank < self._furthest:
                later = sequence[self._furthest]
                self._state.add_correction(
                    "out_of_order", f"<{tag.kind}> came after <{later}>; it was read anyway.", tag.start, tag.end
                )
            self._furthest = max(self._furthest, rank)

    def _open_element(self, tag: Tag) -> Looking[None]:
        state = self._state
        state.pass_tag(tag)
        state.outline.add(MarkKind.OPENED if tag.kind == CONTENT else MarkKind.ELEMENT, tag.kind)
        if any(tag.kind == each.kind for each in self._stack):
            sentence = f"<{tag.kind}> was opened inside itself; the second opening was left out."
            state.add_correction("nested", sentence, tag.start, tag.end)
            return
        state.counts[tag.kind] = state.counts.get(tag.kind, 0) + 1
        if state.counts[tag.kind] > 1 and not state.rules[tag.kind].repeatable:
            state.add_correction(
                "too_many", f"<{tag.kind}> came again; its text was joined to the first.", tag.start, tag.end
            )
        if tag.kind not in state.legal and tag.kind != CONTENT:
            state.add_correction("not_expected", f"<{tag.kind}> is not expected in this reply.", tag.start, tag.end)
        if tag.kind == CONTENT and len(self._stack) == 1:
            outer = self._stack[0]
            if (yield from state.find_closing(tag, outer.kind, CONTENT)) is None:
                self._end_unclosed(outer)
            else:
                self._doubted = outer
        if tag.kind == CONTENT and self._stack:
            state.outline.add(MarkKind.FAULT, f"<{CONTENT}> was opened inside <{self._stack[-1].kind}>")
        self._stack.append(tag)

    def _end_unclosed(self, outer: Tag) -> None:
        sentence = f"<{outer.kind}> was not closed; it ends where <content> starts."
        self._state.add_correction("unclosed", sentence, outer.start, outer.end)
        self._state.outline.add(MarkKind.FAULT, f"<{outer.kind}> was not closed")
        self._stack.remove(outer)

    def _close_element(self, tag: Tag) -> Looking[None]:
        state = self._state
        if any(tag.kind == each.kind for each in self._stack):
            while (inner := self._stack.pop()).kind != tag.kind:
                state.outline.add(MarkKind.FAULT, f"<{inner.kind}> was not closed")
                sentence = f"What was open inside <{tag.kind}> was closed with it."
                state.add_correction("crossed", sentence, inner.start, tag.end)
            state.outline.add(MarkKind.CLOSED if tag.kind == CONTENT else MarkKind.ELEMENT, tag.kind)
            doubted, self._doubted = self._doubted, None
            if doubted is None or self._stack != [doubted]:
                return
            if (yield from state.find_closing(tag, doubted.kind)) is None:
                self._end_unclosed(doubted)
            return
        is_first, self._begun = tag.kind == THOUGHT and not self._begun, True
        if is_first and (yield from state.has_words_after(tag)):
            self._move_to_thought(tag)
            return
        is_end = tag.kind == CONTENT and not self._stack
        state.outline.add(MarkKind.CLOSED if is_end else MarkKind.STRAY, tag.kind)
        state.add_correction("stray_close", f"</{tag.kind}> closed nothing; it was left out.", tag.start, tag.end)

    def _move_to_thought(self, tag: Tag) -> None:
        """Treat all text so far as the thought."""
        state = self._state
        self._writers[THOUGHT] = self._writers.pop(CONTENT, TextWriter())
        state.pieces[:] = [replace(p, tag=THOUGHT) if p.kind is PieceKind.TEXT else p for p in state.pieces]
        state.outline.add(MarkKind.MOVED)
        state.add_event(EventKind.MOVED, tag=THOUGHT)
        sentence = "</thought> came without its opening; what stood before it is the thought."
        state.add_correction("moved", sentence, 0, tag.end)

    # --- texts ---

    def _gather_text(self, end: int) -> None:
        """Add the text before `end` to the open element; outside of all tags it is content."""
        state = self._state
        for tag in state.tags.take_unknown_before(end):
            if tag.start >= state.at:
                self._take_text(tag.start)
                self._note_unknown(tag)
        self._take_text(end)

    def _take_text(self, end: int) -> None:
        state, start = self._state, self._state.at
        if start >= end:
            return
        kind = self._stack[-1].kind if self._stack else CONTENT
        text = state.source.slice(start, end)
        before = self._before + text
        line = before[max(before.rfind("\n"), 0) :]
        bare = line.rstrip(" \t")
        self._before = bare[-1:] + line[len(bare) :][:1]
        state.add_piece(PieceKind.TEXT, kind, start, end)
        if not self._stack:
            state.outline.add_text(start, end)
        elif kind == CONTENT and text.strip():
            state.outline.add_inner()
        state.at = end
        blank = len(text) - len(text.lstrip())
        if self._stack or self._bare or blank == len(text):
            self._write_text(kind, text)
            return
        self._write_text(kind, text[:blank])
        self._bare = True
        state.add_correction("bare_text", "Text outside of all tags is content.", start + blank, start + blank)
        self._write_text(kind, text[blank:])

    def _write_text(self, kind: str, text: str) -> None:
        if text:
            writer = self._writers.setdefault(kind, TextWriter())
            self._enter_text(kind, writer, writer.write(text))

    def _cut_text(self, at: int, *, leaves_hole: bool) -> None:
        """Cut all texts at a tag; `leaves_hole`: its block is taken out of the text around it."""
        is_inside = bool(self._stack) and self._stack[-1].kind == CONTENT
        leaves_hole = leaves_hole and (is_inside or self._bare)
        self._bare = False
        if is_inside:
            self._writers.setdefault(CONTENT, TextWriter())
        for kind, writer in self._writers.items():
            self._enter_text(kind, writer, writer.cut(at, leaves_hole=leaves_hole and kind == CONTENT))

    def _enter_text(self, kind: str, writer: TextWriter, text: str) -> None:
        for place in writer.fences_left_out:
            self._state.add_correction("fence", "A code fence around a block was left out.", place, place)
        writer.fences_left_out.clear()
        if text:
            self._state.add_event(EventKind.TEXT, tag=kind, text=text)

    def _note_unknown(self, tag: Tag) -> None:
        if tag.spelling not in self._unknown:
            self._unknown.add(tag.spelling)
            sentence = f"<{tag.spelling}> is not expected in this reply; it stays text."
            self._state.add_correction("unknown_tag", sentence, tag.start, tag.end)

    def _end_reply(self) -> None:
        state = self._state
        for tag in reversed(self._stack):
            state.add_correction(
                "unclosed", f"<{tag.kind}> was not closed; it ends with the reply.", tag.start, tag.end
            )
            state.outline.add(MarkKind.FAULT, f"<{tag.kind}> was not closed")
        for kind, writer in self._writers.items():
            self._enter_text(kind, writer, writer.finish())
        judge_updates(state)
        length = state.source.length
        written = {kind for kind, writer in self._writers.items() if writer.written}
        for rule in self._expected.tags:
            there = rule.name in (written if rule.body is Body.TEXT else state.present)
            if rule.required and not there:
                state.add_correction("missing", f"The reply has no {rule.name}.", length, length)
