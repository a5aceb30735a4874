"""Gives each block of a prompt a unique id. Pure.

Templates, worlds, messages and the host choose ids independently, so two blocks may have the same id. Of two such
blocks, the block whose kind comes first in `BlockKind` keeps the id. The kind of the other block becomes a prefix of
its id, as in `directive:status`. Unique ids stay unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count

from jacquard.core.block_kinds import INPUT_ID
from jacquard.core.blocks import FRAME, Block, BlockKind
from mnemosyne.core.codec import replace_struct

_NOBODY: frozenset[str] = frozenset()
_RANK = {kind: place for place, kind in enumerate(BlockKind)}


def rename_duplicates(blocks: Sequence[Block], template_ids: Collection[str] = _NOBODY) -> tuple[Block, ...]:
    """Return the blocks in their order, each with a unique id.

    The ids `frame` and `user_input` are reserved for the frame and the user's input. The ids in `template_ids` are reserved for
    template blocks, even if these are not rendered. A second call with the result changes nothing.
    """
    wanted = {block.block_id for block in blocks} | {FRAME, INPUT_ID, *template_ids}
    taken: set[str] = set()
    names: dict[int, str] = {}
    for place, block in sorted(enumerate(blocks), key=lambda pair: _RANK[pair[1].kind]):
        if block.block_id in taken or _is_reserved(block, template_ids):
            names[place] = next(name for name in _number_names(block) if name not in wanted and name not in taken)
            taken.add(names[place])
        else:
            taken.add(block.block_id)
    if not names:
        return tuple(blocks)
    return tuple(
        replace_struct(block, block_id=names[place]) if place in names else block for place, block in enumerate(blocks)
    )


def _is_reserved(block: Block, template_ids: Collection[str]) -> bool:
    if block.block_id == FRAME or (block.block_id == INPUT_ID and block.kind is not BlockKind.INPUT):
        return True
    return block.kind is not BlockKind.TEMPLATE and block.block_id in template_ids


def _number_names(block: Block) -> Iterator[str]:
    name = f"{block.kind.value}:{block.block_id}"
    yield name
    for number in count(2):
        yield f"{name}#{number}"
