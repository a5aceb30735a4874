"""Defines values for dates that a text names in words (`last Friday`), and writes them for prompts and for index keys."""

from __future__ import annotations

import calendar
from collections.abc import Iterator
from datetime import date, timedelta
from enum import StrEnum

from mnemosyne.values import dataclass

DAY = timedelta(days=1)
WEEK = timedelta(days=7)
MONTH_NAMES = (
    "January February March April May June July August September October November December".split()  # noqa: SIM905
)
SEASONS = ("spring", "summer", "autumn", "winter")
_CHINESE_SEASONS = dict(zip(SEASONS, "春夏秋冬", strict=True))
_FIRST_MONTHS = dict(zip(SEASONS, (3, 6, 9, 12), strict=True))
_LONGEST_LISTED_DAYS = 2
_MONTHS_LISTED = 12


class DateUnit(StrEnum):
    """Precision of a date given in words. A week and a weekend are several days (`DAY`)."""

    DAY = "day"
    MONTH = "month"
    SEASON = "season"
    YEAR = "year"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResolvedDate:
    """The days that a phrase in a text means: `first` to `last`, both included.

    `start` is the position of the phrase's first character in the text. `unit` is the precision of both ends.
    """

    start: int
    phrase: str
    first: date
    last: date
    unit: DateUnit

    @property
    def label(self) -> str:
        """The date in ISO form: `2023-05-07`, `2023-06`, `2022`, or `2023-05-29..2023-06-04`. A season is given by
        its name and year.
        """
        if self.unit is DateUnit.SEASON:
            season, year = season_of(self.first), self.first.year
            return f"{season} {year}-{(year + 1) % 100:02d}" if season == SEASONS[-1] else f"{season} {year}"
        size = {DateUnit.DAY: 10, DateUnit.MONTH: 7, DateUnit.YEAR: 4}[self.unit]
        first, last = self.first.isoformat()[:size], self.last.isoformat()[:size]
        return first if first == last else f"{first}..{last}"


@dataclass(frozen=True, kw_only=True, slots=True)
class DateSpan:
    """The days from `first` to `last`, both included, with the precision `unit`."""

    first: date
    last: date
    unit: DateUnit = DateUnit.DAY


def one_day(day: date) -> DateSpan:
    """Return the span of a single day."""
    return DateSpan(first=day, last=day)


def week_of(day: date) -> DateSpan:
    """Return the week of a day, Monday to Sunday (ISO 8601)."""
    monday = day - day.weekday() * DAY
    return DateSpan(first=monday, last=monday + 6 * DAY)


def weekend_of(day: date) -> DateSpan:
    """Return Saturday and Sunday of the week of a day."""
    saturday = day + (5 - day.weekday()) * DAY
    return DateSpan(first=saturday, last=saturday + DAY)


def month_from(day: date, months: int) -> DateSpan:
    """Return the month that is `months` months after the month of `day`. Raises ValueError or OverflowError beyond
    the calendar.
    """
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return whole_month(year, month + 1)


def whole_month(year: int, month: int) -> DateSpan:
    """Return the span of a month. Raises ValueError or OverflowError beyond the calendar."""
    first = date(year, month, 1)
    return DateSpan(first=first, last=first.replace(day=calendar.monthrange(year, month)[1]), unit=DateUnit.MONTH)


def whole_year(year: int) -> DateSpan:
    """Return the span of a year. Raises ValueError or OverflowError beyond the calendar."""
    return DateSpan(first=date(year, 1, 1), last=date(year, 12, 31), unit=DateUnit.YEAR)


def season(name: str, year: int) -> DateSpan:
    """Return the span of a season of the northern hemisphere. Winter begins in December of `year`.

    Raises KeyError for an unknown name, and ValueError or OverflowError beyond the calendar.
    """
    first = date(year, _FIRST_MONTHS[name], 1)
    return DateSpan(first=first, last=month_from(first, 2).last, unit=DateUnit.SEASON)


def season_of(day: date) -> str:
    """Return the name of the season in which a day is."""
    return SEASONS[(day.month - 3) % 12 // 3]


def from_to(one: DateSpan, other: DateSpan) -> DateSpan:
    """Return the span from the earlier first day to the later last day of two spans, with the precision of `one`."""
    return DateSpan(first=min(one.first, other.first), last=max(one.last, other.last), unit=one.unit)


def words_of_day(day: date, *, chinese: bool) -> str:
    """Return a day in words, such as `7 May 2023`. With `chinese`, the Chinese form follows."""
    text = f"{day.day} {MONTH_NAMES[day.month - 1]} {day.year}"
    return f"{text} {day.year}年{day.month}月{day.day}日" if chinese else text


def words_of(each: ResolvedDate, *, chinese: bool) -> str:
    """Return the words under which a resolved date is found in the index.

    They name one or two days, or else the months, season or years that the span touches. With `chinese`, the Chinese
    forms are added.
    """
    return " ".join(dict.fromkeys(_list_words(each, chinese=chinese)))


def _list_words(each: ResolvedDate, *, chinese: bool) -> Iterator[str]:
    first, last = each.first, each.last
    if each.unit is DateUnit.YEAR:
        for year in dict.fromkeys((first.year, last.year)):
            yield f"{year} {year}年" if chinese else str(year)
    elif each.unit is DateUnit.SEASON:
        name = season_of(first)
        yield f"{name} {first.year}"
        if chinese:
            yield f"{first.year}年{_CHINESE_SEASONS[name]}天"
    elif each.unit is DateUnit.DAY and (last - first).days < _LONGEST_LISTED_DAYS:
        for day in dict.fromkeys((first, last)):
            yield words_of_day(day, chinese=chinese)
    else:
        months = (last.year - first.year) * 12 + last.month - first.month
        for step in range(min(months, _MONTHS_LISTED) + 1):
            month = month_from(first, step).first
            yield f"{MONTH_NAMES[month.month - 1]} {month.year}"
            if chinese:
                yield f"{month.year}年{month.month}月"
