"""Resolves words such as `yesterday`, `last Friday` or `上周五` in a text against the time of its message.

The result depends only on the text and the time of the message, so it need not be stored. If words are erased from a text, the
dates that they name disappear, too. Weeks begin on Monday. A day is a day in the time zone of the message's time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime

from mnemosyne.retrieval.text import dates_chinese, dates_english
from mnemosyne.retrieval.text.date_spans import DateSpan, ResolvedDate
from mnemosyne.retrieval.text.words import has_cjk

READ_CHARS = 8_000
"""Number of characters, from the beginning of a text, that are read."""
MOST_DATES = 12
"""Maximum number of dates of a text that are resolved."""

_HINT = re.compile(r"yesterday|tomorrow|last|next|this|ago\b|from\s{1,2}(?:now|today)", re.IGNORECASE)
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], DateSpan | None]]
_ENGLISH: _Rule = (dates_english.PATTERN, dates_english.resolve)
_CHINESE: _Rule = (dates_chinese.PATTERN, dates_chinese.resolve)


def resolve_dates(text: str, at: datetime) -> tuple[ResolvedDate, ...]:
    """Return the dates that words in `text` name, in the order of the text, at most `MOST_DATES`. `at` is the time of the text.

    Words are resolved only if their meaning depends on the day of the message, and if they have only one usual meaning. `today`
    is left out, because the day of the message is known. A date beyond the calendar is left out, too.
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
