"""Gives the entries of a chain their neighbours while pages of the chain are read.

Neighbours are the messages around a message, or the passages around a passage of a document.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from mnemosyne.protocols import EntrySource, Index
from mnemosyne.retrieval.recall.adjacency import ConversationTail, LinkedEntry, has_neighbours
from mnemosyne.schema.memory import Chain
from mnemosyne.schema.record import SequencedEntry

_RESUMED = 16
_PAGE = 128
_MOST_TAILS = 512
"""Number of chains whose last entries are cached. The last entries of any other chain are read again when it is continued."""


class TailCache:
    """Caches the last entries of each chain of an index, so that the next entry finds its neighbours."""

    def __init__(self, source: EntrySource, index: Index) -> None:
        self._source, self._index = source, index
        self._tails: dict[tuple[str, Chain], tuple[int, ConversationTail]] = {}

    async def take(self, scope: str, chain: Chain) -> ConversationTail:
        """Take the last entries of a chain out of the cache and return them. `keep` puts them back.

        If the cached entries are not the newest of the index, they are read again from the source.
        """
        # It belongs to the state of the index; an index that was read again may hold fewer entries.
        known, tail = self._tails.pop((scope, chain), (-1, ConversationTail()))
        if known == await self._index.watermark(scope, chain):
            return tail
        return await self._resume(scope, chain)

    def keep(self, scope: str, chain: Chain, mark: int, tail: ConversationTail) -> None:
        """Remember `tail`, the last entries of a chain whose watermark is `mark`."""
        self._tails[scope, chain] = (mark, tail)
        if len(self._tails) > _MOST_TAILS:
            del self._tails[next(iter(self._tails))]

    def forget(self, scope: str) -> None:
        """Forget the last entries of a scope."""
        self._tails = {key: known for key, known in self._tails.items() if key[0] != scope}

    async def _resume(self, scope: str, chain: Chain) -> ConversationTail:
        """Return the last messages or passages in the index, so that the next one finds its neighbours after a restart."""
        ids = await self._index.newest_ids(scope, chain, _RESUMED)
        tail = ConversationTail()
        entries = [entry for entry in await self._source.entries(scope, ids) if has_neighbours(entry)]
        before = await self._index.watermark(scope, chain)
        # Only the order of the old messages matters; they are written again below the watermark.
        first = before - len(entries) + 1
        tail.follow([SequencedEntry(sequence=first + place, entry=entry) for place, entry in enumerate(entries)])
        return tail


async def read_linked(
    source: EntrySource,
    scope: str,
    chain: Chain,
    is_wanted: Callable[[LinkedEntry], bool],
    *,
    is_done: Callable[[], bool] = lambda: False,
) -> AsyncIterator[list[LinkedEntry]]:
    """Yield the entries of a chain for which `is_wanted` is True, with their neighbours, a page at a time.

    The reading ends at the end of the chain. It also ends if `is_done` returns True after a page, and no wanted entry waits for
    its neighbours.
    """
    tail, after, waiting = ConversationTail(), 0, dict[str, LinkedEntry]()
    while waiting or not is_done():
        page = await source.entries_after(scope, chain, after, _PAGE)
        waiting |= {each.item.entry.entry_id: each for each in link_page(chain, page, tail) if is_wanted(each)}
        # The next page may hold neighbours of the last messages; until then their words are not complete.
        unsettled = tail.open_ids() if page else frozenset[str]()
        yield [waiting.pop(entry_id) for entry_id in [*waiting] if entry_id not in unsettled]
        if not page:
            return
        after = page[-1].sequence


def link_page(chain: Chain, page: Sequence[SequencedEntry], tail: ConversationTail) -> Sequence[LinkedEntry]:
    """Return the entries of `page` with their neighbours. Older entries that gained a neighbour come first.

    `tail` has the last entries before the page; the page is added to it.
    """
    if chain is Chain.HISTORY:
        return tail.follow(page)
    rows = [item for item in page if has_neighbours(item.entry)]
    others = [LinkedEntry(item=item) for item in page if not has_neighbours(item.entry)]
    return [*tail.follow(rows), *others] if rows else others
