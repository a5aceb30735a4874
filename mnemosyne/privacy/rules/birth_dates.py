"""Rules that find dates of birth, by a label or by the sentence around them."""

from __future__ import annotations

from mnemosyne.privacy.rules.rule import IDENTITY, Rule

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sept?|oct|nov|dec)[a-z]{0,6}\.?"
_YEAR = r"(?:19|20)\d{2}"
_ANY_DATE = (
    rf"(?:{_YEAR}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:T[\d:.]{{5,12}}Z?)?|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:{_YEAR}|"
    rf"\d{{2}})|{_YEAR}(?:0[1-9]|1[0-2])(?:[0-2]\d|3[01])|"
    rf"\d{{1,2}}(?:st|nd|rd|th)?[ ](?:of[ ])?{_MONTH},?[ ]{_YEAR}|{_MONTH}[ ]\d{{1,2}}(?:st|nd|rd|th)?,?[ ]{_YEAR}|"
    rf"{_YEAR}年\d{{1,2}}月(?:\d{{1,2}}[日号])?|[一二三四五六七八九十正腊冬]{{1,2}}月(?:初|十|廿|二|"
    rf"三)?[一二三四五六七八九十]{{1,3}}日?[，,]?[ ]?{_YEAR}年?)"
)
BIRTH_RULES: tuple[Rule, ...] = (
    Rule(
        name="birth_date",
        dictionary=IDENTITY,
        pattern=rf"(?i)(?:(?<![a-z])(?:d\.?o\.?b\.?|(?:date|day)[ _-]?of[ _-]?birth|birth[ _-]?(?:date|day)|"
        rf"born[ ]on)(?![a-z])|出生年月日?|出生日期|生日|出生于?|"
        rf"(?<![发产学先师医新派])生于)[^\d\n一二三四五六七八九十]{{0,3}}(?:\([^()\n]{{1,16}}\))?[^\d\n一二三四五六七八九十]{{0,6}}?({_ANY_DATE})(?!\d)",
        group=1,
        hints=("b", "生"),
    ),
    Rule(
        name="birth_date",
        dictionary=IDENTITY,
        pattern=rf"(?:我|他|她|患者|本人|孩子)[是于]?({_ANY_DATE})(?=出?生的?)",
        group=1,
        hints=("生",),
    ),
)
