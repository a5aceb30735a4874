"""Resolves words such as `yesterday`, `last Friday` or `上周五` in a text against the time of its message.

The rules are fixed, and the result depends only on text and time, so that it is the same at any time and nothing has to
be stored: words erased from a text are gone from its dates. Weeks begin on Monday; a day is that of the time's own
zone. Calculation only.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime

from mnemosyne.retrieval.text import dates_chinese, dates_english
from mnemosyne.retrieval.text.date_spans import DateSpan, ResolvedDate
from mnemosyne.retrieval.text.words import has_cjk

READ_CHARS = 8_000
"""Characters of a text that are read."""
MOST_DATES = 12
"""Dates of a text that are resolved."""

_HINT = re.compile(r"yesterday|tomorrow|last|next|this|ago\b|from\s{1,2}(?:now|today)", re.IGNORECASE)
_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], DateSpan | None]]
_ENGLISH: _Rule = (dates_english.PATTERN, dates_english.resolve)
_CHINESE: _Rule = (dates_chinese.PATTERN, dates_chinese.resolve)


def resolve_dates(text: str, at: datetime) -> tuple[ResolvedDate, ...]:
    """Return the dates meant by words of a text of the time `at`, in the order of the text; at most `MOST_DATES`.

    Only words that need the day of their message are resolved, and only if they have one usual meaning; `today` is left
    out, since the text's own day is known. A date that no calendar has is left out.
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
