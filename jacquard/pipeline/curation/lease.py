"""The lease on a selection: while the scene stays the same, the memories selected for one turn serve later turns
without a model call.

`prefetch` decides before recall whether the scene is the same; this module decides after recall whether the selection
is still the best. A lease only gives entries that this turn's recall found, so every gate of recall applies to it too.
Pure; it must not import a store, a model or a selector.
"""

from __future__ import annotations

from dataclasses import dataclass

from jacquard.core.protocols import Selection
from mnemosyne.schema.query import Candidate, EntryPlace, Recall


@dataclass(frozen=True, kw_only=True, slots=True)
class Lease:
    """A selection that may serve again: its turn and model (`turn_id`, `model`), its entries (`entry_ids` in the order
    of choice) and its age.

    `places` distinguish the entries from others with the same ids, in the same order; without them ids alone do. `age`
    counts the turns since then (0: the same turn, repeated), `turns` how many it may serve. It ends when another entry
    has more than `margin` (1 or more) times the score of its best entry. `why` says in a sentence why the scene is the
    same. `keywords` are added to the search where the input alone says too little.
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
        """Return whether a candidate is part of the leased selection."""
        return candidate.place in self.places if self.places else candidate.entry_id in self.entry_ids

    def order(self, candidate: Candidate) -> int:
        """Return the place of a candidate in the leased selection (0 = first)."""
        return self.places.index(candidate.place) if self.places else self.entry_ids.index(candidate.entry_id)


def renew_choice(lease: Lease, recall: Recall, limit: int) -> tuple[Selection | None, str]:
    """Return the leased selection with those of its entries that `recall` found, at most `limit`, or None; and a
    sentence that says why.

    The lease ends where no leased entry is recalled any more, and where another entry has more than `margin` times the
    score of the best leased one: then the input asks for something else.
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
