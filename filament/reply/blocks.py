"""Reads the JSON blocks of a reply: finds the end and the value of each block, and repairs or refuses broken JSON.

Valid JSON shows where it ends, so tags inside its strings belong to the strings. Broken JSON ends at the next tag, or
at its likely end (`find_likely_end`).
"""

from __future__ import annotations

import re
from typing import Any

from filament.reply.brackets import find_likely_end
from filament.reply.json_body import REPAIR_CHARS, JsonScan, decode_json, read_ops, repair_json, unescape_strings
from filament.reply.outline import FoundBlock, MisplacedUpdate
from filament.reply.parser_state import Looking, ParserState
from filament.reply.tags import CONTENT, Body, Tag
from filament.reply.values import ECHOED, UNTAGGED, Block, EventKind, PieceKind
from filament.state.verdicts import Refusal, build_refusal

_BRACKET = re.compile(r"[\[{]")
_FENCE_END = re.compile(r"\s*(?:```\s*)?")
_BROKEN_CLOSE = re.compile(r"\s*(?:```(?!\w)\s*)?(?:</\w*>?\s*)?", re.ASCII)
_NOTHING = re.compile(
    r"(?:```[a-z]*\s*)?(?:null|none|n/a|nothing|unchanged|no changes?|(?:没有|无|無)(?:变化|更新|變化)?)?[.。]?\s*(?:```)?",
    re.I,
)
"""Text of an update that states that nothing changed."""
_NOTHING_CHARS = 40
_FIRST_STEP, _STEP = 64, 4096


def take_block(state: ParserState, tag: Tag, inside: str | None) -> Looking[None]:
    """Read the block that `tag` opens, up to its closing tag or to the end of its JSON.

    `inside` is the name of the element around the block, or None if there is none. A block of ops (an update) is only recorded.
    `judge_updates` decides whether it counts when the reply is complete.
    """
    state.counts[tag.kind] = state.counts.get(tag.kind, 0) + 1
    state.pass_tag(tag)
    start = yield from state.find_json_start(tag.end)
    if start is None:
        follower = yield from state.find_following(tag.index + 1)
        limit = state.source.length if follower is None else follower.start
        found = _BRACKET.search(state.source.slice(tag.end, limit))
        start = tag.end + (found.start() if found else 0)
    scan = JsonScan()
    yield from _scan_json(state, scan, start)
    value, fits = decode_json(state.source.slice(start, start + scan.length)) if scan.done else (None, False)
    if fits:
        yield from _end_whole(state, tag, inside, value, start + scan.length)
    else:
        yield from _end_broken(state, tag, inside, start)


def ends_text(state: ParserState, start: int) -> Looking[bool]:
    """Return whether the JSON that begins at `start` is complete, and only blanks follow it up to a tag or the end."""
    scan = JsonScan()
    yield from _scan_json(state, scan, start)
    if not scan.done:
        return False
    at = yield from state.skip_blanks(start + scan.length)
    while state.tags.safe <= at and not state.ended:
        yield
    follower = next((tag for tag in state.tags.tags[state.index :] if tag.start >= at), None)
    return at == (state.source.length if follower is None else follower.start)


def judge_updates(state: ParserState) -> None:
    """Take the ops of the updates that count, and report all other updates. Call this when the reply is complete."""
    for update, misplaced in state.outline.judge(state.source, needs_content=CONTENT in state.legal):
        if _is_empty(update):
            _drop_empty(state, update)
        elif misplaced is None:
            _carry_out(state, update)
        else:
            _set_aside(state, update, misplaced)


def _scan_json(state: ParserState, scan: JsonScan, start: int) -> Looking[None]:
    """Feed a scan with the source from `start` on, until it is done or broken or the reply ends."""
    step = _FIRST_STEP
    while not (scan.done or scan.broken):
        at = start + scan.length
        text = state.source.slice(at, min(at + step, state.source.length))
        step = min(2 * step, _STEP)
        if text:
            scan.take(text)
        elif state.ended:
            return
        else:
            yield


