"""Turns the fixed instructions of the host (setting `instructions`) into prompt blocks. Pure.

So a host can add instructions to every prompt without changing a world or a template. This module must not import a
template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from filament import escape_text
from filament.markup import open_tag
from jacquard.core.block_kinds import HOST_SOURCE, slot_of
from jacquard.core.blocks import Block, BlockKind, BlockOrigin, BlockPlace, Placement, Position
from mnemosyne.schema.evidence import BlockType, Priority

_PLACE = BlockPlace(slot=slot_of(BlockKind.INSTRUCTION), placement=Placement(position=Position.SYSTEM, order=1))


def instruction_blocks(instructions: Mapping[str, str], count: Callable[[str], int]) -> tuple[Block, ...]:
    """Return a block for each text of `instructions` (name -> text) that is not blank, in order. These blocks are never
    dropped.

    A prompt shows these blocks directly after the instruction of the world. `count` returns the tokens of a text.
    """
    blocks = []
    for place, (name, text) in enumerate(instructions.items(), start=1):
        if text.strip():
            start = open_tag("instruction", (("id", name),))
            content = f"{start}\n{escape_text(text.strip())}\n</instruction>"
            blocks.append(
                Block(
                    block_id=f"{HOST_SOURCE}:{name}",
                    kind=BlockKind.INSTRUCTION,
                    block_type=BlockType.INSTRUCTION,
                    content=content,
                    place=_PLACE,
                    origin=BlockOrigin(source=HOST_SOURCE, title=name),
                    priority=Priority.MUST,
                    rank=place,
                    tokens=count(content),
                )
            )
    return tuple(blocks)
