"""Finds which turns are summarized together, and the ends of narratives over many turns. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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

TURN_SUMMARY = "turn_summary"
CHAPTER_END = "chapter_end"
"""Tag of a turn's summary that ends a chapter."""

CLOSED = frozenset({"completed", "failed"})


@dataclass(frozen=True, kw_only=True, slots=True)
class MacroSpan:
    """Turns that one narrative covers, by depth, both included; `reason`: `chapter` or `length`."""

    first: int
    last: int
    reason: str


def macro_id(turn_id: str) -> str:
    """Return the id of the narrative that ends with a turn."""
    return f"macro.{turn_id}"


def find_narrated_depth(narratives: Sequence[MemoryEntry]) -> int:
    """Return the depth up to which narratives over many turns reach (0: there are none)."""
    ends = [entry.metadata.get("to_turn") or entry.depth for entry in narratives if entry.kind == MACRO]
    return max((end for end in ends if isinstance(end, int)), default=0)


def chapter_depths(narratives: Sequence[MemoryEntry], events: Sequence[MemoryEntry]) -> frozenset[int]:
    """Return the depths at which chapters end: turns with that mark, and turns that completed a quest."""
    marked = {entry.depth for entry in narratives if entry.kind == TURN_SUMMARY and CHAPTER_END in entry.tags}
    closed = {entry.depth for entry in events if entry.kind == QUEST_UPDATE and CLOSED.intersection(entry.tags)}
    return frozenset(depth for depth in marked | closed if depth is not None)


def macro_spans(
    summarised: Sequence[int], told: int, chapters: frozenset[int], config: ConsolidationConfig
) -> tuple[MacroSpan, ...]:
    """Return the narratives that are due, oldest first; `summarised` are the depths of turns with a summary, in order.

    A narrative ends with a chapter if it has `chapter_least_turns` by then, else with its `macro_turns`-th turn. Turns after
    the last end wait for the next run. Spans follow each other without gaps; none includes a turn without a summary.
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
    """Yield runs of turns that the same viewers may know, so that no model call mixes guarded and open texts."""
    for _, run in groupby(turns, key=lambda turn: audience_of_messages(told_messages(turn.messages))):
        same = tuple(run)
        for start in range(0, len(same), size):
            yield same[start : start + size]


def tell_together(told: list[tuple[int, MemoryEntry]]) -> tuple[list[tuple[int, MemoryEntry]], Audience]:
    """Return the summaries for one narrative, and who may know it.

    Summaries for viewers who may not know all the others are left out, unless none would remain.
    """
    audience = join_audiences(audience_of_entry(entry) for _, entry in told)
    known_to_all = [(depth, entry) for depth, entry in told if not audience_of_entry(entry)]
    return (known_to_all, ()) if audience == NOBODY and known_to_all else (told, audience)
