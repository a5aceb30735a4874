"""Makes memory entries from a model's answers about turns. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jacquard.core.names import NameDictionary
from jacquard.memory.consolidate.prompts import TurnMemory
from jacquard.memory.consolidate.spans import CHAPTER_END, TURN_SUMMARY
from jacquard.memory.threads import build_keeping, build_thread, name_entities
from mnemosyne.chains.audience import audience_field, audience_of_messages, told_messages
from mnemosyne.schema.memory import EMPTY, Chain, MemoryEntry, Trust, session_scope
from mnemosyne.schema.record import TurnRecord


def make_entries(
    batch: Sequence[TurnRecord],
    memories: Sequence[TurnMemory],
    lexicon: NameDictionary,
    threads: Sequence[MemoryEntry] = (),
) -> list[MemoryEntry]:
    """Return the summaries and events of turns, each for the viewers who may know its turn.

    An event that repeats one of the open `threads` is left out.
    """
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
        made += _make_threads(turn, memory, lexicon, threads)
    return made


def _make_threads(
    turn: TurnRecord, memory: TurnMemory, lexicon: NameDictionary, threads: Sequence[MemoryEntry]
) -> list[MemoryEntry]:
    """Return the threads that a turn opens and ends."""
    known = {kind for each in threads if each.turn_id == turn.turn_id for kind in each.tags}
    found = [
        build_thread(turn, f"{turn.turn_id}.open.{number}", each.kind, each.text, at=turn.created_at)
        for number, each in enumerate(memory.threads, start=1)
        if each.kind not in known
    ]
    kept = [threads[number - 1] for number in dict.fromkeys(memory.kept) if number <= len(threads)]
    ended = [
        build_keeping(turn, f"{turn.turn_id}.ends.{number}", each, memory.summary, turn.created_at)
        for number, each in enumerate(kept, start=1)
        if (each.depth or 0) < turn.depth
    ]
    return [*name_entities(found, lexicon), *ended]


def _find_known_names(text: str, lexicon: NameDictionary) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for found in lexicon.find(text) for one in found.entity_ids))
