"""Fixed instructions of the host (`custom_instructions`), in addition to the world's. Pure.

A host can thus add an instruction without changing a world or a template. This module must not import a template.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from filament import escape_text, open_tag
from jacquard.core.block_kinds import HOST_SOURCE, slot_of
from jacquard.core.blocks import BlockKind, Placement, Position, PromptBlock
from mnemosyne.schema.evidence import BlockType, Priority


def instruction_blocks(instructions: Mapping[str, str], count: Callable[[str], int]) -> tuple[PromptBlock, ...]:
    """Return a MUST block for each instruction that is not blank, in their order, directly after the world's own."""
    blocks = []
    for place, (name, text) in enumerate(instructions.items(), start=1):
        if text.strip():
            start = open_tag("instruction", (("id", name),))
            content = f"{start}\n{escape_text(text.strip())}\n</instruction>"
            blocks.append(
                PromptBlock(
                    block_id=f"{HOST_SOURCE}:{name}",
                    block_type=BlockType.INSTRUCTION,
                    slot=slot_of(BlockKind.INSTRUCTION),
                    source=HOST_SOURCE,
                    content=content,
                    priority=Priority.MUST,
                    placement=Placement(position=Position.SYSTEM, order=1),
                    rank=place,
                    tokens=count(content),
                    title=name,
                    kind=BlockKind.INSTRUCTION,
                )
            )
    return tuple(blocks)
