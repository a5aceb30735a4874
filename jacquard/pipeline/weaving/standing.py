"""Keeps memories and lore of earlier prompts in their place, in layouts with the position `appended`. Pure.

A provider caches a prompt up to the first difference from the previous prompt. Therefore a layout with the position
`appended` shows a block directly before the user message of its turn. Later prompts show the block in the same place,
as long as this user message is in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from filament.boundaries import split_content
from jacquard.core.blocks import Block, BlockKind, Position, SkeinTemplate
from jacquard.pipeline.weaving.pieces import fill_block, join_messages
from mnemosyne.chains.audience import audience_of_entry
from mnemosyne.chains.uris import EntryAddress, parse_uri
from mnemosyne.core import codec
from mnemosyne.core.codec import replace_struct
from mnemosyne.core.errors import CodecError, UriError
from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import Role

_KINDS = frozenset({BlockKind.MEMORY, BlockKind.WORLD_INFO})
_CUT = "…"


def appends_blocks(layout: SkeinTemplate) -> bool:
    """Return whether `layout` has the position `appended`, in which blocks stay in later prompts."""
    return any(rule.position is Position.APPENDED for rule in layout.rules)


def read_shown_blocks(previous: TurnRecord) -> tuple[Block, ...]:
    """Return the blocks of memories and lore in the prompt of the turn `previous`. `anchor` of a block is the id of the
    message that follows the block.

    Return an empty tuple if the record cannot be read; the next prompt may then show the same memories again.
    """
    prompt = previous.prompt or {}
    said = next((each.message_id for each in previous.messages if each.role is Role.USER), "")
    with suppress(CodecError, LookupError, TypeError, AttributeError):
        plain = [each for each in prompt["tape"]["blocks"] if each.get("kind") in _KINDS and each.get("uri")]
        blocks = codec.from_plain([fill_block(each, prompt["messages"]) for each in plain], tuple[Block, ...])
        texts = "\0".join(message.content for message in join_messages(prompt["messages"]))
        return tuple(
            replace_struct(
                each,
                place=replace_struct(each.place, anchor=each.place.anchor or said),
                origin=replace_struct(each.origin, refs=()),
            )
            for each in blocks
            if each.content in texts
        )
    return ()


def addresses_of(blocks: Iterable[Block]) -> dict[str, list[str]]:
    """Return scope (a session or a world) -> ids of the entries that the blocks show."""
    found: dict[str, list[str]] = {}
    for block in blocks:
        with suppress(UriError):
            address = parse_uri(block.origin.uri)
            if isinstance(address, EntryAddress):
                found.setdefault(address.scope, []).append(address.entry_id)
    return found


def keep_standing_blocks(
    blocks: Iterable[Block],
    entries: Mapping[str, MemoryEntry],
    messages: Iterable[str],
    may_recall: Callable[[MemoryEntry], bool],
) -> tuple[Block, ...]:
    """Return the blocks that the next prompt shows in the same place. For each of them these conditions are true:

    - The message that follows the block is among `messages`, the ids of the messages in the history.
    - `entries` (address -> entry) still has the entry of the block, and the entry still contains the text of the block.
    - Everybody may know the entry, and `may_recall` returns true for it.
    """
    shown = frozenset(messages)
    return tuple(
        block
        for block in blocks
        if block.place.anchor in shown
        and (entry := entries.get(block.origin.uri)) is not None
        and not (entry.when or audience_of_entry(entry))
        and may_recall(entry)
        and _shows(block, entry)
    )


def _shows(block: Block, entry: MemoryEntry) -> bool:
    """Return whether the entry still contains all of the block's text, which may be cut or have a name there."""
    texts = (each.text.strip().removesuffix(_CUT).strip() for each in split_content(block.content) if not each.is_tag)
    return all(text in entry.text or text in (entry.title, *entry.keys) for text in texts)
