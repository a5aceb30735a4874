"""Aligns the messages that a client shows with the messages on a stored path (a branch of a session), and derives the
changes that the client made.

Texts that occur once in both lists are anchors. Between anchors, the cheapest alignment is computed. Leaving out stored
messages is cheapest at the beginning, then at the end (the user went back), then in the middle. Edits, and messages that
are not stored, cost more.

The client may leave out a stored message without having deleted it: to make room, clients leave out the oldest messages
that are not pinned. Therefore a message counts as deleted only if it is in the newer half of the path and the client
now shows its two neighbours next to each other. If messages at the end of the path are not shown, the user went back.
In case of doubt a message is kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from itertools import islice, pairwise
from types import MappingProxyType

from jacquard.service.proxy.message_forms import MessageForm
from mnemosyne.schema.session import Role
from mnemosyne.values import dataclass

OVERLAP = 60
"""Number of messages at the end of a run (equal messages in a row) that are aligned together with the messages after
the run.
"""
MOST_CELLS = 16_000
"""Maximum size of a gap between anchors that is aligned exactly. The size of a gap is the number of client's messages
in the gap, times the number of stored messages in it.
"""

LEADING_COST, TRAILING_COST, MIDDLE_COST = 0.2, 0.4, 0.8
"""Cost of leaving out stored messages at the beginning, at the end, and in the middle."""
_NEXT_TRAILING, _NEXT_MIDDLE = 0.05, 0.02
UNKNOWN_COST, LAST_UNKNOWN_COST = 1.0, 0.8
"""Cost of a message of the client that is not stored. The second cost is for messages after the last pair."""
REPLACED_COST, LEAST_LIKENESS = 1.2, 0.25
"""REPLACED_COST is the cost of a pair whose texts have nothing in common. A pair costs less if its likeness is at least
LEAST_LIKENESS.
"""
_CHEAP = 0.1

MOST_DELETED, MOST_GAPS = 4, 2
"""Maximum number of messages that a client can delete at one place, and maximum number of such places in one call."""
LEAST_BEFORE = 4
"""Minimum number of stored messages before a deleted one. Fewer may be a beginning that the client pins."""
MOST_REWRITTEN = 400
"""Maximum number of messages after a change, because the turn of each of these messages is rewritten. A change further
back is not carried out.
"""

_SENTENCES = {
    "again": "The newest message is answered once more; its former reply is kept on a branch of its own.",
    "back": "The session went back: the client no longer shows {n} messages at the end of the path. They are kept on their branch.",
    "branch": "Another branch explains the call better and is the active one again.",
    "deleted": "{n} messages that the client no longer shows between others were deleted.",
    "edited": "{n} messages have another text; the state stays.",
    "left_out": "{n} messages that the client leaves out are remembered: it may leave them out to make room.",
    "added": "{n} messages that were not stored were taken in.",
    "instruction": "{n} lines that the client adds to each call are not stored as words of the user.",
    "unknown": "None of the messages that the client shows is known; they were taken in after the newest one.",
    "kept": "{n} changes far back were not taken over, because too many messages follow them.",
}


class Relation(StrEnum):
    """Relation of a client's message to a stored one.

    SAME: both are equal. MERGED: the client's message has additional lines. CUT: the client's message has only a part of
    the lines. EDITED: the texts differ. MOVED: both are equal, but the client shows the message at another place.
    """

    SAME = "same"
    MERGED = "merged"
    CUT = "cut"
    EDITED = "edited"
    MOVED = "moved"


@dataclass(frozen=True, slots=True)
class Pair:
    """Pair of a client's message and a stored one. `shown` and `stored` are their places in the two lists.

    If a client merged several messages into one, several pairs have the same `shown`.
    """

    shown: int
    stored: int
    relation: Relation


@dataclass(frozen=True, slots=True)
class Alignment:
    """Result of an alignment: pairs of a client's message and a stored one, and the cost of the alignment. `shown` is
    the number of the client's messages.

    The first `run` messages of the client equal the stored messages from the place `start` on. These messages are not
    in `pairs`.
    """

    pairs: tuple[Pair, ...]
    """Pairs in the order of both lists."""
    moved: tuple[Pair, ...]
    """Pairs of equal messages at different places. These are not in `pairs`."""
    cost: float
    shown: int
    run: int = 0
    start: int = 0

    def at_places(self, places: Sequence[int]) -> Alignment:
        """Return the same alignment for a longer list of stored messages. `places[n]` is the place of the stored
        message `n` in the longer list.
        """
        pairs, moved = (
            tuple(replace(each, stored=places[each.stored]) for each in group) for group in (self.pairs, self.moved)
        )
        return replace(self, pairs=pairs, moved=moved)

    @property
    def is_exact(self) -> bool:
        """True if every message of the client equals a stored one, except for additional lines."""
        return self.is_known and all(pair.relation is not Relation.CUT for pair in self.pairs)

    @property
    def is_known(self) -> bool:
        """True if every message of the client is a stored message or a part of one."""
        return self.known == self.shown

    @property
    def known(self) -> int:
        """Number of the client's messages that are stored messages or parts of them."""
        known = {pair.shown for pair in (*self.pairs, *self.moved) if pair.relation is not Relation.EDITED}
        return len(known) + self.run

    @property
    def has_edits(self) -> bool:
        """True if a message of the client is paired with a stored one that has another text."""
        return any(pair.relation is Relation.EDITED for pair in self.pairs)

    @property
    def first(self) -> int:
        """Place of the first stored message that the client shows; -1 if the client shows none."""
        return self.start if self.run else self.pairs[0].stored if self.pairs else -1

    @property
    def end_of_run(self) -> int:
        """Place after the last stored message of the run; 0 if there is no run."""
        return self.start + self.run

    def gaps(self, end: int) -> Iterator[tuple[int, int]]:
        """Yield (start, end) of each range of stored messages before the place `end` that the client leaves out."""
        if self.start:
            yield 0, self.start
        yield from gaps_of([pair.stored for pair in self.pairs], end, self.end_of_run)


