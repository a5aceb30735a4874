"""Decides whether a place in a reply is quoted, because an update (a block of ops) inside a quotation does not count.

Quotes are back-ticks, a code fence, quotation marks, a quoted line, a comment, or a tag that stays text. Only the
text before the place is read.
"""

from __future__ import annotations

import re

from filament.reply.tags import INLINE

_TOKEN = re.compile(
    r"\n[ \t]*>?|`+|~{3,}|<!--|-->|<!\[CDATA\[|\]\]>"
    r"|<(?P<closes>/?)[ \t]{0,8}(?P<name>[A-Za-z_][A-Za-z0-9_.-]{0,63})(?:\s[^<>]{0,200}?)?(?P<empty>/?)>"
    '|["“”„«»「」『』]',
    re.ASCII,
)
_LINE_HEAD = re.compile(r"[ \t]*(>?)")
_ENDS_OF = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«»", "「": "」", "『": "』"}
_ENDS_OF_BLOCK = {"<!--": "-->", "<![CDATA[": "]]>"}
_OPENS_AT_END = re.compile("(?:(?:^|[\\s(\\[:])[\"']|[‘《`])\\Z")
_ALONE = INLINE | {"hr", "img", "wbr"}
_FENCE_CHARS, _TAIL_CHARS = 3, 2


class QuotingContext:
    """Tracks which quotations are open in the text of a reply. The text is given in stretches, without the elements between."""

    def __init__(self) -> None:
        self._fence = self._block = self._tail = ""
        self._inline = self._quoting_line = False
        self._at_head = True
        self._quotes: list[str] = []
        self._tags: dict[str, int] = {}

    def take(self, text: str) -> None:
        """Take the next stretch of the text."""
        if self._at_head and (head := _LINE_HEAD.match(text)):
            self._quoting_line = bool(head[1])
            self._at_head = head.end() == len(text)
        for match in _TOKEN.finditer(text):
            self._take_token(match)
        last = text.rfind("\n")
        if last >= 0:
            self._at_head = not text[last:].strip()
        if stripped := text.rstrip():
            self._tail = (
                (self._tail + stripped)[-_TAIL_CHARS:] if len(stripped) < _TAIL_CHARS else stripped[-_TAIL_CHARS:]
            )

    def open_tag(self) -> str | None:
        """The name of the last tag that was opened and not closed, or None if no tag is open."""
        return next(reversed(self._tags), None)

    def find_quotation(self) -> str:
        """Return the name of the quotation in which the text so far ends (`a code fence`, …), or '' if it ends outside of
        quotations.
        """
        if self._fence:
            return "a code fence"
        if self._block:
            return "a comment" if self._block == "-->" else "a CDATA section"
        if self._inline:
            return "back-ticks"
        if self._quoting_line:
            return "a quoted line"
        return "quotation marks" if self._quotes or _OPENS_AT_END.search(self._tail) else ""

    def _take_token(self, match: re.Match[str]) -> None:
        token = match.group()
        if token[0] == "\n":
            self._inline, self._quoting_line = False, token[-1] == ">"
            self._quotes.clear()
        elif self._block:
            self._block = "" if token == self._block else self._block
        elif token[0] in "`~":
            self._take_fence(token)
        elif self._fence or self._inline:
            return
        elif token in _ENDS_OF_BLOCK:
            self._block = _ENDS_OF_BLOCK[token]
        elif match["name"]:
            self._take_tag(match["name"].lower(), closes=bool(match["closes"]), empty=bool(match["empty"]))
        else:
            self._take_quote(token)

    def _take_fence(self, token: str) -> None:
        """Open or close a code fence or an inline quote in back-ticks."""
        if len(token) >= _FENCE_CHARS:
            if not self._fence:
                self._fence = token[0]
            elif self._fence == token[0]:
                self._fence = ""
        elif not self._fence:
            self._inline = not self._inline

    def _take_tag(self, name: str, *, closes: bool, empty: bool) -> None:
        if empty or name in _ALONE:
            return
        count = self._tags.pop(name, 0) + (-1 if closes else 1)
        if count > 0:
            self._tags[name] = count

    def _take_quote(self, token: str) -> None:
        if self._quotes and token in _ENDS_OF[self._quotes[-1]]:
            self._quotes.pop()
        elif token in _ENDS_OF:
            self._quotes.append(token)
