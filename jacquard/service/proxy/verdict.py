"""Decides from an alignment what a client did with its conversation. Pure.

What a client leaves out was not deleted, unless it is the end of the path, or whole messages of the newer half of a path that the
client shows otherwise: a client that makes room leaves out the oldest messages that it does not pin. What cannot be told is decided
for keeping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import MappingProxyType

from jacquard.service.proxy.alignment import Alignment, Relation
from jacquard.service.proxy.message_forms import MessageForm
from mnemosyne.schema.session import Role

MOST_DELETED, MOST_GAPS = 4, 2
"""Most messages that a client deletes at one place, and most such places in one call."""
LEAST_BEFORE = 4
"""Least number of stored messages before a deleted one: fewer may be a beginning that the client pins."""
MOST_REWRITTEN = 400
"""Most messages that may follow a changed one; each of their turns is written once more."""

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


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a call: codes with numbers of messages."""

    counts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def code(self) -> str:
        """The codes as the value of a header; `goes_on` where a call goes on at the end of the path."""
        return ", ".join(f"{code}={count}" for code, count in self.counts.items() if count) or "goes_on"

    @property
    def sentences(self) -> tuple[str, ...]:
        """A sentence on each code."""
        return tuple(_SENTENCES[code].format(n=count) for code, count in self.counts.items() if count)


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The changes that a client made, by places in the list of its messages and in that of the stored ones.

    `last`: the newest stored message that stays on the path (-1: none). `edits` gives stored messages that have another text the
    client's; `added` lists the client's messages that are not stored, by the stored message that they follow, `appended` those
    after `last`. `is_again`: the message after `last` is answered once more. `left_out` counts what is missing
    between others that are shown.
    """

    last: int
    edits: Mapping[int, int]
    deleted: frozenset[int]
    added: Mapping[int, tuple[int, ...]]
    appended: tuple[int, ...]
    left_out: int
    kept: int = 0
    is_again: bool = False

    @property
    def changes(self) -> tuple[int, ...]:
        """The places of stored messages from which on the path is another one."""
        return tuple(sorted((*self.edits, *self.deleted, *self.added)))

    def counts(self, stored: int, *, is_again: bool) -> Mapping[str, int]:
        """Return the codes of a decision with their numbers, for a path of so many messages."""
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
    """Return what a client did that shows these messages before the user's newest. `is_whole`: the path begins with `stored`."""
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
    """Return whether the user's newest message is a stored one, with other notes of the client at most."""
    return user.is_same(stored) or user.contains(stored) or stored.contains(user)


def _is_deleted(start: int, end: int, found: Alignment, count: int) -> bool:
    """Return whether the client shows that it deleted stored messages: the neighbours stand next to each other now."""
    if end - start > MOST_DELETED or start < max(LEAST_BEFORE, count // 2):
        return False
    neighbours = {pair.stored: pair.shown for pair in found.pairs if pair.stored in (start - 1, end)}
    return neighbours.get(start - 1, -2) + 1 == neighbours.get(end, -2)


def _find_added(found: Alignment) -> dict[int, tuple[int, ...]]:
    """Return the client's messages between others that are not stored, by the stored message that they follow; those before all
    others are the client's own (a placeholder, a summary of what it leaves out).
    """
    moved = {pair.shown for pair in found.moved}
    added: dict[int, tuple[int, ...]] = {}
    for before, after in pairwise(found.pairs):
        places = tuple(at for at in range(before.shown + 1, after.shown) if at not in moved)
        if places:
            added[before.stored] = places
    return added


def _find_edits(found: Alignment, shown: Sequence[MessageForm], stored: Sequence[MessageForm]) -> dict[int, int]:
    """Return the stored messages with another text now, with the client's that have it.

    Lines beside a message of the user are a note that the client merged into it; lines beside a reply are more of the reply.
    """
    merged = [pair.shown for pair in found.pairs]
    edits: dict[int, int] = {}
    for pair in found.pairs:
        is_more = pair.relation is Relation.MERGED and shown[pair.shown].role is Role.ASSISTANT
        is_alone = merged.count(pair.shown) == 1 if is_more else True
        if pair.relation in (Relation.EDITED, Relation.CUT) or (is_more and is_alone):
            edits[pair.stored] = pair.shown
    return edits
