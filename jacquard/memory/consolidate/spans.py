"""Decides which turns are summarized in one model call, and with which turns narratives over many turns end.

The depth of a turn is its number on the branch. A macro narrative covers many turns or a chapter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from jacquard.config.sections import ConsolidationConfig
from mnemosyne.chains.audience import (
    NOBODY,
    Audience,
    audience_of_entry,
    audience_of_messages,
    join_audiences,
    told_messages,
)
from mnemosyne.schema.memory import MACRO, QUEST_UPDATE, MemoryEntry
from mnemosyne.schema.record import TurnRecord
from mnemosyne.values import dataclass

TURN_SUMMARY = "turn_summary"
"""Kind of an entry that summarizes one turn."""
CHAPTER_END = "chapter_end"
"""Tag of the summary of a turn that ends a chapter."""

CLOSED = frozenset({"completed", "failed"})
"""Tags of a quest update that ends the quest."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MacroSpan:
    """Turns that one narrative covers, from the depth `first` to the depth `last`, both included.

    `reason` is `chapter` if a chapter ends with the span, and `length` if the span reached its maximum length.
    """

    first: int
    last: int
    reason: str


def macro_id(turn_id: str) -> str:
    """Return the id of the narrative whose last turn is `turn_id`."""
    return f"macro.{turn_id}"


def find_narrated_depth(narratives: Sequence[MemoryEntry]) -> int:
    """Return the depth of the last turn that a macro narrative covers. Return 0 if there are no macro narratives."""
    ends = [entry.metadata.get("to_turn") or entry.depth for entry in narratives if entry.kind == MACRO]
    return max((end for end in ends if isinstance(end, int)), default=0)


def chapter_depths(narratives: Sequence[MemoryEntry], events: Sequence[MemoryEntry]) -> frozenset[int]:
    """Return the depths of the turns that end a chapter. These are turns whose summary has the tag CHAPTER_END, and
    turns that ended a quest.
    """
    marked = {entry.depth for entry in narratives if entry.kind == TURN_SUMMARY and CHAPTER_END in entry.tags}
    closed = {entry.depth for entry in events if entry.kind == QUEST_UPDATE and CLOSED.intersection(entry.tags)}
    return frozenset(depth for depth in marked | closed if depth is not None)


def macro_spans(
    summarised: Sequence[int], told: int, chapters: frozenset[int], config: ConsolidationConfig
) -> tuple[MacroSpan, ...]:
    """Return the spans of turns of which new narratives can be made now, oldest first.

    `summarised` are the depths of the turns that have a summary, ascending. Turns up to the depth `told` are in a narrative
    already. A span ends with a turn that ends a chapter (`chapters`), if the span has at least `chapter_least_turns`
    turns at this point. Otherwise the span ends when it has `macro_turns` turns. Turns after the last span wait for the
    next run.
    """
    spans: list[MacroSpan] = []
    start: list[int] = []
    for depth in summarised:
        if depth <= told:
            continue
        start.append(depth)
        if depth in chapters and len(start) >= config.chapter_least_turns:
            spans.append(MacroSpan(first=start[0], last=depth, reason="chapter"))
            start = []
        elif len(start) >= config.macro_turns:
            spans.append(MacroSpan(first=start[0], last=depth, reason="length"))
            start = []
    return tuple(spans)


def split_batches(turns: Sequence[TurnRecord], size: int) -> Iterator[Sequence[TurnRecord]]:
    """Yield `turns` in batches of at most `size`.

    All turns of a batch have the same audience (the viewers who may know them). Therefore no model call mixes texts
    that everyone may know with texts that only some viewers may know.
    """
    for _, run in groupby(turns, key=lambda turn: audience_of_messages(told_messages(turn.messages))):
        same = tuple(run)
        for start in range(0, len(same), size):
            yield same[start : start + size]


def tell_together(told: list[tuple[int, MemoryEntry]]) -> tuple[list[tuple[int, MemoryEntry]], Audience]:
    """Return (summaries, audience): the summaries of which one narrative is made, and the viewers who may know the
    narrative. `told` contains (depth, entry) for each summary.

    If no viewer may know all summaries, only summaries that everyone may know are used. If there are no such summaries,
    all summaries are used and nobody may know the narrative.
    """
    audience = join_audiences(audience_of_entry(entry) for _, entry in told)
    known_to_all = [(depth, entry) for depth, entry in told if not audience_of_entry(entry)]
    return (known_to_all, ()) if audience == NOBODY and known_to_all else (told, audience)
