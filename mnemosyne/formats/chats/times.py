"""Times as chat programs write them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

_PARTS = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})\s*@\s*(\d{1,2})h\s*(\d{1,2})m(?:\s*(\d{1,2})s)?(?:\s*(\d{1,3})ms)?", re.IGNORECASE
)
_FORMATS = (
    "%B %d, %Y %I:%M%p",
    "%B %d, %Y %I:%M %p",
    "%b %d, %Y %I:%M%p",
    "%b %d, %Y %I:%M %p",
    "%B %d, %Y %H:%M",
    "%m/%d/%Y, %I:%M:%S %p",
    "%m/%d/%Y %H:%M",
    "%d.%m.%Y %H:%M",
    "%Y/%m/%d %H:%M:%S",
    "%Y/%m/%d %H:%M",
    "%Y年%m月%d日 %H:%M",
)
_EARLIEST, _LATEST = 10**8, 10**11
_MOST_CHARS = 64


def read_time(value: Any) -> datetime | None:
    """Return the moment that a value names, in UTC; None for one that names none.

    Known are ISO, seconds or milliseconds since 1970, `2023-11-5@12h 3m 4s`, `June 1, 2024 3:04pm` and a few more. A time without a
    zone is taken as UTC.
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int | float):
        return _from_number(float(value))
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_CHARS:
        return None
    text = " ".join(value.split())
    if text.replace(".", "", 1).isdecimal() and text.isascii():
        return _from_number(float(text))
    if found := _PARTS.fullmatch(text):
        year, month, day, hour, minute, second, millis = (int(part or 0) for part in found.groups())
        return _moment(lambda: datetime(year, month, day, hour, minute, second, millis * 1000, tzinfo=UTC))
    moment = _moment(lambda: datetime.fromisoformat(text))
    for pattern in _FORMATS:
        moment = moment or _moment(lambda: datetime.strptime(text, pattern))  # noqa: B023
    if moment is None:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else _moment(lambda: moment.astimezone(UTC))


def _from_number(number: float) -> datetime | None:
    if number != number or number < _EARLIEST:
        return None
    seconds = number / 1000 if number > _LATEST else number
    return _moment(lambda: datetime.fromtimestamp(seconds, UTC))


def _moment(make: Any) -> datetime | None:
    try:
        made: datetime = make()
    except (ValueError, OverflowError, OSError):
        return None
    return made
