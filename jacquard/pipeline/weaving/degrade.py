"""Carries out the decisions of a pruner to degrade blocks: shortens texts, and withholds sensitive texts.

A pruner only decides which blocks are degraded. This module shortens the texts of these blocks with a shortener. If the
shortener fails, the text is cut after its first sentences. The tags of a block are kept, and the new text between them
is escaped. This module must not import a pruner, a model or a store.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import anyio

from filament import show_as_written
from filament.boundaries import ContentPiece, split_content
from jacquard.core.blocks import MESSAGE_OVERHEAD_TOKENS, Block, PlacedBlock, shorten_block
from jacquard.core.degradations import Degradation, DegradationCode
from jacquard.core.errors import SummarizerError
from jacquard.core.protocols import Shortener
from jacquard.core.receipt import BlockDecision
from jacquard.pipeline.truncation import truncate_sentences
from jacquard.pipeline.weaving.authored_cuts import mark_shortened
from jacquard.pipeline.weaving.packing import MASKED
from mnemosyne.core.off_loop import calculate, size_of
from mnemosyne.values import dataclass

WITHHELD = "[withheld]"
_ATTRIBUTE = re.compile(r'\s(?!id=|type=|shortened=)[\w.-]+="[^"]*"')

Order = tuple[PlacedBlock, BlockDecision]


@dataclass(frozen=True, kw_only=True, slots=True)
class DegradedBlocks:
    """Degraded blocks by id, as the prompt shows them, and notes on what failed or came late."""

    blocks: dict[str, Block]
    degradations: tuple[Degradation, ...] = ()


async def apply_degradations(
    orders: Sequence[Order],
    *,
    count: Callable[[str], int],
    shortener: Shortener | None,
    within_seconds: float | None = None,
) -> DegradedBlocks:
    """Return the blocks of `orders`, pairs of (block, decision), in the form in which the prompt shows them. A block
    that cannot be shortened is left out.

    All blocks are processed at the same time. The shortener has `within_seconds` for all of them together (None: no
    limit). Texts that are not shortened in this time, or if `shortener` is None, are cut after their first sentences.
    `count` returns the tokens of a text.
    """
    blocks: dict[str, Block] = {}
    failed: dict[str, list[Degradation]] = {placed.block.block_id: [] for placed, _ in orders}

    async def degrade_block(placed: PlacedBlock, decision: BlockDecision, by: Shortener | None) -> None:
        failures = failed[placed.block.block_id]
        if decision.code == MASKED:
            blocks[placed.block.block_id] = _mask_block(placed)
        elif (short := await _shorten_block(placed, decision.tokens, count, by, failures)) is not None:
            blocks[placed.block.block_id] = short

    with anyio.move_on_after(within_seconds) as limit:
        async with anyio.create_task_group() as group:
            for placed, decision in orders:
                group.start_soon(degrade_block, placed, decision, shortener)
    failures = [failure for each in failed.values() for failure in each]
    if limit.cancelled_caught:
        # Cutting needs no model, so it may still be done after the time limit.
        late = [(placed, decision) for placed, decision in orders if placed.block.block_id not in blocks]
        detail = f"{len(late)} of {len(orders)} texts were not shortened in time; their first sentences stand."
        failures.append(Degradation(code=DegradationCode.SHORTEN_LATE.value, detail=detail))
        for placed, decision in late:
            failed[placed.block.block_id] = []
            await degrade_block(placed, decision, None)
            failures += failed[placed.block.block_id]
    # The tasks end in any order, and the prompt must not depend on it.
    order = [placed.block.block_id for placed, _ in orders]
    ordered = {name: blocks[name] for name in order if name in blocks}
    return DegradedBlocks(blocks=ordered, degradations=tuple(dict.fromkeys(failures)))


async def _shorten_block(
    placed: PlacedBlock,
    limit_tokens: int,
    count: Callable[[str], int],
    shortener: Shortener | None,
    failures: list[Degradation],
) -> Block | None:
    """Return the block with its longest text shortened, so that the whole block has at most `limit_tokens`."""
    size = size_of(placed.block.content)
    pieces, place, room = await calculate(_find_room, placed, limit_tokens, count, size=size)
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
    content = _join(pieces, placed.block)
    around = placed.block.attached_tokens + _overhead(placed, count)
    return shorten_block(placed.block, content, count(content) + around)


def _split_block(block: Block) -> list[ContentPiece]:
    """Return the texts and tags of a block, marked as shortened; a message as written is one text."""
    if block.place.as_written:
        return [ContentPiece(source=block.content, text=block.content)]
    return list(split_content(mark_shortened(block.content)))


def _join(pieces: Sequence[ContentPiece], block: Block) -> str:
    if block.place.as_written:
        return "".join(show_as_written(piece.text) for piece in pieces)
    return "".join(piece.source for piece in pieces)


def _find_room(
    placed: PlacedBlock, limit_tokens: int, count: Callable[[str], int]
) -> tuple[list[ContentPiece], int, int]:
    """Return the pieces of a block, the place of its longest text, and the tokens that this text may take."""
    pieces = _split_block(placed.block)
    place = _find_longest_text(pieces)
    rest = _join((*pieces[:place], *pieces[place + 1 :]), placed.block)
    around = placed.tokens - count(placed.block.content) + count(rest)
    return pieces, place, limit_tokens - around - 1


def _mask_block(placed: PlacedBlock) -> Block:
    """Return the block with all of its text withheld, and without attributes that describe the text.

    A sensitivity label applies to the whole text, so no part is safe because another was masked; its length is a hint too.
    """
    pieces = _split_block(placed.block)
    longest = _find_longest_text(pieces)
    shown = [ContentPiece(source=_ATTRIBUTE.sub("", each.source) if each.is_tag else "", text="") for each in pieces]
    shown[longest] = ContentPiece(source=WITHHELD, text=WITHHELD)
    return shorten_block(placed.block, _join(shown, placed.block), placed.tokens, placed.block.block_type.value)


def _find_longest_text(pieces: Sequence[ContentPiece]) -> int:
    texts = [place for place, piece in enumerate(pieces) if not piece.is_tag]
    return max(texts, key=lambda place: len(pieces[place].source))


def _overhead(placed: PlacedBlock, count: Callable[[str], int]) -> int:
    return max(
        0, min(MESSAGE_OVERHEAD_TOKENS, placed.tokens - count(placed.block.content) - placed.block.attached_tokens)
    )
