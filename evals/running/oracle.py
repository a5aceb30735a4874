"""The oracle: a selector that knows the labels. It bounds what any selector could make of the same candidates."""

from __future__ import annotations

from collections.abc import Mapping

from jacquard import Selection, SelectionContext, SelectionRequest


class OracleSelector:
    """Selects the relevant ones among the candidates, highest grade first, then in recall order; nothing else.

    What recall did not bring, it cannot choose.
    """

    name = "oracle"

    def __init__(self, relevant: Mapping[str, int]) -> None:
        self._relevant = relevant

    async def select(self, request: SelectionRequest, context: SelectionContext | None = None) -> Selection:
        """Return the best possible choice; empty if no candidate is relevant."""
        found = [each.entry_id for each in request.candidates if self._relevant.get(each.entry_id, 0) > 0]
        found.sort(key=lambda entry_id: -self._relevant[entry_id])
        return Selection(entry_ids=tuple(found[: request.limit]))
