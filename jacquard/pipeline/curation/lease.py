"""Leases on selections: while the scene stays the same, the memories of one turn serve later turns without a model call.

`prefetch` decides before recall whether the scene is the same; this module decides after recall whether the selection is still
the best. A lease only returns entries that this turn's recall found, so every gate of recall applies to them too. Pure; it must
not import a store, a model or a selector.
"""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.core.protocols import Selection
from mnemosyne.schema.query import Candidate, EntryPlace, Recall


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """Selection that may be used again."""

    turn_id: str
    """Turn for which it was made."""
    entry_ids: tuple[str, ...]
    """Chosen entries, in the order of choice."""
    age: int
    """Turns since then (0: the same turn, repeated)."""
    turns: int
    """Number of turns that it may serve."""
    margin: float
    """The lease ends if another entry has more than this many times (1 or more) the score of its best entry."""
    why: str
    """A sentence that states why the scene is the same."""
    model: str | None = None
    """Model that chose."""
    keywords: tuple[str, ...] = ()
    """Words added to the search if the input says too little by itself."""
    places: tuple[EntryPlace, ...] = ()
    """Places that tell the entries from others with the same ids, in the same order; if empty, only ids count."""

    def holds(self, candidate: Candidate) -> bool:
        """Return whether a candidate is part of the leased selection."""
        return candidate.place in self.places if self.places else candidate.entry_id in self.entry_ids

    def order(self, candidate: Candidate) -> int:
        """Return the place of a candidate in the leased selection (0 = first)."""
        return self.places.index(candidate.place) if self.places else self.entry_ids.index(candidate.entry_id)


def renew_choice(lease: Lease, recall: Recall, limit: int) -> tuple[Selection | None, str]:
    """Return the leased selection with its recalled entries, at most `limit`, or None; and a sentence that states why.

    The lease ends if no leased entry is recalled any more, or if another entry has more than `margin` times the score of the
    best leased one, because then the input asks for something else.
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
