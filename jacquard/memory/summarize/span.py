"""Finds the turns of a rolling summary and of the history, and when the summary must cover more. Pure.

Summary and history window meet without a gap: the summary covers complete turns from the first on, and the history begins with
the next one. The summary only grows when the window jumps (`jacquard.pipeline.skeleton.history`), so that the prefix of the
prompt changes once for a batch of turns, and summary and history change in the same turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from jacquard.config.sections import RuntimeConfig, SummaryConfig
from jacquard.core.receipt import LeftOut
from jacquard.pipeline.skeleton.history import WindowLimits, find_history_start, trim_history
from mnemosyne.schema.document import Summary
from mnemosyne.schema.record import PathSummary, SessionWindow, TurnRecord
from mnemosyne.schema.session import WindowMessage

UPTO = "upto"
"""Field of `Summary.extra` in which our summaries name their last covered turn: `{turn_id, depth, to}`."""

THINNED = "thinned"
"""Field of UPTO with the number of lines that the summary has lost to its limit; absent if it lost none."""

CUT = "cut"
"""Field of UPTO with the number of these lines that a model's summary lost when it was last made."""

TURNS, SUMMARY = "turns", "summary"
"""Units in the receipt's lines on the conversation: turns of the path, lines of the summary."""

MOST_TOKENS = 2000
"""Maximum tokens of a summary if no setting states it."""

STRETCH = 1.5
"""Factor by which the window may exceed its limits while messages that left it are not summarized."""

Count = Callable[[str], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """Range of a summary: all turns up to `depth`, which have `messages` messages.

    A summary that came with a document may also cover single messages of one more turn.
    """

    depth: int = 0
    messages: int = 0
    message_ids: frozenset[str] = frozenset()

    def admits(self, placed: WindowMessage) -> bool:
        """Return whether the history may show a message."""
        return placed.depth > self.depth and placed.message.message_id not in self.message_ids


NOTHING = Coverage()


def read_own_coverage(summary: PathSummary | None) -> Coverage | None:
    """Return the range of a summary of ours; None for another one, which only counts messages (`coverage_of_summary`)."""
    if summary is None:
        return NOTHING
    covered = summary.summary.message_index_range
    if covered is None or covered.to_index < 1 or not summary.summary.content.strip():
        return NOTHING
    upto = summary.summary.extra.get(UPTO)
    if not isinstance(upto, dict) or upto.get("to") != covered.to_index:
        return None
    depth = upto.get("depth")
    return Coverage(depth=depth, messages=covered.to_index) if isinstance(depth, int) else None


def coverage_of_summary(summary: Summary, path: Sequence[TurnRecord]) -> Coverage:
    """Return the range of a summary that came with a document; `path` is the whole path, oldest first."""
    covered = summary.message_index_range
    left = 0 if covered is None else covered.to_index
    depth, ids = 0, []
    for turn in path:
        if left <= 0:
            break
        ids = [message.message_id for message in turn.messages[:left]]
        left -= len(turn.messages)
        if left >= 0:
            depth, ids = turn.depth, []
    return Coverage(depth=depth, messages=0 if covered is None else covered.to_index, message_ids=frozenset(ids))


def history_of(
    window: SessionWindow, coverage: Coverage, limits: WindowLimits, count: Count
) -> tuple[WindowMessage, ...]:
    """Return the history to show: complete turns outside of the summary, within the limits (oldest first)."""
    messages = [placed for placed in window.messages if coverage.admits(placed)]
    start = find_history_start(window)
    known = {placed.message.message_id for placed in messages}
    if messages and start not in known and coverage.depth and messages[0].depth <= coverage.depth + 1:
        start = messages[0].message.message_id
    return trim_history(messages, start, limits, count)


def describe_unshown(window: SessionWindow, coverage: Coverage, shown: Sequence[WindowMessage]) -> tuple[LeftOut, ...]:
    """Return the receipt's lines on the conversation outside of the history.

    Each is a range of turns, by their number on the path (from 1), that the summary covers, or that nothing covers.
    """
    newest = window.messages[-1].depth if window.messages else 0
    first, last = coverage.depth + 1, shown[0].depth - 1 if shown else newest
    thinned = read_thinned(window.summary) if coverage.depth else 0
    lines: list[LeftOut] = []
    if coverage.depth:
        reason = f"Turns 1 to {coverage.depth} are older than the history; the summary tells of them."
        lines.append(_range_of("summarized", reason, 1, coverage.depth))
    if newest and first <= last:
        reason = f"Turns {first} to {last} are older than the history, and no summary covers them."
        lines.append(_range_of("unshown", reason, first, last))
    if thinned:
        reason = f"To keep summary.max_summary_tokens, {thinned} lines or sentences of the summary were left out."
        lines.append(LeftOut(what=SUMMARY, code="summary_thinned", reason=reason, count=thinned))
    return tuple(lines)


def _range_of(code: str, reason: str, first: int, last: int) -> LeftOut:
    return LeftOut(what=TURNS, code=code, reason=reason, first=str(first), last=str(last), count=last - first + 1)


def read_thinned(summary: PathSummary | None, field: str = THINNED) -> int:
    """Return how many lines a summary of ours has lost to its limit so far, or when it was last made (CUT)."""
    upto = summary.summary.extra.get(UPTO) if summary is not None else None
    number = upto.get(field) if isinstance(upto, Mapping) else None
    return number if isinstance(number, int) else 0


def limit_summary(config: RuntimeConfig) -> int:
    """Return the maximum tokens of a summary."""
    limit = config.summary.max_summary_tokens
    return limit if limit is not None else max(1, min(MOST_TOKENS, config.budget.prompt_tokens() // 8))


def extend_history_limits(limits: WindowLimits, most_tokens: int) -> WindowLimits:
    """Return the limits of a turn whose summary is late or failed: it shows more messages, at most `most_tokens`."""
    return WindowLimits(
        max_messages=int(limits.max_messages * STRETCH),
        max_tokens=max(limits.max_tokens, min(int(limits.max_tokens * STRETCH), most_tokens)),
        low_water=limits.low_water,
    )


def find_due_depth(
    window: SessionWindow,
    coverage: Coverage,
    shown: Sequence[WindowMessage],
    config: SummaryConfig,
    count: Count,
) -> int | None:
    """Return the depth up to which a summary must reach to meet the history without a gap; None if it already does.

    A session below both triggers (`trigger_message_count`, `trigger_token_threshold`) is not summarized at all, and the last
    `preserve_recent_messages` never are.
    """
    messages = [placed for placed in window.messages if coverage.admits(placed)]
    if not messages or not shown:
        return None
    older = messages[0].depth > coverage.depth + 1
    upto = shown[0].depth - 1
    depths = sorted({placed.depth for placed in messages if placed.depth <= upto}, reverse=True)
    while depths and sum(placed.depth > depths[0] for placed in messages) < config.preserve_recent_messages:
        depths = depths[1:]
    if not older and not depths:
        return None
    upto = depths[0] if depths else min(upto, messages[0].depth - 1)
    if upto <= coverage.depth:
        return None
    small = len(messages) <= config.trigger_message_count and (
        sum(count(placed.message.content) for placed in messages) <= config.trigger_token_threshold
    )
    return None if small and not coverage.messages and not older else upto
