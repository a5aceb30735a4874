"""Reads dates that a text states, and the date that an answer means, as spans of days. Pure.

It knows nothing of how memories are written or dates are resolved, so that it can judge both.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple


class DateSpan(NamedTuple):
    """The days from `first` to `last`, both included."""

    first: date
    last: date

    @property
    def days(self) -> int:
        """The number of its days."""
        return (self.last - self.first).days + 1


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12, "春": 3, "夏": 6, "秋": 9, "冬": 12}
"""The first month of each season."""
_NUMBERS = {"a": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "一": 1, "两": 2, "二": 2, "三": 3}
_ORDER = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}

_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    r"(?<!\d)(?:"
    r"(?P<y1>\d{4})-(?P<m1>\d\d)-(?P<d1>\d\d)(?:\.\.(?P<y2>\d{4})-(?P<m2>\d\d)-(?P<d2>\d\d))?(?!\d)"
    r"|(?P<y3>\d{4})-(?P<m3>\d\d)(?:\.\.(?P<y4>\d{4})-(?P<m4>\d\d))?(?![\d-])"
    r"|(?P<y5>\d{4})年(?:(?P<m5>\d{1,2})月(?:(?P<d5>\d{1,2})[日号]?)?|(?P<s5>[春夏秋冬])[天季]?)?"
    rf"|\b{_MONTH.format('n6')}\b\.?\s?(?P<d6>\d{{1,2}})(?:st|nd|rd|th)?(?:\s?(?:-|–|to)\s?(?P<e6>\d{{1,2}}))?,?\s(?P<y6>\d{{4}})(?!\d)"
    rf"|(?P<d7>\d{{1,2}})(?:st|nd|rd|th)?\W?\s?(?:of\s)?{_MONTH.format('n7')}\b[.,]?\s?(?P<y7>\d{{4}})(?!\d)"
    rf"|\b{_MONTH.format('n8')}\b[.,]?\s?(?:of\s)?(?P<y8>\d{{4}})(?!\d)"
    r"|\b(?P<s9>spring|summer|fall|autumn|winter)(?:\sof)?,?\s(?P<y9>\d{4})(?!\d)"
    r"|\b(?P<y0>(?:19|20)\d\d)\b(?!-\d)(?:\.\.(?P<z0>(?:19|20)\d\d)\b)?"
    r")",
    re.IGNORECASE,
)
_UNIT = r"(?P<unit>days?|weeks?|weekends?|months?|mon|tue|wed|thu|fri|sat|sun)(?:s?day|nesday|rsday|urday)?"
_BESIDE = re.compile(
    rf"(?:the |last |first )?(?:(?P<count>a few|few|a|one|two|three|four|five|six) )?{_UNIT} (?P<side>before|after) ?"
)
_PART = re.compile(r"(?:the )?(?P<order>first|second|third|fourth|last) (?P<unit>week|weekend) (?:of|in) ?")
_MONTH_PART = re.compile(r"(?:the )?(?P<part>early|mid|middle of|late|end of|beginning of)[ -]?")
_WEEK_OF = re.compile(r"the week (?:of|in) ?")
_PLAIN = re.compile(r"(?:(?:in|on|at|the|around|about|approximately|since|during|by|night|morning|evening|of)\b ?)*")
_AFTER_CJK = re.compile(
    r"(?:之)?(?P<side>前|后)的?(?:(?P<count>[一两二三])?(?:个)?(?P<unit>[天周月])|(?:周|星期)(?P<day>[一二三四五六日天]))"
    r"|(?P<part>初|上旬|中旬|下旬|底|末)|左右|份"
)
_TENTHS = {
    "early": (1, 10),
    "beginning of": (1, 10),
    "mid": (11, 20),
    "middle of": (11, 20),
    "late": (21, 31),
    "end of": (21, 31),
    "初": (1, 10),
    "上旬": (1, 10),
    "中旬": (11, 20),
    "下旬": (21, 31),
    "底": (21, 31),
    "末": (21, 31),
}
_DAY = timedelta(days=1)
_WEEK_DAYS = 7
_LONGEST_WEEK = 13


def read_dates(text: str) -> list[DateSpan]:
    """Return the dates that a text states, in its order: `2023-05-07`, `7 May 2023`, `May 2023`, `2023年5月7日`, `2022`, also
    `2023-05-29..2023-06-04`; words that need another date (`yesterday`) are not read.
    """
    return [span for _, _, span in _find_dates(text)]


def read_answer_date(answer: str) -> DateSpan | None:
    """Return the days that an answer means, None if it says anything else than a date.

    Besides plain dates it may be relative to one (`The week before 9 June 2023`, `Saturday after 11 September, 2023`,
    `2023年6月9日前一周`) or a part of one (`first weekend of August 2023`, `end of October 2023`). `The week before` a day are
    the seven days before it.
    """
    text = " ".join(answer.casefold().replace("`", " ").split()).rstrip(".。 ")
    found = list(_find_dates(text))
    if len(found) != 1:
        return None
    start, end, span = found[0]
    before, after = text[:start], text[end:]
    try:
        if not after:
            return _read_english(before.strip() + " " if before.strip() else "", span)
        if not before.strip() and (match := _AFTER_CJK.fullmatch(after.strip())):
            return _read_chinese(match, span)
    except (OverflowError, ValueError):
        return None
    return None


def gives_date(texts: str, wanted: DateSpan) -> bool:
    """Return whether a text states the days `wanted`, or some of them more exactly; of two weeks it is enough that they
    overlap, since people begin the week on different days.
    """
    return any(_fits(each, wanted) for each in read_dates(texts))


def _fits(given: DateSpan, wanted: DateSpan) -> bool:
    if wanted.first <= given.first and given.last <= wanted.last:
        return True
    both_weeks = all(1 < each.days <= _LONGEST_WEEK for each in (given, wanted))
    return both_weeks and given.first <= wanted.last and wanted.first <= given.last


def _find_dates(text: str) -> Iterator[tuple[int, int, DateSpan]]:
    for match in _DATE.finditer(text):
        try:
            yield match.start(), match.end(), _span_of({name: part for name, part in match.groupdict().items() if part})
        except (ValueError, OverflowError):
            continue


def _span_of(parts: dict[str, str]) -> DateSpan:
    """Return the span of a match; ValueError for a day that no calendar has."""
    year = int(next(value for name, value in parts.items() if name[0] == "y"))
    season = next((value for name, value in parts.items() if name[0] == "s"), None)
    if season is not None:
        first = date(year, _SEASONS[season.casefold()], 1)
        return DateSpan(first, _month(first.year + (first.month > 10), (first.month + 1) % 12 + 1).last)
    month = next((_month_of(value) for name, value in parts.items() if name[0] in "mn"), None)
    if month is None:
        return DateSpan(date(year, 1, 1), date(int(parts.get("z0", year)), 12, 31))
    day = next((int(value) for name, value in parts.items() if name[0] == "d"), None)
    if day is None:
        last = _month(int(parts["y4"]), int(parts["m4"])) if "y4" in parts else _month(year, month)
        return DateSpan(date(year, month, 1), last.last)
    first = last_day = date(year, month, day)
    if "y2" in parts:
        last_day = date(int(parts["y2"]), int(parts["m2"]), int(parts["d2"]))
    elif "e6" in parts:
        last_day = date(year, month, int(parts["e6"]))
    return DateSpan(first, last_day)


def _month_of(value: str) -> int:
    return int(value) if value.isdigit() else _MONTHS.index(value[:3].casefold()) + 1


def _month(year: int, month: int) -> DateSpan:
    return DateSpan(date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1]))


def _read_english(before: str, span: DateSpan) -> DateSpan | None:
    if match := _BESIDE.fullmatch(before):
        count = _NUMBERS.get((match["count"] or "one"), 0)
        return _beside(span.first, match["unit"].rstrip("s"), match["side"] == "after", count)
    if match := _PART.fullmatch(before):
        return _part_of(span, match["unit"], _ORDER[match["order"]])
    if match := _MONTH_PART.fullmatch(before):
        first, last = _TENTHS[match["part"]]
        return DateSpan(span.first.replace(day=first), min(span.first + (last - 1) * _DAY, span.last))
    if _WEEK_OF.fullmatch(before):
        monday = span.first - span.first.weekday() * _DAY
        return DateSpan(monday, monday + 6 * _DAY)
    return span if _PLAIN.fullmatch(before) else None


def _read_chinese(match: re.Match[str], span: DateSpan) -> DateSpan:
    if match["part"]:
        first, last = _TENTHS[match["part"]]
        return DateSpan(span.first.replace(day=first), min(span.first + (last - 1) * _DAY, span.last))
    if not match["side"]:
        return span
    if match["day"]:
        weekday = _WEEKDAYS[min("一二三四五六日天".index(match["day"]), 6)]
        return _beside(span.first, weekday, match["side"] == "后", 1)
    unit = {"天": "day", "周": "week", "月": "month"}[match["unit"]]
    return _beside(span.first, unit, match["side"] == "后", _NUMBERS.get(match["count"] or "一", 1))


def _beside(day: date, unit: str, is_after: bool, count: int) -> DateSpan:
    """Return the span of days `count` units before or after a day; 0 means a few, within a week."""
    sign = 1 if is_after else -1
    if unit in _WEEKDAYS:
        apart = (_WEEKDAYS.index(unit) - day.weekday()) * sign % _WEEK_DAYS or _WEEK_DAYS
        found = day + sign * (apart + _WEEK_DAYS * (max(count, 1) - 1)) * _DAY
        return DateSpan(found, found)
    if unit == "weekend":
        saturday = _beside(day, "sat", is_after, max(count, 1)).first
        if not is_after and day.weekday() == 6:
            saturday -= _WEEK_DAYS * _DAY
        return DateSpan(saturday, saturday + _DAY)
    if unit == "month":
        months = day.year * 12 + day.month - 1 + sign * max(count, 1)
        return _month(months // 12, months % 12 + 1)
    size = 1 if unit == "day" and count else _WEEK_DAYS
    near, far = day + sign * (size * (max(count, 1) - 1) + 1) * _DAY, day + sign * size * max(count, 1) * _DAY
    return DateSpan(min(near, far), max(near, far))


def _part_of(span: DateSpan, unit: str, place: int) -> DateSpan:
    """Return a week (its first seven days are the first) or weekend of a month; the last one for -1."""
    if unit == "week":
        if place < 0:
            return DateSpan(span.last - 6 * _DAY, span.last)
        return DateSpan(span.first + 7 * place * _DAY, span.first + (7 * place + 6) * _DAY)
    saturday = span.first + (5 - span.first.weekday()) % _WEEK_DAYS * _DAY
    saturdays = [saturday + 7 * week * _DAY for week in range(5) if saturday + 7 * week * _DAY <= span.last]
    return DateSpan(saturdays[place], saturdays[place] + _DAY) if place < len(saturdays) else span
