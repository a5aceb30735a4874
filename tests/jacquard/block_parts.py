"""Blocks of a prompt for tests, made of the fields of all their values."""

from __future__ import annotations

from typing import Any

from jacquard.core.block_kinds import BlockKind
from jacquard.core.blocks import Block, BlockOrigin, BlockPlace
from mnemosyne import BlockType

_KINDS = {"history": BlockKind.MESSAGE, "user_input": BlockKind.INPUT}


def make_block(block_id: str, slot: str, content: str, **more: Any) -> Block:
    """Return a block; `more` are fields of the block, of its place and of its origin."""
    place, origin = (
        {name: more.pop(name) for name in kind.__struct_fields__ if name in more} for kind in (BlockPlace, BlockOrigin)
    )
    return Block(
        block_id=block_id,
        content=content,
        place=BlockPlace(slot=slot, **place),
        origin=BlockOrigin(**{"source": "test", **origin}),
        **{"kind": _KINDS.get(slot, BlockKind.MEMORY), "block_type": BlockType.MEMORY, **more},
    )
