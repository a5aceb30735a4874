"""JSON blocks of a reply: where one ends, what it says, and what becomes of it where it is broken.

Valid JSON says itself where it ends, so tags within its strings are strings. Broken JSON ends at the next tag, or where it
looks like ending.
"""

from __future__ import annotations

import re
from typing import Any

from filament.reply.brackets import likely_end
from filament.reply.desk import Desk, Looking
from filament.reply.json_body import REPAIR_CHARS, JsonScan, decode, mend, read_ops, unescaped
from filament.reply.tags import Body, Tag
from filament.reply.values import Block, EventKind, PieceKind
from filament.state.verdicts import Refusal, refused

_BRACKET = re.compile(r"[\[{]")
_FENCE_END = re.compile(r"\s*(?:```\s*)?")
_BROKEN_CLOSE = re.compile(r"\s*(?:```(?!\w)\s*)?(?:</\w*>?\s*)?", re.ASCII)
_FIRST_STEP, _STEP = 64, 4096


def take_block(desk: Desk, tag: Tag) -> Looking[None]:
    """Read the block that a tag opens, to its closing tag or to the end of its JSON."""
    desk.counts[tag.kind] = desk.counts.get(tag.kind, 0) + 1
    desk.pass_tag(tag)
    start = yield from desk.json_start(tag.end)
    if start is None:
        follower = yield from desk.following(tag.index + 1)
        limit = desk.source.length if follower is None else follower.start
        found = _BRACKET.search(desk.source.slice(tag.end, limit))
        start = tag.end + (found.start() if found else 0)
    scan = JsonScan()
    yield from _follow(desk, scan, start)
    value, fits = decode(desk.source.slice(start, start + scan.length)) if scan.done else (None, False)
    if fits:
        yield from _end_whole(desk, tag, value, start + scan.length)
    else:
        yield from _end_broken(desk, tag, start)


def _follow(desk: Desk, scan: JsonScan, start: int) -> Looking[None]:
    """Let a scan take the source from `start` on, until it is done or broken or the reply ends."""
    step = _FIRST_STEP
    while not (scan.done or scan.broken):
        at = start + scan.length
        text = desk.source.slice(at, min(at + step, desk.source.length))
        step = min(2 * step, _STEP)
        if text:
            scan.take(text)
        elif desk.ended:
            return
        else:
            yield


def _end_whole(desk: Desk, tag: Tag, value: Any, end: int) -> Looking[None]:
    name = _name(desk, tag)
    follower = yield from desk.following(desk.index, end)
    if follower is not None and follower.kind == tag.kind and follower.closes:
        if _FENCE_END.fullmatch(desk.source.slice(end, follower.start)) is None:
            desk.note("trailing", f"{name}: what followed its JSON was left out.", end, follower.start)
        _keep(desk, tag, value, tag.end, follower.start)
        desk.piece(PieceKind.BLOCK, tag.kind, tag.end, follower.start)
        desk.pass_tag(follower)
        return
    desk.note("unclosed", f"{name} was not closed; it ends with its JSON.", tag.start, end)
    _keep(desk, tag, value, tag.end, end)
    _leave(desk, tag, end, desk.source.length if follower is None else follower.start)


def _end_broken(desk: Desk, tag: Tag, start: int) -> Looking[None]:
    follower = yield from desk.following(tag.index + 1)
    limit = desk.source.length if follower is None else follower.start
    body = desk.source.slice(start, limit)
    if follower is not None and follower.kind == tag.kind and follower.closes:
        _mend(desk, tag, body, start, limit, cut=False)
        desk.piece(PieceKind.BLOCK, tag.kind, tag.end, limit)
        desk.pass_tag(follower)
        return
    end = likely_end(body, 0, len(body))
    desk.note("unclosed", f"{_name(desk, tag)} was not closed; it ends with its JSON.", tag.start, start + end)
    cut = follower is None and not body[end:].strip()
    _mend(desk, tag, body[:end], start, start + end, cut=cut)
    _leave(desk, tag, start + end, limit)


def _leave(desk: Desk, tag: Tag, end: int, limit: int) -> None:
    """Go on behind an unclosed block, and behind what is left of its closing tag."""
    closing = _BROKEN_CLOSE.match(desk.source.slice(end, limit))
    behind = end + (closing.end() if closing else 0)
    desk.piece(PieceKind.BLOCK, tag.kind, tag.end, end)
    desk.piece(PieceKind.MARKUP, tag.kind, end, behind)
    desk.at = behind


def _mend(desk: Desk, tag: Tag, body: str, start: int, end: int, *, cut: bool) -> None:
    name = _name(desk, tag)
    value, fault, cost = mend(body, cut=cut, repairable=REPAIR_CHARS - desk.repaired_chars)
    desk.repaired_chars += cost
    if fault and fault != "repaired":
        desk.note("dropped", f"{name} was dropped: {fault}.", start, end)
        _lose(desk, tag, Refusal.UNREADABLE, fault)
    elif _keep(desk, tag, value, start, end) and fault:
        desk.note("repaired", f"{name}: its JSON was broken and has been repaired.", start, end)


def _keep(desk: Desk, tag: Tag, value: Any, start: int, end: int) -> bool:
    """Take the value of a block: all of its ops, or none if one is malformed."""
    rule, name = desk.rules[tag.kind], _name(desk, tag)
    if tag.kind not in desk.legal:
        desk.note("not_expected", f"{name} was left out: this reply may hold none.", start, end)
        _lose(desk, tag, Refusal.NOT_EXPECTED, "this reply may hold none")
        return False
    if desk.counts[tag.kind] > 1 and not rule.repeatable:
        desk.note("too_many", f"{name} was left out: this reply may hold one only.", start, end)
        _lose(desk, tag, Refusal.NOT_EXPECTED, "this reply may hold one only")
        return False
    if rule.body is Body.JSON:
        clean = unescaped(value)
        desk.blocks.append(Block(tag=tag.kind, value=clean, start=start, end=end))
        desk.tell(EventKind.BLOCK, tag=tag.kind, value=clean)
        return True
    ops, lost, fault = read_ops(value, desk.next_op)
    if fault:
        desk.note("dropped", f"{name} was dropped: {fault}.", start, end)
        if lost:
            desk.lost.extend(lost)
        else:
            _lose(desk, tag, Refusal.UNREADABLE, fault)
        return False
    desk.ops.extend(ops)
    desk.tell(EventKind.BLOCK, tag=tag.kind, ops=ops)
    return True


def _lose(desk: Desk, tag: Tag, code: Refusal, reason: str) -> None:
    """Enter a block of ops that was lost whole as one refused op."""
    if desk.rules[tag.kind].body is Body.OPS:
        desk.lost.append(refused(desk.next_op, _name(desk, tag), code, reason))


def _name(desk: Desk, tag: Tag) -> str:
    return f"{tag.kind} {desk.counts[tag.kind]}"
