"""A model's whole reply to what it says, thinks and changes (origin 10; spec 2).

Tolerant, because models are: it never raises, mends what can be mended, says what it did in `corrections`, and loses no
content. The only file that imports json_repair. One pass over the tags; whether a tag counts is decided by what follows
it, looked up in tables made beforehand, so the time grows with the length of the reply and not faster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from json import JSONDecoder
from typing import Any

import json_repair

from filament.brackets import depth, ends_between_ops, likely_end
from filament.errors import OpError
from filament.markup import clean_text, unescape
from filament.verbs import Op, parse_op

CONTENT, THOUGHT, UPDATE, WRAPPER = "content", "thought", "state_update", "filament_output"
_ALIASES = {
    "content": CONTENT,
    "reply": CONTENT,
    "thought": THOUGHT,
    "think": THOUGHT,
    "thinking": THOUGHT,
    "state_update": UPDATE,
    "variable_update": UPDATE,
    "filament_output": WRAPPER,
}
_TAG = re.compile(
    rf"<(/?)[ \t]*({'|'.join(sorted(_ALIASES, key=len, reverse=True))})(?:\s[^<>]*?)?(/?)>", re.ASCII | re.I
)
_FENCED_WHOLE = re.compile(r"\s*```[a-z]*[ \t]*\n\s*", re.ASCII | re.I)
_FENCE_START = re.compile(r"\s*(?:```[a-z]*\s*)?", re.ASCII | re.I)
_FENCE_END = re.compile(r"\s*(?:```\s*)?", re.ASCII)
_OPEN_FENCE = re.compile(r"```[a-z]*[ \t]*\n\s*\Z", re.ASCII | re.I)
_CLOSE_FENCE = re.compile(r"\s*```[ \t]*(?:\n|\Z)", re.ASCII)
_BROKEN_CLOSE = re.compile(r"\s*(?:```(?!\w)\s*)?(?:</\w*>?\s*)?", re.ASCII)
_REPAIR_CHARS, _REPAIR_DEPTH, _FAR_LOOKS = 2000, 32, 4
_BRACKET = re.compile(r"[\[{]")
_DECODER = JSONDecoder(strict=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a reply holds. `content` is for the player, `thought` for the log; both clean, unescaped, trimmed.

    `ops` are in order, numbered through the whole reply. `corrections` are sentences on what was mended or left out.
    """

    content: str
    thought: str = ""
    ops: tuple[Op, ...] = ()
    corrections: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Tag:
    """A known tag.

    `next_close` maps each kind to the index of its next closing tag after this one; `next_open_update` is that of the
    next tag that opens an update.
    """

    kind: str
    closes: bool
    empty: bool
    start: int
    end: int
    next_close: dict[str, int] = field(default_factory=dict)
    next_open_update: int | None = None


