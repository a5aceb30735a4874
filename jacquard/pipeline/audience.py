"""Finds the audience of a turn: the viewers who may know everything that the prompt of the turn shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from jacquard.pipeline.turn import Turn
from mnemosyne.chains.audience import (
    Audience,
    audience_field,
    audience_of_entry,
    audience_of_messages,
    join_audiences,
    read_audience,
)
from mnemosyne.schema.memory import LoreCategory, MemoryEntry
from mnemosyne.schema.session import Message

_PLACED = frozenset({LoreCategory.AXIOM.value, LoreCategory.DIRECTIVE.value})


def find_audience(turn: Turn, chosen: Iterable[MemoryEntry], found: Audience = ()) -> Audience:
    """Return the viewers who may know everything in the prompt of `turn`. Return an empty audience if everyone may.

    A viewer must be allowed to know each of these texts: the memories `chosen`, axioms and directives (lore that the
    prompt shows in any case), world info, the history and the summary. `found` is the audience of further texts in the
    prompt, such as evidence.
    """
    gone = turn.lore.gone
    placed = [entry for entry in turn.world.lore if entry.kind in _PLACED and entry.entry_id not in gone]
    summary = turn.window.summary
    return join_audiences(
        (
            *map(audience_of_entry, (*placed, *turn.lore.active, *chosen)),
            audience_of_messages(item.message for item in turn.shown),
            read_audience(summary.summary.extra) if summary is not None else (),
            found,
        )
    )


def guard_message(message: Message, audience: Audience) -> Message:
    """Return `message` with `audience` as the only viewers who may know it; unchanged if `audience` is empty."""
    return replace(message, extra={**message.extra, **audience_field(audience)}) if audience else message
