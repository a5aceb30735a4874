"""Converts the messages and blocks of a prompt to the form in which they are recorded, and back. In this form every
text occurs only once.

The recorded content of a message is a list of pieces: the texts of its blocks, and our own text between them. A
recorded block whose text is in a message has no `content`. Such a block has `piece` instead: the index of the message,
and the index of the piece in this message. These indexes stay right if an erasure changes the texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jacquard.core.blocks import FRAME
from jacquard.core.receipt import BlockSpan
from jacquard.pipeline.weaving.assemble import PromptMessage

PIECE, CONTENT = "piece", "content"
BLOCK_FIELDS = (
    "block_id",
    "block_type",
    "place.slot",
    "origin.source",
    "content",
    "place.role",
    "priority",
    "place.placement",
    "place.layer",
    "place.section",
    "group",
    "rank",
    "tokens",
    "place.volatile",
    "origin.title",
    "origin.entities",
    "origin.category",
    "origin.refs",
    "origin.trust",
    "origin.at",
    "origin.expires_at",
    "origin.sensitivity",
    "shortened",
    "kind",
    "origin.uri",
    "attached_tokens",
    "place.as_written",
    "place.sequence",
    "place.anchor",
)
"""Fields of a recorded block, in their order; each is recorded under the last part of its name."""
_PATHS = {path.rpartition(".")[2]: path for path in BLOCK_FIELDS}


def split_messages(
    messages: Sequence[PromptMessage], spans: Sequence[BlockSpan]
) -> tuple[list[dict[str, Any]], dict[str, tuple[int, int]]]:
    """Return (stored, places): the messages in recorded form, and block id -> (index of the message, index of the piece).

    `spans` must cover every character of every message, in order.
    """
    stored: list[dict[str, Any]] = [{"role": message.role, CONTENT: []} for message in messages]
    places: dict[str, tuple[int, int]] = {}
    for span in spans:
        if span.start < span.end:
            pieces = stored[span.message][CONTENT]
            if span.block_id != FRAME:
                places[span.block_id] = span.message, len(pieces)
            pieces.append(messages[span.message][CONTENT][span.start : span.end])
    return stored, places


def join_messages(stored: Any) -> tuple[PromptMessage, ...]:
    """Return the messages whose recorded form is `stored`.

    Raises TypeError, LookupError or CodecError if `stored` has another form.
    """
    return tuple(PromptMessage.from_plain({**each, CONTENT: "".join(each[CONTENT])}) for each in stored)


def point_at_pieces(
    blocks: Sequence[dict[str, Any]],
    stored: Sequence[Mapping[str, Any]],
    places: Mapping[str, tuple[int, int]],
) -> None:
    """Replace the content of each recorded block by its piece in `stored`, if the piece has the same text.

    `places` maps the id of a block to (index of the message, index of the piece). The mappings in `blocks` are changed.
    """
    for block in blocks:
        place = places.get(block["block_id"])
        if place is not None and stored[place[0]][CONTENT][place[1]] == block[CONTENT]:
            del block[CONTENT]
            block[PIECE] = place


def fill_block(value: Any, stored: Sequence[Mapping[str, Any]]) -> Any:
    """Return the recorded block `value` as the plain form of a `Block`, with its content from the messages `stored`.

    A value that is not a recorded block is returned unchanged. Raises TypeError or LookupError if the block names a
    wrong piece.
    """
    if not isinstance(value, Mapping) or "block_id" not in value:
        return value
    block: dict[str, Any] = {"place": {}, "origin": {}}
    for name, each in value.items():
        if name == PIECE:
            message, piece = each
            block[CONTENT] = stored[message][CONTENT][piece]
        else:
            part, _, field = _PATHS.get(str(name), str(name)).rpartition(".")
            (block[part] if part else block)[field] = each
    return block
