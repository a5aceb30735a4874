"""Lists memories for an overview of a story, without a search, and selects the most valuable ones from all stretches of time.

The query's function `rate` gives each entry a value. A long chain is read in pages at even distances, so that reading it takes
a limited time. This module must not import an engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import median

from mnemosyne.protocols import EntrySource
from mnemosyne.schema.memory import Chain, MemoryEntry, session_scope, world_scope
from mnemosyne.schema.query import EntryPlace, RatedEntry, RetrievalQuery, place_of

TOLD = (Chain.NARRATIVE, Chain.EVENT, Chain.HISTORY)
"""Chains of a session that an overview lists."""
_PAGE = 200
_MOST_PAGES = 20
_STRETCHES = 16
_LEAST_SHARE = 0.5


async def list_entries(
    source: EntrySource, query: RetrievalQuery, marks: Mapping[tuple[str, Chain], int]
) -> tuple[MemoryEntry, ...]:
    """Return the entries for an overview: the entries of the session, the lore of its world, and the query's own
    entries (`extra`).

    `marks` has the highest sequence that was written to each (scope, chain).
    """
    places = [(world_scope(query.world_id), Chain.LORE)] if query.world_id else []
    if query.session_id is not None:
        places += [(session_scope(query.session_id), chain) for chain in TOLD]
    found: dict[EntryPlace, MemoryEntry] = {place_of(each): each for each in query.extra}
    for scope, chain in places:
        hidden = query.excluded_ids(scope)
        for entry in await _read_chain(source, scope, chain, marks.get((scope, chain), 0)):
            if entry.entry_id not in hidden and _is_on_path(entry, query) and query.admits(entry):
                found.setdefault(place_of(entry), entry)
    return tuple(found.values())


async def _read_chain(source: EntrySource, scope: str, chain: Chain, mark: int) -> list[MemoryEntry]:
    found: dict[str, MemoryEntry] = {}
    step, after = -(-mark // _MOST_PAGES), 0
    for number in range(1, _MOST_PAGES + 1):
        page = await source.entries_after(scope, chain, after, _PAGE)
        if not page:
            break
        for item in page:
            found.pop(item.entry.entry_id, None)
            if not item.deleted:
                found[item.entry.entry_id] = item.entry
        after = max(page[-1].sequence, number * step)
    return [*found.values()]


def _is_on_path(entry: MemoryEntry, query: RetrievalQuery) -> bool:
    """Return whether an entry belongs to the branch of the query; one without a branch belongs to all."""
    return entry.branch_id is None or any(
        span.branch_id == entry.branch_id and (entry.depth or 0) <= span.upto_depth for span in query.lineage
    )


def spread_over_time(rated: Sequence[RatedEntry], limit: int) -> list[RatedEntry]:
    """Return at most `limit` entries, the most valuable first, taken evenly from all stretches of time.

    Each stretch gives its best entry, then its second best, and so on. An entry without a depth is a stretch of its
    own. An entry with the value 0 is left out. So is an entry with a depth whose value is less than half the median.
    """
    worths = [each.worth for each in rated if each.worth > 0.0 and each.entry.depth is not None]
    least = _LEAST_SHARE * median(worths) if worths else 0.0
    worthy = [each for each in rated if each.worth > 0.0 and (each.entry.depth is None or each.worth >= least)]
    worthy.sort(key=lambda each: (-each.worth, each.entry.entry_id))
    depths = [each.entry.depth for each in worthy if each.entry.depth is not None]
    first, last = min(depths, default=0), max(depths, default=0)
    stretches: dict[int, list[RatedEntry]] = {}
    for number, each in enumerate(worthy, start=1):
        depth = each.entry.depth
        place = -number if depth is None else (depth - first) * _STRETCHES // (last - first + 1)
        stretches.setdefault(place, []).append(each)
    rounds = zip_longest(*(stretches[place] for place in sorted(stretches)))
    kept = [each for dealt in rounds for each in dealt if each is not None][:limit]
    return sorted(kept, key=lambda each: (-each.worth, each.entry.entry_id))
