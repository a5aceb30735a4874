"""Defines the legal tags of a reply, and finds tags in a text that is still arriving.

`TagScanner` finds the same tags however the text is cut into chunks.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from filament.errors import MarkupError
from filament.markup import check_name

CONTENT, THOUGHT, UPDATE, WRAPPER = "content", "thought", "state_update", "filament_output"
INLINE = frozenset({"b", "br", "em", "i", "p", "rp", "rt", "ruby", "s", "span", "strong", "u"})
"""Inline markup, which content may contain unescaped."""

_NAME_CHARS, _ATTRIBUTE_CHARS = 63, 200
_HEAD = rf"<(/?)[ \t]{{0,8}}([A-Za-z_][A-Za-z0-9_.-]{{0,{_NAME_CHARS}}})"
_TAG = re.compile(rf"{_HEAD}(?:\s[^<>]{{0,{_ATTRIBUTE_CHARS}}}?)?(/?)>", re.ASCII)
_HALF_TAG = re.compile(rf"{_HEAD}(?:\s[^<>]{{0,{_ATTRIBUTE_CHARS}}})?/?|</?[ \t]{{0,8}}", re.ASCII)


class Body(StrEnum):
    """Kind of a tag's body: words, any JSON, or JSON with a list of ops."""

    TEXT = "text"
    JSON = "json"
    OPS = "ops"


@dataclass(frozen=True, kw_only=True, slots=True)
class TagRule:
    """Rule for one legal tag of a reply."""

    name: str
    body: Body = Body.TEXT
    aliases: tuple[str, ...] = ()
    required: bool = False
    """If true, a reply without this tag gets a correction (a remark in its log)."""
    repeatable: bool = True
    """Whether the tag may occur more than once.

    If false, a second text is joined to the first one, a second block is left out, and both are reported.
    """


