"""Holds entries without a store: a list in memory from which recall can read, for corpora, tools and tests.

This module must not import an engine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from mnemosyne.schema.memory import Chain, MemoryEntry
from mnemosyne.schema.record import SequencedEntry


class EntryList:
    """An `EntrySource` in memory. Entries are numbered from 1 in the order of `append` and `remove`. If several
    entries of a scope have the same id, the last one counts.
    """

    def __init__(self, entries: Iterable[MemoryEntry] = ()) -> None:
        self._written: dict[tuple[str, Chain], list[SequencedEntry]] = {}
        self._by_id: dict[tuple[str, str], MemoryEntry] = {}
        self._sequence = 0
        self.append(entries)

    def append(self, entries: Iterable[MemoryEntry]) -> None:
        """Add entries after the existing ones."""
        for entry in entries:
            self._write(entry, deleted=False)
            self._by_id[entry.scope, entry.entry_id] = entry

    def remove(self, entries: Iterable[MemoryEntry]) -> None:
        """Record that `entries` are deleted."""
        for entry in entries:
            self._write(entry, deleted=True)
            self._by_id.pop((entry.scope, entry.entry_id), None)

    async def entries(self, scope: str, entry_ids: Sequence[str]) -> tuple[MemoryEntry, ...]:
        """Return entries in the order of `entry_ids`; unknown ids are left out."""
        found = [self._by_id.get((scope, entry_id)) for entry_id in entry_ids]
        return tuple([entry for entry in found if entry is not None])

    async def entries_after(self, scope: str, chain: Chain, sequence: int, limit: int) -> tuple[SequencedEntry, ...]:
        """Return at most `limit` entries with a sequence above `sequence`, in the order of writing."""
        written = self._written.get((scope, chain), [])
        first = bisect_right(written, sequence, key=lambda item: item.sequence)
        return tuple(written[first : first + limit])

    async def chains_written_after(self, after: Mapping[tuple[str, Chain], int]) -> frozenset[tuple[str, Chain]]:
        """Return the pairs (scope, chain) of `after` in which an entry was written after the given sequence."""
        return frozenset(
            place
            for place, sequence in after.items()
            if (written := self._written.get(place)) and written[-1].sequence > sequence
        )

    def _write(self, entry: MemoryEntry, *, deleted: bool) -> None:
        self._sequence += 1
        item = SequencedEntry(sequence=self._sequence, entry=entry, deleted=deleted)
        self._written.setdefault((entry.scope, entry.chain), []).append(item)
