"""Recognises English words that name a date relative to the day of a text (`yesterday`, `last Friday`, `two weeks ago`).

Words with two usual meanings are not resolved: `in two weeks` (a duration), `next Friday` in a text of a Monday, `the
last year`.
"""

from __future__ import annotations

import re
from datetime import date

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.text.date_spans import (
    DAY,
    MONTH_NAMES,
    SEASONS,
    WEEK,
    DateSpan,
    from_to,
    month_from,
    one_day,
    season,
    week_of,
    weekend_of,
    whole_month,
    whole_year,
)

_NUMBERS = {
    name: number
    for number, name in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()  # noqa: SIM905
    )
} | {"a": 1, "an": 1, "twenty": 20, "thirty": 30}
_VAGUE = {"couple": (2, 3), "few": (2, 6), "several": (3, 9)}
"""The least and the most that a vague number means."""

_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_S = r"\s{1,2}"
_NUMBER = (
    rf"(?:\d{{1,3}}|(?:a{_S})?(?:couple(?:{_S}of)?|few|several)|{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})"
)
_WEEKDAY = (
    r"(?:(?i:monday|tuesday|wednesday|thursday|friday|saturday|sunday)|(?:Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun))"
)
_MONTH = rf"(?:{'|'.join(MONTH_NAMES)})"
"""Capitalised: `may` and `march` are other words too."""
_NOT_OF = rf"(?!\w|-|{_S}(?i:of|or|before|after)\b)"
PATTERN = lazy_pattern(
    r"(?<![\w.,/-])(?:"
    rf"(?P<day>(?i:(?:the{_S})?day{_S}before{_S}yesterday"
    rf"|(?:the{_S})?day{_S}after{_S}tomorrow|yesterday|last{_S}night|tomorrow))"
    rf"|(?P<twice>(?i:the{_S}(?P<twice_unit>week|weekend|month|year){_S}(?P<twice_side>before{_S}last|after{_S}next)))"
    rf"|(?<!half )(?P<apart>(?i:(?:(?P<least>{_NUMBER}){_S}(?:or|to){_S})?"
    rf"(?P<count>{_NUMBER}){_S}(?P<unit>day|night|week|weekend|month|year)s?"
    rf"{_S}(?P<apart_side>ago|from{_S}(?:now|today))))"
    r"|(?<!the )(?<!my )(?<!his )(?<!her )(?<!our )(?<!your )(?<!their )(?<!its )(?<!at )"
    rf"(?P<near>(?P<side>(?i:last|this{_S}(?:past|last|coming)|next|this)){_S}"
    rf"(?P<what>(?i:weekend|week|month|year|spring|summer|autumn|fall|winter)|{_WEEKDAY}|{_MONTH})){_NOT_OF}"
    r")(?!\w)"
)
_DAYS = {"yesterday": -1, "last night": -1, "tomorrow": 1, "day before yesterday": -2, "day after tomorrow": 2}
_UNITS = ("week", "month", "year")
_TUESDAY = 1


def resolve(match: re.Match[str], day: date) -> DateSpan | None:
    """Return the days that `match`, a match of `PATTERN`, means in a text that was written on `day`.

    Return None if the words could mean several dates. Raises ValueError or OverflowError if the date is beyond the calendar.
    """
    if match["day"]:
        return one_day(day + _DAYS[" ".join(match["day"].lower().split()).removeprefix("the ")] * DAY)
    if match["twice"]:
        return _count_units(match["twice_unit"].lower(), -2 if "before" in match["twice_side"].lower() else 2, day)
    if match["apart"]:
        sign = -1 if match["apart_side"].lower() == "ago" else 1
        least, most = _number(match["count"])
        if match["least"]:
            least = min(least, _number(match["least"])[0])
        spans = [_count_units(match["unit"].lower(), sign * number, day) for number in dict.fromkeys((least, most))]
        return from_to(spans[0], spans[-1])
    return _near(match["what"], match["side"].lower(), day)


def _number(text: str) -> tuple[int, int]:
    """Return the least and the most that a number in words or digits means."""
    words = text.lower().split()
    vague = next((_VAGUE[word] for word in words if word in _VAGUE), None)
    if vague is not None:
        return vague
    number = int(words[0]) if words[0].isdigit() else _NUMBERS[words[0]]
    return number, number


def _count_units(unit: str, number: int, day: date) -> DateSpan:
    """Return the day, week, weekend, month or year that is so many of them away."""
    if unit == "week":
        return week_of(day + number * WEEK)
    if unit == "weekend":
        return weekend_of(day + number * WEEK)
    if unit == "month":
        return month_from(day, number)
    return whole_year(day.year + number) if unit == "year" else one_day(day + number * DAY)


def _near(what: str, side: str, day: date) -> DateSpan | None:
    name = what.lower()
    step = 0 if side == "this" or side.endswith("coming") else 1 if side == "next" else -1
    if what in MONTH_NAMES:
        month = MONTH_NAMES.index(what) + 1
        later = step > 0 and month <= day.month
        earlier = step < 0 and month >= day.month
        return whole_month(day.year + later - earlier, month)
    if name == "fall" or name in SEASONS:
        return _season("autumn" if name == "fall" else name, step, day)
    if name == "weekend":
        # On Monday and Tuesday people still call the last one so.
        return None if step == 0 and day.weekday() <= _TUESDAY else weekend_of(day + step * WEEK)
    if name not in _UNITS:
        return _weekday(_WEEKDAYS.index(name[:3]), step, day)
    if side.endswith(("past", "last")) and side != "last":
        return DateSpan(first=day - WEEK, last=day - DAY) if name == "week" else None
    return _count_units(name, step, day) if step else None


def _weekday(weekday: int, step: int, day: date) -> DateSpan | None:
    if step < 0:
        return one_day(day - ((day.weekday() - weekday - 1) % 7 + 1) * DAY)
    if step > 0:
        # Said on a Monday, `next Friday` is this week's for some, the next week's for others.
        return one_day(day + (weekday - day.weekday() + 7) * DAY) if weekday <= day.weekday() else None
    return one_day(day + (weekday - day.weekday()) * DAY) if weekday >= day.weekday() else None


def _season(name: str, step: int, day: date) -> DateSpan:
    """Return the last such season that is over, the one of this year, or the next that has not begun."""
    if step < 0:
        year = next(year for year in (day.year, day.year - 1, day.year - 2) if season(name, year).last < day)
        return season(name, year)
    if step > 0:
        return season(name, next(year for year in (day.year, day.year + 1) if season(name, year).first > day))
    runs_on = name == SEASONS[-1] and season(name, day.year - 1).last >= day
    return season(name, day.year - runs_on)