def align_behind_run(shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> Alignment:
    """Return the alignment of the client's messages `shown` with the messages `stored`. The function is faster than
    `align` for a long conversation.

    If the client's messages begin with a long run of stored ones, only the end of the run and the messages after it are
    aligned.
    """
    start = next((at for at, form in enumerate(stored) if shown and shown[0].is_same(form)), len(stored))
    both = enumerate(zip(shown, islice(stored, start, None), strict=False))
    alike = min(len(shown), len(stored) - start)
    run = next((at for at, (mine, theirs) in both if mine is not theirs and not mine.is_same(theirs)), alike) - OVERLAP
    if run <= 0:
        return align(shown, stored)
    end = start + run
    found = align(shown[run:], stored[end:])
    pairs, moved = (
        tuple(Pair(each.shown + run, each.stored + end, each.relation) for each in group)
        for group in (found.pairs, found.moved)
    )
    return Alignment(pairs, moved, found.cost + LEADING_COST * bool(start), len(shown), run, start)


def align(shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> Alignment:
    """Return the cheapest alignment of the client's messages `shown` with the messages `stored` that contains all
    anchors.
    """
    pairs: list[Pair] = []
    ends = [(-1, -1), *_find_anchors(shown, stored), (len(shown), len(stored))]
    for (left, above), (right, below) in pairwise(ends):
        if right - left > 1 and below - above > 1:
            pairs += _Gap(shown, stored, range(left + 1, right), range(above + 1, below)).solve()
        if right < len(shown) and below < len(stored):
            pairs.append(Pair(right, below, Relation.SAME))
    _settle(pairs, shown, stored)
    return Alignment(tuple(pairs), _find_moved(shown, stored, pairs), _cost_of(shown, stored, pairs), len(shown))


def _find_anchors(shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> list[tuple[int, int]]:
    """Return places of texts that occur once in both lists, in the order of both: the longest such chain."""
    mine, theirs = (Counter((form.role, form.bare) for form in forms) for forms in (shown, stored))
    places = {(form.role, form.bare): at for at, form in enumerate(stored)}
    found: dict[int, int] = {}
    before: dict[int, int | None] = {}
    chain: list[int] = []
    """Last place of the best chain of each length."""
    for at, form in enumerate(shown):
        key = form.role, form.bare
        if mine[key] != 1 or theirs[key] != 1 or not form.is_same(stored[places[key]]):
            continue
        place = places[key]
        spot = bisect_left(chain, place)
        found[place], before[place] = at, chain[spot - 1] if spot else None
        chain[spot : spot + 1] = [place]
    last = chain[-1] if chain else None
    anchors = []
    while last is not None:
        anchors.append((found[last], last))
        last = before[last]
    return anchors[::-1]


def relate(mine: MessageForm, theirs: MessageForm) -> tuple[float, Relation]:
    """Return (cost, relation) of a pair: the client's message `mine` and the stored message `theirs`."""
    if mine.role is not theirs.role:
        return 9.0, Relation.EDITED
    if mine.says_same(theirs):
        return (0.0, Relation.SAME) if mine.has_parts_of(theirs) else (0.5, Relation.EDITED)
    if mine.contains(theirs):
        return 2 * _CHEAP, Relation.MERGED
    if theirs.contains(mine):
        return 3 * _CHEAP, Relation.CUT
    likeness = mine.likeness(theirs)
    return REPLACED_COST * (1.0 - likeness * likeness if likeness >= LEAST_LIKENESS else 1.0), Relation.EDITED


class _Gap:
    """Messages between two anchors: places of the client's and of the stored ones that are not aligned yet."""

    def __init__(self, shown: Sequence[MessageForm], stored: Sequence[MessageForm], mine: range, theirs: range) -> None:
        self._shown, self._stored = shown, stored
        self._mine, self._theirs = list(mine), list(theirs)
        self._leads, self._trails = (
            mine.start == theirs.start == 0,
            mine.stop == len(shown) and theirs.stop == len(stored),
        )

    def solve(self) -> Iterator[Pair]:
        """Yield the pairs of the gap, in order."""
        mine, theirs = self._mine, self._theirs
        if len(mine) * len(theirs) <= MOST_CELLS:
            yield from self._solve_exactly(mine, theirs)
            return
        last = self._count_alike(mine[::-1], theirs[::-1])
        mine_left, theirs_left = mine[: len(mine) - last], theirs[: len(theirs) - last]
        first = self._count_alike(mine_left, theirs_left)
        yield from (Pair(a, b, Relation.SAME) for a, b in zip(mine[:first], theirs[:first], strict=True))
        mine_left, theirs_left = mine_left[first:], theirs_left[first:]
        reach = MOST_CELLS // max(len(mine_left), 1) // 2
        if len(theirs_left) <= 2 * reach:
            yield from self._solve_exactly(mine_left, theirs_left)
        elif reach > len(mine_left):
            yield from self._solve_exactly(mine_left, [*theirs_left[:reach], *theirs_left[-reach:]])
        else:
            yield from self._pair_by_place(mine_left, theirs_left)
        if last:
            yield from (Pair(a, b, Relation.SAME) for a, b in zip(mine[-last:], theirs[-last:], strict=True))

    def _count_alike(self, mine: Sequence[int], theirs: Sequence[int]) -> int:
        pairs = zip(mine, theirs, strict=False)
        alike = (at for at, (a, b) in enumerate(pairs) if not self._shown[a].is_same(self._stored[b]))
        return next(alike, min(len(mine), len(theirs)))

    def _pair_by_place(self, mine: Sequence[int], theirs: Sequence[int]) -> Iterator[Pair]:
        """Yield the pairs at the same distance from the end, if their texts are nearly the same."""
        count = min(len(mine), len(theirs))
        for a, b in zip(mine[-count:], theirs[-count:], strict=True):
            cost, relation = relate(self._shown[a], self._stored[b])
            if cost < REPLACED_COST:
                yield Pair(a, b, relation)

    def _solve_exactly(self, mine: Sequence[int], theirs: Sequence[int]) -> list[Pair]:
        """Return the pairs of the cheapest alignment, from the costs of all beginnings, row by row."""
        if not mine or not theirs:
            return []
        opening, step = (LEADING_COST, 0.0) if self._leads else (MIDDLE_COST, _NEXT_MIDDLE)
        rows = [_Row(len(theirs))]
        rows[0].best[1:] = rows[0].out[1:] = [opening + step * at for at in range(len(theirs))]
        for number, a in enumerate(mine, 1):
            is_last = self._trails and number == len(mine)
            # Behind a beginning that the client pins, it leaves out the more, the longer the conversation is.
            is_pinned = self._leads and number < LEAST_BEFORE
            opening, step = (
                (TRAILING_COST, _NEXT_TRAILING) if is_last else (MIDDLE_COST, _NEXT_MIDDLE * (not is_pinned))
            )
            row, above = _Row(len(theirs), step), rows[-1]
            row.best[0] = above.best[0] + UNKNOWN_COST
            for at, b in enumerate(theirs, 1):
                cost, kind = relate(self._shown[a], self._stored[b])
                row.kinds[at] = kind
                row.match[at] = above.best[at - 1] + cost
                if kind is Relation.MERGED is row.kinds[at - 1]:
                    row.match[at] = min(row.match[at], row.match[at - 1] + _CHEAP)
                elif kind is Relation.CUT is above.kinds[at]:
                    row.match[at] = min(row.match[at], above.match[at] + _CHEAP)
                row.out[at] = min(row.best[at - 1] + opening, row.out[at - 1] + step)
                row.best[at] = min(row.match[at], row.out[at], above.best[at] + UNKNOWN_COST)
            rows.append(row)
        return _walk_back(rows, mine, theirs)


class _Row:
    """Costs of aligning the first messages of the client with the first stored ones.

    `match`: the last two are a pair; `out`: the last stored one is left out; and the best of both. `step` is the cost of
    leaving out one more.
    """

    __slots__ = ("best", "kinds", "match", "out", "step")

    def __init__(self, count: int, step: float = 0.0) -> None:
        self.step = step
        self.best = [0.0] * (count + 1)
        self.match, self.out = [9e9] * (count + 1), [9e9] * (count + 1)
        self.kinds: list[Relation | None] = [None] * (count + 1)


def _walk_back(rows: Sequence[_Row], mine: Sequence[int], theirs: Sequence[int]) -> list[Pair]:
    """Return the pairs on the cheapest path to the end of both lists."""
    pairs: list[Pair] = []
    number, at, goes_on, leaves_out = len(mine), len(theirs), False, False
    while number and at:
        row, above = rows[number], rows[number - 1]
        kind = row.kinds[at]
        if leaves_out or (not goes_on and row.match[at] > row.best[at]):
            if not leaves_out and row.out[at] > row.best[at]:
                number -= 1
            else:
                leaves_out = row.out[at] == row.out[at - 1] + row.step
                at -= 1
            continue
        assert kind is not None
        pairs.append(Pair(mine[number - 1], theirs[at - 1], kind))
        goes_on = True
        if kind is Relation.MERGED is row.kinds[at - 1] and row.match[at] == row.match[at - 1] + _CHEAP:
            at -= 1
        elif kind is Relation.CUT is above.kinds[at] and row.match[at] == above.match[at] + _CHEAP:
            number -= 1
        else:
            number, at, goes_on = number - 1, at - 1, False
    return pairs[::-1]


def _settle(pairs: list[Pair], shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> None:
    """Move gaps to begin with a user message if they can begin later, so that whole exchanges are left out."""
    for at in range(1, len(pairs)):
        before, pair = pairs[at - 1], pairs[at]
        start = before.stored + 1
        is_gap = start < pair.stored and stored[start].role is not Role.USER and before.shown + 1 == pair.shown
        if is_gap and pair.relation is Relation.SAME and shown[pair.shown].is_same(stored[start]):
            pairs[at] = Pair(pair.shown, start, Relation.SAME)


def _find_moved(shown: Sequence[MessageForm], stored: Sequence[MessageForm], pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """Return the moved messages: equal ones without a pair on either side."""
    mine, theirs = {pair.shown for pair in pairs}, {pair.stored for pair in pairs}
    places = {(form.role, form.bare): at for at, form in enumerate(stored) if at not in theirs}
    alone = ((at, places.get((form.role, form.bare))) for at, form in enumerate(shown) if at not in mine)
    return tuple(Pair(at, place, Relation.MOVED) for at, place in alone if place is not None)


def _cost_of(shown: Sequence[MessageForm], stored: Sequence[MessageForm], pairs: Sequence[Pair]) -> float:
    """Return the total cost of an alignment."""
    cost = sum(
        relate(shown[pair.shown], stored[pair.stored])[0] for pair in pairs if pair.relation is not Relation.SAME
    )
    last_shown, last_stored = (pairs[-1].shown, pairs[-1].stored) if pairs else (-1, -1)
    known = {pair.shown for pair in pairs}
    unknown = sum(at not in known for at in range(last_shown + 1))
    cost += UNKNOWN_COST * unknown + LAST_UNKNOWN_COST * (len(shown) - last_shown - 1)
    for start, _ in gaps_of([pair.stored for pair in pairs], last_stored + 1):
        cost += MIDDLE_COST if start else LEADING_COST
    return cost + TRAILING_COST * (last_stored + 1 < len(stored))


def gaps_of(places: Sequence[int], end: int, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each range between `begin` and `end` that contains none of `places`."""
    for before, after in pairwise([begin - 1, *sorted({*places}), end]):
        if after - before > 1:
            yield before + 1, after


@dataclass(frozen=True, slots=True)
class Decision:
    """Summary of how a call was understood. `counts` maps a code, such as `edited` or `left_out`, to a number of
    messages.
    """

    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def code(self) -> str:
        """Codes with their numbers, as the value of a header. The value is `goes_on` if the call only continues at the
        end of the path.
        """
        return ", ".join(f"{code}={count}" for code, count in self.counts.items() if count) or "goes_on"

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence for each code whose number is not 0."""
        return tuple(_SENTENCES[code].format(n=count) for code, count in self.counts.items() if count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Changes that the client made. Messages are named by their places in the client's list or in the stored list."""

    last: int
    """Place of the newest stored message that stays on the path; -1 if no message stays."""
    edits: Mapping[int, int]
    """Place of a stored message whose text changed -> place of the client's message that has the new text."""
    deleted: frozenset[int]
    """Places of stored messages that the client deleted."""
    added: Mapping[int, tuple[int, ...]]
    """Place of a stored message -> places of the client's messages after it that are not stored."""
    appended: tuple[int, ...]
    """Places of client's messages after the last one that is paired with a stored message."""
    left_out: int
    """Number of stored messages after the beginning that the client leaves out, and that are not deleted."""
    kept: int = 0
    """Number of changes that are not carried out, because they are too far back."""
    is_again: bool = False
    """True if the user's newest message is the stored message after `last`, so that this message is answered again."""

    @property
    def changes(self) -> tuple[int, ...]:
        """Places of stored messages at which the path changes, sorted."""
        return tuple(sorted((*self.edits, *self.deleted, *self.added)))

    def counts(self, stored: int, *, is_again: bool) -> Mapping[str, int]:
        """Return code -> number of messages, for a `Decision`. `stored` is the number of messages on the path.
        `is_again` is true if a message is answered again.
        """
        return {
            "again": int(is_again),
            "back": 0 if is_again else stored - self.last - 1,
            "edited": len(self.edits),
            "deleted": len(self.deleted),
            "added": sum(map(len, self.added.values())) + len(self.appended),
            "left_out": self.left_out,
            "kept": self.kept,
        }


def judge(
    found: Alignment, shown: Sequence[MessageForm], user: MessageForm, stored: Sequence[MessageForm], *, is_whole: bool
) -> Verdict:
    """Return the changes that the client made.

    Args:
        found: alignment of `shown` with `stored`.
        shown: client's messages before the user's newest one.
        user: the user's newest message.
        stored: stored messages.
        is_whole: true if the path has no message before `stored`.
    """
    pairs = found.pairs
    known = {pair.stored for pair in (*pairs, *found.moved)}
    last = pairs[-1].stored if pairs else -1
    gaps = [(start, end) for start, end in found.gaps(last + 1) if not known.issuperset(range(start, end))]
    added = _find_added(found)
    last_shown = pairs[-1].shown if pairs else -1
    deleted = frozenset[int]()
    if is_whole and gaps and gaps[0][0] and len(gaps) <= MOST_GAPS:
        places = (range(start, end) for start, end in gaps if _is_deleted(start, end, found, last + 1))
        deleted = frozenset(at for each in places for at in each if at not in known)
    edits = _find_edits(found, shown, stored)
    floor = last + 1 - MOST_REWRITTEN
    far = sum(at < floor for at in (*edits, *deleted, *added))
    rest = stored[last + 1 :]
    return Verdict(
        last=last,
        edits={at: place for at, place in edits.items() if at >= floor},
        deleted=frozenset(at for at in deleted if at >= floor),
        added={at: places for at, places in added.items() if at >= floor},
        appended=tuple(range(last_shown + 1, len(shown))),
        left_out=sum(end - start for start, end in gaps if start) - len(deleted),
        kept=far,
        is_again=bool(rest) and last_shown + 1 == len(shown) and is_asked_again(user, rest[0]),
    )


def is_asked_again(user: MessageForm, stored: MessageForm) -> bool:
    """Return whether the user's newest message `user` is the message `stored`, except for lines that the client adds."""
    return user.is_same(stored) or user.contains(stored) or stored.contains(user)


def _is_deleted(start: int, end: int, found: Alignment, count: int) -> bool:
    """Return whether the client shows that it deleted stored messages: their neighbours are adjacent now."""
    if end - start > MOST_DELETED or start < max(LEAST_BEFORE, count // 2):
        return False
    neighbours = {pair.stored: pair.shown for pair in found.pairs if pair.stored in (start - 1, end)}
    return neighbours.get(start - 1, -2) + 1 == neighbours.get(end, -2)


def _find_added(found: Alignment) -> dict[int, tuple[int, ...]]:
    """Return the client's messages between others that are not stored, by the stored message that they follow.

    Messages before all others are the client's own: a placeholder, or a summary of left-out messages.
    """
    moved = {pair.shown for pair in found.moved}
    added: dict[int, tuple[int, ...]] = {}
    for before, after in pairwise(found.pairs):
        places = tuple(at for at in range(before.shown + 1, after.shown) if at not in moved)
        if places:
            added[before.stored] = places
    return added


def _find_edits(found: Alignment, shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> dict[int, int]:
    """Return the stored messages whose text changed, with the client's messages that have the new text.

    Additional lines of a user message are a note that the client merged into it; additional lines of a reply continue the
    reply.
    """
    merged = [pair.shown for pair in found.pairs]
    edits: dict[int, int] = {}
    for pair in found.pairs:
        is_more = pair.relation is Relation.MERGED and shown[pair.shown].role is Role.ASSISTANT
        is_alone = merged.count(pair.shown) == 1 if is_more else True
        if pair.relation in (Relation.EDITED, Relation.CUT) or (is_more and is_alone):
            edits[pair.stored] = pair.shown
    return edits