def _end_whole(state: ParserState, tag: Tag, inside: str | None, value: Any, end: int) -> Looking[None]:
    name = _name_block(state, tag)
    follower = yield from state.find_following(state.index, end)
    if follower is not None and follower.kind == tag.kind and follower.closes:
        if _FENCE_END.fullmatch(state.source.slice(end, follower.start)) is None:
            state.add_correction("trailing", f"{name}: what followed its JSON was left out.", end, follower.start)
        end = follower.start
        state.add_piece(PieceKind.BLOCK, tag.kind, tag.end, end)
        state.pass_tag(follower)
    else:
        _note_missing_tag(state, tag, name, end)
        _skip_closing_rest(state, tag, end, state.source.length if follower is None else follower.start)
    _enter_block(
        state, FoundBlock(tag=tag, name=name, inside=inside, start=tag.end, end=end, behind=state.at, value=value)
    )


def _end_broken(state: ParserState, tag: Tag, inside: str | None, start: int) -> Looking[None]:
    name = _name_block(state, tag)
    follower = yield from state.find_following(tag.index + 1)
    limit = state.source.length if follower is None else follower.start
    body, cut = state.source.slice(start, limit), False
    if follower is not None and follower.kind == tag.kind and follower.closes:
        state.add_piece(PieceKind.BLOCK, tag.kind, tag.end, limit)
        state.pass_tag(follower)
    else:
        end = find_likely_end(body, 0, len(body))
        _note_missing_tag(state, tag, name, start + end)
        cut = follower is None and not body[end:].strip()
        _skip_closing_rest(state, tag, start + end, limit)
        body = body[:end]
    end = start + len(body)
    _enter_block(
        state,
        FoundBlock(tag=tag, name=name, inside=inside, start=start, end=end, behind=state.at, broken=body, cut=cut),
    )


def _note_missing_tag(state: ParserState, tag: Tag, name: str, end: int) -> None:
    if tag.spelling:
        state.add_correction("unclosed", f"{name} was not closed; it ends with its JSON.", tag.start, end)
    else:
        state.add_correction("untagged", f"{name} came without its tag; put it into <{tag.kind}>.", tag.start, end)


def _skip_closing_rest(state: ParserState, tag: Tag, end: int, limit: int) -> None:
    """Continue after an unclosed block and the remains of its closing tag."""
    closing = _BROKEN_CLOSE.match(state.source.slice(end, limit))
    behind = end + (closing.end() if closing else 0)
    state.add_piece(PieceKind.BLOCK, tag.kind, tag.end, end)
    state.add_piece(PieceKind.MARKUP, tag.kind, end, behind)
    state.at = behind


def _enter_block(state: ParserState, block: FoundBlock) -> None:
    """Take a block: a block of ops waits for the end of the reply; any other is read at once."""
    if state.rules[block.tag.kind].body is Body.OPS:
        state.outline.add_update(block)
    else:
        _keep_repaired(state, block, _repair_block(state, block))


def _is_empty(update: FoundBlock) -> bool:
    """Return whether an update has no op, or only words that state that nothing changed: leaving it out loses
    nothing.
    """
    if update.broken is None:
        return update.value in ([], {}, {"ops": []}, {"ops": None})
    text = update.broken.strip()
    return not update.cut and len(text) <= _NOTHING_CHARS and _NOTHING.fullmatch(text) is not None


def _drop_empty(state: ParserState, update: FoundBlock) -> None:
    if update.value not in ([], {"ops": []}):
        fault = "it has no list of ops" if update.broken is None else "its JSON cannot be read"
        sentence = f"{update.name} was dropped: it is empty, so {fault}."
        state.add_correction("dropped", sentence, update.start, update.end)


