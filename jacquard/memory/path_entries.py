"""Reads the memory of one branch: the entries of its turns, and the turns that have no summary yet.

The head of a branch is its newest committed turn. The path of a head is the head and all turns before it. This module
must not import a concrete store.
"""

from __future__ import annotations

from collections.abc import Collection

from mnemosyne.chains.audience import told_messages
from mnemosyne.protocols import Store
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind

PAGE = 500
"""Number of entries or turns that are read at once."""


async def load_path_entries(store: Store, head: SessionHead, chain: Chain) -> list[MemoryEntry]:
    """Return the entries of `chain` (a kind of memory) whose turn is on the path of `head`, in the order in which they
    were written. Deleted entries are left out.
    """
    upto = {span.branch_id: span.upto_depth for span in head.lineage}
    found: list[MemoryEntry] = []
    sequence = 0
    while page := await store.entries_after(session_scope(head.session_id), chain, sequence, PAGE):
        found += [
            each.entry
            for each in page
            if not each.deleted
            and each.entry.depth is not None
            and each.entry.depth <= upto.get(each.entry.branch_id or "", -1)
        ]
        sequence = page[-1].sequence
    return found


async def find_unsummarized_turns(
    store: Store, head: SessionHead, known: Collection[str | None], upto: int
) -> list[TurnRecord]:
    """Return the narrative turns (answered by a model) on the branch of `head` that have no summary yet, oldest first.

    `known` contains the ids of turns that have a summary. Turns deeper than `upto` and turns without text are left out.
    """
    bare: list[TurnRecord] = []
    before: int | None = upto + 1
    while before is not None and before > 1:
        page = await store.turns(head.session_id, limit=PAGE, branch_id=head.branch_id, before_depth=before)
        bare += [
            turn
            for turn in reversed(page)
            if turn.turn_id not in known
            and turn.kind is TurnKind.NARRATIVE
            and any(message.content.strip() for message in told_messages(turn.messages))
        ]
        before = page[0].depth if page else None
    return bare[::-1]
