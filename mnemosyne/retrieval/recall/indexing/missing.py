"""Remembers which entries of an index have no vectors yet, so that the index need not be searched for them each time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mnemosyne.protocols import Index
from mnemosyne.retrieval.recall.adjacency import LinkedEntry

_MOST_WAITING = 1_000
_LACKING = 64


class MissingVectors:
    """The entries of `index` that the embedder `model` has not processed. If `model` is '', there is no embedder, and no
    entry counts as missing.

    Entries that were indexed only by words wait here, with their neighbours, for their vectors. If more than 1,000
    entries of a scope wait, they are forgotten here, and the index is searched instead.
    """

    def __init__(self, index: Index, model: str) -> None:
        self._index, self._model = index, model
        self._waiting: dict[str, dict[str, LinkedEntry]] = {}
        self._lacking: dict[str, set[str]] = {}
        self._complete = set[str]()

    def waiting(self, scope: str) -> dict[str, LinkedEntry]:
        """Return the waiting entries of a scope by id, with the neighbours that they had last."""
        return self._waiting.get(scope, {})

    def note(self, scope: str, linked: Sequence[LinkedEntry], embedded: Collection[str], *, by_model: bool) -> None:
        """Remember the entries `linked`, which were just indexed. Those that are deleted, or whose ids are in `embedded`, wait no
        longer for vectors; all others wait.

        If `by_model`, the embedder was used to index them; otherwise they were indexed only by words.
        """
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
        """Return whether entries of a scope, other than `besides`, lack vectors. The index is asked only once."""
        if not self._model:
            return False
        if scope not in self._lacking:
            self._lacking[scope] = set(await self._index.unembedded_ids(scope, self._model, _LACKING))
        return any(entry_id not in besides for entry_id in self._lacking[scope])

    def is_complete(self, scope: str) -> bool:
        """Return whether all entries of a scope were embedded, apart from those that wait here."""
        return scope in self._complete

    def complete(self, scope: str) -> None:
        """Record that all entries of a scope are embedded."""
        self._lacking.pop(scope, None)
        self._complete.add(scope)

    def doubt(self, scope: str) -> None:
        """Forget which entries of `scope` lack vectors in the index, so that the index is searched again."""
        self._lacking.pop(scope, None)
        self._complete.discard(scope)

    def forget(self, scope: str) -> None:
        """Forget everything about a scope, its waiting entries included."""
        self._waiting.pop(scope, None)
        self.doubt(scope)
