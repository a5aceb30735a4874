"""Cleans the text of a note: removes comments and pictures, and replaces links by their shown text.

Code in the text is never changed. The time is linear in the length of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import field

from mnemosyne.values import dataclass

LINK, EMBED, PICTURE, COMMENT, BOX = "[[links]]", "![[notes]]", "pictures", "%%comments%%", "<div>"
"""Kinds of replacements and omissions in a text."""
_OPEN_ZONE, _CLOSE_ZONE = "%%deeplore-exclude%%", "%%/deeplore-exclude%%"
_MOST_LINK_CHARS = 500
_MARK = re.compile(r"%%|`+|~~~+|!?\[\[|!\[|</?div\b")
_BOX = re.compile(r"</?div\b[^<>\n]{0,300}>\n?")
_PICTURE = re.compile(r"!\[[^\[\]\n]{0,500}\]\([^()\n]{0,2000}\)")
_FILE_ENDING = re.compile(r"\.[A-Za-z0-9]{1,5}\Z")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?\Z")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*\Z")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TICKS = re.compile(r"`+")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanText:
    """A cleaned text. `counts` has the replacements by kind. `open_comment` is the position of a comment without an end
    (-1: none).
    """

    text: str
    counts: Counter[str] = field(default_factory=Counter)
    open_comment: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A heading of a text. `level` counts from 1. `start` is the start of its line, `end` the start of the text below it."""

    level: int
    title: str
    start: int
    end: int


def clean_text(text: str, *, has_comments: bool) -> CleanText:
    """Return a text without pictures and `<div>` tags, and with wiki links replaced by their shown text.

    If `has_comments`, text between two `%%` is a comment and is removed. A comment without an end is kept.
    """
    if not any(mark in text for mark in ("%%", "[[", "![", "<div", "</div")):
        return CleanText(text=text)
    counts: Counter[str] = Counter()
    parts: list[str] = []
    ticks = _ticks_by_length(text) if "`" in text else {}
    place, kept, open_comment = 0, 0, -1
    while (mark := _MARK.search(text, place)) is not None:
        start, sign = mark.start(), mark[0]
        end, shown, kind = mark.end(), "", ""
        if sign[0] in "`~":
            end = _end_of_code(text, mark, ticks)
        elif sign == "%%":
            if has_comments and open_comment < 0:
                end, kind = _end_of_comment(text, start), COMMENT
                if end < 0:
                    end, kind, open_comment = mark.end(), "", start
        elif sign.endswith("[["):
            end, shown, kind = _read_link(text, mark)
        elif sign.startswith("<"):
            if (box := _BOX.match(text, start)) is not None:
                end, kind = box.end(), BOX
        elif (picture := _PICTURE.match(text, start)) is not None:
            end, kind = picture.end(), PICTURE
        if kind:
            counts[kind] += 1
            parts += (text[kept:start], shown)
            kept = end
        place = end
    if not counts:
        return CleanText(text=text, open_comment=open_comment)
    joined = "".join((*parts, text[kept:]))
    is_shorter = counts[COMMENT] or counts[PICTURE] or counts[BOX]
    return CleanText(
        text=_BLANK_LINES.sub("\n\n", joined) if is_shorter else joined, counts=counts, open_comment=open_comment
    )


def iter_headings(text: str) -> Iterator[Heading]:
    """Yield the headings of a Markdown text in order: lines that begin with `#`, and lines of text above `===` or `---`."""
    place, fence = 0, ""
    before, before_start, is_first_line = "", 0, True
    for line in text.split("\n"):
        start, place = place, place + len(line) + 1
        end = min(place, len(text))
        found = _FENCE.match(line)
        if fence:
            is_end = found is not None and found[1].startswith(fence) and not line[found.end() :].strip()
            fence = "" if is_end else fence
            before = ""
        elif found is not None:
            fence, before = found[1], ""
        elif (heading := _HEADING.match(line)) is not None:
            title = (heading[2] or "").strip()
            yield Heading(level=len(heading[1]), title=_without_closing(title), start=start, end=end)
            before = ""
        elif before and is_first_line and (underline := _UNDERLINE.match(line)) is not None:
            yield Heading(level=1 if underline[1][0] == "=" else 2, title=before, start=before_start, end=end)
            before = ""
        else:
            is_first_line = not before
            before, before_start = _title_of_line(line), start


