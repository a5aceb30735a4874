"""Ids that a receipt mentions: of messages, turns and evidence. Pure.

A thing that is not in the prompt is accounted for if the receipt names one of its ids: as the id of a block or
candidate, in an address, or in a sentence. `FIRST..LAST`, two ids of turns or messages, names everything between them
too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from evals.play.session import Item, Path
from jacquard import PreparedTurn, Report

_NOT_ABOUT = frozenset(
    {"turn_id", "session_id", "spans", "plan", "timings_ms", "tags", "new_evidence_ids", "new_block_ids", "chosen_for"}
)
"""Fields of a receipt, at any depth, that say to which turn something belongs or what was stored, and not what was decided."""
_RANGE = re.compile(r"(\w+(?:[.:-]\w+)*)\.\.(\w+(?:[.:-]\w+)*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedIds:
    """The texts of a receipt, and the ranges of ids in them."""

    texts: str
    ranges: tuple[tuple[str, str], ...]

    def covers(self, item: Item, order: Mapping[str, int]) -> bool:
        """Say whether an item is named; `order` has the place of each id of the session."""
        if any(_contains_id(name, self.texts) for name in item.ids):
            return True
        places = [order[name] for name in item.ids if name in order]
        return any(
            order[first] <= place <= order[last]
            for first, last in self.ranges
            if first in order and last in order
            for place in places
        )


def read_named_ids(report: Report) -> NamedIds:
    """Return what a receipt names."""
    texts = [*_texts(report)]
    joined = "\n".join(texts)
    ranges = tuple((found[1], found[2]) for text in texts for found in _RANGE.finditer(text))
    return NamedIds(texts=joined, ranges=ranges)


def order_of(items: Sequence[Item]) -> dict[str, int]:
    """Return the place of each id in a session, oldest first; a turn's id stands for its first item."""
    order: dict[str, int] = {}
    for place, item in enumerate(items):
        for name in item.ids:
            order.setdefault(name, place)
    return order


def find_turns_left_out(path: Path, prepared: PreparedTurn) -> dict[str, str]:
    """Return the receipt's statement on the messages of whole turns, by turn id: the code of its line (`summarized`,
    `unshown`).

    Such a line names turns by their number on the path, which begins before the play if the world has a prologue.
    """
    played = [step.turn_id for step in path.steps if step.turn_id is not None]
    first = prepared.depth - len(played)
    lines = [line for line in prepared.report.left_out if line.what == "turns" and line.first.isdecimal()]
    return {
        turn_id: line.code
        for line in reversed(lines)
        for number, turn_id in enumerate(played, start=first)
        if int(line.first) <= number <= int(line.last)
    }


def _contains_id(name: str, texts: str) -> bool:
    """Say whether a text contains an id as a whole; `t1.u`, the id of a message, does not contain `t1`."""
    return name in texts and re.search(rf"(?<!\w){re.escape(name)}(?!\w|\.[ua]\b)", texts) is not None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            if each.name not in _NOT_ABOUT:
                yield from _texts(getattr(value, each.name))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _texts(key)
            yield from _texts(inner)
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _texts(inner)
