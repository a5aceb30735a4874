"""The lease on a choice: as long as the scene holds, the memories selected for one turn serve the next turns without a model call.

`prefetch` decides before recall whether the scene holds; this module decides after recall whether the choice is still the best.
A lease gives only what this turn's recall has found, so every gate of recall holds for a lease too. Pure; it must not import
a store, a model or a selector.
"""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.core.protocols import Selection
from mnemosyne.schema.query import Candidate, EntryPlace, Recall


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A choice that may serve again: whose (`turn_id`, `model`), what (`entry_ids` in the order of choice), how old.

    `places` distinguish the entries from others with their ids, in the same order; without them ids alone do.
    `age` counts the turns since (0: the same turn, asked anew), `turns` how many it may serve; `margin` (1 or more) is how
    many times the score of its best entry another may have before it ends; `why` says in a sentence that the scene holds.
    `keywords` are to be searched for beside an input that says too little to bring the scene to mind.
    """

    turn_id: str
    entry_ids: tuple[str, ...]
    age: int
    turns: int
    margin: float
    why: str
    model: str | None = None
    keywords: tuple[str, ...] = ()
    places: tuple[EntryPlace, ...] = ()

    def holds(self, candidate: Candidate) -> bool:
        """Say whether a candidate was chosen then."""
        return candidate.place in self.places if self.places else candidate.entry_id in self.entry_ids

    def order(self, candidate: Candidate) -> int:
        """Return the place in the choice of a candidate that was chosen then (0 = first)."""
        return self.places.index(candidate.place) if self.places else self.entry_ids.index(candidate.entry_id)


def renew_choice(lease: Lease, recall: Recall, limit: int) -> tuple[Selection | None, str]:
    """Return the choice made again out of `recall`, at most `limit` entries, or None; and why, or why not.

    It ends where no leased entry is recalled any more, and where an entry that is not leased has more than `margin` times
    the score of the best that is: then the input asks for something else.
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
