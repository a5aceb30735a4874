"""Finds the neighbours of each message: the conversation of each branch, followed as it is written. Calculation only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from mnemosyne.schema.memory import MemoryEntry
from mnemosyne.schema.record import SequencedEntry

REACH = 2
_SAME_TALK = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkedEntry:
    """An entry to index, with the messages around it; None for entries without neighbours."""

    item: SequencedEntry
    neighbours: tuple[MemoryEntry, ...] | None = None


class ConversationTail:
    """The last messages on every branch.

    Neighbours are on one branch, so that no branch adds words to another, and close in time: messages more than six
    hours apart are not neighbours.
    """

    def __init__(self) -> None:
        self._ends: dict[str | None, list[SequencedEntry]] = {}

    def follow(self, page: Sequence[SequencedEntry]) -> list[LinkedEntry]:
        """Add the entries written next; return them with their neighbours, preceded by older messages that gained a
        neighbour.

        Of several entries with one id the last counts; a removed message is no neighbour of what follows.
        """
        last = {item.entry.entry_id: item for item in page}
        removed = [item for item in last.values() if item.deleted]
        for branch_id, ends in self._ends.items():
            self._ends[branch_id] = [item for item in ends if item.entry.entry_id not in last]
        written: dict[str | None, list[SequencedEntry]] = {}
        for item in page:
            if item is last[item.entry.entry_id] and not item.deleted:
                written.setdefault(item.entry.branch_id, []).append(item)
        found = [LinkedEntry(item=item) for item in removed]
        for branch_id, items in written.items():
            before = self._ends.get(branch_id, [])
            line = [*before, *items]
            first = len(before)
            while first > max(len(before) - REACH, 0) and _is_one_sitting(line[first - 1], line[first]):
                first -= 1
            found.extend(
                LinkedEntry(item=line[place], neighbours=_neighbours_of(line, place))
                for place in range(first, len(line))
            )
            self._ends[branch_id] = line[-2 * REACH :]
        return found


def _neighbours_of(line: Sequence[SequencedEntry], place: int) -> tuple[MemoryEntry, ...]:
    """Return the messages up to `REACH` before and after an index, in order, without those beyond a gap in time."""
    first = last = place
    while first > max(place - REACH, 0) and _is_one_sitting(line[first - 1], line[first]):
        first -= 1
    while last < min(place + REACH, len(line) - 1) and _is_one_sitting(line[last], line[last + 1]):
        last += 1
    return tuple(item.entry for item in (*line[first:place], *line[place + 1 : last + 1]))


def _is_one_sitting(one: SequencedEntry, other: SequencedEntry) -> bool:
    at, later = one.entry.at, other.entry.at
    return at is None or later is None or abs(later - at) <= _SAME_TALK
