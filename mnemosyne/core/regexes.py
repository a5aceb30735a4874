"""Runs regular expressions from outside with limits of size and time.

A pattern of a few characters can keep `re` busy for years. The search of the package `regex` takes a time limit, and
lets other threads run meanwhile; only this file imports it. Times are processor times, so a suspended machine does not
use them up. The module may import only errors and `regex_syntax` from mnemosyne.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import regex

from mnemosyne.core.errors import PatternError
from mnemosyne.core.regex_syntax import translate_pattern, unrolled_size

MAX_PATTERN_CHARS = 2_000
MAX_UNROLLED = 100_000
MAX_SPANS = 10_000
SECONDS = 0.25

Span = tuple[int, int]


@lru_cache(maxsize=512)
def compile_pattern(pattern: str) -> Any:
    """Return the compiled form of `pattern`, in the syntax of the `regex` package, which includes the syntax of `re`.

    Raises PatternError if the pattern is invalid or too large.
    """
    return _compile(pattern, _keep, 0)


@lru_cache(maxsize=2048)
def compile_re(pattern: str) -> Any:
    """Return a compiled pattern that was written for Python's `re`. It ignores case.

    Raises PatternError if the pattern is invalid or too large.
    """
    return _compile(pattern, translate_pattern, regex.IGNORECASE)


def _keep(pattern: str) -> str:
    return pattern


def _compile(pattern: str, translate: Callable[[str], str], flags: int) -> Any:
    if len(pattern) > MAX_PATTERN_CHARS:
        raise PatternError(pattern, f"it has more than {MAX_PATTERN_CHARS:,} characters; write a shorter one")
    if unrolled_size(pattern) > MAX_UNROLLED:
        raise PatternError(
            pattern, f"its counted repeats make more than {MAX_UNROLLED:,} parts; use smaller numbers in braces"
        )
    try:
        return regex.compile(translate(pattern), flags=regex.VERSION0 | flags)
    except (regex.error, re.error) as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        raise PatternError(pattern, f"it is not a regular expression ({error.msg}{where})") from None
    except Exception as error:
        # A third-party parser on untrusted input: any of its errors means that the pattern cannot be used.
        raise PatternError(pattern, f"it is not a usable regular expression ({type(error).__name__})") from None


def group_names(pattern: str) -> tuple[str, ...]:
    """Return the names of the groups of a pattern for `re`. A pattern that cannot be used has none."""
    try:
        return tuple(compile_re(pattern).groupindex)
    except PatternError:
        return ()


def match_whole(pattern: str, text: str, *, seconds: float = SECONDS) -> Mapping[str, str] | None:
    """Return the named groups if a pattern for `re` matches the whole text, ignoring case. Otherwise return None.

    A group that took no part in the match is ''. Raises PatternError if the pattern cannot be used, or takes longer
    than `seconds`.
    """
    compiled = compile_re(pattern)
    try:
        found = compiled.fullmatch(text, timeout=seconds)
    except TimeoutError:
        raise _timeout_error(pattern, seconds) from None
    return None if found is None else {name: said or "" for name, said in found.groupdict().items()}


def may_begin_whole(pattern: str, text: str, *, seconds: float = SECONDS) -> bool:
    """Return whether a pattern for `re` can match a whole text that begins with `text`, ignoring case.

    Raises PatternError if the pattern cannot be used, or takes longer than `seconds`.
    """
    compiled = compile_re(pattern)
    try:
        return compiled.fullmatch(text, partial=True, timeout=seconds) is not None
    except TimeoutError:
        raise _timeout_error(pattern, seconds) from None


def find_spans(pattern: str, text: str, *, group: int = 0, seconds: float = SECONDS) -> tuple[Span, ...]:
    """Return the spans (begin, end) of the matches of `pattern` in `text`, in order. Empty matches are left out.

    If `group` is not 0, the spans of that group of the pattern are returned. Raises PatternError if the pattern cannot be used,
    takes longer than `seconds`, or matches more than MAX_SPANS times.
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
        raise _timeout_error(pattern, seconds) from None
    # A pattern may ask to be searched from the end.
    return tuple(sorted(spans))


def matches(pattern: str, text: str, *, whole: bool, seconds: float = SECONDS) -> bool:
    """Return whether `pattern` matches a part of `text` or, if `whole`, all of it.

    Raises PatternError if the pattern cannot be used, or takes longer than `seconds`.
    """
    compiled = compile_pattern(pattern)
    try:
        look = compiled.fullmatch if whole else compiled.search
        return look(text, timeout=seconds) is not None
    except TimeoutError:
        raise _timeout_error(pattern, seconds) from None


def _timeout_error(pattern: str, seconds: float) -> PatternError:
    return PatternError(pattern, f"it ran for more than {seconds:g} s; avoid a repeat inside a repeat")