_CORE = (
    TagRule(name=CONTENT, aliases=("reply",), required=True),
    TagRule(name=THOUGHT, aliases=("think", "thinking")),
    TagRule(name=UPDATE, body=Body.OPS, aliases=("variable_update",)),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpectedReply:
    """Tags that a reply may contain, and their order.

    Content, thought and state_update are recognised even if they are not in `tags`: a state_update is then left out, and
    the player does not see it. Any other tag that is not in `tags` stays text. A tag of ops counts only after the content,
    whatever `sequence` contains. If content is not in `tags`, a tag of ops counts without content.

    Raises:
        MarkupError: if a name is illegal, a name is given twice, or `sequence` contains a name that is not in `tags`.
    """

    tags: tuple[TagRule, ...] = _CORE
    sequence: tuple[str, ...] = ()
    """Names of tags in their expected order. A tag out of this order is reported, and still read."""

    def __post_init__(self) -> None:
        seen: set[str] = {WRAPPER}
        for spelling in (spelling for rule in self.tags for spelling in (rule.name, *rule.aliases)):
            if check_name(spelling).lower() in seen:
                raise MarkupError(f"The tag {spelling!r} is expected twice. Name each tag and each alias once.")
            seen.add(spelling.lower())
        if missing := [name for name in self.sequence if name not in {rule.name for rule in self.tags}]:
            raise MarkupError(f"The sequence names {missing[0]!r}, which is not an expected tag. Add it to `tags`.")


REPLY = ExpectedReply()
"""The usual reply: content, an optional thought before or after the content, and state updates at the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Vocabulary:
    """Tags that one parse recognises.

    `rules` maps each canonical name to its rule, `legal` contains the canonical names that are legal, and `kinds`
    maps each lower-case spelling to its canonical name.
    """

    rules: Mapping[str, TagRule]
    legal: frozenset[str]
    kinds: Mapping[str, str]


@lru_cache(maxsize=64)
def vocabulary_of(expected: ExpectedReply) -> Vocabulary:
    """Return the tags that a parse with `expected` recognises: the tags of `expected`, and content, thought and state_update.

    The latter three are recognised even if they are not legal.
    """
    rules = {rule.name: rule for rule in expected.tags}
    taken = {spelling.lower() for rule in expected.tags for spelling in (rule.name, *rule.aliases)}
    for rule in _CORE:
        if rule.name not in rules and rule.name not in taken:
            free = tuple(alias for alias in rule.aliases if alias not in taken)
            rules[rule.name] = TagRule(name=rule.name, body=rule.body, aliases=free)
    kinds = {spelling.lower(): rule.name for rule in rules.values() for spelling in (rule.name, *rule.aliases)}
    return Vocabulary(
        rules=rules, legal=frozenset(rule.name for rule in expected.tags), kinds={**kinds, WRAPPER: WRAPPER}
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """A tag that was found in the text.

    `index` is the tag's place among the known tags, `kind` its canonical name, and `spelling` its name as written, in
    lower case. `closes` marks a closing tag, `empty` a tag such as `<b/>`. `start` and `end` are indices in the text.
    """

    index: int
    kind: str
    spelling: str
    closes: bool
    empty: bool
    start: int
    end: int
    fresh: bool
    """Whether only blanks and tags come before this tag on its line."""


class TagScanner:
    """Finds tags in a text that arrives in pieces.

    `tags` contains the known tags in order, `unknown` all other tags in order. All tags that start before the index
    `safe` have been found. `scanned_chars` counts the characters read.
    """

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.tags: list[Tag] = []
        self.unknown: deque[Tag] = deque()
        self.safe = 0
        self.scanned_chars = 0
        self._kinds = kinds
        self._half = ""
        self._blank = True
        self._closings: dict[str, deque[int]] = {kind: deque() for kind in kinds.values()}

    def scan(self, text: str, *, last: bool = False) -> None:
        """Find the tags in `text`, the next characters of the whole text. If `last`, nothing follows, so half a tag is text."""
        text, base = self._half + text, self.safe
        self.scanned_chars += len(text)
        self._half = ""
        at = done = 0
        while (at := text.find("<", at)) >= 0:
            match = _TAG.match(text, at)
            if match is None:
                if not last and _HALF_TAG.fullmatch(text, at):
                    self._half = text[at:]
                    break
                at += 1
                continue
            self._pass(text[done:at])
            self._keep(match, base)
            at = done = match.end()
        end = len(text) - len(self._half)
        self._pass(text[done:end])
        self.safe = base + end

    def find_closing(self, after: int, kinds: tuple[str, ...]) -> Tag | None:
        """Return the first closing tag of one of `kinds` after the tag with index `after`. Return None if there is none so far.

        `after` must not decrease between calls.
        """
        first: int | None = None
        for kind in kinds:
            closings = self._closings[kind]
            while closings and closings[0] <= after:
                closings.popleft()
            if closings and (first is None or closings[0] < first):
                first = closings[0]
        return None if first is None else self.tags[first]

    def take_unknown_before(self, end: int) -> Iterator[Tag]:
        """Yield the unknown tags that start before index `end`, and forget them."""
        while self.unknown and self.unknown[0].start < end:
            yield self.unknown.popleft()

    def _keep(self, match: re.Match[str], base: int) -> None:
        spelling = match[2].lower()
        kind = self._kinds.get(spelling)
        tag = Tag(
            index=len(self.tags),
            kind=kind or spelling,
            spelling=spelling,
            closes=bool(match[1]),
            empty=bool(match[3]),
            start=base + match.start(),
            end=base + match.end(),
            fresh=self._blank,
        )
        if kind is None:
            self._blank = False
            if spelling not in INLINE:
                self.unknown.append(tag)
            return
        self.tags.append(tag)
        if tag.closes:
            self._closings[kind].append(tag.index)

    def _pass(self, text: str) -> None:
        """Track whether the current line holds only blanks so far."""
        line = text[text.rfind("\n") + 1 :]
        self._blank = (self._blank or len(line) < len(text)) and not line.strip()
