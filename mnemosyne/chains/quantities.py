"""Reads numbers in the inputs of actions, and calculates with whole numbers.

In a pattern, `{n}` stands for a number in digits, in Chinese numerals (三, 两, 十二) or in English words (a, two,
twenty-one). A value such as `"{n * 3}"` in an op or a guard is calculated from the numbers of the action and from
whole numbers of the state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import add, floordiv, mod, mul, sub

from mnemosyne.core.normal_forms import normal_form

_ONES = (
    "one two three four five six seven eight nine ten "
    "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_WORDS = {word: value for value, word in enumerate(_ONES.split(), start=1)} | {
    word: 10 * value for value, word in enumerate(_TENS.split(), start=2)
}
_WORDS |= {"a": 1, "an": 1, "a dozen": 12, "half a dozen": 6, "a hundred": 100, "zero": 0}
_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2, "俩": 2, "仨": 3}
_UNITS = {"十": 10, "百": 100, "千": 1000, "万": 10000}
_TENS_WORD = "|".join(_TENS.split())
_UNDER_TEN = "|".join(_ONES.split()[:9])
_OTHERS = "|".join(sorted((word for word in _WORDS if word not in _TENS.split()), key=len, reverse=True))
NUMBER = (
    rf"[0-9]{{1,9}}|[{''.join(_DIGITS)}{''.join(_UNITS)}]{{1,12}}"
    rf"|(?:{_TENS_WORD})(?:[- ](?:{_UNDER_TEN}))?|{_OTHERS}"
)
"""Regular expression of a number. Users of it ignore case."""

_TOKEN = re.compile(r"\s*(//|[-+*%()]|[0-9]{1,15}|[^\W\d][\w.\-]*(?<![.\-]))")
_MOST = 10**12
_NUMBER_CHARS = 200
"""Maximum length of a text that is read as a number, the same as the maximum length of an action's input."""
_STEPS: Mapping[str, Callable[[int, int], int]] = {"+": add, "-": sub, "*": mul, "//": floordiv, "%": mod}

ReadName = Callable[[str], int]
"""Returns the whole number of a name in an expression. Raises ValueError if the name is unknown."""


def expand_pattern(pattern: str, names: Iterable[str]) -> str:
    """Return `pattern` with a named group in place of each `{name}` whose name is in `names`. The group matches a number."""
    for name in names:
        pattern = pattern.replace(f"{{{name}}}", f"(?P<{name}>{NUMBER})")
    return pattern


def collapse_pattern(pattern: str, names: Iterable[str]) -> str:
    """Return the pattern from which `expand_pattern` made `pattern`."""
    for name in names:
        pattern = pattern.replace(f"(?P<{name}>{NUMBER})", f"{{{name}}}")
    return pattern


def read_number(text: str) -> int | None:
    """Return the whole number that `text` expresses in digits, Chinese numerals or English words. Return None if it is not one."""
    if len(text) > _NUMBER_CHARS:
        return None
    given = " ".join(normal_form("NFKC", text).casefold().split())
    if re.fullmatch("[0-9]{1,9}", given):
        return int(given)
    if given in _WORDS:
        return _WORDS[given]
    tens, _, ones = given.replace("-", " ").partition(" ")
    if _WORDS.get(tens, 0) >= 20 and 0 < _WORDS.get(ones, 0) < 10:
        return _WORDS[tens] + _WORDS[ones]
    return _read_chinese(given)


def _read_chinese(text: str) -> int | None:
    """Return the value of Chinese numerals, or None if the text is not one number, such as 两三 (two or three)."""
    total, section, digit, unit, after_zero = 0, 0, None, 10_000, False
    for sign in text:
        if sign in _DIGITS:
            if digit is not None:
                return None
            value = _DIGITS[sign]
            digit, after_zero = (None, True) if value == 0 and len(text) > 1 else (value, after_zero)
        elif sign in _UNITS:
            worth = _UNITS[sign]
            if worth == 10_000:
                total, section, unit = (section + (digit or 0)) * worth, 0, worth
            elif worth >= unit or (digit is None and worth > 10):
                return None
            else:
                section, unit = section + (1 if digit is None else digit) * worth, worth
            digit, after_zero = None, False
        else:
            return None
    if digit is None:
        return total + section if text and (total or section) else None
    # 一百五 is 150, 一百零五 is 105.
    short = text[:-1].endswith(("百", "千", "万")) and not after_zero
    return total + section + digit * (unit // 10 if short else 1)


def is_expression(value: object) -> bool:
    """Return whether `value`, from an action, is an expression to calculate: a text in braces."""
    return isinstance(value, str) and value.startswith("{") and value.endswith("}")


def calculate(expression: str, read_name: ReadName) -> int:
    """Return the value of an expression in braces: whole numbers, names, `+ - * // %` and brackets.

    Raises:
        ValueError: if the expression cannot be read, a name is unknown, a divisor is zero, or the result is too
            large.
    """
    tokens = _split(expression[1:-1])
    value, rest = _sum(tokens, read_name, 0)
    if rest:
        raise ValueError(f"{expression} cannot be read from {rest[-1]!r} on")
    return value


def _split(text: str) -> list[str]:
    """Return the tokens of an expression, the first one last."""
    tokens, place, end = [], 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise ValueError(f"{{{text}}} cannot be read from {text[place:].strip()[:20]!r} on")
        tokens.append(found[1])
        place = found.end()
    return tokens[::-1]


def _sum(tokens: list[str], read_name: ReadName, depth: int) -> tuple[int, list[str]]:
    value = _product(tokens, read_name, depth)
    while tokens and tokens[-1] in ("+", "-"):
        value = _check(_STEPS[tokens.pop()](value, _product(tokens, read_name, depth)))
    return value, tokens


def _product(tokens: list[str], read_name: ReadName, depth: int) -> int:
    value = _factor(tokens, read_name, depth)
    while tokens and tokens[-1] in ("*", "//", "%"):
        step = tokens.pop()
        right = _factor(tokens, read_name, depth)
        if right == 0 and step != "*":
            raise ValueError("nothing can be divided by zero")
        value = _check(_STEPS[step](value, right))
    return value


def _factor(tokens: list[str], read_name: ReadName, depth: int) -> int:
    if not tokens or depth > 20:
        raise ValueError("the expression is not complete, or nested too deep")
    token = tokens.pop()
    if token == "-":
        return -_factor(tokens, read_name, depth + 1)
    if token == "(":
        value, _ = _sum(tokens, read_name, depth + 1)
        if not tokens or tokens.pop() != ")":
            raise ValueError("a bracket is not closed")
        return value
    if token.isdecimal():
        return int(token)
    if token in _STEPS or token == ")":
        raise ValueError(f"{token!r} is at the wrong place")
    return read_name(token)


def _check(value: int) -> int:
    if abs(value) > _MOST:
        raise ValueError("the result is too large")
    return value
