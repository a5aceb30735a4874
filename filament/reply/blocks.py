"""JSON blocks of a reply: where one ends, what it says, and what is done with a broken one.

Valid JSON shows where it ends, so tags inside its strings are part of the strings. Broken JSON ends at the next tag, or where
it seems to end.
"""

from __future__ import annotations

import re
from typing import Any

from filament.reply.brackets import likely_end
from filament.reply.json_body import REPAIR_CHARS, JsonScan, decode, mend, read_ops, unescaped
from filament.reply.outline import FoundBlock, Misplaced
from filament.reply.parser_state import Looking, ParserState
from filament.reply.tags import CONTENT, Body, Tag
from filament.reply.values import ECHOED, Block, EventKind, PieceKind
from filament.state.verdicts import Refusal, refused

_BRACKET = re.compile(r"[\[{]")
_FENCE_END = re.compile(r"\s*(?:```\s*)?")
_BROKEN_CLOSE = re.compile(r"\s*(?:```(?!\w)\s*)?(?:</\w*>?\s*)?", re.ASCII)
_FIRST_STEP, _STEP = 64, 4096


def take_block(desk: ParserState, tag: Tag, inside: str | None) -> Looking[None]:
    """Read the block that a tag opens inside another element or none, to its closing tag or to the end of its JSON.

    What becomes of ops is decided when the reply is whole, by `settle_updates`.
    """
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
        yield from _end_whole(desk, tag, inside, value, start + scan.length)
    else:
        yield from _end_broken(desk, tag, inside, start)


def settle_updates(desk: ParserState) -> None:
    """Carry out the updates that stand where they count, and name all others, now that the reply is whole."""
    for update, misplaced in desk.outline.judge(desk.source, needs_content=CONTENT in desk.legal):
        if misplaced is None:
            _carry_out(desk, update)
        else:
            _set_aside(desk, update, misplaced)


def _follow(desk: ParserState, scan: JsonScan, start: int) -> Looking[None]:
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


def _end_whole(desk: ParserState, tag: Tag, inside: str | None, value: Any, end: int) -> Looking[None]:
    name = _name(desk, tag)
    follower = yield from desk.following(desk.index, end)
    if follower is not None and follower.kind == tag.kind and follower.closes:
        if _FENCE_END.fullmatch(desk.source.slice(end, follower.start)) is None:
            desk.note("trailing", f"{name}: what followed its JSON was left out.", end, follower.start)
        end = follower.start
        desk.piece(PieceKind.BLOCK, tag.kind, tag.end, end)
        desk.pass_tag(follower)
    else:
        desk.note("unclosed", f"{name} was not closed; it ends with its JSON.", tag.start, end)
        _leave(desk, tag, end, desk.source.length if follower is None else follower.start)
    _find(desk, FoundBlock(tag=tag, name=name, inside=inside, start=tag.end, end=end, behind=desk.at, value=value))


def _end_broken(desk: ParserState, tag: Tag, inside: str | None, start: int) -> Looking[None]:
    name = _name(desk, tag)
    follower = yield from desk.following(tag.index + 1)
    limit = desk.source.length if follower is None else follower.start
    body, cut = desk.source.slice(start, limit), False
    if follower is not None and follower.kind == tag.kind and follower.closes:
        desk.piece(PieceKind.BLOCK, tag.kind, tag.end, limit)
        desk.pass_tag(follower)
    else:
        end = likely_end(body, 0, len(body))
        desk.note("unclosed", f"{name} was not closed; it ends with its JSON.", tag.start, start + end)
        cut = follower is None and not body[end:].strip()
        _leave(desk, tag, start + end, limit)
        body = body[:end]
    end = start + len(body)
    _find(
        desk,
        FoundBlock(tag=tag, name=name, inside=inside, start=start, end=end, behind=desk.at, broken=body, cut=cut),
    )


def _leave(desk: ParserState, tag: Tag, end: int, limit: int) -> None:
    """Go on behind an unclosed block, and behind what is left of its closing tag."""
    closing = _BROKEN_CLOSE.match(desk.source.slice(end, limit))
    behind = end + (closing.end() if closing else 0)
    desk.piece(PieceKind.BLOCK, tag.kind, tag.end, end)
    desk.piece(PieceKind.MARKUP, tag.kind, end, behind)
    desk.at = behind


