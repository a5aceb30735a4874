"""Decides which updates of a reply count, by their places in the reply.

An update is one block of ops (changes of the state). The reader records a mark for each tag, and for each text outside of all
elements. Once the reply is complete, one pass over these marks judges every update. So the verdict depends only on the text of
the reply. `docs/en/replies.md` explains which places count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from filament.reply.quoting import QuotingContext
from filament.reply.tags import WRAPPER, Tag
from filament.reply.text import Source
from filament.reply.values import BEFORE_CONTENT, INSIDE, NOT_LAST, QUOTED, UNCLEAR

_OPENING_FENCE = re.compile(r"\s*```[A-Za-z]{0,16}[ \t]{0,8}\n\s*")


class MarkKind(Enum):
    """Kind of a mark in the outline.

    - TEXT: text outside of all elements.
    - ELEMENT: a tag of an element other than the content.
    - OPENED, CLOSED: the opening or the closing tag of the content.
    - STRAY: a closing tag that closed nothing.
    - FAULT: an element that was left open, or was closed by the closing tag of another element.
    - MOVED: all text so far belongs to the thought.
    - UPDATE: an update.
    - INNER: text inside the content.
    """

    TEXT = auto()
    ELEMENT = auto()
    OPENED = auto()
    CLOSED = auto()
    STRAY = auto()
    FAULT = auto()
    MOVED = auto()
    UPDATE = auto()
    INNER = auto()


_BEFORE_FENCE = frozenset({MarkKind.TEXT, MarkKind.ELEMENT})


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundBlock:
    """A JSON block that was read and not yet judged."""

    tag: Tag
    name: str
    """Name of the block in messages."""
    inside: str | None
    """Name of the element around the block, or None if there is none."""
    start: int
    """Index in the source at which the JSON begins; `end` is the index after the JSON."""
    end: int
    behind: int
    """Index in the source at which the reply continues."""
    value: Any = None
    """Value of the JSON, unless the JSON is `broken`."""
    broken: str | None = None
    """Text of JSON that needs repair."""
    cut: bool = False
    """Whether the reply ends inside the broken JSON."""

    @property
    def is_untagged(self) -> bool:
        """Return whether the model left the tag out. Such an update counts at the end of the content, too."""
        return not self.tag.spelling


@dataclass(frozen=True, kw_only=True, slots=True)
class MisplacedUpdate:
    """Reason why an update does not count."""

    code: str
    """One of `SET_ASIDE_CODES`."""
    reason: str
    advice: str
    """Suggestion for the model's next reply."""


@dataclass(kw_only=True, slots=True)
class _Mark:
    kind: MarkKind
    name: str = ""
    start: int = 0
    end: int = 0
    update: FoundBlock | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class _UpdateState:
    """An update, and the state of the walk when it was reached."""

    update: FoundBlock
    quoted: MisplacedUpdate | None
    said: bool
    behind_element: bool
    passed: int
    elements: int
    inner: int


class Outline:
    """Marks of one reply, in order: its tags, its texts outside of all elements, its content and its updates."""

    def __init__(self) -> None:
        self._marks: list[_Mark] = []

    def add(self, kind: MarkKind, name: str = "") -> None:
        """Record a mark without text. `name` is the name of the mark's element, if it has one."""
        self._marks.append(_Mark(kind=kind, name=name))

    def add_text(self, start: int, end: int) -> None:
        """Record text outside of all elements, from `start` to `end`.

        Text that follows the last recorded text directly is joined to it.
        """
        last = self._marks[-1] if self._marks else None
        if last is not None and last.kind is MarkKind.TEXT and last.end == start:
            last.end = end
        else:
            self._marks.append(_Mark(kind=MarkKind.TEXT, start=start, end=end))

    def add_inner(self) -> None:
        """Record that the content has text at this place."""
        if not self._marks or self._marks[-1].kind is not MarkKind.INNER:
            self.add(MarkKind.INNER)

    def add_update(self, update: FoundBlock) -> None:
        """Record `update` at this place, whether it is inside or outside of elements."""
        self._marks.append(_Mark(kind=MarkKind.UPDATE, update=update))

    def judge(self, source: Source, *, needs_content: bool) -> Iterator[tuple[FoundBlock, MisplacedUpdate | None]]:
        """Yield (update, reason) for each update, in order; `reason` is None if the update counts.

        If `needs_content`, an update counts only after the content. `source` has the text of the reply.
        """
        if not any(mark.update is not None for mark in self._marks):
            return
        walk = _MarkWalk(needs_content)
        opening, closing = self._fence_around(source)
        for place, mark in enumerate(self._marks):
            if place not in (opening, closing):
                walk.take(mark, source)
        for standing in walk.standings:
            yield standing.update, walk.fault_of(standing)

    def _fence_around(self, source: Source) -> tuple[int | None, int | None]:
        """Return which marks are the code fence around the whole reply: its opening line and, if it is there, its end."""
        texts = [place for place, mark in enumerate(self._marks) if mark.kind is MarkKind.TEXT]
        first = next((place for place in texts if source.slice(*_span_of(self._marks[place])).strip()), None)
        if first is None or first + 1 == len(self._marks):
            return None, None
        if any(mark.kind not in _BEFORE_FENCE for mark in self._marks[:first]):
            return None, None
        if _OPENING_FENCE.fullmatch(source.slice(*_span_of(self._marks[first]))) is None:
            return None, None
        for place in range(len(self._marks) - 1, first, -1):
            mark = self._marks[place]
            text = source.slice(*_span_of(mark)).strip() if mark.kind is MarkKind.TEXT else ""
            if text:
                return first, place if text == "```" else None
            if mark.kind is not MarkKind.TEXT and mark.name != WRAPPER:
                break
        return first, None