def _carry_out(state: ParserState, update: FoundBlock) -> None:
    """Take the ops of an update that counts, all of them or none."""
    if update.is_untagged and not state.carries_untagged:
        advice = f"Put an update into <{update.tag.kind}>"
        _set_aside(state, update, MisplacedUpdate(code=UNTAGGED, reason="it has no tag", advice=advice))
        return
    found = _repair_block(state, update)
    source = _find_source(state, update, broken=found[1]) if found is not None else ""
    if source:
        advice = "Write an update of your own, if anything changed"
        _set_aside(state, update, MisplacedUpdate(code=ECHOED, reason=f"{source} the same", advice=advice))
    else:
        _keep_repaired(state, update, found)


def _find_source(state: ParserState, update: FoundBlock, *, broken: bool) -> str:
    """Return the beginning of a sentence that names the text with an op of an update; empty if no text has one."""
    source = state.source.slice(update.start, update.end)
    if state.user_text.contains(source, broken=broken):
        return "the user's own message contains"
    # Without a tag it is harder to distinguish the model's own update from a repetition.
    is_shown = update.is_untagged and state.prompt_text.contains(source, broken=broken)
    return "it has no tag, and the prompt contains" if is_shown else ""


def _set_aside(state: ParserState, update: FoundBlock, why: MisplacedUpdate) -> None:
    sentence = f"{update.name} was not applied: {why.reason}. {why.advice}."
    state.add_correction(why.code, sentence, update.tag.start, update.behind)


def _repair_block(state: ParserState, block: FoundBlock) -> tuple[Any, bool] | None:
    """Return the value of a block and whether it was repaired, or None if it cannot be read, which is recorded as a
    correction.
    """
    if block.broken is None:
        return block.value, False
    value, fault, cost = repair_json(block.broken, cut=block.cut, repairable=REPAIR_CHARS - state.repaired_chars)
    state.repaired_chars += cost
    if fault and fault != "repaired":
        state.add_correction("dropped", f"{block.name} was dropped: {fault}.", block.start, block.end)
        _refuse_block(state, block, Refusal.UNREADABLE, fault)
        return None
    return value, bool(fault)


def _keep_repaired(state: ParserState, block: FoundBlock, found: tuple[Any, bool] | None) -> None:
    is_again = block.tag.kind in state.present
    state.present.add(block.tag.kind)
    if found is not None and _keep_value(state, block, found[0], is_again) and found[1]:
        state.add_correction(
            "repaired", f"{block.name}: its JSON was broken and has been repaired.", block.start, block.end
        )


def _keep_value(state: ParserState, block: FoundBlock, value: Any, is_again: bool) -> bool:
    """Take the value of a block: all of its ops, or none if one is malformed."""
    kind, name, start, end = block.tag.kind, block.name, block.start, block.end
    rule = state.rules[kind]
    if kind not in state.legal:
        state.add_correction("not_expected", f"{name} was left out: this reply may hold none.", start, end)
        _refuse_block(state, block, Refusal.NOT_EXPECTED, "this reply may hold none")
        return False
    if is_again and not rule.repeatable:
        state.add_correction("too_many", f"{name} was left out: this reply may hold one only.", start, end)
        _refuse_block(state, block, Refusal.NOT_EXPECTED, "this reply may hold one only")
        return False
    if rule.body is Body.JSON:
        clean = unescape_strings(value)
        state.blocks.append(Block(tag=kind, value=clean, start=start, end=end))
        state.add_event(EventKind.BLOCK, tag=kind, value=clean)
        return True
    ops, lost, fault = read_ops(value, state.next_op)
    if fault:
        state.add_correction("dropped", f"{name} was dropped: {fault}.", start, end)
        if lost:
            state.lost.extend(lost)
        else:
            _refuse_block(state, block, Refusal.UNREADABLE, fault)
        return False
    state.ops.extend(ops)
    state.add_event(EventKind.BLOCK, tag=kind, ops=ops)
    return True


def _refuse_block(state: ParserState, block: FoundBlock, code: Refusal, reason: str) -> None:
    """Record a block of ops that was lost entirely as one refused op."""
    if state.rules[block.tag.kind].body is Body.OPS:
        state.lost.append(build_refusal(state.next_op, block.name, code, reason))


def _name_block(state: ParserState, tag: Tag) -> str:
    return f"{tag.kind} {state.counts[tag.kind]}"
