"""Checks the regular expressions in a world pack: that they are valid, do not match every input, and are not slow.

In play every pattern runs with a time limit, so that a slow pattern affects only its own action. `slow_fault` is meant
for the command `validate`. It builds inputs from the pattern and measures whether matching one of them takes long. This finds
common mistakes, but an accepted pattern may still be slow.
"""

from __future__ import annotations

import random
import re
import unicodedata
import warnings
from collections.abc import Iterator
from itertools import islice

from mnemosyne.core.errors import PatternError
from mnemosyne.core.regexes import match_whole, may_begin_whole

_NOT_LITERAL = re.compile(
    r"\\N\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?\#[^)]*\)|\(\?P[<=]\w+[>)]|\(\?\(\w+\)", re.DOTALL
)
_NOT_A_LETTER = re.compile(r"\(\?(?:P[<=]\w+[>)]|[a-zA-Z-]+[:)]|\#[^)]*\))|\{\d*,?\d*\}|\\[a-zA-Z]|[\\()\[\]{}|*+?^$.]")
_EVERYTHING = ("", "q7 zxv 神!")
_PROBE_SECONDS = 0.05
_PROBES = 4_000
_WALKS = 4
_WALK_CHARS = 40
_MOST_LETTERS = 24
_PIECES = (2, 3, 4)
_REPEATED_CHARS = (24, 48, 190)
_SAMPLES = "a1_ "
_NEVER = "\0"


def pattern_fault(pattern: str) -> str | None:
    """Return a clause on what is wrong with `pattern` and how to correct it. Return None if nothing is wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(pattern)
    except Warning as warning:
        return f"is a doubtful regular expression ({warning}); put a '\\' before a sign that stands for itself"
    except re.error as error:
        where = "" if error.pos is None else f" at character {error.pos + 1}"
        return f"is not a regular expression ({error.msg}{where}); correct it, or put a '\\' before a sign that stands for itself"
    except (RecursionError, OverflowError) as error:
        return f"is not a usable regular expression ({error}); make it simpler"
    if compiled.flags & re.VERBOSE:
        return "switches on verbose mode, which hides spaces; write it on one line without (?x)"
    for sign in _NOT_LITERAL.sub("", pattern):
        if (meant := unicodedata.normalize("NFKC", sign)) != sign:
            return f"contains {sign!r}, but inputs are compared after NFKC, where it is {meant!r}; write that"
    try:
        greedy = any(match_whole(pattern, probe) is not None for probe in _EVERYTHING)
    except PatternError as error:
        return f"cannot be used: {error.reason}"
    if greedy:
        return "matches any input or an empty one, so that no input would ever reach the model; name the words that it should match"
    return None


def slow_fault(pattern: str) -> str | None:
    """Return a clause with advice if `pattern` is slow on one of several thousand inputs. Return None if it is not.

    Call this only for a pattern for which `pattern_fault` returned None.
    """
    try:
        for probe in islice(_probes(pattern), _PROBES):
            match_whole(pattern, probe, seconds=_PROBE_SECONDS)
    except PatternError:
        return (
            f"is too slow: some inputs take it more than {_PROBE_SECONDS:g} s; avoid a repeat inside a repeat, "
            "and repeats in a row that match the same text"
        )
    return None


def _probes(pattern: str) -> Iterator[str]:
    """Yield inputs that begin like a match, repeat a piece that may match, and end so that they cannot match."""
    letters = _letters(pattern)
    known: set[str] = set()
    for seed in range(_WALKS):
        walk = _walk(pattern, letters, random.Random(seed))
        for length in range(len(walk) + 1):
            start, rest = walk[:length], walk[length:]
            pieces = [*letters, *(start[-size:] for size in _PIECES if size <= length)]
            for piece in pieces:
                begun = start + piece * 2
                if begun not in known and may_begin_whole(pattern, begun, seconds=_PROBE_SECONDS):
                    for size in _REPEATED_CHARS:
                        repeated = start + (piece * size)[:size]
                        for end in ("", rest, "".join(letters)):
                            yield f"{repeated}{end}{_NEVER}"
                known.add(begun)


def _walk(pattern: str, letters: list[str], chance: random.Random) -> str:
    """Return a text with which a matching input may begin, as long as one can be found."""
    walk = ""
    while len(walk) < _WALK_CHARS:
        tried = (walk + letter for letter in chance.sample(letters, len(letters)))
        further = next((text for text in tried if may_begin_whole(pattern, text, seconds=_PROBE_SECONDS)), None)
        if further is None:
            break
        walk = further
    return walk


def _letters(pattern: str) -> list[str]:
    """Return the letters that occur in a pattern, and one of each common class."""
    escaped = re.findall(r"\\([^\w\s])", pattern)
    return list(dict.fromkeys([*_SAMPLES, *_NOT_A_LETTER.sub("", pattern.lower()), *escaped]))[:_MOST_LETTERS]
