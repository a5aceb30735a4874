"""Filters of a store held against the same filters in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from mnemosyne import BlockFilter, ContextBlock, Evidence, EvidenceFilter, EvidenceType, Priority, Store
from mnemosyne.testing.stores.samples import AT, SESSION


async def check_filters(store: Store, evidences: Iterable[Evidence], blocks: Iterable[ContextBlock]) -> None:
    """Compare some listings with what the filter says of each item."""
    known = list(evidences)
    for where in (
        EvidenceFilter(types=frozenset({EvidenceType.RAG_DOC})),
        EvidenceFilter(since=AT, limit=2),
        EvidenceFilter(until=AT),
        EvidenceFilter(without_memories=True, limit=3, newest=True),
    ):
        # An item without a time has that of its first writing, which is after `AT`.
        found = [each for each in known if where.admits(each, datetime.now(UTC))]
        expected = found[-3:] if where.newest else found[: where.limit]
        assert list(await store.list_evidences(SESSION, where)) == expected
    wanted = BlockFilter(min_priority=Priority.HIGH)
    kept = tuple(each for each in blocks if wanted.admits(each))
    assert await store.list_context_blocks(SESSION, wanted) == kept