def _find(desk: ParserState, block: FoundBlock) -> None:
    """Take a block: one of ops waits for the end of the reply, any other is read at once."""
    if desk.rules[block.tag.kind].body is Body.OPS:
        desk.outline.add_update(block)
    else:
        _keep_mended(desk, block, _mended(desk, block))


def _carry_out(desk: ParserState, update: FoundBlock) -> None:
    """Take the ops of an update that stands where it counts, all of them or none."""
    found = _mended(desk, update)
    if found is not None and desk.user_text.says(desk.source.slice(update.start, update.end), broken=found[1]):
        advice = "Write an update of your own, if anything changed"
        echoed = Misplaced(code=ECHOED, reason="the user's own message says what it says", advice=advice)
        _set_aside(desk, update, echoed)
    else:
        _keep_mended(desk, update, found)


def _set_aside(desk: ParserState, update: FoundBlock, why: Misplaced) -> None:
    sentence = f"{update.name} was not carried out: {why.reason}. {why.advice}."
    desk.note(why.code, sentence, update.tag.start, update.behind)


def _mended(desk: ParserState, block: FoundBlock) -> tuple[Any, bool] | None:
    """Return the value of a block and whether it had to be repaired; None if it cannot be read, which is noted."""
    if block.broken is None:
        return block.value, False
    value, fault, cost = mend(block.broken, cut=block.cut, repairable=REPAIR_CHARS - desk.repaired_chars)
    desk.repaired_chars += cost
    if fault and fault != "repaired":
        desk.note("dropped", f"{block.name} was dropped: {fault}.", block.start, block.end)
        _lose(desk, block, Refusal.UNREADABLE, fault)
        return None
    return value, bool(fault)


def _keep_mended(desk: ParserState, block: FoundBlock, found: tuple[Any, bool] | None) -> None:
    is_again = block.tag.kind in desk.present
    desk.present.add(block.tag.kind)
    if found is not None and _keep(desk, block, found[0], is_again) and found[1]:
        desk.note("repaired", f"{block.name}: its JSON was broken and has been repaired.", block.start, block.end)


def _keep(desk: ParserState, block: FoundBlock, value: Any, is_again: bool) -> bool:
    """Take the value of a block: all of its ops, or none if one is malformed."""
    kind, name, start, end = block.tag.kind, block.name, block.start, block.end
    rule = desk.rules[kind]
    if kind not in desk.legal:
        desk.note("not_expected", f"{name} was left out: this reply may hold none.", start, end)
        _lose(desk, block, Refusal.NOT_EXPECTED, "this reply may hold none")
        return False
    if is_again and not rule.repeatable:
        desk.note("too_many", f"{name} was left out: this reply may hold one only.", start, end)
        _lose(desk, block, Refusal.NOT_EXPECTED, "this reply may hold one only")
        return False
    if rule.body is Body.JSON:
        clean = unescaped(value)
        desk.blocks.append(Block(tag=kind, value=clean, start=start, end=end))
        desk.tell(EventKind.BLOCK, tag=kind, value=clean)
        return True
    ops, lost, fault = read_ops(value, desk.next_op)
    if fault:
        desk.note("dropped", f"{name} was dropped: {fault}.", start, end)
        if lost:
            desk.lost.extend(lost)
        else:
            _lose(desk, block, Refusal.UNREADABLE, fault)
        return False
    desk.ops.extend(ops)
    desk.tell(EventKind.BLOCK, tag=kind, ops=ops)
    return True


def _lose(desk: ParserState, block: FoundBlock, code: Refusal, reason: str) -> None:
    """Enter a block of ops that was lost whole as one refused op."""
    if desk.rules[block.tag.kind].body is Body.OPS:
        desk.lost.append(refused(desk.next_op, block.name, code, reason))


def _name(desk: ParserState, tag: Tag) -> str:
    return f"{tag.kind} {desk.counts[tag.kind]}"
