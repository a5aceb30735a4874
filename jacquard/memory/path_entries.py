"""Reads the memories of one branch: its entries, and its turns without a summary. It must not import a concrete store."""

from __future__ import annotations

from collections.abc import Collection

from mnemosyne.chains.audience import told_messages
from mnemosyne.protocols import Store
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope
from mnemosyne.schema.record import TurnRecord
from mnemosyne.schema.session import SessionHead, TurnKind

PAGE = 500


async def load_path_entries(store: Store, head: SessionHead, chain: Chain) -> list[MemoryEntry]:
    """Return the entries of a chain on the path to a head, in the order in which they were written."""
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
    """Return the narrated turns up to a depth that are not among the `known` ones, oldest first."""
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
