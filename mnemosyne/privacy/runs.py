"""Finds given texts in strings, in JSON and in raw bytes, for an erasure and for its proof.

An erasure removes the found texts; its proof searches for them afterwards. Both use the same rule, so the proof finds nothing that
the erasure has seen and left. The rule of a `TextMatcher`:

- A text of RUN characters or more is found wherever RUN consecutive characters of it occur (in Chinese and the like,
  SHORT_RUN). So a shortened preview, a wrapped line and a quotation are found too. A run with fewer than RUN_WEIGHT letters
  and digits, such as a line of dashes, does not count.
- A shorter text is found only as a whole: anywhere if it is distinctive (TELLING), otherwise as whole words.
- A text whose `weight` is below `least` is not searched for.
- Characters are compared as a reader sees them. An escape of JSON or XML, also a nested one, counts as its character. White
  space of any kind and length counts as one blank.

The cost is some nanoseconds per byte of the searched text, and does not depend on the number of texts. At even distances,
short pieces of the searched text are looked up in a set of pieces of the texts. Only if a piece is in the set, the texts are
compared in full.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate, chain
from struct import iter_unpack
from typing import Any

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.values import dataclass

RUN = 24
SHORT_RUN = 10
RUN_WEIGHT = 6
WORTH_SEEKING = 3
TELLING = 12
_CJK_WEIGHT = 3
_DENSE = SHORT_RUN - 2
_GRAM_BYTES = 12
_STRIDE_BYTES = 13
_SMALL_GRAM_BYTES = 8
_SMALL_STRIDE_BYTES = 5
_MARGIN_BYTES = 128
_CJK_RUN = lazy_pattern("[\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]+")
_SPECIAL = re.compile(r"[\\&\t-\r\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|  |''")
"""Characters that a reader may see differently. A text without them needs no conversion."""

_WRITTEN = lazy_pattern(
    r"""(?P<space>(?:\s|\\+[nrt]|\\*&(?:amp;)*\#(?:10|13|9);)+)
    | \\+u(?P<high>[dD][89abAB][0-9a-fA-F]{2})\\+u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2})
    | \\+u(?P<code>[0-9a-fA-F]{4})
    | \\*&(?:amp;)*(?P<entity>amp|lt|gt|quot|apos|\#39|\#34|\#x27|\#x22);
    | \\+(?P<sign>["/'])
    | (?P<back>\\\\+)
    | (?P<quotes>''+)""",
    re.VERBOSE,
)
_ENTITIES = {
    "amp": "&",
    "lt": "<",
    "gt": ">",
    "quot": '"',
    "apos": "'",
    "#39": "'",
    "#34": '"',
    "#x27": "'",
    "#x22": '"',
}


@dataclass(kw_only=True, slots=True)
class _Family:
    """Windows of one length, and the shorter pieces by which they are found at a stride."""

    size: int
    gram: int
    stride: int
    windows: set[str] = field(default_factory=set)
    grams: set[str] = field(default_factory=set)

    def add(self, text: str, places: Iterable[int]) -> None:
        """Add the windows of a text that begin at these places (ascending)."""
        done = 0
        for place in places:
            self.windows.add(text[place : place + self.size])
            for at in range(max(place, done), place + self.size - self.gram + 1):
                self.grams.add(text[at : at + self.gram])
            done = place + self.size - self.gram + 1

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the longest spans that consist of windows, ascending; spans that touch each other are one."""
        last, gram, stride = len(text) - self.size, self.gram, self.stride
        if last < 0 or self.grams.isdisjoint(text[at : at + gram] for at in range(0, len(text) - gram + 1, stride)):
            return
        at, end = 0, 0
        while at + gram <= len(text):
            begin = -1
            if text[at : at + gram] in self.grams:
                first = max(at + gram - self.size, end, 0)
                begin = next((p for p in range(first, min(at, last) + 1) if self._has(text, p)), -1)
            if begin < 0:
                at += stride
                continue
            end = self._end(text, begin, last)
            yield begin, end
            at = -(-max(end - self.size + 1, at + 1) // stride) * stride

    def _has(self, text: str, place: int) -> bool:
        return text[place : place + self.size] in self.windows

    def _end(self, text: str, begin: int, last: int) -> int:
        """Return the end of the span that begins here: each further window begins within the one before it, or right
        after it.
        """
        end = begin + self.size
        while True:
            further = (p for p in range(min(end, last), end - self.size, -1) if self._has(text, p))
            place = next(further, -1)
            if place < 0:
                return end
            end = place + self.size


@dataclass(frozen=True, kw_only=True, slots=True)
class Plain:
    """A text as a reader sees it, with the place of each character in the written text."""

    text: str
    cuts: tuple[int, ...] = ()
    """Places in `text` after which the offset to the written text changes, ascending."""
    shifts: tuple[int, ...] = ()
    """Offset to the written text after each cut, in characters."""

    def span(self, begin: int, end: int) -> tuple[int, int]:
        """Return (begin, end) in the written text for the characters from `begin` up to, not including, `end` of `text`."""
        return self._place(begin), self._place(end - 1, after=True)

    def _place(self, place: int, *, after: bool = False) -> int:
        if not self.cuts:
            return place + after
        if after:
            return self._place(place + 1)
        known = bisect_right(self.cuts, place)
        return place + (self.shifts[known - 1] if known else 0)


def plain_form(text: str) -> Plain:
    """Return `text` with escapes of JSON and XML resolved, and with each run of white space as one blank."""
    if _SPECIAL.search(text) is None:
        return Plain(text=text)
    kept, cuts, shifts = list[str](), list[int](), list[int]()
    end = length = 0
    for hit in _WRITTEN.finditer(text):
        char = _char_of(hit)
        if hit.group() == char:
            continue
        kept += (text[end : hit.start()], char)
        length += hit.start() - end + len(char)
        end = hit.end()
        cuts.append(length)
        shifts.append(end - length)
    kept.append(text[end:])
    return Plain(text="".join(kept), cuts=tuple(cuts), shifts=tuple(shifts))


def _char_of(hit: re.Match[str]) -> str:
    """Return the character of an escape."""
    kind = hit.lastgroup
    if kind == "space":
        return " "
    if kind == "low":
        high, low = int(hit["high"], 16), int(hit["low"], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if kind == "code":
        return chr(int(hit["code"], 16))
    if kind == "entity":
        return _ENTITIES[hit["entity"]]
    return hit["sign"] if kind == "sign" else "\\" if kind == "back" else "'"


class TextMatcher:
    """Finds texts by the rule of this module. Texts whose `weight` is below `least` are not searched for.

    `names` are found as whole words. A name of fewer than four letters is found only if it is the whole string.
    """

    def __init__(self, texts: Iterable[str], names: Iterable[str] = (), *, least: int = TELLING) -> None:
        self._runs = _Family(size=RUN, gram=12, stride=13)
        self._dense = _Family(size=SHORT_RUN, gram=5, stride=6)
        self._needles: dict[str, bool] = {}
        self._name_needles: dict[str, bool] = {}
        self._bytes: set[bytes] = set()
        self._small_bytes: set[bytes] = set()
        self._tiny_bytes: set[bytes] = set()
        self._names = frozenset(name for name in names if name)
        for name in self._names:
            if len(name) >= 2 and weight(name) > WORTH_SEEKING:
                self._add_needle(plain_form(name).text, name, self._name_needles, within_words=False)
            else:
                self._tiny_bytes.update(f'"{form}"'.encode("utf-8", "surrogatepass") for form in written_forms(name))
        for text in dict.fromkeys(text.strip() for text in texts):
            if weight(text) >= max(least, 1):
                self._add(text)

    @property
    def seeks_nothing(self) -> bool:
        """Return whether there is no text and no name to search for."""
        return not (self._bytes or self._small_bytes or self._tiny_bytes)

    def _add(self, text: str) -> None:
        plain = plain_form(text).text.strip()
        if len(plain) < RUN:
            self._add_needle(plain, text, self._needles, within_words=is_distinctive(plain))
        else:
            weights = list(accumulate(map(_weight_of, plain), initial=0))
            last = len(plain) - RUN + 1
            self._runs.add(plain, [at for at in range(last) if weights[at + RUN] - weights[at] >= RUN_WEIGHT])
            self._add_bytes(text)
        if len(plain) > SHORT_RUN and not plain.isascii():
            counts = list(accumulate(map(_is_cjk, plain), initial=0))
            last = len(plain) - SHORT_RUN + 1
            dense = [at for at in range(last) if counts[at + SHORT_RUN] - counts[at] >= _DENSE]
            if dense:
                self._dense.add(plain, dense)
                self._add_bytes(text)

    def _add_needle(self, plain: str, text: str, needles: dict[str, bool], *, within_words: bool) -> None:
        needles[plain] = within_words or needles.get(plain, False)
        for written in written_forms(text):
            data = written.encode("utf-8", "surrogatepass")
            if len(data) >= _SMALL_GRAM_BYTES + _SMALL_STRIDE_BYTES - 1:
                self._small_bytes.update(_pieces(data, _SMALL_GRAM_BYTES))
            else:
                self._tiny_bytes.add(data)

    def _add_bytes(self, text: str) -> None:
        for written in written_forms(text):
            self._bytes.update(_pieces(written.encode("utf-8", "surrogatepass"), _GRAM_BYTES))

    def has_window(self, text: str) -> bool:
        """Return whether `text` is a run (RUN or SHORT_RUN characters, as a reader sees them) of one of the texts."""
        return text in self._runs.windows or text in self._dense.windows

    def spans(self, text: str, *, names: bool = True) -> list[tuple[int, int]]:
        """Return the spans (begin, end) of `text` that the texts cover, in order; if `names`, the names, too. Spans that touch are
        joined.
        """
        if names and text in self._names:
            return [(0, len(text))]
        plain = plain_form(text)
        return merge_spans(plain.span(begin, end) for begin, end in self._spans(plain.text, names=names))

    def _spans(self, plain: str, *, names: bool) -> list[tuple[int, int]]:
        found = [*self._runs.spans(plain), *_found_needles(plain, self._needles)]
        if names:
            found += _found_needles(plain, self._name_needles)
        if self._dense.windows and not plain.isascii():
            found += self._dense.spans(plain)
        return merge_spans(found)

    def pieces_of(self, text: str) -> Iterator[str]:
        """Yield the parts of `text` that belong to the texts.

        Each part is as long as possible and is returned as a reader sees it.
        """
        plain = plain_form(text).text
        yield from (plain[begin:end] for begin, end in self._spans(plain, names=True))

    def occurs(self, text: str) -> bool:
        """Return whether one of the texts or names occurs in `text`."""
        return bool(self.spans(text))

    def occurs_in_tree(self, tree: Any) -> bool:
        """Return whether one of the texts or names occurs in a value or a key of the JSON `tree`."""
        return any(self.occurs(text) for text in strings_of(tree))

    def may_occur(self, data: bytes) -> bool:
        """Return quickly whether the raw bytes `data` may contain one of the texts.

        The check may miss a text that has an escape or a line break every few characters.
        """
        return (
            self._has_piece(data)
            or not self._small_bytes.isdisjoint(_blocks(data, _SMALL_GRAM_BYTES, _SMALL_STRIDE_BYTES))
            or any(piece in data for piece in self._tiny_bytes)
        )

    def _has_piece(self, data: bytes) -> bool:
        if not self._bytes:
            return False
        whole = len(data) // _STRIDE_BYTES * _STRIDE_BYTES
        blocks = chain.from_iterable(iter_unpack(f"{_GRAM_BYTES}sx", data[:whole]))
        return not self._bytes.isdisjoint(blocks) or data[whole : whole + _GRAM_BYTES] in self._bytes

    def pieces(self, data: bytes) -> Iterator[str]:
        """Yield the parts of the raw bytes `data` (a file) that belong to the texts.

        Each part is as long as possible and is returned as a reader sees it.
        """
        for begin, end in self._regions(data):
            text = data[max(0, begin - _MARGIN_BYTES) : end + _MARGIN_BYTES].decode("utf-8", "ignore")
            yield from self.pieces_of(text)

    def _regions(self, data: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        if self._has_piece(data):
            found = _hits(data, self._bytes, _GRAM_BYTES, _STRIDE_BYTES)
        if self._small_bytes:
            found += _hits(data, self._small_bytes, _SMALL_GRAM_BYTES, _SMALL_STRIDE_BYTES)
        for piece in self._tiny_bytes:
            at = data.find(piece)
            while at >= 0:
                found.append((at, at + len(piece)))
                at = data.find(piece, at + 1)
        return merge_spans(found, gap=2 * _STRIDE_BYTES)


def strings_of(tree: Any) -> Iterator[str]:
    """Yield every string of the JSON `tree`, keys included."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for key, child in tree.items():
            yield str(key)
            yield from strings_of(child)
    elif isinstance(tree, list | tuple):
        for child in tree:
            yield from strings_of(child)


def merge_spans(found: Iterable[tuple[int, int]], gap: int = 0) -> list[tuple[int, int]]:
    """Return spans in order. Spans that overlap or are at most `gap` apart are joined."""
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(found):
        if merged and begin <= merged[-1][1] + gap:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return merged


def windows_of(text: str) -> Iterator[str]:
    """Yield the runs of `text` by which the text is found, of both lengths. A text that is too short to have a run yields
    nothing.
    """
    for size, least, weigh in ((RUN, RUN_WEIGHT, _weight_of), (SHORT_RUN, _DENSE, _is_cjk)):
        if len(text) < size or (size == SHORT_RUN and text.isascii()):
            continue
        weights = list(accumulate(map(weigh, text), initial=0))
        for at in range(len(text) - size + 1):
            if weights[at + size] - weights[at] >= least:
                yield text[at : at + size]


def weight(text: str) -> int:
    """Return the weight of `text`: the number of its letters and digits, each Chinese character counted as three."""
    dense = "" if text.isascii() else "".join(_CJK_RUN.findall(text))
    return count_alphanumeric(text) + (_CJK_WEIGHT - 1) * count_alphanumeric(dense)


def count_alphanumeric(text: str) -> int:
    """Return the number of letters and digits of `text`."""
    return sum(map(str.isalnum, text))


def is_distinctive(text: str) -> bool:
    """Return whether `text` is distinctive enough to be searched for in the texts of others too."""
    return weight(text) >= TELLING


def written_forms(text: str) -> tuple[str, ...]:
    """Return the forms in which `text` is written in prompts and files.

    These are the unchanged text, the text XML-escaped as content, and the text XML-escaped as attribute. Each of these is
    also returned JSON-escaped once and twice.
    """
    from xml.sax.saxutils import escape, quoteattr

    forms = (text, escape(text), quoteattr(text)[1:-1])
    once = [form for each in forms for form in _json_forms(each)]
    return tuple(dict.fromkeys((*forms, *once, *(form for each in once for form in _json_forms(each)))))


def _json_forms(text: str) -> tuple[str, ...]:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return (text,)
    return (json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(len(data) - size + 1))


def _blocks(data: bytes, size: int, stride: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data) - size + 1, stride))


def _hits(data: bytes, grams: set[bytes], size: int, stride: int) -> list[tuple[int, int]]:
    places = range(0, len(data) - size + 1, stride)
    return [(at, at + size) for at in places if data[at : at + size] in grams]


def _found_needles(text: str, needles: Mapping[str, bool]) -> Iterator[tuple[int, int]]:
    for form, within_words in needles.items():
        place = text.find(form)
        while place >= 0:
            if within_words or is_whole_word(text, place, len(form)):
                yield place, place + len(form)
            place = text.find(form, place + 1)


def _weight_of(char: str) -> int:
    return 0 if not char.isalnum() else _CJK_WEIGHT if _is_cjk(char) else 1


def _is_cjk(char: str) -> bool:
    return "\u2e80" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af" or "\U00020000" <= char <= "\U0003ffff"


def is_whole_word(text: str, place: int, size: int) -> bool:
    """Return whether `text[place : place + size]` begins and ends at word boundaries. In Chinese, every place is a boundary."""
    end = place + size
    before = place > 0 and _is_word_character(text[place - 1]) and _is_word_character(text[place])
    after = end < len(text) and _is_word_character(text[end - 1]) and _is_word_character(text[end])
    return not (before or after)


def without_word(text: str, word: str, mark: str) -> str:
    """Return `text` with `mark` in place of `word`, wherever `word` occurs as a whole word."""
    kept, end = list[str](), 0
    place = text.find(word)
    while place >= 0:
        if is_whole_word(text, place, len(word)):
            kept += (text[end:place], mark)
            end = place + len(word)
        place = text.find(word, place + len(word))
    return "".join((*kept, text[end:]))


def _is_word_character(char: str) -> bool:
    return char.isalnum() and not _is_cjk(char)


def evenly_limited(texts: Sequence[str], most_chars: int) -> list[str]:
    """Return `texts` or, if they have more than `most_chars` characters together, an even sample of them. The last text of a
    sample may be shortened.
    """
    if sum(map(len, texts)) <= most_chars:
        return list(texts)
    step, chosen, left = 1, list[str](), most_chars
    while sum(len(text) for text in texts[::step]) > most_chars and step < len(texts):
        step *= 2
    for text in texts[::step]:
        part = text[: max(left, 0)]
        left -= len(part)
        if part:
            chosen.append(part)
    return chosen
