"""Blocks that keep their first position: memories and lore of earlier prompts, in layouts that append (`appended`). Pure.

A provider caches a prompt up to the first difference from the previous one. So such a layout shows a block once, before the
user message of its turn, and leaves it there as long as that message is in the history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from filament import split_content
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
    """Return whether blocks of a layout keep their first position."""
    return any(rule.position is Position.APPENDED for rule in layout.rules)


def read_shown_blocks(previous: TurnRecord) -> tuple[Block, ...]:
    """Return the memories and lore in a turn's prompt, each with the message that follows it.

    None for a record that cannot be read, because then they are shown again.
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
    """Return the ids of the entries in the blocks, by scope."""
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
    """Return the blocks that stay.

    Their entries (by address) have the same text and may be known by everybody, and their message is among `messages`, the ids
    of the history.
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
