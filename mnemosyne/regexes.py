"""Regular expressions that come from outside, bounded in size and time.

The room exists because a pattern of a few characters can keep `re` busy for years; it is the only file that imports
`regex`, whose search takes a time limit (and lets other threads run meanwhile). It must not import anything of mnemosyne
but its errors.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import regex

from mnemosyne.errors import PatternError

MAX_PATTERN_CHARS = 2_000
MAX_SPANS = 10_000
SECONDS = 0.25

Span = tuple[int, int]


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Any:
    """Return a compiled pattern (syntax of `re`, and of the `regex` package beyond it); PatternError says what is wrong."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(pattern, f"it has more than {MAX_PATTERN_CHARS:,} characters; write a shorter one")
    try:
        return regex.compile(pattern)
    except regex.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise PatternError(pattern, f"it is no regular expression ({error.msg}{where})") from None
    except Exception as error:
        # A foreign parser on a foreign pattern: whatever it raises says that the pattern is of no use.
        raise PatternError(pattern, f"it is no usable regular expression ({type(error).__name__})") from None


def find_spans(pattern: str, text: str, *, group: int = 0, seconds: float = SECONDS) -> tuple[Span, ...]:
    """Return where (a group of) a pattern matches, in order, without empty matches.

    PatternError, also when it takes too long or matches more than MAX_SPANS times.
    """
    compiled = compile_pattern(pattern)
    spans: list[Span] = []
    try:
        for match in compiled.finditer(text, timeout=seconds):
            begin, end = match.span(group)
            if end > begin:
                spans.append((begin, end))
                if len(spans) > MAX_SPANS:
                    raise PatternError(pattern, f"it matches more than {MAX_SPANS:,} times; write a narrower one")
    except TimeoutError:
        raise PatternError(pattern, f"it ran for more than {seconds:g} s; avoid a repeat inside a repeat") from None
    # A pattern may ask to be searched from the end.
    return tuple(sorted(spans))


def matches(pattern: str, text: str, *, whole: bool, seconds: float = SECONDS) -> bool:
    """Say whether a pattern is found in a text (`whole`: is the text); PatternError, also when it takes too long."""
    compiled = compile_pattern(pattern)
    try:
        look = compiled.fullmatch if whole else compiled.search
        return look(text, timeout=seconds) is not None
    except TimeoutError:
        raise PatternError(pattern, f"it ran for more than {seconds:g} s; avoid a repeat inside a repeat") from None