def first_heading(text: str) -> Heading | None:
    """Return the first heading of a text, or None if it has no heading."""
    return next(iter_headings(text), None)


def _title_of_line(line: str) -> str:
    """Return the text of a line that is a heading if the next line underlines it. It is empty if the line cannot be a
    heading.
    """
    return "" if line[:1] in ("-", "*", ">", "|", "+", "\t", " ") else line.strip()


def _without_closing(title: str) -> str:
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1:] in (" ", "\t") else title


def _ticks_by_length(text: str) -> dict[int, list[int]]:
    places: dict[int, list[int]] = {}
    for found in _TICKS.finditer(text):
        places.setdefault(len(found[0]), []).append(found.start())
    return places


def _end_of_code(text: str, mark: re.Match[str], ticks: dict[int, list[int]]) -> int:
    """Return the position at which the code that `mark` opens ends. If `mark` opens no code, return the end of `mark`."""
    line = text.rfind("\n", max(0, mark.start() - 4), mark.start()) + 1
    is_fence = len(mark[0]) >= 3 and (line > 0 or mark.start() < 4) and not text[line : mark.start()].strip()
    if is_fence:
        place = text.find("\n", mark.end())
        while place >= 0:
            end = text.find("\n", place + 1)
            row = text[place + 1 : end if end >= 0 else len(text)]
            found = _FENCE.match(row)
            if found is not None and found[1].startswith(mark[0]) and not row[found.end() :].strip():
                return end if end >= 0 else len(text)
            place = end
        return len(text)
    if mark[0][0] == "~":
        return mark.end()
    same = ticks[len(mark[0])]
    after = bisect_left(same, mark.end())
    if after == len(same) or text.find("\n\n", mark.end(), same[after]) >= 0:
        return mark.end()
    return same[after] + len(mark[0])


def _end_of_comment(text: str, start: int) -> int:
    """Return the position at which a comment ends, or -1 if it does not end."""
    if text.startswith(_OPEN_ZONE, start):
        end = text.find(_CLOSE_ZONE, start + len(_OPEN_ZONE))
        return end + len(_CLOSE_ZONE) if end >= 0 else -1
    end = text.find("%%", start + 2)
    return end + 2 if end >= 0 else -1


def _read_link(text: str, mark: re.Match[str]) -> tuple[int, str, str]:
    """Return (end, shown text, kind) of a link. If `mark` does not begin a link, return the end of `mark` and an empty kind."""
    end = text.find("]]", mark.end(), mark.end() + _MOST_LINK_CHARS)
    inner = text[mark.end() : end] if end >= 0 else ""
    if not inner.strip() or "\n" in inner or "[[" in inner:
        return mark.end(), "", ""
    if mark[0][0] != "!":
        return end + 2, link_text(inner), LINK
    target = inner.partition("|")[0].partition("#")[0].strip()
    if _FILE_ENDING.search(target) and not target.lower().endswith(".md"):
        return end + 2, "", PICTURE
    return end + 2, link_text(inner), EMBED


def link_text(inner: str) -> str:
    """Return the shown text of a wiki link: its own text, or else the name of the note and the heading in it."""
    target, _, shown = inner.partition("|")
    if shown.strip():
        return shown.strip()
    note, _, heading = target.rstrip("\\").strip().partition("#")
    name = note.rstrip("/").rsplit("/", 1)[-1].removesuffix(".md").strip()
    heading = heading.rsplit("#", 1)[-1].strip()
    if heading.startswith("^"):
        heading = ""
    return f"{name} > {heading}" if name and heading else name or heading or inner.strip()
