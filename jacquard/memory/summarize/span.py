"""Decides which turns the rolling summary covers and which messages the history shows. Pure.

Summary and history meet without a gap: the summary covers complete turns from the first one on, and the history begins
with the next turn. The summary grows only when the history drops several old turns at once
(`jacquard.pipeline.skeleton.history`). Therefore summary and history change in the same turn, and the beginning of the
prompt stays the same for many turns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from jacquard.config.sections import RuntimeConfig, SummaryConfig
from jacquard.core.receipt import LeftOut
from jacquard.pipeline.skeleton.history import WindowLimits, find_history_start, trim_history
from mnemosyne.schema.document import Summary
from mnemosyne.schema.record import PathSummary, SessionWindow, TurnRecord
from mnemosyne.schema.session import WindowMessage
from mnemosyne.values import dataclass

UPTO = "upto"
"""Field of `Summary.extra` in which a summary made by this package names its last covered turn: `{turn_id, depth, to}`."""

THINNED = "thinned"
"""Field of UPTO with the number of lines that were left out of the summary so far, because of its limit. The field is
absent if there are none.
"""

CUT = "cut"
"""Field of UPTO with the number of lines that were cut from a model's summary when it was last made. The field is
absent if there are none.
"""

TURNS, SUMMARY = "turns", "summary"
"""Units of the receipt's lines on the conversation. TURNS counts turns of the path, SUMMARY counts lines of the
summary.
"""

MOST_TOKENS = 2000
"""Maximum tokens of a summary if the settings do not state a maximum."""

Count = Callable[[str], int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Coverage:
    """Range of a summary: all turns up to the number `depth`. These turns have `messages` messages in total.

    A summary that came with an imported document may end within a turn. In this case `message_ids` are the ids of the
    covered messages of this turn.
    """

    depth: int = 0
    messages: int = 0
    message_ids: frozenset[str] = frozenset()

    def drop_covered(self, messages: Sequence[WindowMessage]) -> list[WindowMessage]:
        """Return the messages that the history may show, because the summary does not cover them."""
        ids = self.message_ids
        return [each for each in messages if each.depth > self.depth and each.message.message_id not in ids]


NOTHING = Coverage()


def read_own_coverage(summary: PathSummary | None) -> Coverage | None:
    """Return the range of a summary that this package made, or an empty range if `summary` is None. Return None for any
    other summary, because it states only a number of messages.

    The range of another summary is found by `coverage_of_summary`.
    """
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
    """Return the range of a summary that came with a document. `path` has all turns of the branch, oldest first."""
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
    """Return the messages of complete turns outside of the summary that fit the limits, oldest first."""
    messages = coverage.drop_covered(window.messages)
    start = find_history_start(window)
    known = {placed.message.message_id for placed in messages}
    if messages and start not in known and coverage.depth and messages[0].depth <= coverage.depth + 1:
        start = messages[0].message.message_id
    return trim_history(messages, start, limits, count)


def describe_unshown(window: SessionWindow, coverage: Coverage, shown: Sequence[WindowMessage]) -> tuple[LeftOut, ...]:
    """Return the lines of the receipt about the turns that the history `shown` does not contain.

    A line states a range of turns, by their number on the path (from 1), and whether the summary covers them. One more
    line states how many sentences the summary has lost to its limit.
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
    """Return the number in `field` (THINNED or CUT) of a summary that this package made. Return 0 if there is no such
    number, or if `summary` is None.
    """
    upto = summary.summary.extra.get(UPTO) if summary is not None else None
    number = upto.get(field) if isinstance(upto, Mapping) else None
    return number if isinstance(number, int) else 0


def limit_summary(config: RuntimeConfig) -> int:
    """Return the maximum tokens of a summary. This is the setting `summary.max_summary_tokens`; without it, an eighth
    of the prompt, but at most MOST_TOKENS.
    """
    limit = config.summary.max_summary_tokens
    return limit if limit is not None else max(1, min(MOST_TOKENS, config.budget.prompt_tokens() // 8))


def find_due_depth(
    window: SessionWindow,
    coverage: Coverage,
    shown: Sequence[WindowMessage],
    config: SummaryConfig,
    count: Count,
) -> int | None:
    """Return the depth up to which the summary must reach, so that no turn is missing between summary and history.
    Return None if no new summary is due.

    `shown` is the history. A session below both triggers (`trigger_message_count` and `trigger_token_threshold`) is not
    summarized. The last `preserve_recent_messages` messages are never summarized.
    """
    messages = coverage.drop_covered(window.messages)
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
