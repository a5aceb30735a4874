"""Reads the dates and times that chat programs write.

Known forms are ISO, seconds or milliseconds since 1970, and the English and Chinese spellings on the pages of these
programs. A time without a zone is read as UTC, because no file states the zone of its user.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

_MOST_CHARS = 80
_MILLISECONDS_FROM = 100_000_000_000
_EARLIEST = 100_000_000
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?:,|\s|at|T)*(\d{1,2})[:：](\d{2})(?:[:：](\d{2}))?(?:\.\d{1,6})?\s?([ap]\.?m\.?)?"
_AFTERNOON = ("下午", "晚上", "傍晚")
_MORNING = ("上午", "凌晨", "早上")

_HUMANIZED = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})\s?@\s?(\d{1,2})h\s?(\d{1,2})m\s?(\d{1,2})s(?:\s?(\d{1,3})ms)?", re.ASCII
)
_MONTH_FIRST = re.compile(
    rf"(?:[a-z]{{3,9}},?\s)?([a-z]{{3,9}})\.?\s(\d{{1,2}})(?:st|nd|rd|th)?,?\s(\d{{4}})(?:{_CLOCK})?", re.IGNORECASE
)
_DAY_FIRST = re.compile(
    rf"(?:[a-z]{{3,9}},?\s)?(\d{{1,2}})(?:st|nd|rd|th)?\s([a-z]{{3,9}})\.?,?\s(\d{{4}})(?:{_CLOCK})?", re.IGNORECASE
)
_YEAR_FIRST = re.compile(rf"(\d{{4}})[-/.](\d{{1,2}})[-/.](\d{{1,2}})(?:{_CLOCK})?", re.IGNORECASE)
_CHINESE = re.compile(
    r"(\d{4})年(\d{1,2})月(\d{1,2})日\s?(?:(?:星期|周)[一二三四五六日天])?\s?(上午|下午|凌晨|早上|中午|傍晚|晚上)?\s?"
    r"(?:(\d{1,2})[:：时](\d{1,2})(?:[:：分](\d{1,2}))?[分秒]?)?"
)
_ZONE = re.compile(r"\s?(?:GMT|UTC|Z)?\s?([+-]\d{2}):?(\d{2})(?:\s\([^()]{1,40}\))?$|\s?(?:GMT|UTC|Z)$")


def read_date(value: Any) -> datetime | None:
    """Return the time that `value` expresses, with its zone. Return None if `value` has none of the known forms."""
    try:
        if isinstance(value, bool):
            return None
        if isinstance(value, int | float):
            return _from_number(value)
        return _from_text(value.strip()) if isinstance(value, str) and len(value) <= _MOST_CHARS else None
    except (ValueError, OverflowError, OSError):
        return None


def _from_number(value: float) -> datetime | None:
    seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
    return datetime.fromtimestamp(seconds, UTC) if seconds >= _EARLIEST else None


def _from_text(text: str) -> datetime | None:
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return _from_number(float(text))
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except ValueError:
        pass
    if found := _HUMANIZED.fullmatch(text):
        *parts, thousandths = found.groups()
        return datetime(*map(int, parts), int(thousandths or 0) * 1000, tzinfo=UTC)  # type: ignore[misc, arg-type]
    if found := _CHINESE.fullmatch(text):
        year, month, day, part, hour, minute, second = found.groups()
        half = "pm" if part in _AFTERNOON else "am" if part in _MORNING else None
        return _moment(int(year), int(month), int(day), (hour, minute, second, half))
    zone = _ZONE.search(text)
    shift = timedelta() if zone is None or zone[1] is None else _shift_of(zone[1], zone[2])
    told = _from_words(text[: zone.start()] if zone else text)
    return None if told is None else told.replace(tzinfo=timezone(shift)).astimezone(UTC)


def _from_words(text: str) -> datetime | None:
    if found := _MONTH_FIRST.fullmatch(text):
        return _moment(int(found[3]), _month(found[1]), int(found[2]), found.groups()[3:])
    if found := _DAY_FIRST.fullmatch(text):
        return _moment(int(found[3]), _month(found[2]), int(found[1]), found.groups()[3:])
    if found := _YEAR_FIRST.fullmatch(text):
        return _moment(int(found[1]), int(found[2]), int(found[3]), found.groups()[3:])
    return None


def _shift_of(hours: str, minutes: str) -> timedelta:
    minutes_of_hour = int(minutes) if hours.startswith("+") else -int(minutes)
    return timedelta(hours=int(hours), minutes=minutes_of_hour)


def _month(name: str) -> int:
    return _MONTHS.index(name[:3].casefold()) + 1


def _moment(year: int, month: int, day: int, clock: tuple[str | None, ...]) -> datetime:
    hour, minute, second = (int(each or 0) for each in clock[:3])
    half = (clock[3] or "").replace(".", "").casefold()
    if half == "pm" and hour < 12:
        hour += 12
    elif half == "am" and hour == 12:
        hour = 0
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
