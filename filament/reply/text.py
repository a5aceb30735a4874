"""Cleans the text of a reply that arrives in pieces, and returns each part as soon as later text cannot change it.

`TextCleaner` cleans, `Source` stores the text for reading again, and `TextWriter` writes the text of one tag.
"""

from __future__ import annotations

import re
from io import StringIO

from filament.markup import clean_text, unescape

_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF_ENTITY = re.compile(r"&(?:[a-z]{0,4}|#[0-9]{0,7}|#[xX][0-9a-fA-F]{0,6})")
_ENTITY_CHARS = 10
_FENCE_AT_END = re.compile(r"(?<!`)`{1,3}[A-Za-z]{0,16}\Z")
_FENCE_CHARS = 20
_BEHIND_FENCE = re.compile(r"[ \t]{0,8}(?:\n\s*)?")
_OPEN_FENCE = re.compile(r"(?<!`)```[A-Za-z]{0,16}[ \t]{0,8}\n\s*\Z")
_CLOSE_FENCE = re.compile(r"(\s*```[ \t]{0,8}\n)")
_CLOSE_FENCE_WHOLE = re.compile(r"(\s*```[ \t]{0,8}\n?)\s*")
_FENCES = re.compile("`{3,}")
_BLANKS = " \t\u3000\u00a0"
_ENCLOSING = {
    **dict(zip("“‘「『（(【[《", "”’」』）)】]》", strict=True)),
    **{mark: mark for mark in "\"'`*_"},
}
"""Opening marks, with the marks that close them."""
_PAUSES = frozenset(",，:：;；、")
_ENDS = frozenset(".。!！?？…")
_AFTER = frozenset("”’」』）)】]》") | _PAUSES | _ENDS
"""Characters that have no blank before them."""
_BEFORE_GAP = re.compile(r"(?:[“‘「『（(\[【《,，:：;；、\s]|(?<![^\s“‘「『（(\[【《])[\"'`*_])+\Z")
_BEHIND_GAP = re.compile(r"[\s\"'`*_”’」』）)\]】》,，：:;；、.。!！?？…]*")
_GAP_CHARS = 12


class TextCleaner:
    """Cleans incoming text.

    Line ends become newlines, the two halves of a surrogate pair become one character, and illegal characters become
    U+FFFD.
    """

    def __init__(self) -> None:
        self._held = ""

    def take(self, chunk: str, *, last: bool = False) -> str:
        """Take the next `chunk`, and return the cleaned text that is certain by now and was not returned before.

        If `last`, no chunk follows. Otherwise the last character may be held back until the next call.
        """
        text, self._held = self._held + chunk, ""
        if text and not last and (text[-1] == "\r" or "\ud800" <= text[-1] <= "\udbff"):
            text, self._held = text[:-1], text[-1]
        return clean_text(text if text.isascii() else _PAIR.sub(_join_surrogates, text))


def _join_surrogates(pair: re.Match[str]) -> str:
    return pair.group().encode("utf-16-le", "surrogatepass").decode("utf-16-le")


class Source:
    """The cleaned text so far. The cost of reading a slice depends only on its length.

    `scanned_chars` counts the characters that were read.
    """

    def __init__(self) -> None:
        self._text = StringIO(newline="\n")
        self.length = 0
        self.scanned_chars = 0

    def append(self, text: str) -> None:
        """Add the next characters."""
        self._text.seek(self.length)
        self._text.write(text)
        self.length += len(text)

    def slice(self, start: int, end: int) -> str:
        """Return the characters from `start` up to, not including, `end` (0-based)."""
        self._text.seek(start)
        self.scanned_chars += max(end - start, 0)
        return self._text.read(max(end - start, 0))

    def read_all(self) -> str:
        """Return the whole text so far."""
        return self._text.getvalue()