class _MarkWalk:
    """One walk over the marks of a reply. The content is an element, or else the text outside of all elements."""

    def __init__(self, needs_content: bool) -> None:
        self.standings: list[_UpdateState] = []
        self._needs_content = needs_content
        self._quoting = QuotingContext()
        self._said = False
        self._opened = self._closed = self._passed = self._elements = self._inner = 0
        self._fault = self._behind_content = ""

    def take(self, mark: _Mark, source: Source) -> None:
        """Take the next mark."""
        if mark.update is not None:
            self._mark_standing(mark.update)
        elif mark.kind is MarkKind.TEXT:
            self._take_text(source.slice(*_span_of(mark)))
        elif mark.kind is MarkKind.OPENED:
            self._opened += 1
        elif mark.kind is MarkKind.CLOSED:
            self._closed += 1
        elif mark.kind is MarkKind.ELEMENT:
            self._elements += mark.name != WRAPPER
        elif mark.kind is MarkKind.INNER:
            self._inner += 1
        elif mark.kind is MarkKind.FAULT:
            self._fault = self._fault or mark.name
        elif mark.kind is MarkKind.MOVED:
            self._said, self._quoting = False, QuotingContext()
        elif mark.kind is MarkKind.STRAY:
            self._mark_disturbance(f"</{mark.name}> closes nothing")

    def fault_of(self, standing: _UpdateState) -> MisplacedUpdate | None:
        """Return why an update does not count, now that the whole reply is known."""
        is_in_content = standing.update.is_untagged and standing.update.inside is not None
        if standing.update.inside is not None and not is_in_content:
            return _misplaced_inside(standing.update.inside)
        if standing.quoted is not None:
            return standing.quoted
        has_element = bool(self._opened or self._closed)
        is_behind = (
            standing.behind_element if self._opened else standing.said and (standing.behind_element or not has_element)
        )
        if is_in_content:
            is_behind = standing.inner > 0
        if self._needs_content and not is_behind:
            advice = "Write the content first and the update after it, at the end"
            return MisplacedUpdate(code=BEFORE_CONTENT, reason="no content comes before it", advice=advice)
        fault = "<content> was opened or closed more than once" if max(self._opened, self._closed) > 1 else self._fault
        if fault:
            advice = "Write one <content>, close every element, and put the update after them"
            return MisplacedUpdate(code=UNCLEAR, reason=fault, advice=advice)
        reason = "other text follows it" if is_in_content and self._inner > standing.inner else self._behind_content
        if self._elements > standing.elements:
            reason = reason or "an element with text follows it"
        if not has_element and self._passed > standing.passed:
            reason = "other text, or a closing tag that closes nothing, follows it"
        if reason:
            advice = "Put the update at the very end, with only complete elements between the content and it"
            return MisplacedUpdate(code=NOT_LAST, reason=reason, advice=advice)
        return None

    def _mark_standing(self, update: FoundBlock) -> None:
        self.standings.append(
            _UpdateState(
                update=update,
                quoted=_misplaced_in_quote(self._quoting) if update.inside is None else None,
                said=self._said,
                behind_element=self._closed > 0,
                passed=self._passed,
                elements=self._elements,
                inner=self._inner,
            )
        )

    def _take_text(self, text: str) -> None:
        self._quoting.take(text)
        if text.strip():
            self._said = True
            self._mark_disturbance("other text follows the end of the content")

    def _mark_disturbance(self, reason: str) -> None:
        self._passed += 1
        if self._closed:
            self._behind_content = self._behind_content or reason


def _span_of(mark: _Mark) -> tuple[int, int]:
    return mark.start, mark.end


def _misplaced_inside(name: str) -> MisplacedUpdate:
    advice = "Write an update outside of all other elements, after the content"
    return MisplacedUpdate(code=INSIDE, reason=f"it is inside <{name}>", advice=advice)


def _misplaced_in_quote(quoting: QuotingContext) -> MisplacedUpdate | None:
    if (name := quoting.open_tag()) is not None:
        return _misplaced_inside(name)
    if not (where := quoting.find_quotation()):
        return None
    advice = "Write an update plainly, on a line of its own after the content"
    return MisplacedUpdate(code=QUOTED, reason=f"it is in {where}", advice=advice)
