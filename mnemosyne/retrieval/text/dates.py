"""Resolves words such as `yesterday`, `last Friday` or `上周五` in a text against the time of its message.

The rules are fixed. The result depends only on the text and the time, so that it is always the same and nothing has
to be stored. Words that are erased from a text are gone from its dates. Weeks begin on Monday. A day is a day in the
time zone of the message's time. Calculation only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime

from mnemosyne.retrieval.text import dates_chinese, dates_english
from mnemosyne.retrieval.text.date_spans import DateSpan, ResolvedDate
from mnemosyne.retrieval.text.words import has_cjk

READ_CHARS = 8_000
"""Number of characters of a text that are read."""
MOST_DATES = 12
"""Maximum number of dates of a text that are resolved."""

_HINT = re.compile(r"yesterday|tomorrow|last|next|this|ago\b|from\s{1,2}(?:now|today)", re.IGNORECASE)
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], DateSpan | None]]
_ENGLISH: _Rule = (dates_english.PATTERN, dates_english.resolve)
_CHINESE: _Rule = (dates_chinese.PATTERN, dates_chinese.resolve)


def resolve_dates(text: str, at: datetime) -> tuple[ResolvedDate, ...]:
    """Return the dates that words in a text written at `at` mean, in the order of the text, at most `MOST_DATES`.

    Words are resolved only if their meaning depends on the day of the message and they have one usual meaning. `today` is
    left out, because the message's own day is known. A date beyond the calendar is left out too.
    """
    read, day = text[:READ_CHARS], at.date()
    rules = [_ENGLISH] if _HINT.search(read) else []
    if has_cjk(read):
        rules.append(_CHINESE)
    found: list[ResolvedDate] = []
    for pattern, resolve in rules:
        held = 0
        for match in pattern.finditer(read):
            try:
                span = resolve(match, day)
            except (ValueError, OverflowError):
                continue
            if span is not None:
                found.append(
                    ResolvedDate(
                        start=match.start(),
                        phrase=" ".join(match.group().split()),
                        first=span.first,
                        last=span.last,
                        unit=span.unit,
                    )
                )
                held += 1
                if held == MOST_DATES:
                    break
    return tuple(sorted(found, key=lambda each: each.start)[:MOST_DATES])