class _Reader:
    """The state of one pass: what is open, what was gathered."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tags = _tags(text)
        self.stack: list[str] = []
        self.pieces: dict[str, list[str]] = {CONTENT: [], THOUGHT: []}
        self.ops: list[Op] = []
        self.corrections: list[str] = []
        self.updates = 0
        self.begun = False
        self.repairable = _REPAIR_CHARS
        self.far_looks = _FAR_LOOKS

    def gather(self, start: int, end: int) -> None:
        """Give the text between two tags to what is open; outside of all tags it is content."""
        if start < end:
            self.pieces[self.stack[-1] if self.stack else CONTENT].append(self.text[start:end])

    def note(self, sentence: str) -> None:
        self.corrections.append(sentence)


def parse_reply(text: str) -> Reply:
    """Return what a model's reply says, thinks and changes; it never raises.

    `<content>` (alias reply), `<thought>` (think, thinking), `<state_update>` (variable_update) with the JSON
    `{"ops": […]}` or the bare list, in both spellings of an op; a `<filament_output>` around all is optional. Tags in any
    case. Text outside of tags is content, so a reply without tags is all content. What is open at the end is closed.
    Broken JSON is repaired; if that fails, or if an op in it is malformed, that block is dropped whole and the content
    stays. A tag that is merely talked about (nothing closes it, no JSON follows it) stays text.
    """
    whole = clean_text(text)
    fence = _FENCED_WHOLE.match(whole)
    if fence and _TAG.match(whole, fence.end()) and whole.rstrip().endswith("```"):
        whole = whole[fence.end() :].rstrip().removesuffix("```")
    reader = _Reader(whole)
    at = index = 0
    while index < len(reader.tags):
        tag = reader.tags[index]
        if tag.start < at or not _counts(reader, index):
            index += 1
            continue
        reader.gather(at, tag.start)
        at, index = _take(reader, index)
    if reader.stack:
        reader.note(f"<{reader.stack[-1]}> was not closed; it ends with the reply.")
    reader.gather(at, len(whole))
    content = _joined(reader.pieces[CONTENT])
    if not content:
        reader.note("The reply has no content.")
    return Reply(
        content=content,
        thought=_joined(reader.pieces[THOUGHT]),
        ops=tuple(reader.ops),
        corrections=tuple(reader.corrections),
    )


def _tags(text: str) -> list[_Tag]:
    tags = [
        _Tag(
            kind=_ALIASES[match[2].lower()],
            closes=bool(match[1]),
            empty=bool(match[3]),
            start=match.start(),
            end=match.end(),
        )
        for match in _TAG.finditer(text)
    ]
    following: dict[str, int] = {}
    next_update: int | None = None
    for index in range(len(tags) - 1, -1, -1):
        tag = tags[index] = replace(tags[index], next_close=following, next_open_update=next_update)
        if tag.closes:
            following = {**following, tag.kind: index}
        elif tag.kind == UPDATE and not tag.empty:
            next_update = index
    return tags


def _counts(reader: _Reader, index: int) -> bool:
    """Say whether a tag is one, or a word of the text it stands in."""
    tag = reader.tags[index]
    inside = reader.stack[-1] if reader.stack else None
    if tag.kind == WRAPPER or tag.empty or tag.closes:
        return True
    own_end, thought_end = tag.next_close.get(tag.kind), tag.next_close.get(THOUGHT)
    if tag.kind == UPDATE:
        is_block = _json_start(reader.text, tag.end) is not None or own_end == index + 1
        return is_block and not _is_mentioned(inside, own_end, thought_end)
    if tag.kind == CONTENT:
        return not _is_mentioned(inside, own_end, thought_end)
    if own_end is not None:
        return inside != CONTENT or own_end < tag.next_close.get(CONTENT, own_end + 1)
    line = reader.text.rfind("\n", 0, tag.start) + 1
    return inside is None and not reader.text[line : tag.start].strip()


def _is_mentioned(inside: str | None, own_end: int | None, thought_end: int | None) -> bool:
    """A tag within a thought is talk if the thought ends before the tag does."""
    return inside == THOUGHT and thought_end is not None and (own_end is None or thought_end < own_end)


def _take(reader: _Reader, index: int) -> tuple[int, int]:
    """Act on a tag; return where the text goes on and the index of the next tag to look at."""
    tag = reader.tags[index]
    if tag.kind == WRAPPER or tag.empty:
        return tag.end, index + 1
    if tag.closes:
        _close(reader, tag)
        return tag.end, index + 1
    reader.begun = True
    if tag.kind == UPDATE:
        return _take_update(reader, index)
    if tag.kind in reader.stack:
        reader.note(f"<{tag.kind}> was opened inside itself; the second opening was left out.")
        return tag.end, index + 1
    if reader.stack == [THOUGHT] and THOUGHT not in tag.next_close:
        reader.note("<thought> was not closed; it ends where <content> starts.")
        reader.stack.pop()
    reader.stack.append(tag.kind)
    return tag.end, index + 1


def _close(reader: _Reader, tag: _Tag) -> None:
    if tag.kind in reader.stack:
        while reader.stack.pop() != tag.kind:
            reader.note(f"What was open inside <{tag.kind}> was closed with it.")
        return
    rest = reader.text[tag.end :] if tag.kind == THOUGHT and not reader.begun else ""
    reader.begun = True
    if rest and _has_words(rest):
        reader.pieces[THOUGHT], reader.pieces[CONTENT] = reader.pieces[CONTENT], []
        reader.note("</thought> came without its opening; what stood before it is the thought.")
        return
    reader.note(f"</{tag.kind}> closed nothing; it was left out.")


def _has_words(rest: str) -> bool:
    return bool(_TAG.sub("", rest).strip())


# --- state updates ---------------------------------------------------------------------------------------------------


def _json_start(text: str, at: int) -> int | None:
    """Return where JSON starts after a tag, behind a fence if there is one; None if what follows is no JSON."""
    match = _FENCE_START.match(text, at)
    start = match.end() if match else at
    return start if text[start : start + 1] in ("{", "[") else None


def _take_update(reader: _Reader, index: int) -> tuple[int, int]:
    """Read the JSON of an update. Valid JSON says itself where it ends, so tags within its strings are strings."""
    tag, text = reader.tags[index], reader.text
    reader.updates += 1
    name = f"state_update {reader.updates}"
    start = _json_start(text, tag.end)
    if start is None:
        found = _BRACKET.search(text, tag.end, reader.tags[index + 1].start)
        start = found.start() if found else tag.end
    decoded = _decode(reader, index, start)
    if decoded is None:
        return _take_broken(reader, index, start, name)
    value, end = decoded
    _keep_ops(reader, value, name)
    after = index + 1
    while after < len(reader.tags) and reader.tags[after].start < end:
        after += 1
    follower = reader.tags[after] if after < len(reader.tags) else None
    if follower is not None and follower.kind == UPDATE and follower.closes:
        if _FENCE_END.fullmatch(text, end, follower.start) is None:
            reader.note(f"{name}: what followed its JSON was left out.")
        return follower.end, after + 1
    reader.note(f"{name} was not closed; it ends with its JSON.")
    rest = follower.start if follower else len(text)
    closing = _BROKEN_CLOSE.match(text, end, rest)
    return (closing.end() if closing else end), after


def _decode(reader: _Reader, index: int, start: int) -> tuple[Any, int] | None:
    """Return (value, where it ends) of valid JSON, or None.

    It is looked for up to the next opening of an update; only a few times beyond, for a string that talks of one. A
    failure costs the length of what was looked at (the error counts its lines).
    """
    following = reader.tags[index].next_open_update
    limits = [len(reader.text) if following is None else reader.tags[following].start]
    if following is not None and reader.far_looks:
        limits.append(len(reader.text))
    for limit in limits:
        try:
            value, length = _DECODER.raw_decode(reader.text[start:limit])
        except (ValueError, RecursionError):
            continue
        return value, start + length
    if len(limits) == 2:
        reader.far_looks -= 1
    return None


def _take_broken(reader: _Reader, index: int, start: int, name: str) -> tuple[int, int]:
    """Read JSON that is not: it ends at the next tag, or where it looks like ending."""
    text, after = reader.text, index + 1
    follower = reader.tags[after] if after < len(reader.tags) else None
    limit = follower.start if follower else len(text)
    if follower is not None and follower.kind == UPDATE and follower.closes:
        _keep_broken(reader, text[start:limit], name, cut=False)
        return follower.end, after + 1
    end = likely_end(text, start, limit)
    reader.note(f"{name} was not closed; it ends with its JSON.")
    _keep_broken(reader, text[start:end], name, cut=not text[end:].strip())
    closing = _BROKEN_CLOSE.match(text, end, limit)
    return (closing.end() if closing else end), after


def _keep_broken(reader: _Reader, body: str, name: str, *, cut: bool) -> None:
    body = body.strip().removesuffix("```").rstrip()
    if "&quot;" in body:
        body = unescape(body)
        try:
            _keep_ops(reader, _DECODER.decode(body), name)
        except (ValueError, RecursionError):
            pass
        else:
            return
    if cut and not ends_between_ops(body):
        reader.note(f"{name} was dropped: the reply was cut off in the middle of an op.")
        return
    if len(body) > reader.repairable or depth(body) > _REPAIR_DEPTH:
        reader.note(f"{name} was dropped: its JSON is broken and too long or too deep to repair.")
        return
    reader.repairable -= len(body)
    try:
        value = json_repair.loads(body)
    except Exception:  # whatever a guess at broken JSON runs into, the reply must come through
        value = None
    if not isinstance(value, dict | list) or not value:
        reader.note(f"{name} was dropped: its JSON cannot be read.")
        return
    if _keep_ops(reader, value, name):
        reader.note(f"{name}: its JSON was broken and has been repaired.")


def _keep_ops(reader: _Reader, value: Any, name: str) -> bool:
    """Take the ops of a block: all of them, or none if one is malformed."""
    raw = value.get("ops") if isinstance(value, dict) and "op" not in value else value
    if isinstance(raw, dict) or (isinstance(raw, list) and raw and isinstance(raw[0], str)):
        raw = [raw]
    if not isinstance(raw, list):
        reader.note(f'{name} was dropped: it has no list of ops. Write {{"ops": [...]}}.')
        return False
    try:
        first = len(reader.ops)
        ops = [parse_op(_unescaped(item), first + place) for place, item in enumerate(raw)]
    except (OpError, RecursionError) as error:
        reader.note(f"{name} was dropped: {error if isinstance(error, OpError) else 'it is nested too deep'}.")
        return False
    reader.ops.extend(ops)
    return True


def _unescaped(value: Any) -> Any:
    """Undo the escaping that a model copied from its prompt, in every string of a value."""
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, list):
        return [_unescaped(item) for item in value]
    if isinstance(value, dict):
        return {_unescaped(key): _unescaped(item) for key, item in value.items()}
    return value


def _joined(pieces: list[str]) -> str:
    """Join pieces as they stood in the reply; where a block was cut out, blank lines do not add up."""
    joined: list[str] = []
    for piece in pieces:
        if joined:
            left, closing = joined[-1], _CLOSE_FENCE.match(piece)
            opening = _OPEN_FENCE.search(left) if closing and left.count("```") % 2 else None
            if opening and closing:
                joined[-1], piece = left[: opening.start()], piece[closing.end() :]
            ends = len(joined[-1]) - len(joined[-1].rstrip("\n"))
            starts = len(piece) - len(piece.lstrip("\n"))
            piece = piece[min(ends, starts) :]
        joined.append(piece)
    return unescape("".join(joined)).strip()