class TextWriter:
    """Writes one text of the reply piece by piece: unescaped, trimmed, and without the blocks that were cut out.

    The code fence around a block that was cut out is removed, too. No double blank line and no gap in a sentence remains. A
    character is returned once it certainly belongs to the text. A blank that may be trailing, half an entity, a code fence or
    an empty quote is held back. The result depends only on the text, not on its division into pieces.
    """

    def __init__(self) -> None:
        self.written: list[str] = []
        self.fences_left_out: list[int] = []
        self.scanned_chars = 0
        self._entity = ""
        self._held: list[str] = []
        self._kept = self._opener = ""
        self._cut_at: int | None = None
        self._fenced = self._leaves_hole = False
        self._swallow = self._fences = 0
        self._last = ""

    def write(self, raw: str) -> str:
        """Take `raw`, more of the text as written in the reply, and return the text that is certain now."""
        text, self._entity = self._entity + raw, ""
        self.scanned_chars += len(text)
        at = text.rfind("&", max(0, len(text) - _ENTITY_CHARS))
        if at >= 0 and _HALF_ENTITY.fullmatch(text, at):
            text, self._entity = text[:at], text[at:]
        return self._hold_undecided(unescape(text))

    def cut(self, at: int, *, leaves_hole: bool = False) -> str:
        """Record that a block was cut out at index `at` of the source, and return the text that is certain now.

        If `leaves_hole`, the block was in the middle of the text, so the gap is closed.
        """
        text = self._flush_entity()
        held = "".join(self._held)
        if self._cut_at is not None and not held:
            return text
        held = self._join_after_cut(held, whole=True)
        opener = _OPEN_FENCE.search(held, max(0, len(held.rstrip()) - _FENCE_CHARS))
        self._swallow = len(held) - len(held.rstrip("\n"))
        self._leaves_hole = leaves_hole
        self._held, self._kept, self._opener, self._cut_at = [], held, "", at
        if opener and not self._last and not held[: opener.start()].strip():
            self._kept, self._fenced = "", True
            self.fences_left_out.append(at)
        elif opener and self._fences % 2 == 0:
            self._kept, self._opener = held[: opener.start()], held[opener.start() :]
        return text

    def finish(self) -> str:
        """End the text and return the rest of it."""
        text = self._flush_entity()
        held = self._join_after_cut("".join(self._held), whole=True)
        self._held = []
        if self._fenced and held.strip() == "```":
            held = ""
        return text + self._emit_text(held.rstrip())

    def text(self) -> str:
        """Return all text that was returned so far."""
        return "".join(self.written)

    def _flush_entity(self) -> str:
        text, self._entity = self._entity, ""
        return self._hold_undecided(text)

    def _hold_undecided(self, text: str) -> str:
        if self._swallow and text:
            drop = min(self._swallow, len(text) - len(text.lstrip("\n")))
            text = text[drop:]
            self._swallow = 0 if text else self._swallow - drop
        if not text:
            return ""
        self._held.append(text)
        if text.isspace():
            return ""
        text = "".join(self._held)
        self.scanned_chars += len(text)
        if self._leaves_hole and len(text) < _GAP_CHARS and _BEHIND_GAP.fullmatch(text):
            return ""
        start = self._find_undecided(text)
        if start and self._cut_at is not None:
            text = self._join_after_cut(text, whole=False)
            start = self._find_undecided(text)
        self._held = [text[start:]]
        return self._emit_text(text[:start])

    def _find_undecided(self, text: str) -> int:
        """Return the index from which a text may still turn out to be a code fence, a trailing blank or the edge of a
        hole.
        """
        end = self._find_gap(text)
        window = max(0, end - _FENCE_CHARS)
        fence = _FENCE_AT_END.search(text[window:end])
        if fence is None or not _BEHIND_FENCE.fullmatch(text, end):
            return end
        start = window + fence.start()
        goes_on = start == 0 and self._cut_at is None and self._last == "`"
        return end if goes_on else len(text[:start].rstrip())

    def _find_gap(self, text: str) -> int:
        """Return the index from which a text has only blanks and marks that would remain before a hole."""
        end = len(text.rstrip())
        start = max(0, end - _GAP_CHARS)
        before = text[start - 1] if start else self._last
        lead = _BEFORE_GAP.search(before + text[start:end], len(before))
        return end if lead is None else start + lead.start() - len(before)

    def _join_after_cut(self, text: str, *, whole: bool) -> str:
        """Return the continuing text, with the part held back before the cut, now that the text after the cut is known.

        A code fence that was opened right before the cut is removed if it is closed right after it. `whole`: no more
        text will follow.
        """
        if self._cut_at is None:
            return text
        place, self._cut_at = self._cut_at, None
        before, opener = self._kept, self._opener
        self._kept = self._opener = ""
        closing = None
        if opener or self._fenced:
            closing = _CLOSE_FENCE_WHOLE.fullmatch(text) if whole else _CLOSE_FENCE.match(text)
        if closing is None:
            is_hole, self._leaves_hole = self._leaves_hole and not opener, False
            return _close_gap(before, text, self._last) if is_hole else before + opener + text
        if opener:
            self.fences_left_out.append(place)
        else:
            self._fenced = False
        rest = text[closing.end(1) :]
        ends, starts = len(before) - len(before.rstrip("\n")), len(rest) - len(rest.lstrip("\n"))
        return before + rest[min(ends, starts) :]

    def _emit_text(self, text: str) -> str:
        if not self._last:
            text = text.lstrip()
        if text:
            goes_on = self._last == "`" and text.startswith("```")
            self._fences += len(_FENCES.findall(text)) - goes_on
            self._last = text[-1]
            self.written.append(text)
        return text


def _close_gap(before: str, rest: str, last: str) -> str:
    """Return the text before and after a block that was cut out of a line, without the blanks, the empty quotes or
    brackets and the second sign that the cut leaves; `last` is the character before them.
    """
    left, right = before.rstrip(_BLANKS), rest.lstrip(_BLANKS)
    if not right or right[0] == "\n":
        return left + right
    blank = before[len(left) :][:1] or rest[: len(rest) - len(right)][:1]
    while left and right and _ENCLOSING.get(left[-1]) == right[0] and not (blank and left[-1] == right[0]):
        shorter = left[:-1].rstrip(_BLANKS), right[1:].lstrip(_BLANKS)
        blank = left[len(shorter[0]) : -1][:1] or right[1 : len(right) - len(shorter[1])][:1]
        left, right = shorter
    sign = (left or last)[-1:].strip()
    if right[:1] in _PAUSES | _ENDS and sign in _PAUSES and left:
        left = left[:-1].rstrip(_BLANKS)
    elif right[:1] in _PAUSES and (not sign or sign in _ENDS):
        right = right[1:].lstrip(_BLANKS)
    is_joined = not sign or right[:1] in _AFTER
    return f"{left}{right}" if is_joined else f"{left}{blank}{right}"
