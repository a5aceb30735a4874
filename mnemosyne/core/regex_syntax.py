r"""Translates a pattern of Python's `re` for the engine with a time limit (`regex`), and computes its compiled size.

This module runs no pattern from outside. The two engines read four things differently, and the translation makes `regex` read
them as `re` does:

- `\w` and `\b`. In `re`, `str.isalnum` decides which characters are letters or numbers.
- A brace that is not part of a count.
- A bracket inside a set.
- The letters i, I, İ and ı. If case is ignored, `re` treats them as one letter.
"""

from __future__ import annotations

import re

_WORD = r"\p{L}\p{N}_"
_ESCAPES = {
    r"\w": f"[{_WORD}]",
    r"\W": f"[^{_WORD}]",
    r"\b": f"(?:(?<=[{_WORD}])(?![{_WORD}])|(?<![{_WORD}])(?=[{_WORD}]))",
    r"\B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
}
_DOTLESS = "i\u0130\u0131"
# Neither engine takes a pattern with an open bracket. It reaches to the end here: it would be searched again from each
# opening otherwise.
_SET = r"\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)"
_OTHER_IN_RE = re.compile(
    rf"""(?P<keep>\\N\{{[^}}]*(?:\}}|\Z)|\(\?(?:P[<=]\w+[>)]|\(\w+\)|[a-zA-Z-]+[:)]|\#[^)]*(?:\)|\Z)))
      | (?P<escape>\\.)
      | (?P<set>{_SET})
      | (?P<brace>\{{(?!\d*,?\d*\}})|\{{(?=\}}))
      | (?P<dotless>[iI\u0130\u0131])""",
    re.VERBOSE | re.DOTALL,
)
_MEMBER = re.compile(r"\\.|.", re.DOTALL)
_ASCII_FLAG = re.compile(r"\(\?[a-zA-Z]*a")
_VERBOSE_FLAG = re.compile(r"\(\?[a-zA-Z0-9]*x")
_SCOPED_VERBOSE_FLAG = re.compile(r"\(\?[a-zA-Z0-9]*x[a-zA-Z0-9-]*:")
_REMARK = re.compile(rf"(\\.|{_SET})|\#[^\n]*", re.DOTALL)
_SIZED = re.compile(
    rf"""(?P<one>\\.|{_SET}|\(\?\#[^)]*(?:\)|\Z))
      | (?P<open>\()
      | (?P<close>\))
      | \{{(?P<least>\d*)(?:,\d*)?\}}
      | .""",
    re.VERBOSE | re.DOTALL,
)
_COUNTED = re.compile(r"\{(\d+)")


def translate_pattern(pattern: str) -> str:
    """Return a pattern for the `regex` package that matches the same texts as `pattern` does in `re`, both ignoring
    case.

    The translation is not exact for letters beyond ASCII if a flag asks for ASCII in one group only: `(?a:…)`.
    """
    # Under that flag the engines agree on words, and an i is only an I.
    words = _ASCII_FLAG.search(pattern) is None

    def translate_part(found: re.Match[str]) -> str:
        if found["set"]:
            return _translate_set(found["set"], words=words) if _is_closed(found["set"]) else found["set"]
        if found["brace"]:
            return r"\{"
        if not words:
            return found[0]
        return f"[{_DOTLESS}]" if found["dotless"] else _ESCAPES.get(found[0], found[0])

    return _OTHER_IN_RE.sub(translate_part, pattern)


def _translate_set(text: str, *, words: bool) -> str:
    r"""A set that holds `\W` becomes a group, for no set of the other engine can hold the complement of several classes."""
    negated = text.startswith("[^")
    members = _read_members(text[2 if negated else 1 : -1])
    if not words:
        return f"[{'^' if negated else ''}{''.join(members)}]"
    kept = [each for each in members if each != r"\W"]
    if kept and re.match(f"[{''.join(kept)}]", "\u0131", re.IGNORECASE):
        kept.append(_DOTLESS)
    inner = "".join(_WORD if each == r"\w" else each for each in kept)
    if r"\W" not in members:
        return f"[^{inner}]" if negated else f"[{inner}]"
    if negated:
        return f"(?:(?![{inner}])[{_WORD}])" if inner else f"[{_WORD}]"
    return f"(?:[^{_WORD}]|[{inner}])" if inner else f"[^{_WORD}]"


def _is_closed(text: str) -> bool:
    """Return whether the text of a set ends with its bracket, which is neither its first member nor escaped."""
    return _MEMBER.findall(text[2 if text.startswith("[^") else 1 :])[1:][-1:] == ["]"]


def _read_members(text: str) -> list[str]:
    """Return the members of a set and the signs of its ranges, in order; a sign that either engine could take for an operation of
    sets is escaped.
    """
    given = _MEMBER.findall(text)
    members: list[str] = []
    place = 0
    while place < len(given):
        members.append(_escape_member(given[place]))
        if given[place + 1 : place + 2] == ["-"] and place + 2 < len(given):
            members += ["-", _escape_member(given[place + 2])]
            place += 2
        place += 1
    return members


def _escape_member(member: str) -> str:
    return f"\\{member}" if member in "[]^-|&~" else member


def unrolled_size(pattern: str) -> int:
    """Return about how many parts the compiled pattern has. The `regex` package writes a repeated part as often as its
    minimum count.
    """
    if _SCOPED_VERBOSE_FLAG.search(pattern):
        size = len(pattern)
        for least in _COUNTED.findall(pattern):
            size *= max(1, _read_number(least))
        return size
    sizes = [_count_unrolled(pattern)]
    if _VERBOSE_FLAG.search(pattern):
        sizes.append(_count_unrolled(_REMARK.sub(lambda found: found[1] or "", pattern)))
    return max(sizes)


def _count_unrolled(pattern: str) -> int:
    # For each open group: the size before its last part, and the last part, to which a count would apply.
    groups = [(0, 0)]
    for found in _SIZED.finditer(pattern):
        before, last = groups[-1]
        if found["least"] is not None:
            groups[-1] = (before, last * max(1, _read_number(found["least"])))
        elif found["open"]:
            groups.append((1, 0))
        elif found["close"] and len(groups) > 1:
            inner = sum(groups.pop())
            groups[-1] = (sum(groups[-1]), inner)
        else:
            groups[-1] = (before + last, 1)
    return sum(before + last for before, last in groups)


def _read_number(digits: str) -> int:
    return int(digits[:12] or 0)
