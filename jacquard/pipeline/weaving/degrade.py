"""Carries out a pruner's decisions to degrade: shortens texts and withholds sensitive ones.

Pruners are pure and only decide; this module carries their decisions out with a shortener. It must not import a pruner, a model
or a store. The tags of a block stay unchanged: only the text between them changes, and the new text is escaped. If the
shortener fails, a text is cut after its first sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import anyio

from filament import ContentPiece, show_as_written, split_content
from jacquard.core.blocks import MESSAGE_OVERHEAD_TOKENS, PromptBlock
from jacquard.core.degradations import Degradation, DegradationCode
from jacquard.core.errors import SummarizerError
from jacquard.core.protocols import Shortener
from jacquard.core.receipt import BlockDecision
from jacquard.pipeline.truncation import truncate_sentences
from jacquard.pipeline.weaving.authored_cuts import mark_shortened
from jacquard.pipeline.weaving.packing import MASKED
from mnemosyne.core.off_loop import calculate, size_of

WITHHELD = "[withheld]"
_ATTRIBUTE = re.compile(r'\s(?!id=|type=|shortened=)[\w.-]+="[^"]*"')

Order = tuple[PromptBlock, BlockDecision]


@dataclass(frozen=True, kw_only=True, slots=True)
class DegradedBlocks:
    """Degraded blocks by id, in the form that the prompt has, and the degradations on the way."""

    blocks: dict[str, PromptBlock]
    degradations: tuple[Degradation, ...] = ()


async def apply_degradations(
    orders: Sequence[Order],
    *,
    count: Callable[[str], int],
    shortener: Shortener | None,
    within_seconds: float | None = None,
) -> DegradedBlocks:
    """Return the degraded blocks in the form that the prompt has; a block that could not be shortened is left out.

    All are processed at the same time. The shortener has `within_seconds` for all of them; texts not shortened by then are cut
    after their first sentences.
    """
    blocks: dict[str, PromptBlock] = {}
    failed: dict[str, list[Degradation]] = {block.block_id: [] for block, _ in orders}

    async def degrade_block(block: PromptBlock, decision: BlockDecision, by: Shortener | None) -> None:
        failures = failed[block.block_id]
        if decision.code == MASKED:
            blocks[block.block_id] = _mask_block(block)
        elif (short := await _shorten_block(block, decision.tokens, count, by, failures)) is not None:
            blocks[block.block_id] = short

    with anyio.move_on_after(within_seconds) as limit:
        async with anyio.create_task_group() as group:
            for block, decision in orders:
                group.start_soon(degrade_block, block, decision, shortener)
    failures = [failure for each in failed.values() for failure in each]
    if limit.cancelled_caught:
        # Cutting needs no model, so it may still be done after the time limit.
        late = [(block, decision) for block, decision in orders if block.block_id not in blocks]
        detail = f"{len(late)} of {len(orders)} texts were not shortened in time; their first sentences stand."
        failures.append(Degradation(code=DegradationCode.SHORTEN_LATE.value, detail=detail))
        for block, decision in late:
            failed[block.block_id] = []
            await degrade_block(block, decision, None)
            failures += failed[block.block_id]
    # The tasks end in any order, and the prompt must not depend on it.
    order = [block.block_id for block, _ in orders]
    ordered = {name: blocks[name] for name in order if name in blocks}
    return DegradedBlocks(blocks=ordered, degradations=tuple(dict.fromkeys(failures)))


async def _shorten_block(
    block: PromptBlock,
    limit_tokens: int,
    count: Callable[[str], int],
    shortener: Shortener | None,
    failures: list[Degradation],
) -> PromptBlock | None:
    """Return the block with its longest text shortened, so that the whole block has at most `limit_tokens`."""
    size = size_of(block.content)
    pieces, place, room = await calculate(_find_room, block, limit_tokens, count, size=size)
    piece, text = pieces[place], pieces[place].text.strip()

    def count_shown(short: str) -> int:
        return count(piece.with_text(short).source)

    try:
        if shortener is None:
            short = await calculate(truncate_sentences, text, room, count, size=size)
        else:
            short = await shortener.shorten(text, room)
    except SummarizerError as error:
        failures.append(Degradation(code=DegradationCode.SHORTEN_FAILED.value, detail=str(error)))
        short = ""
    if not short.strip() or count_shown(short) > room:
        try:
            short = await calculate(truncate_sentences, text, room, count_shown, size=size)
        except SummarizerError:
            return None
    pieces[place] = piece.with_text(short.strip())
    content = _join(pieces, block)
    around = block.attached_tokens + _overhead(block, count)
    return replace(block, content=content, tokens=count(content) + around, shortened=True)


def _split_block(block: PromptBlock) -> list[ContentPiece]:
    """Return the texts and tags of a block, marked as shortened; a message as written is one text."""
    if block.as_written:
        return [ContentPiece(source=block.content, text=block.content)]
    return list(split_content(mark_shortened(block.content)))


def _join(pieces: Sequence[ContentPiece], block: PromptBlock) -> str:
    if block.as_written:
        return "".join(show_as_written(piece.text) for piece in pieces)
    return "".join(piece.source for piece in pieces)


def _find_room(
    block: PromptBlock, limit_tokens: int, count: Callable[[str], int]
) -> tuple[list[ContentPiece], int, int]:
    """Return the pieces of a block, the place of its longest text, and the tokens that this text may take."""
    pieces = _split_block(block)
    place = _find_longest_text(pieces)
    around = block.tokens - count(block.content) + count(_join((*pieces[:place], *pieces[place + 1 :]), block))
    return pieces, place, limit_tokens - around - 1


def _mask_block(block: PromptBlock) -> PromptBlock:
    """Return the block with all of its text withheld, and without attributes that describe the text.

    A sensitivity label applies to the whole text, so no part is safe because another was masked; its length is a hint too.
    """
    pieces = _split_block(block)
    longest = _find_longest_text(pieces)
    shown = [ContentPiece(source=_ATTRIBUTE.sub("", each.source) if each.is_tag else "", text="") for each in pieces]
    shown[longest] = ContentPiece(source=WITHHELD, text=WITHHELD)
    return replace(block, content=_join(shown, block), title=block.block_type.value, shortened=True)


def _find_longest_text(pieces: Sequence[ContentPiece]) -> int:
    texts = [place for place, piece in enumerate(pieces) if not piece.is_tag]
    return max(texts, key=lambda place: len(pieces[place].source))


def _overhead(block: PromptBlock, count: Callable[[str], int]) -> int:
    return max(0, min(MESSAGE_OVERHEAD_TOKENS, block.tokens - count(block.content) - block.attached_tokens))
