"""Resolves inclusion groups of world info: if several activated entries have the same group, only one of them is shown.

World info is a book of entries whose texts are put into the prompt. Two faults of SillyTavern are reproduced, because they
decide which entries are shown. If an entry is removed a second time, the last entry is removed instead. A group counts as shown
only if its name is the whole `group` of a shown entry. This module does no I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mnemosyne.world.activation.order import LastingEffects
from mnemosyne.world.activation.values import Roll, WorldInfoEntry

Score = Callable[[WorldInfoEntry], int]


def filter_groups(
    new: list[WorldInfoEntry],
    shown: Iterable[WorldInfoEntry],
    effects: LastingEffects,
    *,
    score: Score,
    scores_all: bool,
    roll: Roll,
) -> list[WorldInfoEntry]:
    """Return the entries of `new` that are to be shown, in order.

    `shown` are the entries that were activated before, and `effects` are the timed effects of the chat. `score` returns the
    number of found keys of an entry; if a group is decided by scores, the entries with the best score remain. `scores_all`
    says whether a group is decided by scores if its entries do not say it (`use_group_scoring` is None). `roll` gives the
    random numbers.
    """
    groups = _group(new)
    left = list(new)
    taken = {entry.group for entry in shown}
    sticky = {name for name, members in groups.items() if any(effects.is_sticky(entry) for entry in members)}
    for members in groups.values():
        _drop_by_effects(left, members, effects)
    for name, members in groups.items():
        if name not in sticky and (scores_all or any(entry.use_group_scoring for entry in members)):
            _drop_low_scores(left, members, score, scores_all=scores_all)
    for name, members in groups.items():
        if name in sticky:
            continue
        if name in taken:
            _drop_all_but(left, members, None)
        elif len(members) > 1:
            _drop_all_but(left, members, _choose(name, members, roll))
    return left


def _group(entries: Iterable[WorldInfoEntry]) -> dict[str, list[WorldInfoEntry]]:
    """Return the members of each group. Names that are whole numbers come first, as in an object of JavaScript."""
    groups: dict[str, list[WorldInfoEntry]] = {}
    for entry in entries:
        for name in entry.group.split(","):
            if name := name.lstrip() if entry.group else "":
                groups.setdefault(name, []).append(entry)
    numbers = sorted((name for name in groups if _is_index(name)), key=int)
    return {name: groups[name] for name in (*numbers, *(name for name in groups if not _is_index(name)))}


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10 and (name == "0" or not name.startswith("0"))


def _remove(left: list[WorldInfoEntry], entry: WorldInfoEntry) -> None:
    if entry in left:
        left.remove(entry)
    elif left:
        left.pop()


def _drop_by_effects(left: list[WorldInfoEntry], members: list[WorldInfoEntry], effects: LastingEffects) -> None:
    staying = [entry for entry in members if effects.is_sticky(entry)]
    if staying:
        for entry in members:
            if entry not in staying:
                _remove(left, entry)
    for entry in members:
        if effects.is_cooling(entry):
            _remove(left, entry)
    for entry in members:
        if effects.is_delayed(entry):
            _remove(left, entry)


def _drop_low_scores(
    left: list[WorldInfoEntry], members: list[WorldInfoEntry], score: Score, *, scores_all: bool
) -> None:
    scores = [score(entry) for entry in members]
    best = max(scores)
    for entry, own in list(zip(members, scores, strict=True)):
        is_scored = scores_all if entry.use_group_scoring is None else entry.use_group_scoring
        if is_scored and own < best:
            _remove(left, entry)
            members.remove(entry)


def _choose(name: str, members: list[WorldInfoEntry], roll: Roll) -> WorldInfoEntry | None:
    """Return the winner of a group: the member with priority (`group_override`), or else one by chance and weight."""
    first = [entry for entry in members if entry.group_override]
    if first:
        return max(first, key=lambda entry: entry.order)
    mark = roll("group", name) * sum(entry.group_weight for entry in members)
    weight = 0.0
    for entry in members:
        weight += entry.group_weight
        if mark <= weight:
            return entry
    return members[-1]


def _drop_all_but(left: list[WorldInfoEntry], members: list[WorldInfoEntry], winner: WorldInfoEntry | None) -> None:
    for entry in members:
        if entry is not winner:
            _remove(left, entry)
