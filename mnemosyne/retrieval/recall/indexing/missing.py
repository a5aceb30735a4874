"""Entries of an index without vectors, as far as an indexer knows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mnemosyne.protocols import Index
from mnemosyne.retrieval.recall.adjacency import LinkedEntry

_MOST_WAITING = 1_000
_LACKING = 64


class MissingVectors:
    """Entries of `index` that the embedder `model` has not processed (empty: there is no embedder, and none are
    missing).

    Entries indexed only by words wait, with their neighbours, for their vectors. If more than 1,000 of a scope wait,
    the index is asked instead.
    """

    def __init__(self, index: Index, model: str) -> None:
        self._index, self._model = index, model
        self._waiting: dict[str, dict[str, LinkedEntry]] = {}
        self._lacking: dict[str, set[str]] = {}
        self._complete = set[str]()

    def waiting(self, scope: str) -> dict[str, LinkedEntry]:
        """Return the entries of a scope that wait, by id, as they were linked last."""
        return self._waiting.get(scope, {})

    def note(self, scope: str, linked: Sequence[LinkedEntry], embedded: Collection[str], *, by_model: bool) -> None:
        """Remember indexed entries, `by_model` or only by words; `embedded` ones no longer wait."""
        if not self._model:
            return
        waiting, lacking = self._waiting.setdefault(scope, {}), self._lacking.get(scope)
        for each in linked:
            entry_id = each.item.entry.entry_id
            if each.item.deleted or entry_id in embedded:
                waiting.pop(entry_id, None)
            else:
                waiting[entry_id] = each
            if lacking is not None:
                (lacking.discard if by_model or each.item.deleted else lacking.add)(entry_id)
        if not lacking:
            # There may be more of them than were asked for.
            self._lacking.pop(scope, None)
        if len(waiting) > _MOST_WAITING:
            waiting.clear()
            self._complete.discard(scope)

    async def has_any(self, scope: str, *, besides: Collection[str]) -> bool:
        """Return whether entries of a scope, other than `besides`, lack vectors; the index is asked once."""
        if not self._model:
            return False
        if scope not in self._lacking:
            self._lacking[scope] = set(await self._index.unembedded_ids(scope, self._model, _LACKING))
        return any(entry_id not in besides for entry_id in self._lacking[scope])

    def is_complete(self, scope: str) -> bool:
        """Return whether all entries of a scope were embedded, those that wait aside."""
        return scope in self._complete

    def complete(self, scope: str) -> None:
        """Take all entries of a scope as embedded."""
        self._lacking.pop(scope, None)
        self._complete.add(scope)

    def doubt(self, scope: str) -> None:
        """Let the index be asked again which entries lack vectors."""
        self._lacking.pop(scope, None)
        self._complete.discard(scope)

    def forget(self, scope: str) -> None:
        """Forget a scope, also its waiting entries."""
        self._waiting.pop(scope, None)
        self.doubt(scope)
