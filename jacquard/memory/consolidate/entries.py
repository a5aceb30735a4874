"""Makes memories of turns from what a model told of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.names import NameDictionary
from jacquard.memory.consolidate.prompts import TurnMemory
from jacquard.memory.consolidate.spans import CHAPTER_END, TURN_SUMMARY
from mnemosyne.chains.audience import audience_field, audience_of_messages, told_messages
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import TurnRecord


def make_entries(
    batch: Sequence[TurnRecord], memories: Sequence[TurnMemory], lexicon: NameDictionary
) -> list[MemoryEntry]:
    """Return the summaries and events of turns, each for the viewers who may know its turn."""
    turns = {turn.depth: turn for turn in batch}
    made: list[MemoryEntry] = []
    for memory in memories:
        turn = turns[memory.depth]
        scope = session_scope(turn.session_id)
        guarded = audience_field(audience_of_messages(told_messages(turn.messages)))
        made.append(
            MemoryEntry(
                # Ids are derived from the turn, so that a repeated consolidation writes no entry twice.
                entry_id=f"{turn.turn_id}.summary",
                scope=scope,
                chain=Chain.NARRATIVE,
                kind=TURN_SUMMARY,
                text=memory.summary,
                at=turn.created_at,
                turn_id=turn.turn_id,
                entities=_find_known_names(memory.summary, lexicon),
                tags=(CHAPTER_END,) if memory.is_chapter_end else (),
                trust=Trust.MODEL,
                metadata=guarded or EMPTY,
            )
        )
        for number, event in enumerate(memory.events, start=1):
            names = (*event.participants, *((event.location,) if event.location else ()))
            made.append(
                MemoryEntry(
                    entry_id=f"{turn.turn_id}.event.{number}",
                    scope=scope,
                    chain=Chain.EVENT,
                    kind=event.type,
                    text=event.text,
                    at=turn.created_at,
                    turn_id=turn.turn_id,
                    entities=tuple(
                        dict.fromkeys((*map(lexicon.find_owner, names), *_find_known_names(event.text, lexicon)))
                    ),
                    trust=Trust.MODEL,
                    metadata={
                        "participants": list(event.participants),
                        "location": event.location or None,
                        **guarded,
                    },
                )
            )
    return made


def _find_known_names(text: str, lexicon: NameDictionary) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for found in lexicon.find(text) for one in found.entity_ids))
