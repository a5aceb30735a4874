"""Decides after recall whether a lease holds, that is, whether a turn uses the selection of an earlier turn without a
model call.

A lease is the reuse of one selection of memories while the scene stays the same. The module `prefetch` decides before
recall whether the scene is the same; this module decides whether the selected memories still fit best. A lease returns
only entries that the recall of the present turn found, so that the secrecy of the entries is checked again. This module
is pure; it must not import a store, a model or a selector.
"""

from __future__ import annotations

from jacquard.core.protocols import Selection
from mnemosyne.schema.query import Candidate, EntryPlace, Recall
from mnemosyne.values import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Selection of an earlier turn that may be used again."""

    turn_id: str
    """Id of the turn for which the selection was made."""
    entry_ids: tuple[str, ...]
    """Ids of the chosen entries, in the order of choice."""
    age: int
    """Number of turns since the selection was made (0: the same turn is prepared again)."""
    turns: int
    """Number of later turns that may use the selection."""
    margin: float
    """Factor of 1 or more: the lease ends if another entry scores more than `margin` times the best chosen entry."""
    why: str
    """Sentence for people that states why the scene is the same."""
    model: str | None = None
    """Model that made the selection."""
    keywords: tuple[str, ...] = ()
    """Words added to the search if the input says too little by itself."""
    places: tuple[EntryPlace, ...] = ()
    """Places (scope, chain and id) of the chosen entries, in the order of `entry_ids`. The places distinguish entries
    that have the same id. If `places` is empty, entries are compared only by id.
    """

    def holds(self, candidate: Candidate) -> bool:
        """Return whether the selection contains `candidate`."""
        return candidate.place in self.places if self.places else candidate.entry_id in self.entry_ids

    def order(self, candidate: Candidate) -> int:
        """Return the place of `candidate` in the selection, counted from 0."""
        return self.places.index(candidate.place) if self.places else self.entry_ids.index(candidate.entry_id)


def renew_choice(lease: Lease, recall: Recall, limit: int) -> tuple[Selection | None, str]:
    """Return (selection, why): the entries of `lease` that are among the candidates of `recall`, at most `limit`.
    `selection` is None if the lease ends.

    `why` is a sentence that explains either result. The lease ends if none of its entries is recalled any more. The
    lease also ends if an entry outside of it scores more than `margin` times the best entry of the lease, because the
    input then asks for something else.
    """
    held = sorted(filter(lease.holds, recall.candidates), key=lease.order)[:limit]
    if not held:
        return None, f"Nothing that was chosen for turn {lease.turn_id} is recalled any more."
    best = max(each.score for each in held)
    other = next((each for each in recall.candidates if not lease.holds(each)), None)
    if other is not None and other.score > lease.margin * best:
        return None, (
            f"{other.name} fits this turn better than what was chosen for turn {lease.turn_id}: it scores "
            f"{other.score:.3f}, more than {lease.margin:g} times {best:.3f}."
        )
    since = "now" if lease.age == 0 else "a turn ago" if lease.age == 1 else f"{lease.age} turns ago"
    left = lease.turns - lease.age
    return Selection(entry_ids=tuple(each.name for each in held), model=lease.model), (
        f"Chosen for turn {lease.turn_id}, {since}, and kept while the scene holds ({left} more to come at most). {lease.why}"
    )
