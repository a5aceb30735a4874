"""Recognises Chinese words that name a date relative to the day of a text (`昨天`, `上周五`, `三天前`, `去年夏天`).

Words with two usual meanings are not resolved. An example is `三天后`, which counts from the time of the story, not of
the telling. Another is `前年` after `以`.
"""

from __future__ import annotations

import re
from datetime import date

from mnemosyne.core.lazy_patterns import lazy_pattern
from mnemosyne.retrieval.text.date_spans import (
    DAY,
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

_DIGITS = {sign: number for number, sign in enumerate("零一二三四五六七八九十")} | {"两": 2, "兩": 2}
_FEW = (2, 6)
_NUMBER = r"(?:\d{1,3}|[一二两兩三四五六七八九十]{1,3})"
_WEEK = "(?:周|週|星期|礼拜|禮拜)"
_NO_NUMBER = r"(?<![\d.一二两兩三四五六七八九十百千万几幾第])"
PATTERN = lazy_pattern(
    r"(?P<day>(?<![之以目先])大?前[天晚](?!天)|昨[天日晚夜儿兒]|(?<![光文黎清说說证證聪透失鲜发發])明[天日早晚儿兒](?![使堂])"
    r"|(?<![今以往日先之然])大?[后後]天(?!性|形成|努力|的努力))"
    rf"|(?<![马馬晚早天一])(?P<week>(?P<week_side>上上|下下|[上下这這本])一?[个個]?{_WEEK}"
    r"(?:(?P<weekday>[一二三四五六](?![个個位次名只件条本起直些样边定下家路同共场部])|日(?![本子常])|天(?![气氣天空])|末))?)"
    r"|(?<![马馬晚早天一])(?P<month>(?P<month_side>上上|下下|[上下])(?:一?[个個])?月)(?![光亮球饼餅])"
    r"|(?<![过過之以今最])(?P<year>(?P<year_side>大前|前|去|今|明|后|後)年"
    rf"(?:的?(?:(?P<season>[春夏秋冬])(?![节節晚运運])[天季日]?|(?P<of_month>{_NUMBER})月份?(?:(?P<of_day>{_NUMBER})[日号號])?))?)"
    rf"|{_NO_NUMBER}(?P<ago>(?P<count>{_NUMBER}|[几幾数數]|半(?=年))"
    rf"(?:(?P<unit>[天日年周週])|[个個]?(?P<long_unit>星期|礼拜|禮拜)|[个個](?P<month_unit>月)|[个個](?P<weekend_unit>周末))多?[之以]?前)(?![往后後夕进進途])"
    r"|(?<![之以目先])(?P<recent>前[几幾些]天)"
)
_SIDES = {"上上": -2, "上": -1, "下": 1, "下下": 2, "大前": -3, "前": -2, "去": -1, "明": 1, "后": 2, "後": 2}


def resolve(match: re.Match[str], day: date) -> DateSpan | None:
    """Return the days that `match`, a match of `PATTERN`, means in a text that was written on `day`.

    Return None if the words could mean several dates. Raises ValueError or OverflowError if the date is beyond the calendar.
    """
    if match["day"]:
        return one_day(day + _days(match["day"]) * DAY)
    if match["week"]:
        return _week(match["weekday"], _SIDES.get(match["week_side"], 0), day)
    if match["month"]:
        return month_from(day, _SIDES[match["month_side"]])
    if match["year"]:
        return _year(match, day.year + _SIDES.get(match["year_side"], 0))
    if match["recent"]:
        return DateSpan(first=day - _FEW[1] * DAY, last=day - _FEW[0] * DAY)
    return _ago(match, day)


def _days(phrase: str) -> int:
    if phrase.startswith("大"):
        return -3 if phrase[1] == "前" else 3
    return {"前": -2, "昨": -1, "明": 1}.get(phrase[0], 2)


def _week(weekday: str | None, weeks: int, day: date) -> DateSpan | None:
    there = day + weeks * WEEK
    if weekday is None:
        return week_of(there) if weeks else None
    if weekday == "末":
        return weekend_of(there)
    return one_day(week_of(there).first + min("一二三四五六日天".index(weekday), 6) * DAY)


def _year(match: re.Match[str], year: int) -> DateSpan | None:
    if match["season"]:
        return season(SEASONS["春夏秋冬".index(match["season"])], year)
    if match["of_month"]:
        month = whole_month(year, _number(match["of_month"]))
        return one_day(month.first.replace(day=_number(match["of_day"]))) if match["of_day"] else month
    return None if match["year_side"] == "今" else whole_year(year)


def _ago(match: re.Match[str], day: date) -> DateSpan:
    if match["count"] == "半":
        return month_from(day, -6)
    least, most = _FEW if match["count"] in "几幾数數" else (_number(match["count"]),) * 2
    return from_to(_step_back(match, least, day), _step_back(match, most, day))


def _step_back(match: re.Match[str], number: int, day: date) -> DateSpan:
    if match["month_unit"]:
        return month_from(day, -number)
    if match["weekend_unit"]:
        return weekend_of(day - number * WEEK)
    if match["long_unit"] or match["unit"] in "周週":
        return week_of(day - number * WEEK)
    return whole_year(day.year - number) if match["unit"] == "年" else one_day(day - number * DAY)


def _number(text: str) -> int:
    """Return a number below 100 in Chinese, or any in digits."""
    if text.isdecimal():
        return int(text)
    tens, ten, ones = text.partition("十")
    if not ten:
        return _DIGITS[text[-1]]
    return 10 * (_DIGITS[tens[-1]] if tens else 1) + (_DIGITS[ones[0]] if ones else 0)
